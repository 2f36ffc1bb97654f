//! The procedures of NFS version 3, one function each.
//!
//! Every function has the same shape. It resolves its handles and the user that the caller acts as
//! ([`Caller`]), calls the file system, and opens the sealed answer. Its result has only two
//! sources: an answer that may be sent ([`Told`]), or a [`Refused`] status that holds nothing of a
//! file system. [`reply`] accepts nothing else, so no reply can overtake the disk where that was
//! not declared.

pub(crate) mod convert;

mod attributes;
mod create;
mod data;
mod directory;
mod names;
mod volume;

use nfs::nfs3::results::{LinkWcc, RenameWcc};
use nfs::nfs3::{Arguments, Failure, Outcome, Procedure, Status, Wcc};
use nfs::xdr::Encode;
use vfs::{Answer, CallOutcome, Durable, FsError, Name, Sealed};

use crate::Reply;
use crate::caller::{Caller, Target};
use crate::refused::{Refused, status};
use crate::reports::Part;
use crate::told::Told;
use crate::volume::Volume;

pub(crate) use directory::listing_size;

/// The result of a procedure: an answer that may be sent, or a refusal without facts of a file
/// system.
type Answered<T, W> = Result<Told<Outcome<T, W>>, Refused>;

/// The request of a caller: the target of a handle, and the part of it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    caller: &'a Caller,
    target: &'a Target,
    part: Part<'a>,
}

impl<'a> Asked<'a> {
    fn whole(caller: &'a Caller, target: &'a Target) -> Self {
        Self { caller, target, part: Part::Whole }
    }

    fn named(caller: &'a Caller, target: &'a Target, name: &'a Name) -> Self {
        Self { caller, target, part: Part::Named(name) }
    }

    fn bytes(caller: &'a Caller, target: &'a Target, offset: u64, count: u32) -> Self {
        Self { caller, target, part: Part::Bytes { offset, count } }
    }
}

/// Executes a call.
pub(crate) async fn execute(xid: u32, caller: &Caller, arguments: Arguments<'_>) -> Reply {
    match arguments {
        Arguments::Null => Reply::new(nfs::rpc::success(xid).finish()).bare(),
        Arguments::Getattr(args) => reply(xid, attributes::getattr(caller, args).await),
        Arguments::Setattr(args) => reply(xid, attributes::setattr(caller, args).await),
        Arguments::Lookup(args) => reply(xid, names::lookup(caller, args).await),
        Arguments::Access(args) => reply(xid, attributes::access(caller, args).await),
        Arguments::Readlink(args) => reply(xid, data::readlink(caller, args).await),
        Arguments::Read(args) => reply(xid, data::read(caller, args).await),
        Arguments::Write(args) => reply(xid, data::write(caller, args).await),
        Arguments::Create(args) => reply(xid, create::create(caller, args).await),
        Arguments::Mkdir(args) => reply(xid, create::mkdir(caller, args).await),
        Arguments::Symlink(args) => reply(xid, create::symlink(caller, args).await),
        Arguments::Mknod(args) => reply(xid, create::mknod(caller, args).await),
        Arguments::Remove(args) => reply(xid, names::remove(caller, args).await),
        Arguments::Rmdir(args) => reply(xid, names::rmdir(caller, args).await),
        Arguments::Rename(args) => reply(xid, names::rename(caller, args).await),
        Arguments::Link(args) => reply(xid, names::link(caller, args).await),
        Arguments::Readdir(args) => reply(xid, directory::readdir(caller, args).await),
        Arguments::Readdirplus(args) => reply(xid, directory::readdirplus(caller, args).await),
        Arguments::Fsstat(args) => reply(xid, volume::fsstat(caller, args).await),
        Arguments::Fsinfo(args) => reply(xid, volume::fsinfo(caller, args).await),
        Arguments::Pathconf(args) => reply(xid, volume::pathconf(caller, args).await),
        Arguments::Commit(args) => reply(xid, data::commit(caller, args).await),
    }
}

