//! FFS on disks in the UFS2 format of FreeBSD.

pub mod derive;
pub mod layout;
pub mod mkfs;
