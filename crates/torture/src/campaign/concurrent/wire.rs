//! Translates calls and answers on the wire into the model's terms.

use dispatch::Handle;
use nfs3_types::nfs3::{
    Nfs3Option, Nfs3Result, createhow3, fattr3, ftype3, nfs_fh3, nfsstat3, post_op_attr,
    post_op_fh3, stable_how, wcc_data,
};

use super::words::{Attributes, CELL, File, How, Kind, Op, Place, Told};
use crate::history::Call;
use crate::protocol::{Request, Response};

/// A call and its answer; `None` if the model does not know the procedure.
///
/// # Errors
/// When the call was refused, or is not of the kind that workloads make.
pub fn read(call: &Call) -> Result<Option<(Op, Option<Told>)>, String> {
    let Some(op) = asked(&call.request())? else { return Ok(None) };
    let told = match (&call.answered, call.response()) {
        (None, _) => None,
        (Some(_), Some(response)) => Some(told(&response)),
        (Some(answered), None) => return Err(format!("{op:?} was refused: {:?}", answered.answer)),
    };
    Ok(Some((op, told)))
}

/// The file that a handle names.
///
/// # Errors
/// When it is not one of our handles.
pub fn file(handle: &nfs_fh3) -> Result<File, String> {
    let handle = Handle::decode(&handle.data).map_err(|error| format!("a handle: {error}"))?;
    Ok(File(handle.id.ino.0, handle.id.generation))
}

fn place(what: &nfs3_types::nfs3::diropargs3<'_>) -> Result<Place, String> {
    Ok((file(&what.dir)?, String::from_utf8_lossy(what.name.as_ref()).into_owned()))
}

fn mode(set: &nfs3_types::nfs3::sattr3) -> u32 {
    if let Nfs3Option::Some(mode) = set.mode { mode } else { 0 }
}

fn cells(bytes: u64) -> Result<usize, String> {
    let whole = bytes.is_multiple_of(CELL).then_some((bytes / CELL) as usize);
    whole.ok_or_else(|| format!("{bytes} bytes are no cells"))
}

fn asked(request: &Request) -> Result<Option<Op>, String> {
    Ok(Some(match request {
        Request::Getattr(args) => Op::Getattr(file(&args.object)?),
        Request::Access(args) => Op::Access(file(&args.object)?),
        Request::Lookup(args) => Op::Lookup(place(&args.what)?),
        Request::Read(args) => Op::Read(file(&args.file)?),
        Request::Readdir(args) => Op::List(file(&args.dir)?),
        Request::Readdirplus(args) => Op::List(file(&args.dir)?),
        Request::Setattr(args) => match args.new_attributes.size {
            Nfs3Option::Some(size) => Op::Resize(file(&args.object)?, cells(size)?),
            Nfs3Option::None => Op::Chmod(file(&args.object)?, mode(&args.new_attributes)),
        },
        Request::Write(args) => Op::Write {
            file: file(&args.file)?,
            at: cells(args.offset)?,
            count: cells(u64::from(args.count))?,
            value: args.data.first().copied().unwrap_or(0),
            stable: args.stable != stable_how::UNSTABLE,
        },
        Request::Commit(args) => Op::Commit(file(&args.file)?),
        Request::Create(args) => {
            let (how, mode) = match &args.how {
                createhow3::UNCHECKED(set) => {
                    let empty = matches!(set.size, Nfs3Option::Some(0));
                    (How::Unchecked { empty }, mode(set))
                }
                createhow3::GUARDED(set) => (How::Guarded, mode(set)),
                createhow3::EXCLUSIVE(verifier) => {
                    (How::Exclusive(u64::from_be_bytes(verifier.0)), 0)
                }
            };
            Op::Create(place(&args.where_)?, how, mode)
        }
        Request::Mkdir(args) => Op::Mkdir(place(&args.where_)?, mode(&args.attributes)),
        Request::Symlink(args) => Op::Symlink(place(&args.where_)?),
        Request::Mknod(args) => match &args.what {
            nfs3_types::nfs3::mknoddata3::NF3FIFO(set) => {
                Op::Mkfifo(place(&args.where_)?, mode(set))
            }
            _ => return Err("only pipes are made".into()),
        },
        Request::Remove(args) => Op::Remove(place(&args.object)?),
        Request::Rmdir(args) => Op::Rmdir(place(&args.object)?),
        Request::Rename(args) => Op::Rename(place(&args.from)?, place(&args.to)?),
        Request::Link(args) => Op::Link(file(&args.file)?, place(&args.link)?),
        _ => return Ok(None),
    }))
}

fn attributes(told: &post_op_attr) -> Option<Attributes> {
    match told {
        Nfs3Option::Some(told) => Some(all(told)),
        Nfs3Option::None => None,
    }
}

fn all(told: &fattr3) -> Attributes {
    let kind = match told.type_ {
        ftype3::NF3DIR => Kind::Directory,
        ftype3::NF3LNK => Kind::Symlink,
        ftype3::NF3REG => Kind::Regular,
        _ => Kind::Fifo,
    };
    let (inode, mode, links) = (told.fileid, told.mode, told.nlink);
    Attributes { inode, kind, mode, links, size: told.size }
}

fn found(told: &post_op_fh3) -> Option<File> {
    match told {
        Nfs3Option::Some(handle) => file(handle).ok(),
        Nfs3Option::None => None,
    }
}

