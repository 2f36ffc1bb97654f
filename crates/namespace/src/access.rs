//! Access checks: the rules of UFS, with the one exception that a stateless server needs.
//!
//! A process that has a file open may go on using it after a chmod. The server does not know which
//! process has which file open, so the owner may always read and write the data of its file.

use vfs::{Access, Attributes, Credentials, FileKind, FsError};

pub(crate) const READ: u16 = 4;
pub(crate) const WRITE: u16 = 2;
pub(crate) const EXECUTE: u16 = 1;

pub(crate) const SET_UID: u16 = 0o4000;
pub(crate) const SET_GID: u16 = 0o2000;
pub(crate) const STICKY: u16 = 0o1000;

/// The permission bits that apply to `who`: those of the owner, the group, or others.
fn granted(who: &Credentials, file: &Attributes) -> u16 {
    let all = READ | WRITE | EXECUTE;
    if who.is_root() {
        let runnable = file.kind == FileKind::Directory || file.mode & 0o111 != 0;
        return if runnable { all } else { READ | WRITE };
    }
    let shift = if who.uid == file.uid {
        6
    } else if who.in_group(file.gid) {
        3
    } else {
        0
    };
    file.mode >> shift & all
}

/// [`FsError::Access`] unless `who` has all of the `wanted` bits.
pub(crate) fn check(who: &Credentials, file: &Attributes, wanted: u16) -> Result<(), FsError> {
    if granted(who, file) & wanted == wanted { Ok(()) } else { Err(FsError::Access) }
}

/// As [`check`], for data: the owner always may, and a caller that may run a file may read it.
pub(crate) fn check_data(who: &Credentials, file: &Attributes, wanted: u16) -> Result<(), FsError> {
    let runs = wanted == READ && granted(who, file) & EXECUTE != 0;
    if who.uid == file.uid || runs { Ok(()) } else { check(who, file, wanted) }
}

/// [`FsError::NotOwner`] unless `who` owns the file.
pub(crate) fn check_owner(who: &Credentials, file: &Attributes) -> Result<(), FsError> {
    if who.is_root() || who.uid == file.uid { Ok(()) } else { Err(FsError::NotOwner) }
}

/// In a sticky directory only the owner of the file or of the directory may remove a name.
pub(crate) fn check_sticky(
    who: &Credentials,
    directory: &Attributes,
    file: &Attributes,
) -> Result<(), FsError> {
    let owner = who.is_root() || who.uid == directory.uid || who.uid == file.uid;
    if directory.mode & STICKY == 0 || owner { Ok(()) } else { Err(FsError::NotOwner) }
}

/// The rights of ACCESS that `who` has; none to change a file that is fixed. An append-only file
/// counts as changeable, since ACCESS cannot express more.
pub(crate) fn rights(who: &Credentials, file: &Attributes, is_fixed: bool) -> Access {
    let granted = granted(who, file);
    let directory = file.kind == FileKind::Directory;
    let mut rights = 0;
    if granted & READ != 0 {
        rights |= Access::READ;
    }
    if granted & WRITE != 0 && !is_fixed {
        rights |= Access::MODIFY | Access::EXTEND;
        if directory {
            rights |= Access::DELETE;
        }
    }
    if granted & EXECUTE != 0 {
        rights |= if directory { Access::LOOKUP } else { Access::EXECUTE };
    }
    Access(rights)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::{Device, Ino, Timestamp};

    fn file(mode: u16, uid: u32, gid: u32) -> Attributes {
        let time = Timestamp::default();
        Attributes {
            kind: FileKind::Regular,
            mode,
            nlink: 1,
            uid,
            gid,
            size: 0,
            used: 0,
            device: Device::default(),
            ino: Ino(3),
            generation: 1,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    fn user(uid: u32, gid: u32, groups: &[u32]) -> Credentials {
        Credentials { uid, gid, groups: groups.to_vec() }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let odd = file(0o077, 10, 20);
        assert_eq!(check(&user(10, 20, &[]), &odd, READ), Err(FsError::Access));
        assert_eq!(check(&user(11, 5, &[20]), &odd, READ | WRITE | EXECUTE), Ok(()));
        assert_eq!(check(&user(11, 5, &[]), &file(0o770, 10, 20), READ), Err(FsError::Access));
    }

    #[test]
    fn the_superuser_runs_only_what_somebody_may_run() {
        assert_eq!(check(&Credentials::root(), &file(0o600, 1, 1), EXECUTE), Err(FsError::Access));
        assert_eq!(check(&Credentials::root(), &file(0o001, 1, 1), EXECUTE | WRITE), Ok(()));
    }

    #[test]
    fn the_owner_keeps_his_data_and_runners_may_read() {
        assert_eq!(check_data(&user(10, 1, &[]), &file(0, 10, 1), READ), Ok(()));
        assert_eq!(check_data(&user(11, 1, &[]), &file(0o001, 10, 2), READ), Ok(()));
        assert_eq!(check_data(&user(11, 1, &[]), &file(0o001, 10, 2), WRITE), Err(FsError::Access));
    }

    #[test]
    fn sticky_directories_guard_the_names_of_others() {
        let directory = Attributes { kind: FileKind::Directory, ..file(0o1777, 1, 1) };
        let theirs = file(0o666, 10, 10);
        assert_eq!(check_sticky(&user(11, 1, &[]), &directory, &theirs), Err(FsError::NotOwner));
        assert_eq!(check_sticky(&user(10, 1, &[]), &directory, &theirs), Ok(()));
        assert_eq!(check_sticky(&user(1, 1, &[]), &directory, &theirs), Ok(()));
    }
}
