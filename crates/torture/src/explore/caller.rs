//! Operations as protocol calls, and the results in their replies.

use std::collections::BTreeMap;

use bytes::Bytes;
use nfs3_types::nfs3::{
    CREATE3args, LINK3args, MKDIR3args, Nfs3Option, Nfs3Result, REMOVE3args, RENAME3args,
    RMDIR3args, SETATTR3args, SYMLINK3args, WRITE3args, createhow3, createverf3, nfs_fh3, nfspath3,
    nfsstat3, sattr3, stable_how, symlinkdata3,
};
use nfs3_types::xdr_codec::Opaque;
use vfs::{FsError, ObjectId};

use super::control;
use super::model::Act;
use super::op::{Mode, Op, Stable, extent, payload};
use super::server::{Server, object, results};
use crate::calls;
use crate::protocol::Procedure;

/// Handles, by the number of the file in the model.
pub type Handles = BTreeMap<usize, nfs_fh3>;

/// A call that is ready to be sent.
#[derive(Clone)]
pub struct Call {
    /// The encoded record.
    pub record: Bytes,
    /// Decoder of its reply.
    pub read: fn(&[u8]) -> Result<Answer, String>,
    /// For an operation on snapshots, the change that is made instead of a client's call.
    pub change: Option<Op>,
}

impl Call {
    fn of(record: Bytes, read: fn(&[u8]) -> Result<Answer, String>) -> Self {
        Self { record, read, change: None }
    }

    fn of_snapshots(op: &Op) -> Self {
        Self { record: Bytes::new(), read: changed, change: Some(op.clone()) }
    }

    /// Sends the call over a connection of its own, and waits for its reply.
    ///
    /// # Errors
    /// When there is no reply.
    pub async fn send(&self, server: &Server) -> Result<Bytes, String> {
        let Some(op) = &self.change else { return server.connect().call(&self.record).await };
        let done = control::carry_out(&*server.witness, op, || server.witness.note()).await?;
        Ok(done.err().map_or(Bytes::new(), |error| error.to_string().into()))
    }
}

/// Errors with which a snapshot operation may be refused.
const REFUSALS: &[FsError] = &[FsError::NoEntry, FsError::Exists, FsError::NoSpace, FsError::Io];

fn changed(reply: &[u8]) -> Result<Answer, String> {
    let refused = REFUSALS.iter().copied().find(|error| error.to_string().as_bytes() == reply);
    match refused {
        Some(error) => Ok(plain(Err(error))),
        None if reply.is_empty() => Ok(plain(Ok(()))),
        None => Err(format!("it was refused: {}", String::from_utf8_lossy(reply))),
    }
}

/// The fields of a reply that the explorer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the operation was done.
    pub result: Result<(), FsError>,
    /// The file that was made or found.
    pub file: Option<ObjectId>,
    /// The stability of written data, and its verifier.
    pub written: Option<(Stable, [u8; 8])>,
}

/// The verifier of an exclusive creation by operation `number`.
pub fn exclusive_verifier(number: usize) -> [u8; 8] {
    std::array::from_fn(|index| (number as u8 + 1) * 16 + index as u8)
}

