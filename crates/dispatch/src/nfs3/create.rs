//! CREATE, MKDIR, SYMLINK, MKNOD.

use nfs::nfs3::arguments::{CreateArgs, CreateHow, MkdirArgs, MknodArgs, MknodWhat, SymlinkArgs};
use nfs::nfs3::results::CreateOk;
use nfs::nfs3::{Handle, Wcc};
use vfs::{Answer, Device, FileKind, Found, FsError, ObjectId, PostOp, Sealed};

use super::{Answered, Asked, convert, open};
use crate::Volume;
use crate::caller::{Caller, Target};

pub(super) async fn create(caller: &Caller, args: CreateArgs<'_>) -> Answered<CreateOk, Wcc> {
    let directory = caller.object_to_change(args.location.directory)?;
    let name = convert::name(args.location.name)?;
    let how = match args.how {
        CreateHow::Unchecked(set) => vfs::CreateHow::Unchecked(convert::set_attributes(set)?),
        CreateHow::Guarded(set) => vfs::CreateHow::Guarded(convert::set_attributes(set)?),
        CreateHow::Exclusive(verifier) => vfs::CreateHow::Exclusive(verifier.0),
    };
    let Target { volume, id, who, .. } = &directory;
    let sealed = volume.file_system.create(who, *id, &name, how).await;
    made(Asked::named(caller, &directory, &name), sealed).await
}

pub(super) async fn mkdir(caller: &Caller, args: MkdirArgs<'_>) -> Answered<CreateOk, Wcc> {
    let directory = caller.object_to_change(args.location.directory)?;
    let name = convert::name(args.location.name)?;
    let set = convert::set_attributes(args.attributes)?;
    let Target { volume, id, who, .. } = &directory;
    let sealed = volume.file_system.mkdir(who, *id, &name, set).await;
    made(Asked::named(caller, &directory, &name), sealed).await
}

pub(super) async fn symlink(caller: &Caller, args: SymlinkArgs<'_>) -> Answered<CreateOk, Wcc> {
    let directory = caller.object_to_change(args.location.directory)?;
    let name = convert::name(args.location.name)?;
    let set = convert::set_attributes(args.attributes)?;
    let Target { volume, id, who, .. } = &directory;
    let sealed = volume.file_system.symlink(who, *id, &name, args.target, set).await;
    made(Asked::named(caller, &directory, &name), sealed).await
}

pub(super) async fn mknod(caller: &Caller, args: MknodArgs<'_>) -> Answered<CreateOk, Wcc> {
    let directory = caller.object_to_change(args.location.directory)?;
    let name = convert::name(args.location.name)?;
    let (kind, set, device) = match args.what {
        MknodWhat::CharacterDevice(set, device) => (FileKind::CharacterDevice, set, device),
        MknodWhat::BlockDevice(set, device) => (FileKind::BlockDevice, set, device),
        MknodWhat::Socket(set) => (FileKind::Socket, set, Default::default()),
        MknodWhat::Fifo(set) => (FileKind::Fifo, set, Default::default()),
        MknodWhat::Other(_) => return Err(FsError::BadType.into()),
    };
    let set = convert::set_attributes(set)?;
    let device: Device = convert::device(device);
    let Target { volume, id, who, .. } = &directory;
    let sealed = volume.file_system.mknod(who, *id, &name, kind, device, set).await;
    made(Asked::named(caller, &directory, &name), sealed).await
}

async fn made(
    asked: Asked<'_>,
    sealed: Sealed<Answer<Found, vfs::Wcc>>,
) -> Answered<CreateOk, Wcc> {
    let volume = &asked.target.volume;
    let granted = |found: Found, about| made_of(volume, found.id, Some(found.attributes), about);
    open(asked, sealed, granted, |about| convert::wcc(volume.fsid, about)).await
}

/// The results for a file that was made.
pub(super) fn made_of(
    volume: &Volume,
    id: ObjectId,
    attributes: PostOp,
    directory: vfs::Wcc,
) -> CreateOk {
    CreateOk {
        object: Some(wire_handle(volume, id)),
        attributes: convert::post_op(volume.fsid, attributes),
        directory: convert::wcc(volume.fsid, directory),
    }
}

pub(super) fn wire_handle(volume: &Volume, id: ObjectId) -> Handle {
    Handle::new(&volume.handle(id).encode()).expect("our handles are shorter than 64 bytes")
}
