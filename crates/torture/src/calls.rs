//! Builders of arguments that take as little as the call needs.

use nfs3_types::nfs3::{
    ACCESS3args, COMMIT3args, CREATE3args, FSINFO3args, FSSTAT3args, GETATTR3args, LINK3args,
    LOOKUP3args, MKDIR3args, MKNOD3args, Nfs3Option, PATHCONF3args, READ3args, READDIR3args,
    READDIRPLUS3args, READLINK3args, REMOVE3args, RENAME3args, RMDIR3args, SETATTR3args,
    SYMLINK3args, WRITE3args, cookieverf3, createhow3, createverf3, diropargs3, mknoddata3,
    nfs_fh3, nfspath3, sattr3, stable_how, symlinkdata3,
};
use nfs3_types::xdr_codec::Opaque;

/// A name in a directory.
pub fn place(directory: &nfs_fh3, name: &str) -> diropargs3<'static> {
    diropargs3 { dir: directory.clone(), name: name.as_bytes().to_vec().into() }
}

/// Attributes that set a size and nothing else.
pub fn size(size: u64) -> sattr3 {
    sattr3 { size: Nfs3Option::Some(size), ..sattr3::default() }
}

/// GETATTR.
pub fn getattr(object: &nfs_fh3) -> GETATTR3args {
    GETATTR3args { object: object.clone() }
}

/// SETATTR without a guard.
pub fn setattr(object: &nfs_fh3, new_attributes: sattr3) -> SETATTR3args {
    SETATTR3args { object: object.clone(), new_attributes, guard: Nfs3Option::None }
}

/// LOOKUP.
pub fn lookup(directory: &nfs_fh3, name: &str) -> LOOKUP3args<'static> {
    LOOKUP3args { what: place(directory, name) }
}

/// ACCESS.
pub fn access(object: &nfs_fh3, access: u32) -> ACCESS3args {
    ACCESS3args { object: object.clone(), access }
}

/// READLINK.
pub fn readlink(symlink: &nfs_fh3) -> READLINK3args {
    READLINK3args { symlink: symlink.clone() }
}

/// READ.
pub fn read(file: &nfs_fh3, offset: u64, count: u32) -> READ3args {
    READ3args { file: file.clone(), offset, count }
}

/// WRITE of all of `data`.
///
/// # Panics
/// When the length exceeds the largest count.
pub fn write(
    file: &nfs_fh3,
    offset: u64,
    data: Vec<u8>,
    stable: stable_how,
) -> WRITE3args<'static> {
    let count = u32::try_from(data.len()).expect("a count has 32 bits");
    WRITE3args { file: file.clone(), offset, count, stable, data: Opaque::owned(data) }
}

/// CREATE GUARDED, with default attributes.
pub fn create(directory: &nfs_fh3, name: &str) -> CREATE3args<'static> {
    CREATE3args { where_: place(directory, name), how: createhow3::GUARDED(sattr3::default()) }
}

/// CREATE EXCLUSIVE.
pub fn create_exclusive(
    directory: &nfs_fh3,
    name: &str,
    verifier: [u8; 8],
) -> CREATE3args<'static> {
    let how = createhow3::EXCLUSIVE(createverf3(verifier));
    CREATE3args { where_: place(directory, name), how }
}

/// MKDIR.
pub fn mkdir(directory: &nfs_fh3, name: &str) -> MKDIR3args<'static> {
    MKDIR3args { where_: place(directory, name), attributes: sattr3::default() }
}

/// SYMLINK.
pub fn symlink(directory: &nfs_fh3, name: &str, target: &str) -> SYMLINK3args<'static> {
    let symlink = symlinkdata3 {
        symlink_attributes: sattr3::default(),
        symlink_data: nfspath3(Opaque::owned(target.as_bytes().to_vec())),
    };
    SYMLINK3args { where_: place(directory, name), symlink }
}

/// MKNOD of a pipe.
pub fn mkfifo(directory: &nfs_fh3, name: &str) -> MKNOD3args<'static> {
    MKNOD3args { where_: place(directory, name), what: mknoddata3::NF3FIFO(sattr3::default()) }
}

/// REMOVE.
pub fn remove(directory: &nfs_fh3, name: &str) -> REMOVE3args<'static> {
    REMOVE3args { object: place(directory, name) }
}

/// RMDIR.
pub fn rmdir(directory: &nfs_fh3, name: &str) -> RMDIR3args<'static> {
    RMDIR3args { object: place(directory, name) }
}

/// RENAME.
pub fn rename(from: (&nfs_fh3, &str), to: (&nfs_fh3, &str)) -> RENAME3args<'static, 'static> {
    RENAME3args { from: place(from.0, from.1), to: place(to.0, to.1) }
}

/// LINK.
pub fn link(file: &nfs_fh3, directory: &nfs_fh3, name: &str) -> LINK3args<'static> {
    LINK3args { file: file.clone(), link: place(directory, name) }
}

/// READDIR from a cookie on.
pub fn readdir(directory: &nfs_fh3, cookie: u64, verifier: cookieverf3) -> READDIR3args {
    READDIR3args { dir: directory.clone(), cookie, cookieverf: verifier, count: 8192 }
}

/// READDIRPLUS from a cookie on.
pub fn readdirplus(directory: &nfs_fh3, cookie: u64, verifier: cookieverf3) -> READDIRPLUS3args {
    let (dir, cookieverf) = (directory.clone(), verifier);
    READDIRPLUS3args { dir, cookie, cookieverf, dircount: 8192, maxcount: 32_768 }
}

/// FSSTAT.
pub fn fsstat(root: &nfs_fh3) -> FSSTAT3args {
    FSSTAT3args { fsroot: root.clone() }
}

/// FSINFO.
pub fn fsinfo(root: &nfs_fh3) -> FSINFO3args {
    FSINFO3args { fsroot: root.clone() }
}

/// PATHCONF.
pub fn pathconf(object: &nfs_fh3) -> PATHCONF3args {
    PATHCONF3args { object: object.clone() }
}

/// COMMIT of all of a file.
pub fn commit(file: &nfs_fh3) -> COMMIT3args {
    COMMIT3args { file: file.clone(), offset: 0, count: 0 }
}
