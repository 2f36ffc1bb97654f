//! The opposite direction: encoders for values that `nfs` only decodes; and calls of every kind.

use nfs::mount;
use nfs::nfs3::arguments::{CreateHow, DirectoryName, MknodWhat};
use nfs::nfs3::{self, Arguments, SetAttributes, SetTime};
use nfs::rpc::{AUTH_NONE, AUTH_SYS, Credential, PROGRAM_MOUNT, PROGRAM_NFS};
use nfs::xdr::{Encode, Encoder};
use sim::Prng;

/// The encoded bytes, without the record mark.
pub(crate) fn bytes_of(encode: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut to = Encoder::with_capacity(256);
    encode(&mut to);
    to.finish().concat().split_off(4)
}

/// The header of a call.
pub(crate) fn call_header(
    to: &mut Encoder,
    xid: u32,
    target: [u32; 3],
    credential: &Credential<'_>,
) {
    to.u32(xid);
    to.u32(0);
    to.u32(2);
    target.into_iter().for_each(|number| to.u32(number));
    match credential {
        Credential::None => {
            to.u32(AUTH_NONE);
            to.opaque(&[]);
        }
        Credential::Sys(user) => {
            to.u32(AUTH_SYS);
            to.opaque(&bytes_of(|to| {
                to.u32(user.stamp);
                to.opaque(user.machine_name);
                to.u32(user.uid);
                to.u32(user.gid);
                to.u32(user.gids.as_slice().len() as u32);
                user.gids.as_slice().iter().for_each(|&gid| to.u32(gid));
            }));
        }
        Credential::Other { flavor } => {
            to.u32(*flavor);
            to.opaque(&[]);
        }
    }
    to.u32(AUTH_NONE);
    to.opaque(&[]);
}

/// The arguments of a procedure of NFS.
pub(crate) fn nfs_arguments(to: &mut Encoder, arguments: &Arguments<'_>) {
    match arguments {
        Arguments::Null => {}
        Arguments::Getattr(args) => to.opaque(args.object),
        Arguments::Setattr(args) => {
            to.opaque(args.object);
            set_attributes(to, &args.attributes);
            to.value(&args.guard);
        }
        Arguments::Lookup(args) => name(to, &args.what),
        Arguments::Access(args) => {
            to.opaque(args.object);
            to.u32(args.access);
        }
        Arguments::Readlink(args) => to.opaque(args.symlink),
        Arguments::Read(args) => range(to, args.file, args.offset, args.count),
        Arguments::Write(args) => {
            range(to, args.file, args.offset, args.count);
            to.value(&args.stable);
            to.opaque(&args.data.concat());
        }
        Arguments::Create(args) => {
            name(to, &args.location);
            create_how(to, &args.how);
        }
        Arguments::Mkdir(args) => {
            name(to, &args.location);
            set_attributes(to, &args.attributes);
        }
        Arguments::Symlink(args) => {
            name(to, &args.location);
            set_attributes(to, &args.attributes);
            to.opaque(args.target);
        }
        Arguments::Mknod(args) => {
            name(to, &args.location);
            mknod_what(to, &args.what);
        }
        Arguments::Remove(args) => name(to, &args.object),
        Arguments::Rmdir(args) => name(to, &args.object),
        Arguments::Rename(args) => {
            name(to, &args.from);
            name(to, &args.to);
        }
        Arguments::Link(args) => {
            to.opaque(args.file);
            name(to, &args.link);
        }
        Arguments::Readdir(args) => {
            to.opaque(args.directory);
            to.u64(args.cookie);
            to.value(&args.cookie_verifier);
            to.u32(args.count);
        }
        Arguments::Readdirplus(args) => {
            to.opaque(args.directory);
            to.u64(args.cookie);
            to.value(&args.cookie_verifier);
            to.u32(args.dircount);
            to.u32(args.maxcount);
        }
        Arguments::Fsstat(args) => to.opaque(args.root),
        Arguments::Fsinfo(args) => to.opaque(args.root),
        Arguments::Pathconf(args) => to.opaque(args.object),
        Arguments::Commit(args) => range(to, args.file, args.offset, args.count),
    }
}