/// The reply to a call that was executed before the start; none if calls of its kind are not
/// remembered over a start.
pub(crate) fn again(
    xid: u32,
    volume: &Volume,
    procedure: Procedure,
    done: Durable<CallOutcome>,
) -> Option<Reply> {
    let (CallOutcome { found, attributes, about: [first, second], has_failed }, done) =
        (*done, Told::from(done));
    if has_failed {
        let (status, about) = (Status::Io, convert::wcc(volume.fsid, first));
        let failed = done.map(|_| Failure { status, about }).map(Err);
        let is_told = !matches!(procedure, Procedure::Rename | Procedure::Link);
        return is_told.then(|| reply::<(), Wcc>(xid, Ok(failed)));
    }
    Some(match procedure {
        Procedure::Setattr | Procedure::Remove | Procedure::Rmdir => {
            reply::<_, Wcc>(xid, Ok(done.map(|_| convert::wcc(volume.fsid, first)).map(Ok)))
        }
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
            let made = create::made_of(volume, found?, attributes, first);
            reply::<_, Wcc>(xid, Ok(done.map(|_| made).map(Ok)))
        }
        Procedure::Rename => {
            let both = names::renamed(volume, (first, second));
            reply::<_, RenameWcc>(xid, Ok(done.map(|_| both).map(Ok)))
        }
        Procedure::Link => {
            let both = names::linked(volume, (first.after, second));
            reply::<_, LinkWcc>(xid, Ok(done.map(|_| both).map(Ok)))
        }
        _ => return None,
    })
}

/// The reply to a call whose answer was lost, of a kind that is remembered.
pub(crate) fn lost(xid: u32, procedure: Procedure) -> Reply {
    match procedure {
        Procedure::Rename => reply::<(), RenameWcc>(xid, Err(Refused::Lost)),
        Procedure::Link => reply::<(), LinkWcc>(xid, Err(Refused::Lost)),
        _ => reply::<(), Wcc>(xid, Err(Refused::Lost)),
    }
}

/// Encodes the reply to a call. There is no other way to encode the answer of a file system.
fn reply<T: Encode, W: Encode + Default>(xid: u32, answered: Answered<T, W>) -> Reply {
    let mut to = nfs::rpc::success(xid);
    match answered {
        Ok(told) => {
            to.value(&told.into_inner());
            Reply::new(to.finish())
        }
        Err(refused) => {
            to.value(&Outcome::<(), W>::Err(refused.status().into()));
            let reply = Reply::new(to.finish());
            match refused {
                Refused::Unasked(_) => reply.bare(),
                // A call whose answer was lost may have been executed, once; and the retry of a
                // call that a file system refused is another call: if this one is repeated, it may
                // be too late.
                Refused::Lost | Refused::Asked(_) => reply,
            }
        }
    }
}

/// Whether the rules let the caller change the objects that the handles of a call name; always true
/// for a call that changes nothing. If not, executing the call refuses it without calling a file
/// system.
pub(crate) fn is_admitted(caller: &Caller, arguments: &Arguments<'_>) -> bool {
    let may_change = |handle| caller.object_to_change(handle).is_ok();
    match arguments {
        Arguments::Setattr(args) => may_change(args.object),
        Arguments::Write(args) => may_change(args.file),
        Arguments::Create(args) => may_change(args.location.directory),
        Arguments::Mkdir(args) => may_change(args.location.directory),
        Arguments::Symlink(args) => may_change(args.location.directory),
        Arguments::Mknod(args) => may_change(args.location.directory),
        Arguments::Remove(args) => may_change(args.object.directory),
        Arguments::Rmdir(args) => may_change(args.object.directory),
        Arguments::Rename(args) => {
            caller.two_to_change(args.from.directory, args.to.directory).is_ok()
        }
        Arguments::Link(args) => caller.two_to_change(args.file, args.link.directory).is_ok(),
        _ => true,
    }
}

/// Opens an answer as soon as the rules of the volume allow: `granted` makes the results, `about`
/// the attributes of a refusal.
async fn open<T, W, U, V>(
    asked: Asked<'_>,
    sealed: Sealed<Answer<T, W>>,
    granted: impl FnOnce(T, W) -> U,
    about: impl FnOnce(W) -> V,
) -> Answered<U, V> {
    let answer = asked.target.open(sealed).await?;
    Ok(results(asked, answer, granted, about))
}

/// The results of a call.
fn results<T, W, U, V>(
    asked: Asked<'_>,
    answer: Told<Answer<T, W>>,
    granted: impl FnOnce(T, W) -> U,
    about: impl FnOnce(W) -> V,
) -> Told<Outcome<U, V>> {
    answer.map(|answer| match answer.result {
        Ok(result) => Ok(granted(result, answer.about)),
        Err(error) => Err(failure(asked, error, about(answer.about))),
    })
}

/// Converts a refusal of the file system. The log gets details that the protocol cannot express.
fn failure<W>(asked: Asked<'_>, error: FsError, about: W) -> Failure<W> {
    let Asked { caller, target, part } = asked;
    caller.reports.refused_with(error, &target.volume, target.id, part);
    Failure { status: status(error), about }
}
