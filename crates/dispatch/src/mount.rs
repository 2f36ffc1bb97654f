//! MOUNT version 3: from a path to the first handle.
//!
//! A path is `/NAME`, the root of a volume, or a directory below it. It is walked name by name as
//! the caller itself, so that it reaches nothing that the caller's LOOKUPs would not. Symbolic
//! links are not followed, empty names are skipped, and the parent of a root is the root: a walk
//! never leaves its volume. A path may have hundreds of names, so a walk yields to all other tasks
//! now and then.

use bytes::Bytes;
use nfs::mount::{Arguments, MntOk, Status};
use nfs::nfs3::Handle;
use vfs::{FileKind, FsError, Lost, Name, ObjectId};

use crate::Reply;
use crate::caller::{Caller, Target};
use crate::mount_lists::Mounts;
use crate::reports::Part;

/// The flavors that a volume may be used with: AUTH_SYS, and AUTH_NONE as nobody.
const FLAVORS: [u32; 2] = [1, 0];

/// The lists of DUMP and EXPORT.
pub(crate) struct Lists<'a> {
    /// The mounts of the clients.
    pub(crate) mounts: &'a Mounts,
    /// The encoded reply to EXPORT.
    pub(crate) exports: Bytes,
}

/// Executes a call.
pub(crate) async fn execute(
    xid: u32,
    caller: &Caller,
    Lists { mounts, exports }: Lists<'_>,
    arguments: Arguments<'_>,
) -> Reply {
    let mut to = nfs::rpc::success(xid);
    let mut is_bare = true;
    match arguments {
        Arguments::Null => {}
        Arguments::Mnt(args) => {
            let result = mnt(caller, args.path).await;
            if result.is_ok() {
                mounts.add(caller.client, args.path);
                is_bare = false;
            }
            to.value(&result);
        }
        Arguments::Dump => to.encoded(&mounts.list()),
        Arguments::Umnt(args) => mounts.remove(caller.client, args.path),
        Arguments::Umntall => mounts.remove_all(caller.client),
        Arguments::Export => to.encoded(&exports),
    }
    let reply = Reply::new(to.finish());
    if is_bare { reply.bare() } else { reply }
}

async fn mnt(caller: &Caller, path: &[u8]) -> Result<MntOk, Status> {
    let mut names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    let volume = names.next().and_then(|name| caller.volumes.by_name(name));
    let volume = volume.ok_or_else(|| {
        caller.reports.refused_path(caller.client, path, no_volume(caller));
        Status::NoEntry
    })?;
    let root = caller.enter(volume, volume.file_system.root()).ok_or_else(|| {
        caller.reports.refused("mount", caller.client, &volume.name, &caller.exports);
        Status::Access
    })?;
    let refused = |error| {
        caller.reports.refused_path(caller.client, path, error);
        status(error)
    };
    let (mut directory, mut steps) = (root.id, volume.walks.begin());
    for name in names {
        let name = Name::parse(name).map_err(refused)?;
        directory = step(caller, &root, directory, &name).await?.map_err(refused)?;
        steps.step().await;
    }
    let handle = Handle::new(&volume.handle(directory).encode());
    let handle = handle.expect("our handles are shorter than 64 bytes");
    Ok(MntOk { handle, flavors: FLAVORS.to_vec() })
}

/// The reason to refuse a path whose first name is that of no volume.
fn no_volume(caller: &Caller) -> String {
    let names = caller.volumes.iter().map(|volume| format!("{:?}", format!("/{}", volume.name)));
    let names = names.collect::<Vec<_>>().join(", ");
    format!("no volume has this name; expected one of: {names}")
}

/// Finds a directory in another one. The inner error is the path's, the outer one the volume's,
/// which has stopped.
async fn step(
    caller: &Caller,
    root: &Target,
    directory: ObjectId,
    name: &Name,
) -> Result<Result<ObjectId, FsError>, Status> {
    let sealed = root.volume.file_system.lookup(&root.who, directory, name).await;
    let answer = sealed.open().await.map_err(|Lost| Status::Io)?.into_inner();
    Ok(match answer.result {
        Ok(found) if found.attributes.kind == FileKind::Directory => Ok(found.id),
        Ok(_) => Err(FsError::NotDirectory),
        Err(error) => {
            caller.reports.refused_with(error, &root.volume, directory, Part::Named(name));
            Err(error)
        }
    })
}

fn status(error: FsError) -> Status {
    match error {
        FsError::NotOwner => Status::NotOwner,
        FsError::NoEntry | FsError::Stale => Status::NoEntry, // it is gone, or went meanwhile
        FsError::Access => Status::Access,
        FsError::NotDirectory => Status::NotDirectory,
        FsError::Invalid => Status::Invalid,
        FsError::NameTooLong => Status::NameTooLong,
        FsError::Io | FsError::Corrupt => Status::Io,
        // A lookup returns none of the others.
        _ => Status::ServerFault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_lookup_refuses_is_said_in_the_words_of_the_program() {
        for (error, expected) in [
            (FsError::NotOwner, Status::NotOwner),
            (FsError::NoEntry, Status::NoEntry),
            (FsError::Access, Status::Access),
            (FsError::NotDirectory, Status::NotDirectory),
            (FsError::Invalid, Status::Invalid),
            (FsError::NameTooLong, Status::NameTooLong),
            (FsError::Io, Status::Io),
            (FsError::Corrupt, Status::Io),
            (FsError::Stale, Status::NoEntry),
            (FsError::TooSmall, Status::ServerFault),
        ] {
            assert_eq!(status(error), expected, "{error}");
        }
    }
}