/// The arguments of a procedure of MOUNT.
pub(crate) fn mount_arguments(to: &mut Encoder, arguments: &mount::Arguments<'_>) {
    match arguments {
        mount::Arguments::Mnt(args) => to.opaque(args.path),
        mount::Arguments::Umnt(args) => to.opaque(args.path),
        mount::Arguments::Null
        | mount::Arguments::Dump
        | mount::Arguments::Umntall
        | mount::Arguments::Export => {}
    }
}

fn name(to: &mut Encoder, name: &DirectoryName<'_>) {
    to.opaque(name.directory);
    to.opaque(name.name);
}

fn range(to: &mut Encoder, file: &[u8], offset: u64, count: u32) {
    to.opaque(file);
    to.u64(offset);
    to.u32(count);
}

pub(crate) fn set_attributes(to: &mut Encoder, attributes: &SetAttributes) {
    to.value(&attributes.mode);
    to.value(&attributes.uid);
    to.value(&attributes.gid);
    to.value(&attributes.size);
    set_time(to, attributes.atime);
    set_time(to, attributes.mtime);
}

fn set_time(to: &mut Encoder, time: Option<SetTime>) {
    match time {
        None => to.u32(0),
        Some(SetTime::Now) => to.u32(1),
        Some(SetTime::To(time)) => {
            to.u32(2);
            time.encode(to);
        }
    }
}

fn create_how(to: &mut Encoder, how: &CreateHow) {
    match how {
        CreateHow::Unchecked(attributes) => {
            to.u32(0);
            set_attributes(to, attributes);
        }
        CreateHow::Guarded(attributes) => {
            to.u32(1);
            set_attributes(to, attributes);
        }
        CreateHow::Exclusive(verifier) => {
            to.u32(2);
            to.value(verifier);
        }
    }
}

fn mknod_what(to: &mut Encoder, what: &MknodWhat) {
    let (kind, attributes, device) = match what {
        MknodWhat::CharacterDevice(attributes, device) => {
            (nfs3::FileKind::CharacterDevice, Some(attributes), Some(device))
        }
        MknodWhat::BlockDevice(attributes, device) => {
            (nfs3::FileKind::BlockDevice, Some(attributes), Some(device))
        }
        MknodWhat::Socket(attributes) => (nfs3::FileKind::Socket, Some(attributes), None),
        MknodWhat::Fifo(attributes) => (nfs3::FileKind::Fifo, Some(attributes), None),
        MknodWhat::Other(kind) => (*kind, None, None),
    };
    to.u32(kind as u32);
    attributes.inspect(|attributes| set_attributes(to, attributes));
    device.inspect(|device| device.encode(to));
}

/// A call of NFS or MOUNT with decodable arguments; payload of up to `most` bytes.
pub(crate) fn any_call(prng: &mut Prng, most: usize) -> Vec<u8> {
    bytes_of(|to| {
        let xid = prng.next_u64() as u32;
        let nfs = prng.chance(7, 8);
        let procedure = if nfs { nfs3::Procedure::ALL.len() } else { mount::Procedure::ALL.len() };
        let procedure = prng.index(procedure) as u32;
        let program = if nfs { PROGRAM_NFS } else { PROGRAM_MOUNT };
        any_header(prng, to, xid, [program, 3, procedure]);
        let arguments = if nfs {
            any_nfs_arguments(prng, procedure, most)
        } else {
            any_mount_arguments(prng, procedure)
        };
        arguments.chunks_exact(4).for_each(|word| {
            to.u32(u32::from_be_bytes(word.try_into().expect("four bytes")));
        });
    })
}

/// A header with a credential of some kind. Written by hand, as [`Credential`] cannot be
/// constructed.
fn any_header(prng: &mut Prng, to: &mut Encoder, xid: u32, target: [u32; 3]) {
    if prng.chance(1, 4) {
        return call_header(to, xid, target, &Credential::None);
    }
    [xid, 0, 2].into_iter().chain(target).for_each(|number| to.u32(number));
    to.u32(AUTH_SYS);
    to.opaque(&bytes_of(|to| {
        to.u32(prng.next_u64() as u32);
        to.opaque(&b"a machine with a name"[..prng.index(22)]);
        to.u32(0);
        to.u32(0);
        let gids = prng.below(17) as u32;
        to.u32(gids);
        (0..gids).for_each(|gid| to.u32(gid * 100));
    }));
    to.u32(AUTH_NONE);
    to.opaque(&[]);
}

