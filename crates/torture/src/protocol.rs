//! Calls and replies as a client sees them, with the types of an independent implementation of the
//! protocol: other authors' code decodes the output of `nfs`, and the other way round.
//!
//! [`Procedure`] ties the arguments of each procedure to its results. [`Request`] and [`Response`]
//! hold any of them, for readers of a history.

use std::io::Write;

use bytes::Bytes;
use nfs3_types::mount::{self, dirpath, exports, mountlist, mountres3};
use nfs3_types::nfs3::{
    self, ACCESS3args, ACCESS3res, COMMIT3args, COMMIT3res, CREATE3args, CREATE3res, FSINFO3args,
    FSINFO3res, FSSTAT3args, FSSTAT3res, GETATTR3args, GETATTR3res, LINK3args, LINK3res,
    LOOKUP3args, LOOKUP3res, MKDIR3args, MKDIR3res, MKNOD3args, MKNOD3res, PATHCONF3args,
    PATHCONF3res, READ3args, READ3res, READDIR3args, READDIR3res, READDIRPLUS3args,
    READDIRPLUS3res, READLINK3args, READLINK3res, REMOVE3args, REMOVE3res, RENAME3args, RENAME3res,
    RMDIR3args, RMDIR3res, SETATTR3args, SETATTR3res, SYMLINK3args, SYMLINK3res, WRITE3args,
    WRITE3res, nfsstat3,
};
use nfs3_types::rpc::{
    accept_stat_data, auth_unix, call_body, fragment_header, msg_body, opaque_auth, reply_body,
    rpc_msg,
};
use nfs3_types::xdr_codec::{self, Opaque, Pack, Unpack, Void};

/// A procedure of one of the two programs, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The program: NFS or MOUNT, both of version 3.
    pub program: u32,
    /// The procedure.
    pub procedure: u32,
}

/// The arguments of a procedure, tied to its results.
pub trait Procedure: Pack {
    /// The results of the procedure.
    type Results: Unpack;
    /// Program and procedure number.
    const TARGET: Target;
}

/// Arguments of the procedures of MOUNT that take a path.
macro_rules! paths {
    ($($(#[$about:meta])* $name:ident),+) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name<'a>(pub dirpath<'a>);

        impl Pack for $name<'_> {
            fn packed_size(&self) -> usize {
                self.0.packed_size()
            }

            fn pack(&self, output: &mut impl Write) -> xdr_codec::Result<usize> {
                self.0.pack(output)
            }
        }

        impl Unpack for $name<'_> {
            fn unpack(input: &mut impl std::io::Read) -> xdr_codec::Result<(Self, usize)> {
                dirpath::unpack(input).map(|(path, length)| (Self(path), length))
            }
        }
    )+};
}

paths! {
    /// Arguments of MNT.
    Mnt,
    /// Arguments of UMNT.
    Umnt
}