/// The call of an operation. A WRITE with a COMMIT is the WRITE.
pub fn call(server: &Server, act: &Act, handles: &Handles) -> Call {
    let subject = &handles[&act.subject];
    let last = act.op.last_name();
    let into = || &handles[&act.destination.expect("LINK and RENAME have one")];
    match act.op {
        Op::Create(_, mode) => {
            let how = match mode {
                Mode::Unchecked => createhow3::UNCHECKED(with_mode(0o644)),
                Mode::Guarded => createhow3::GUARDED(with_mode(0o644)),
                Mode::Exclusive => {
                    createhow3::EXCLUSIVE(createverf3(exclusive_verifier(act.number)))
                }
            };
            let arguments = CREATE3args { where_: calls::place(subject, last), how };
            Call::of(server.record(&arguments), created)
        }
        Op::Mkdir(_) => {
            let attributes = with_mode(0o755);
            let arguments = MKDIR3args { where_: calls::place(subject, last), attributes };
            Call::of(server.record(&arguments), made_directory)
        }
        Op::Symlink(_, length) => {
            let symlink = symlinkdata3 {
                symlink_attributes: with_mode(0o777),
                symlink_data: nfspath3(Opaque::owned(vec![b't'; length])),
            };
            let arguments = SYMLINK3args { where_: calls::place(subject, last), symlink };
            Call::of(server.record(&arguments), made_symlink)
        }
        Op::Write(_, part, stable) => {
            let (offset, length) = extent(part, act.size);
            let stable = match stable {
                Stable::Unstable | Stable::Commit => stable_how::UNSTABLE,
                Stable::DataSync => stable_how::DATA_SYNC,
                Stable::FileSync => stable_how::FILE_SYNC,
            };
            let arguments = calls::write(subject, offset, payload(act.number, length), stable);
            Call::of(server.record(&arguments), written)
        }
        Op::Resize(_, size) => set(server, subject, calls::size(size)),
        Op::Chmod(_, mode) => set(server, subject, with_mode(mode.into())),
        Op::Rmdir(_) => {
            let record = server.record(&calls::rmdir(subject, last));
            Call::of(record, done::<RMDIR3args<'static>, _, _>)
        }
        Op::Remove(_) => {
            let record = server.record(&calls::remove(subject, last));
            Call::of(record, done::<REMOVE3args<'static>, _, _>)
        }
        Op::Link(_, to) => {
            let record = server.record(&calls::link(subject, into(), last_name(to)));
            Call::of(record, done::<LINK3args<'static>, _, _>)
        }
        Op::Rename(_, to) => {
            let arguments = calls::rename((subject, last), (into(), last_name(to)));
            let record = server.record(&arguments);
            Call::of(record, done::<RENAME3args<'static, 'static>, _, _>)
        }
        Op::Pin(_) | Op::Unpin(_) | Op::RollBack(_) => Call::of_snapshots(&act.op),
    }
}

/// The last name of a path.
pub fn last_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}

fn set(server: &Server, subject: &nfs_fh3, attributes: sattr3) -> Call {
    let record = server.record(&calls::setattr(subject, attributes));
    Call::of(record, done::<SETATTR3args, _, _>)
}

fn with_mode(mode: u32) -> sattr3 {
    sattr3 { mode: Nfs3Option::Some(mode), ..sattr3::default() }
}

/// The result of a procedure, or its error.
///
/// # Errors
/// A reply with neither.
pub fn outcome<P, T, E>(reply: &[u8]) -> Result<Result<T, FsError>, String>
where
    P: Procedure<Results = Nfs3Result<T, E>>,
{
    match results::<P>(reply)? {
        Nfs3Result::Ok(ok) => Ok(Ok(ok)),
        Nfs3Result::Err((status, _)) => refusal(status).map(Err),
    }
}

fn refusal(status: nfsstat3) -> Result<FsError, String> {
    Ok(match status {
        nfsstat3::NFS3ERR_PERM => FsError::NotOwner,
        nfsstat3::NFS3ERR_NOENT => FsError::NoEntry,
        nfsstat3::NFS3ERR_IO => FsError::Io,
        nfsstat3::NFS3ERR_EXIST => FsError::Exists,
        nfsstat3::NFS3ERR_NOTDIR => FsError::NotDirectory,
        nfsstat3::NFS3ERR_ISDIR => FsError::IsDirectory,
        nfsstat3::NFS3ERR_INVAL => FsError::Invalid,
        nfsstat3::NFS3ERR_NOTEMPTY => FsError::NotEmpty,
        nfsstat3::NFS3ERR_STALE => FsError::Stale,
        nfsstat3::NFS3ERR_BADHANDLE => FsError::BadHandle,
        other => return Err(format!("it was refused with {other:?}, which nothing here explains")),
    })
}

fn plain(result: Result<(), FsError>) -> Answer {
    Answer { result, file: None, written: None }
}

fn done<P, T, E>(reply: &[u8]) -> Result<Answer, String>
where
    P: Procedure<Results = Nfs3Result<T, E>>,
{
    Ok(plain(outcome::<P, T, E>(reply)?.map(drop)))
}

/// A new file and its handle.
fn made(file: Result<Nfs3Option<nfs_fh3>, FsError>) -> Result<Answer, String> {
    match file {
        Ok(Nfs3Option::Some(handle)) => {
            Ok(Answer { file: Some(object(&handle)?), ..plain(Ok(())) })
        }
        Ok(Nfs3Option::None) => Err("a file without a handle".to_owned()),
        Err(error) => Ok(plain(Err(error))),
    }
}

fn created(reply: &[u8]) -> Result<Answer, String> {
    made(outcome::<CREATE3args<'static>, _, _>(reply)?.map(|ok| ok.obj))
}

fn made_directory(reply: &[u8]) -> Result<Answer, String> {
    made(outcome::<MKDIR3args<'static>, _, _>(reply)?.map(|ok| ok.obj))
}

fn made_symlink(reply: &[u8]) -> Result<Answer, String> {
    made(outcome::<SYMLINK3args<'static>, _, _>(reply)?.map(|ok| ok.obj))
}

fn written(reply: &[u8]) -> Result<Answer, String> {
    Ok(match outcome::<WRITE3args<'static>, _, _>(reply)? {
        Err(error) => plain(Err(error)),
        Ok(ok) => {
            let stable = match ok.committed {
                stable_how::UNSTABLE => Stable::Unstable,
                stable_how::DATA_SYNC => Stable::DataSync,
                stable_how::FILE_SYNC => Stable::FileSync,
            };
            Answer { written: Some((stable, ok.verf.0)), ..plain(Ok(())) }
        }
    })
}