/// An answer about one file.
fn about(status: nfsstat3, one: &post_op_attr) -> Told {
    Told { about: [attributes(one), None], ..Told::bare(status) }
}

/// An answer about the change of one file.
fn changed(status: nfsstat3, wcc: &wcc_data) -> Told {
    let size_before = match &wcc.before {
        Nfs3Option::Some(before) => Some(before.size),
        Nfs3Option::None => None,
    };
    Told { size_before, ..about(status, &wcc.after) }
}

/// Results of the procedures that make a file, which are of one shape and many types.
macro_rules! made {
    ($results:expr) => {
        match $results {
            Nfs3Result::Ok(ok) => Told {
                object: found(&ok.obj),
                attributes: attributes(&ok.obj_attributes),
                ..changed(nfsstat3::NFS3_OK, &ok.dir_wcc)
            },
            Nfs3Result::Err((status, fail)) => changed(*status, &fail.dir_wcc),
        }
    };
}

/// Results with nothing but the attributes before and after.
macro_rules! only_changed {
    ($results:expr, $wcc:ident) => {
        match $results {
            Nfs3Result::Ok(ok) => changed(nfsstat3::NFS3_OK, &ok.$wcc),
            Nfs3Result::Err((status, fail)) => changed(*status, &fail.$wcc),
        }
    };
}

/// Adds the attributes of the second file.
fn and(told: Told, second: &post_op_attr) -> Told {
    Told { about: [told.about[0], attributes(second)], ..told }
}

/// An answer in the model's terms.
pub fn told(response: &Response) -> Told {
    let ok = nfsstat3::NFS3_OK;
    match response {
        Response::Getattr(results) => match results {
            Nfs3Result::Ok(done) => {
                Told { about: [Some(all(&done.obj_attributes)), None], ..Told::ok() }
            }
            Nfs3Result::Err((status, _)) => Told::bare(*status),
        },
        Response::Access(results) => match results {
            Nfs3Result::Ok(done) => about(ok, &done.obj_attributes),
            Nfs3Result::Err((status, fail)) => about(*status, &fail.obj_attributes),
        },
        Response::Create(results) => made!(results),
        Response::Mkdir(results) => made!(results),
        Response::Symlink(results) => made!(results),
        Response::Mknod(results) => made!(results),
        Response::Remove(results) => only_changed!(results, dir_wcc),
        Response::Rmdir(results) => only_changed!(results, dir_wcc),
        Response::Setattr(results) => only_changed!(results, obj_wcc),
        Response::Rename(results) => match results {
            Nfs3Result::Ok(done) => and(changed(ok, &done.fromdir_wcc), &done.todir_wcc.after),
            Nfs3Result::Err((status, fail)) => {
                and(changed(*status, &fail.fromdir_wcc), &fail.todir_wcc.after)
            }
        },
        Response::Link(results) => match results {
            Nfs3Result::Ok(done) => and(about(ok, &done.file_attributes), &done.linkdir_wcc.after),
            Nfs3Result::Err((status, fail)) => {
                and(about(*status, &fail.file_attributes), &fail.linkdir_wcc.after)
            }
        },
        other => looked(other),
    }
}

/// Answers to LOOKUP, READ, WRITE, COMMIT and the listings.
fn looked(response: &Response) -> Told {
    let ok = nfsstat3::NFS3_OK;
    match response {
        Response::Lookup(results) => match results {
            Nfs3Result::Ok(done) => Told {
                object: file(&done.object).ok(),
                attributes: attributes(&done.obj_attributes),
                ..about(ok, &done.dir_attributes)
            },
            Nfs3Result::Err((status, fail)) => about(*status, &fail.dir_attributes),
        },
        Response::Read(results) => match results {
            Nfs3Result::Ok(done) => {
                Told { data: Some(done.data.to_vec()), ..about(ok, &done.file_attributes) }
            }
            Nfs3Result::Err((status, fail)) => about(*status, &fail.file_attributes),
        },
        Response::Write(results) => match results {
            Nfs3Result::Ok(done) => Told {
                written: Some(u64::from(done.count)),
                is_stable: done.committed != stable_how::UNSTABLE,
                verifier: Some(done.verf.0),
                ..changed(ok, &done.file_wcc)
            },
            Nfs3Result::Err((status, fail)) => changed(*status, &fail.file_wcc),
        },
        Response::Commit(results) => match results {
            Nfs3Result::Ok(done) => {
                Told { verifier: Some(done.verf.0), ..changed(ok, &done.file_wcc) }
            }
            Nfs3Result::Err((status, fail)) => changed(*status, &fail.file_wcc),
        },
        Response::Readdir(results) => match results {
            Nfs3Result::Ok(done) => {
                let entries = done.reply.entries.0.iter();
                let entries = entries.map(|one| (text(one.name.as_ref()), one.fileid, None));
                Told { names: Some(entries.collect()), ..about(ok, &done.dir_attributes) }
            }
            Nfs3Result::Err((status, fail)) => about(*status, &fail.dir_attributes),
        },
        Response::Readdirplus(results) => match results {
            Nfs3Result::Ok(done) => {
                let entries = done.reply.entries.0.iter();
                let entries = entries
                    .map(|one| (text(one.name.as_ref()), one.fileid, found(&one.name_handle)));
                Told { names: Some(entries.collect()), ..about(ok, &done.dir_attributes) }
            }
            Nfs3Result::Err((status, fail)) => about(*status, &fail.dir_attributes),
        },
        _ => Told::ok(),
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
