//! LOOKUP, REMOVE, RMDIR, RENAME, LINK.

use nfs::nfs3::arguments::{LinkArgs, LookupArgs, RemoveArgs, RenameArgs, RmdirArgs};
use nfs::nfs3::results::{LinkWcc, LookupOk, RenameWcc};
use nfs::nfs3::{PostOp, Wcc};
use vfs::Found;

use super::create::wire_handle;
use super::{Answered, Asked, convert, open};
use crate::Volume;
use crate::caller::{Caller, Target};

pub(super) async fn lookup(caller: &Caller, args: LookupArgs<'_>) -> Answered<LookupOk, PostOp> {
    let directory = caller.object(args.what.directory)?;
    let name = convert::name(args.what.name)?;
    let Target { volume, id, who, .. } = &directory;
    let sealed = volume.file_system.lookup(who, *id, &name).await;
    let post_op = |about| convert::post_op(volume.fsid, about);
    let granted = |found: Found, about| LookupOk {
        object: wire_handle(volume, found.id),
        attributes: Some(convert::attributes(volume.fsid, &found.attributes)),
        directory: post_op(about),
    };
    open(Asked::named(caller, &directory, &name), sealed, granted, post_op).await
}

pub(super) async fn remove(caller: &Caller, args: RemoveArgs<'_>) -> Answered<Wcc, Wcc> {
    let directory = caller.object_to_change(args.object.directory)?;
    let name = convert::name(args.object.name)?;
    let Target { volume, id, who, .. } = &directory;
    let sealed = volume.file_system.remove(who, *id, &name).await;
    let wcc = |about| convert::wcc(volume.fsid, about);
    open(Asked::named(caller, &directory, &name), sealed, |(), about| wcc(about), wcc).await
}

pub(super) async fn rmdir(caller: &Caller, args: RmdirArgs<'_>) -> Answered<Wcc, Wcc> {
    let directory = caller.object_to_change(args.object.directory)?;
    let name = convert::name(args.object.name)?;
    let Target { volume, id, who, .. } = &directory;
    let sealed = volume.file_system.rmdir(who, *id, &name).await;
    let wcc = |about| convert::wcc(volume.fsid, about);
    open(Asked::named(caller, &directory, &name), sealed, |(), about| wcc(about), wcc).await
}

pub(super) async fn rename(
    caller: &Caller,
    args: RenameArgs<'_>,
) -> Answered<RenameWcc, RenameWcc> {
    let (from, to) = caller.two_to_change(args.from.directory, args.to.directory)?;
    let (from_name, to_name) = (convert::name(args.from.name)?, convert::name(args.to.name)?);
    let Target { volume, who, .. } = &from;
    let sealed = volume.file_system.rename(who, from.id, &from_name, to.id, &to_name).await;
    let both = |about| renamed(volume, about);
    open(Asked::named(caller, &from, &from_name), sealed, |(), about| both(about), both).await
}

/// The attributes of the two directories of a RENAME.
pub(super) fn renamed(volume: &Volume, (from, to): (vfs::Wcc, vfs::Wcc)) -> RenameWcc {
    RenameWcc { from: convert::wcc(volume.fsid, from), to: convert::wcc(volume.fsid, to) }
}

pub(super) async fn link(caller: &Caller, args: LinkArgs<'_>) -> Answered<LinkWcc, LinkWcc> {
    let (file, directory) = caller.two_to_change(args.file, args.link.directory)?;
    let name = convert::name(args.link.name)?;
    let Target { volume, who, .. } = &file;
    let sealed = volume.file_system.link(who, file.id, directory.id, &name).await;
    let both = |about| linked(volume, about);
    open(Asked::named(caller, &directory, &name), sealed, |(), about| both(about), both).await
}

/// The attributes of the file and the directory of a LINK.
pub(super) fn linked(volume: &Volume, (file, directory): (vfs::PostOp, vfs::Wcc)) -> LinkWcc {
    LinkWcc {
        file: convert::post_op(volume.fsid, file),
        directory: convert::wcc(volume.fsid, directory),
    }
}