/// Arguments of a procedure of MOUNT.
pub(crate) fn any_mount_arguments(prng: &mut Prng, procedure: u32) -> Vec<u8> {
    bytes_of(|to| {
        if matches!(mount::Procedure::from_number(procedure), Some(p) if matches!(
            p, mount::Procedure::Mnt | mount::Procedure::Umnt
        )) {
            to.opaque(&b"/data/some/directory/below"[..prng.index(27)]);
        }
    })
}

/// Arguments of a procedure of NFS, with payload of up to `most` bytes.
pub(crate) fn any_nfs_arguments(prng: &mut Prng, procedure: u32, most: usize) -> Vec<u8> {
    use nfs3::Procedure;
    bytes_of(|to| {
        let Some(procedure) = Procedure::from_number(procedure) else { return };
        if procedure == Procedure::Null {
            return;
        }
        let mut handle = vec![7; prng.index(65)];
        prng.fill(&mut handle);
        to.opaque(&handle);
        let text = |prng: &mut Prng| vec![b'n'; prng.index(40)];
        match procedure {
            Procedure::Access => to.u32(0x3f),
            Procedure::Read | Procedure::Commit => some_range(prng, to),
            Procedure::Write => {
                some_range(prng, to);
                to.u32(prng.below(3) as u32);
                to.opaque(&vec![b'd'; prng.index(most)]);
            }
            Procedure::Setattr => {
                some_attributes(prng, to);
                to.value(&prng.chance(1, 2).then_some(nfs3::Time::default()));
            }
            Procedure::Lookup | Procedure::Remove | Procedure::Rmdir => to.opaque(&text(prng)),
            Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
                to.opaque(&text(prng));
                some_new_file(prng, to, procedure);
            }
            Procedure::Rename => {
                to.opaque(&text(prng));
                to.opaque(&handle);
                to.opaque(&text(prng));
            }
            Procedure::Link => {
                to.opaque(&handle);
                to.opaque(&text(prng));
            }
            Procedure::Readdir | Procedure::Readdirplus => {
                to.u64(prng.below(3) * 512);
                to.u64(0);
                to.u32(4096);
                if procedure == Procedure::Readdirplus {
                    to.u32(32_768);
                }
            }
            _ => {}
        }
    })
}

fn some_range(prng: &mut Prng, to: &mut Encoder) {
    to.u64(prng.next_u64() >> prng.below(64));
    to.u32(prng.next_u64() as u32 >> prng.below(32));
}

fn some_new_file(prng: &mut Prng, to: &mut Encoder, procedure: nfs3::Procedure) {
    use nfs3::Procedure;
    match procedure {
        Procedure::Create => {
            let how = prng.below(3) as u32;
            to.u32(how);
            if how == 2 {
                return to.u64(prng.next_u64());
            }
        }
        Procedure::Mknod => {
            let kind = 1 + prng.below(7) as u32;
            to.u32(kind);
            if [3, 4].contains(&kind) {
                some_attributes(prng, to);
                return to.u64(prng.next_u64());
            }
            if ![6, 7].contains(&kind) {
                return;
            }
        }
        _ => {}
    }
    some_attributes(prng, to);
    if procedure == Procedure::Symlink {
        to.opaque(b"../a/target");
    }
}

fn some_attributes(prng: &mut Prng, to: &mut Encoder) {
    let mut some = |value: u64| prng.chance(1, 2).then_some(value);
    let size = some(100_000);
    let numbers = [some(0o640), some(1), some(2)].map(|value| value.map(|value| value as u32));
    let [mode, uid, gid] = numbers;
    let times = [None, Some(SetTime::Now), Some(SetTime::To(nfs3::Time::default()))];
    let (atime, mtime) = (times[prng.index(3)], times[prng.index(3)]);
    set_attributes(to, &SetAttributes { mode, uid, gid, size, atime, mtime });
}