/// Arguments of the procedures that take none.
macro_rules! nothing {
    ($($(#[$about:meta])* $name:ident),+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;

        impl Pack for $name {
            fn packed_size(&self) -> usize {
                0
            }

            fn pack(&self, _output: &mut impl Write) -> xdr_codec::Result<usize> {
                Ok(0)
            }
        }

        impl Unpack for $name {
            fn unpack(_input: &mut impl std::io::Read) -> xdr_codec::Result<(Self, usize)> {
                Ok((Self, 0))
            }
        }
    )+};
}

nothing! {
    /// Arguments of NULL of NFS.
    Null,
    /// Arguments of NULL of MOUNT.
    MountNull,
    /// Arguments of DUMP.
    Dump,
    /// Arguments of UMNTALL.
    Umntall,
    /// Arguments of EXPORT.
    Export
}

/// The table of procedures.
macro_rules! procedures {
    ($($program:path, $number:literal, $name:ident: $arguments:ty => $results:ty;)+) => {
        $(impl Procedure for $arguments {
            type Results = $results;
            const TARGET: Target = Target { program: $program, procedure: $number };
        })+

        /// The arguments of any procedure.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "each is named after its procedure")]
        pub enum Request {
            $($name($arguments),)+
        }

        /// The results of any procedure.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "each is named after its procedure")]
        pub enum Response {
            $($name($results),)+
        }

        impl Request {
            /// Decodes arguments; `None` when they are not of this procedure.
            pub fn decode(target: Target, bytes: &[u8]) -> Option<Self> {
                match (target.program, target.procedure) {
                    $(($program, $number) => whole(bytes).map(Self::$name),)+
                    _ => None,
                }
            }
        }

        impl Request {
            /// The procedure of the request.
            pub fn target(&self) -> Target {
                match self {
                    $(Self::$name(_) => Target { program: $program, procedure: $number },)+
                }
            }

            /// The encoded arguments.
            ///
            /// # Panics
            /// When the protocol cannot express them.
            pub fn encode(&self) -> Bytes {
                match self {
                    $(Self::$name(arguments) => packed(arguments),)+
                }
            }
        }

        impl Response {
            /// Decodes results; `None` when they are not of this procedure.
            pub fn decode(target: Target, bytes: &[u8]) -> Option<Self> {
                match (target.program, target.procedure) {
                    $(($program, $number) => whole(bytes).map(Self::$name),)+
                    _ => None,
                }
            }
        }
    };
}

procedures! {
    nfs3::PROGRAM, 0, Null: Null => Void;
    nfs3::PROGRAM, 1, Getattr: GETATTR3args => GETATTR3res;
    nfs3::PROGRAM, 2, Setattr: SETATTR3args => SETATTR3res;
    nfs3::PROGRAM, 3, Lookup: LOOKUP3args<'static> => LOOKUP3res;
    nfs3::PROGRAM, 4, Access: ACCESS3args => ACCESS3res;
    nfs3::PROGRAM, 5, Readlink: READLINK3args => READLINK3res<'static>;
    nfs3::PROGRAM, 6, Read: READ3args => READ3res<'static>;
    nfs3::PROGRAM, 7, Write: WRITE3args<'static> => WRITE3res;
    nfs3::PROGRAM, 8, Create: CREATE3args<'static> => CREATE3res;
    nfs3::PROGRAM, 9, Mkdir: MKDIR3args<'static> => MKDIR3res;
    nfs3::PROGRAM, 10, Symlink: SYMLINK3args<'static> => SYMLINK3res;
    nfs3::PROGRAM, 11, Mknod: MKNOD3args<'static> => MKNOD3res;
    nfs3::PROGRAM, 12, Remove: REMOVE3args<'static> => REMOVE3res;
    nfs3::PROGRAM, 13, Rmdir: RMDIR3args<'static> => RMDIR3res;
    nfs3::PROGRAM, 14, Rename: RENAME3args<'static, 'static> => RENAME3res;
    nfs3::PROGRAM, 15, Link: LINK3args<'static> => LINK3res;
    nfs3::PROGRAM, 16, Readdir: READDIR3args => READDIR3res<'static>;
    nfs3::PROGRAM, 17, Readdirplus: READDIRPLUS3args => READDIRPLUS3res<'static>;
    nfs3::PROGRAM, 18, Fsstat: FSSTAT3args => FSSTAT3res;
    nfs3::PROGRAM, 19, Fsinfo: FSINFO3args => FSINFO3res;
    nfs3::PROGRAM, 20, Pathconf: PATHCONF3args => PATHCONF3res;
    nfs3::PROGRAM, 21, Commit: COMMIT3args => COMMIT3res;
    mount::PROGRAM, 0, MountNull: MountNull => Void;
    mount::PROGRAM, 1, Mnt: Mnt<'static> => mountres3<'static>;
    mount::PROGRAM, 2, Dump: Dump => mountlist<'static, 'static>;
    mount::PROGRAM, 3, Umnt: Umnt<'static> => Void;
    mount::PROGRAM, 4, Umntall: Umntall => Void;
    mount::PROGRAM, 5, Export: Export => exports<'static, 'static>;
}

/// Decodes a value with nothing behind it.
pub(crate) fn whole<T: Unpack>(bytes: &[u8]) -> Option<T> {
    let (value, length) = T::unpack(&mut &bytes[..]).ok()?;
    (length == bytes.len()).then_some(value)
}

/// The encoded value.
pub(crate) fn packed(value: &impl Pack) -> Bytes {
    let mut bytes = Vec::with_capacity(value.packed_size());
    value.pack(&mut bytes).expect("memory takes everything");
    bytes.into()
}

/// The user in a call's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name of the user's machine.
    pub machine: String,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// A call as one record of one fragment.
pub(crate) fn call_record(xid: u32, user: &User, target: Target, arguments: &[u8]) -> Bytes {
    let sys = auth_unix {
        stamp: 0,
        machinename: Opaque::owned(user.machine.clone().into_bytes()),
        uid: user.uid,
        gid: user.gid,
        gids: user.groups.clone(),
    };
    let Target { program: prog, procedure: proc } = target;
    let (cred, verf) = (opaque_auth::auth_unix(&sys), opaque_auth::default());
    let body = call_body { rpcvers: 2, prog, vers: 3, proc, cred, verf };
    let head = packed(&rpc_msg { xid, body: msg_body::CALL(body) });
    let length = u32::try_from(head.len() + arguments.len()).expect("calls are of megabytes");
    let mark = fragment_header::new(length, true).into_xdr_buf();
    [&mark, &head[..], arguments].concat().into()
}

/// A server's reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The results of the call, successful or not.
    Results(Bytes),
    /// The call was refused as such.
    Refused(String),
}

