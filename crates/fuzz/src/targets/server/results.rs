//! Results, decoded by an independent implementation of the protocol.

use nfs::nfs3::{Arguments, Procedure};
use nfs3_types::nfs3::{
    ACCESS3res, COMMIT3res, CREATE3res, FSINFO3res, FSSTAT3res, GETATTR3res, LINK3res, LOOKUP3res,
    MKDIR3res, MKNOD3res, Nfs3Option, Nfs3Result, PATHCONF3res, READ3res, READDIR3res,
    READDIRPLUS3res, READLINK3res, REMOVE3res, RENAME3res, RMDIR3res, SETATTR3res, SYMLINK3res,
    WRITE3res, nfs_fh3,
};
use nfs3_types::xdr_codec::Unpack;

/// Decodes results of a type, with nothing behind them.
pub(super) fn whole<R: Unpack>(results: &[u8]) -> R {
    let (value, length) = R::unpack(&mut &results[..]).expect("results can be read");
    assert_eq!(length, results.len(), "nothing stands behind the results");
    value
}

/// Decodes the results of a call, and checks that they are within the requested limits; returns
/// their handles.
pub(super) fn read(arguments: &Arguments<'_>, results: &[u8]) -> Vec<Vec<u8>> {
    /// Bytes of the status before the structure that a count limits.
    const STATUS: usize = 4;
    match arguments {
        Arguments::Lookup(_) => match whole::<LOOKUP3res>(results) {
            Nfs3Result::Ok(ok) => vec![ok.object.data.to_vec()],
            Nfs3Result::Err(_) => Vec::new(),
        },
        Arguments::Create(_) => new(whole::<CREATE3res>(results), |ok| ok.obj),
        Arguments::Mkdir(_) => new(whole::<MKDIR3res>(results), |ok| ok.obj),
        Arguments::Symlink(_) => new(whole::<SYMLINK3res>(results), |ok| ok.obj),
        Arguments::Mknod(_) => new(whole::<MKNOD3res>(results), |ok| ok.obj),
        Arguments::Read(args) => {
            if let Nfs3Result::Ok(ok) = whole::<READ3res<'_>>(results) {
                assert!(ok.count <= args.count && ok.data.len() == ok.count as usize);
            }
            Vec::new()
        }
        Arguments::Write(args) => {
            if let Nfs3Result::Ok(ok) = whole::<WRITE3res>(results) {
                assert!(ok.count <= args.count && ok.committed as u32 >= args.stable as u32);
            }
            Vec::new()
        }
        Arguments::Readdir(args) => {
            if let Nfs3Result::Ok(_) = whole::<READDIR3res<'_>>(results) {
                assert!(results.len() - STATUS <= args.count as usize, "no more than asked for");
            }
            Vec::new()
        }
        Arguments::Readdirplus(args) => match whole::<READDIRPLUS3res<'_>>(results) {
            Nfs3Result::Ok(ok) => {
                assert!(results.len() - STATUS <= args.maxcount as usize, "no more than asked for");
                let entries = ok.reply.entries.into_inner();
                entries.into_iter().filter_map(|entry| handle(entry.name_handle)).collect()
            }
            Nfs3Result::Err(_) => Vec::new(),
        },
        _ => {
            read_plain(arguments, results);
            Vec::new()
        }
    }
}

fn read_plain(arguments: &Arguments<'_>, results: &[u8]) {
    match arguments {
        Arguments::Getattr(_) => drop(whole::<GETATTR3res>(results)),
        Arguments::Setattr(_) => drop(whole::<SETATTR3res>(results)),
        Arguments::Access(_) => drop(whole::<ACCESS3res>(results)),
        Arguments::Readlink(_) => drop(whole::<READLINK3res<'_>>(results)),
        Arguments::Remove(_) => drop(whole::<REMOVE3res>(results)),
        Arguments::Rmdir(_) => drop(whole::<RMDIR3res>(results)),
        Arguments::Rename(_) => drop(whole::<RENAME3res>(results)),
        Arguments::Link(_) => drop(whole::<LINK3res>(results)),
        Arguments::Fsstat(_) => drop(whole::<FSSTAT3res>(results)),
        Arguments::Fsinfo(_) => drop(whole::<FSINFO3res>(results)),
        Arguments::Pathconf(_) => drop(whole::<PATHCONF3res>(results)),
        Arguments::Commit(_) => drop(whole::<COMMIT3res>(results)),
        Arguments::Null => assert!(results.is_empty(), "{} gives nothing", Procedure::Null.name()),
        _ => unreachable!("the others are read by the caller"),
    }
}

fn new<T, E>(result: Nfs3Result<T, E>, object: impl Fn(T) -> Nfs3Option<nfs_fh3>) -> Vec<Vec<u8>> {
    match result {
        Nfs3Result::Ok(ok) => handle(object(ok)).into_iter().collect(),
        Nfs3Result::Err(_) => Vec::new(),
    }
}

fn handle(handle: Nfs3Option<nfs_fh3>) -> Option<Vec<u8>> {
    match handle {
        Nfs3Option::Some(handle) => Some(handle.data.to_vec()),
        Nfs3Option::None => None,
    }
}
