//! READLINK, READ, WRITE, COMMIT.

use bytes::Bytes;
use nfs::nfs3::arguments::{CommitArgs, ReadArgs, ReadlinkArgs, WriteArgs};
use nfs::nfs3::results::{CommitOk, ReadOk, ReadlinkOk, WriteOk};
use nfs::nfs3::{PostOp, Wcc};
use vfs::{FsError, Stability};

use super::{Answered, Asked, convert, open, results};
use crate::MAX_TRANSFER;
use crate::caller::Caller;

pub(super) async fn readlink(
    caller: &Caller,
    args: ReadlinkArgs<'_>,
) -> Answered<ReadlinkOk, PostOp> {
    let target = caller.object(args.symlink)?;
    let sealed = target.volume.file_system.readlink(&target.who, target.id).await;
    let post_op = |about| convert::post_op(target.volume.fsid, about);
    let granted = |path, about| ReadlinkOk { attributes: post_op(about), target: path };
    open(Asked::whole(caller, &target), sealed, granted, post_op).await
}

/// A READ of more than the maximum returns the maximum: a short reply is no error.
pub(super) async fn read(caller: &Caller, args: ReadArgs<'_>) -> Answered<ReadOk, PostOp> {
    let target = caller.object(args.file)?;
    let count = args.count.min(MAX_TRANSFER);
    let file_system = &target.volume.file_system;
    let sealed = file_system.read(&target.who, target.id, args.offset, count).await;
    let post_op = |about| convert::post_op(target.volume.fsid, about);
    let granted = |read: vfs::ReadData, about| ReadOk {
        attributes: post_op(about),
        eof: read.eof,
        data: read.data,
    };
    let asked = Asked::bytes(caller, &target, args.offset, count);
    open(asked, sealed, granted, post_op).await
}

/// A WRITE whose count is not the length of its data contradicts itself and is refused. A WRITE of
/// more than the maximum writes the maximum, and reports that count.
pub(super) async fn write(caller: &Caller, args: WriteArgs<'_>) -> Answered<WriteOk, Wcc> {
    let target = caller.object_to_change(args.file)?;
    if args.data.iter().map(Bytes::len).sum::<usize>() != args.count as usize {
        return Err(FsError::Invalid.into());
    }
    let count = args.count.min(MAX_TRANSFER);
    if args.offset.checked_add(count.into()).is_none() {
        return Err(FsError::FileTooLarge.into());
    }
    let pieces = start_of(args.data, count as usize);
    let stability = convert::stability(args.stable);
    if stability != Stability::Unstable {
        target.volume.ensure_named(target.id).await?;
    }
    let file_system = &target.volume.file_system;
    let sealed = file_system.write(&target.who, target.id, args.offset, pieces, stability).await;
    let wcc = |about| convert::wcc(target.volume.fsid, about);
    let answer = match stability {
        Stability::Unstable => target.open(sealed).await?,
        _ => target.open_stable(sealed).await?,
    };
    let is_durable = answer.is_durable();
    let granted = |written: vfs::Written, about| {
        assert!(written.committed >= stability, "a write is never less durable than was asked");
        // An immediate reply claims no more stability than was requested.
        let committed = if is_durable { written.committed } else { stability };
        WriteOk {
            wcc: wcc(about),
            count: written.count,
            committed: convert::committed(committed),
            verifier: convert::verifier(written.verifier),
        }
    };
    let asked = Asked::bytes(caller, &target, args.offset, count);
    Ok(results(asked, answer, granted, wcc))
}

/// The first `length` bytes of these pieces, without empty pieces.
fn start_of(mut pieces: Vec<Bytes>, length: usize) -> Vec<Bytes> {
    let mut left = length;
    pieces.iter_mut().for_each(|piece| {
        piece.truncate(left);
        left -= piece.len();
    });
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

pub(super) async fn commit(caller: &Caller, args: CommitArgs<'_>) -> Answered<CommitOk, Wcc> {
    let target = caller.object(args.file)?;
    target.volume.ensure_named(target.id).await?;
    let file_system = &target.volume.file_system;
    let sealed = file_system.commit(&target.who, target.id, args.offset, args.count).await;
    let wcc = |about| convert::wcc(target.volume.fsid, about);
    let granted = |verifier: vfs::Verifier, about| CommitOk {
        wcc: wcc(about),
        verifier: convert::verifier(verifier),
    };
    let answer = target.open_stable(sealed).await?;
    Ok(results(Asked::bytes(caller, &target, args.offset, args.count), answer, granted, wcc))
}