impl Answer {
    /// The status of a procedure of NFS. NULL has none.
    pub fn status(&self, target: Target) -> Option<nfsstat3> {
        match self {
            Self::Results(results) if target.program == nfs3::PROGRAM && target.procedure != 0 => {
                nfsstat3::unpack(&mut &results[..]).ok().map(|(status, _)| status)
            }
            _ => None,
        }
    }
}

/// Decodes a record as a reply; `None` when it is not one.
pub(crate) fn reply(record: &[u8]) -> Option<(u32, Answer)> {
    let mut rest = record;
    let (message, _) = rpc_msg::unpack(&mut rest).ok()?;
    let answer = match message.body {
        msg_body::REPLY(reply_body::MSG_ACCEPTED(accepted)) => match accepted.reply_data {
            accept_stat_data::SUCCESS => Answer::Results(Bytes::copy_from_slice(rest)),
            other => Answer::Refused(format!("{other:?}")),
        },
        msg_body::REPLY(reply_body::MSG_DENIED(denied)) => Answer::Refused(format!("{denied:?}")),
        msg_body::CALL(_) => return None,
    };
    Some((message.xid, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_procedure_of_the_server_is_in_the_table() {
        let empty = |program, procedure| Target { program, procedure };
        for procedure in ::nfs::nfs3::Procedure::ALL {
            let target = empty(::nfs::rpc::PROGRAM_NFS, procedure as u32);
            // Only NULL does not accept three numbers and a handle as the start of its arguments.
            assert_eq!(Request::decode(target, &[]).is_some(), procedure as u32 == 0);
        }
        assert_eq!(COMMIT3args::TARGET.procedure, ::nfs::nfs3::Procedure::Commit as u32);
        assert_eq!(Mnt::TARGET.procedure, ::nfs::mount::Procedure::Mnt as u32);
        assert!(Request::decode(empty(nfs3::PROGRAM, 22), &[]).is_none());
    }

    #[test]
    fn a_call_is_read_by_the_server_s_own_decoder() {
        let user = User { machine: "tester".into(), uid: 7, gid: 8, groups: vec![9, 10] };
        let object = nfs3::nfs_fh3 { data: Opaque::owned(vec![1, 2, 3]) };
        let arguments = packed(&GETATTR3args { object });
        let record = call_record(77, &user, GETATTR3args::TARGET, &arguments);
        let head = record.slice(4..);
        let record = ::nfs::record::Record::whole(head);
        let call = ::nfs::rpc::Call::decode(&record).expect("a call");
        assert_eq!((call.xid, call.program, call.procedure), (77, nfs3::PROGRAM, 1));
        let ::nfs::rpc::Credential::Sys(sys) = call.credential else { panic!("AUTH_SYS") };
        assert_eq!((sys.machine_name, sys.uid, sys.gid), (&b"tester"[..], 7, 8));
        assert_eq!(sys.gids.as_slice(), [9, 10]);
        let Some(Request::Getattr(read)) = Request::decode(GETATTR3args::TARGET, &arguments) else {
            panic!("it is a GETATTR");
        };
        assert_eq!(read.object.data.to_vec(), [1, 2, 3]);
    }
}
