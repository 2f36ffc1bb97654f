//! GETATTR, SETATTR, ACCESS.

use nfs::nfs3::arguments::{AccessArgs, GetattrArgs, SetattrArgs};
use nfs::nfs3::results::AccessOk;
use nfs::nfs3::{Attributes, PostOp, Wcc};
use vfs::Access;

use super::{Answered, Asked, convert, failure, open};
use crate::caller::Caller;

/// The rights to change something, which a read-only export denies.
const CHANGING: u32 = Access::MODIFY | Access::EXTEND | Access::DELETE;

pub(super) async fn getattr(caller: &Caller, args: GetattrArgs<'_>) -> Answered<Attributes, ()> {
    let target = caller.object(args.object)?;
    let sealed = target.volume.file_system.getattr(target.id).await;
    let answer = target.open(sealed).await?;
    Ok(answer.map(|result| match result {
        Ok(attributes) => Ok(convert::attributes(target.volume.fsid, &attributes)),
        Err(error) => Err(failure(Asked::whole(caller, &target), error, ())),
    }))
}

pub(super) async fn setattr(caller: &Caller, args: SetattrArgs<'_>) -> Answered<Wcc, Wcc> {
    let target = caller.object_to_change(args.object)?;
    let changes = convert::set_attributes(args.attributes)?;
    let guard = args.guard.map(convert::timestamp).transpose()?;
    let file_system = &target.volume.file_system;
    let sealed = file_system.setattr(&target.who, target.id, changes, guard).await;
    let wcc = |wcc| convert::wcc(target.volume.fsid, wcc);
    open(Asked::whole(caller, &target), sealed, |(), about| wcc(about), wcc).await
}

pub(super) async fn access(caller: &Caller, args: AccessArgs<'_>) -> Answered<AccessOk, PostOp> {
    let target = caller.object(args.object)?;
    let asked = if target.writable { args.access } else { args.access & !CHANGING };
    let file_system = &target.volume.file_system;
    let sealed = file_system.access(&target.who, target.id, Access(asked)).await;
    let post_op = |about| convert::post_op(target.volume.fsid, about);
    // Rights that were not asked for, or that mean nothing here, are never granted.
    let granted = |Access(access): Access, about| AccessOk {
        attributes: post_op(about),
        access: access & asked,
    };
    open(Asked::whole(caller, &target), sealed, granted, post_op).await
}
