//! Calls that no honest client would send.

use nfs3_types::nfs3::{
    CREATE3args, GETATTR3args, LINK3args, LOOKUP3args, MKDIR3args, NFS_PROGRAM, READ3args,
    READDIR3args, READDIRPLUS3args, RENAME3args, SETATTR3args, SYMLINK3args, WRITE3args,
    cookieverf3, createhow3, nfs_fh3, sattr3, stable_how, symlinkdata3,
};
use nfs3_types::xdr_codec::Opaque;

use crate::changes::{Raw, bytes_of};
use crate::fixture::{Fixture, at, local, refusal};

/// Pseudo-random numbers that are the same in every run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Good arguments of most procedures.
fn samples(root: &nfs_fh3, file: &nfs_fh3) -> Vec<(NFS_PROGRAM, Vec<u8>)> {
    let attributes = sattr3::default;
    let how = createhow3::UNCHECKED(attributes());
    let symlink =
        symlinkdata3 { symlink_attributes: attributes(), symlink_data: b"x".as_slice().into() };
    let (dir, cookieverf) = (root.clone(), cookieverf3::default());
    let plus =
        READDIRPLUS3args { dir: dir.clone(), cookie: 0, cookieverf, dircount: 99, maxcount: 999 };
    let write = WRITE3args {
        file: file.clone(),
        offset: 0,
        count: 4,
        stable: stable_how::DATA_SYNC,
        data: Opaque::borrowed(b"data"),
    };
    let set = SETATTR3args {
        object: file.clone(),
        new_attributes: attributes(),
        guard: nfs3_types::nfs3::Nfs3Option::None,
    };
    vec![
        (NFS_PROGRAM::NFSPROC3_GETATTR, bytes_of(&GETATTR3args { object: root.clone() })),
        (NFS_PROGRAM::NFSPROC3_SETATTR, bytes_of(&set)),
        (NFS_PROGRAM::NFSPROC3_LOOKUP, bytes_of(&LOOKUP3args { what: at(root, "a") })),
        (
            NFS_PROGRAM::NFSPROC3_READ,
            bytes_of(&READ3args { file: file.clone(), offset: 0, count: 9 }),
        ),
        (NFS_PROGRAM::NFSPROC3_WRITE, bytes_of(&write)),
        (NFS_PROGRAM::NFSPROC3_CREATE, bytes_of(&CREATE3args { where_: at(root, "a"), how })),
        (
            NFS_PROGRAM::NFSPROC3_MKDIR,
            bytes_of(&MKDIR3args { where_: at(root, "b"), attributes: attributes() }),
        ),
        (NFS_PROGRAM::NFSPROC3_SYMLINK, bytes_of(&SYMLINK3args { where_: at(root, "c"), symlink })),
        (
            NFS_PROGRAM::NFSPROC3_RENAME,
            bytes_of(&RENAME3args { from: at(root, "a"), to: at(root, "d") }),
        ),
        (
            NFS_PROGRAM::NFSPROC3_LINK,
            bytes_of(&LINK3args { file: file.clone(), link: at(root, "e") }),
        ),
        (
            NFS_PROGRAM::NFSPROC3_READDIR,
            bytes_of(&READDIR3args { dir, cookie: 0, cookieverf, count: 999 }),
        ),
        (NFS_PROGRAM::NFSPROC3_READDIRPLUS, bytes_of(&plus)),
    ]
}

#[test]
fn damaged_calls_are_answered_or_dropped_and_leave_the_server_in_order() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    let samples = samples(&root, &file);
    let mut numbers = Numbers(0x5eed);
    for xid in 0..20_000 {
        let (procedure, args) = &samples[numbers.below(samples.len())];
        let target = (100_003, 3, *procedure as u32);
        let mut record = local().record(xid, target, &Raw(args.clone())).to_vec();
        for _ in 0..1 + numbers.below(3) {
            match numbers.below(3) {
                0 => {
                    let place = numbers.below(record.len());
                    record[place] ^= 1 << numbers.below(8);
                }
                1 => {
                    let word = numbers.below(record.len() / 4) * 4;
                    let value = [0, 1, 0x7fff_ffff, u32::MAX, 64][numbers.below(5)];
                    record[word..word + 4].copy_from_slice(&value.to_be_bytes());
                }
                _ => record.truncate(numbers.below(record.len()).max(4)),
            }
        }
        assert!(fixture.send_record(&local(), record.into()).is_answered());
    }
    assert_eq!(refusal(fixture.getattr(&local(), &root)), nfs3_types::nfs3::nfsstat3::NFS3_OK);
}

#[test]
fn a_kind_that_cannot_be_made_is_a_bad_type() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    for kind in [1u32, 2, 5] {
        let mut args = bytes_of(&at(&root, "odd"));
        args.extend(kind.to_be_bytes());
        let result: nfs3_types::nfs3::MKNOD3res =
            fixture.call(&local(), NFS_PROGRAM::NFSPROC3_MKNOD, &Raw(args));
        assert_eq!(refusal(result), nfs3_types::nfs3::nfsstat3::NFS3ERR_BADTYPE);
    }
}

#[test]
fn a_write_that_ends_behind_the_last_offset_is_too_large() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    let args = WRITE3args {
        file,
        offset: u64::MAX - 2,
        count: 4,
        stable: stable_how::UNSTABLE,
        data: Opaque::borrowed(b"data"),
    };
    let result: nfs3_types::nfs3::WRITE3res =
        fixture.call(&local(), NFS_PROGRAM::NFSPROC3_WRITE, &args);
    assert_eq!(refusal(result), nfs3_types::nfs3::nfsstat3::NFS3ERR_FBIG);
}
