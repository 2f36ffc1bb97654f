//! FSSTAT, FSINFO, PATHCONF.

use nfs::nfs3::PostOp;
use nfs::nfs3::arguments::{FsinfoArgs, FsstatArgs, PathconfArgs};
use nfs::nfs3::results::{FsinfoOk, FsstatOk, PathconfOk, Properties};
use vfs::{FsInfo, FsStat, PathConf};

use super::{Answered, Asked, convert, open};
use crate::MAX_TRANSFER;
use crate::caller::Caller;

/// Preferred size of a listing, in bytes: some 400 entries with their attributes.
const PREFERRED_LISTING: u32 = 64 * 1024;

pub(super) async fn fsstat(caller: &Caller, args: FsstatArgs<'_>) -> Answered<FsstatOk, PostOp> {
    let target = caller.object(args.root)?;
    let sealed = target.volume.file_system.fsstat(&target.who, target.id).await;
    let post_op = |about| convert::post_op(target.volume.fsid, about);
    let granted = |stat: FsStat, about| FsstatOk {
        attributes: post_op(about),
        total_bytes: stat.total_bytes,
        free_bytes: stat.free_bytes,
        available_bytes: stat.available_bytes,
        total_files: stat.total_files,
        free_files: stat.free_files,
        available_files: stat.available_files,
        invariant_seconds: 0,
    };
    open(Asked::whole(caller, &target), sealed, granted, post_op).await
}

pub(super) async fn fsinfo(caller: &Caller, args: FsinfoArgs<'_>) -> Answered<FsinfoOk, PostOp> {
    let target = caller.object(args.root)?;
    let sealed = target.volume.file_system.fsinfo(target.id).await;
    let post_op = |about| convert::post_op(target.volume.fsid, about);
    let granted = |info: FsInfo, about| FsinfoOk {
        attributes: post_op(about),
        read_max: MAX_TRANSFER,
        read_preferred: MAX_TRANSFER,
        read_multiple: info.block_size,
        write_max: MAX_TRANSFER,
        write_preferred: MAX_TRANSFER,
        write_multiple: info.block_size,
        readdir_preferred: PREFERRED_LISTING,
        max_file_size: info.max_file_size,
        time_delta: convert::time(info.time_delta),
        properties: Properties {
            hard_links: true,
            symbolic_links: true,
            homogeneous: true,
            can_set_time: true,
        },
    };
    open(Asked::whole(caller, &target), sealed, granted, post_op).await
}

pub(super) async fn pathconf(
    caller: &Caller,
    args: PathconfArgs<'_>,
) -> Answered<PathconfOk, PostOp> {
    let target = caller.object(args.object)?;
    let sealed = target.volume.file_system.pathconf(target.id).await;
    let post_op = |about| convert::post_op(target.volume.fsid, about);
    let granted = |limits: PathConf, about| PathconfOk {
        attributes: post_op(about),
        link_max: limits.link_max,
        name_max: limits.name_max,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    };
    open(Asked::whole(caller, &target), sealed, granted, post_op).await
}
