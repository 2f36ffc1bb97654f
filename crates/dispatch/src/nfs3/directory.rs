//! READDIR, READDIRPLUS.
//!
//! A cookie verifier would show a client that its cookies are no longer valid. Ours always are,
//! since the file systems promise to resume at any cookie that they returned; so there is one
//! verifier for all directories and all time. A cookie with another verifier is not ours.

use nfs::nfs3::arguments::{ReaddirArgs, ReaddirplusArgs};
use nfs::nfs3::results::{Entry, EntryPlus, ReaddirOk, ReaddirplusOk};
use nfs::nfs3::{
    EMPTY_LISTING, Failure, PostOp, ReaddirBudget, ReaddirplusBudget, Status, Verifier,
};
use vfs::{DirectoryEntry, Entries, FsError};

use super::create::wire_handle;
use super::{Answered, Asked, convert, open};
use crate::caller::{Caller, Target};
use crate::handle::handle_size;
use crate::refused::Refused;

/// The verifier of every cookie.
const COOKIE_VERIFIER: Verifier = Verifier(*b"duramen1");

/// The largest listing in one reply, in bytes. A larger one would block the directory for others
/// for long.
const MAX_LISTING: u32 = 256 * 1024;

/// Limit on the results of a READDIR or READDIRPLUS with this count, in bytes.
pub(crate) fn listing_size(count: u32) -> u32 {
    count.min(MAX_LISTING)
}

pub(super) async fn readdir(caller: &Caller, args: ReaddirArgs<'_>) -> Answered<ReaddirOk, PostOp> {
    let directory = caller.object(args.directory)?;
    check_cookie(args.cookie, args.cookie_verifier)?;
    let Target { volume, id, who, .. } = &directory;
    let mut budget = ReaddirBudget::new(listing_size(args.count));
    let mut accept = |entry: &DirectoryEntry| budget.admit(entry.name.len());
    let file_system = &volume.file_system;
    let sealed = file_system.readdir(who, *id, args.cookie, false, &mut accept).await;
    let post_op = |about| convert::post_op(volume.fsid, about);
    let granted = |listed: Entries, about| ReaddirOk {
        directory: post_op(about),
        cookie_verifier: COOKIE_VERIFIER,
        eof: listed.eof,
        entries: listed.entries.into_iter().map(entry).collect(),
    };
    let answered = open(Asked::whole(caller, &directory), sealed, granted, post_op).await?;
    Ok(answered.map(|outcome| {
        let listed = outcome?;
        if listed.entries.is_empty() && !(listed.eof && args.count >= EMPTY_LISTING) {
            return Err(too_small(listed.directory));
        }
        Ok(listed)
    }))
}

pub(super) async fn readdirplus(
    caller: &Caller,
    args: ReaddirplusArgs<'_>,
) -> Answered<ReaddirplusOk, PostOp> {
    let directory = caller.object(args.directory)?;
    check_cookie(args.cookie, args.cookie_verifier)?;
    let Target { volume, id, who, .. } = &directory;
    let mut budget = ReaddirplusBudget::new(args.dircount, listing_size(args.maxcount));
    let mut accept = |entry: &DirectoryEntry| budget.admit(entry.name.len(), handle_size(entry.id));
    let file_system = &volume.file_system;
    let sealed = file_system.readdir(who, *id, args.cookie, true, &mut accept).await;
    let post_op = |about| convert::post_op(volume.fsid, about);
    // Without attributes the generation is unknown, too: such a handle would be stale for ever.
    let plus = |listed: DirectoryEntry| EntryPlus {
        attributes: post_op(listed.attributes),
        handle: listed.attributes.map(|_| wire_handle(volume, listed.id)),
        entry: entry(listed),
    };
    let granted = |listed: Entries, about| ReaddirplusOk {
        directory: post_op(about),
        cookie_verifier: COOKIE_VERIFIER,
        eof: listed.eof,
        entries: listed.entries.into_iter().map(plus).collect(),
    };
    let answered = open(Asked::whole(caller, &directory), sealed, granted, post_op).await?;
    Ok(answered.map(|outcome| {
        let listed = outcome?;
        if listed.entries.is_empty() && !(listed.eof && args.maxcount >= EMPTY_LISTING) {
            return Err(too_small(listed.directory));
        }
        Ok(listed)
    }))
}

/// Zeros are accepted instead of the verifier: some clients do not keep it.
fn check_cookie(cookie: u64, verifier: Verifier) -> Result<(), Refused> {
    let known = verifier == COOKIE_VERIFIER || verifier == Verifier::default();
    if cookie == 0 || known { Ok(()) } else { Err(FsError::BadCookie.into()) }
}

fn entry(listed: DirectoryEntry) -> Entry {
    Entry { fileid: listed.id.file_id().0, name: listed.name, cookie: listed.cookie }
}

fn too_small(about: PostOp) -> Failure<PostOp> {
    Failure { status: Status::TooSmall, about }
}
