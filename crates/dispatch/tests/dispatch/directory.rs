//! Listing directories in pieces of the size that the client wants.

use crate::fixture::{Fixture, local, refusal};
use nfs3_types::nfs3::{
    NFS_PROGRAM, Nfs3Result, READDIR3args, READDIR3res, READDIRPLUS3args, READDIRPLUS3res,
    cookieverf3, nfs_fh3, nfsstat3,
};
use nfs3_types::xdr_codec::Pack;

const FILES: usize = 60;

fn furnished() -> (Fixture, nfs_fh3) {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    for number in 0..FILES {
        fixture.create(&local(), &root, &format!("a file of the number {number}"));
    }
    (fixture, root)
}

fn list(
    fixture: &mut Fixture,
    dir: &nfs_fh3,
    place: (u64, cookieverf3),
    count: u32,
) -> READDIR3res<'static> {
    let (cookie, cookieverf) = place;
    let args = READDIR3args { dir: dir.clone(), cookie, cookieverf, count };
    fixture.call(&local(), NFS_PROGRAM::NFSPROC3_READDIR, &args)
}

fn list_plus(
    fixture: &mut Fixture,
    dir: &nfs_fh3,
    place: (u64, cookieverf3),
    (dircount, maxcount): (u32, u32),
) -> READDIRPLUS3res<'static> {
    let (cookie, cookieverf) = place;
    let args = READDIRPLUS3args { dir: dir.clone(), cookie, cookieverf, dircount, maxcount };
    fixture.call(&local(), NFS_PROGRAM::NFSPROC3_READDIRPLUS, &args)
}

#[test]
fn pieces_of_a_listing_fit_their_count_and_give_every_name_once() {
    let (mut fixture, root) = furnished();
    for count in [200, 512, 1_000, 4_096, 1 << 20] {
        let mut names = Vec::new();
        let mut place = (0, cookieverf3::default());
        loop {
            let listed = list(&mut fixture, &root, place, count).unwrap();
            assert!(listed.packed_size() <= count as usize, "{count}");
            let entries = &listed.reply.entries.0;
            names.extend(entries.iter().map(|entry| entry.name.as_ref().to_vec()));
            if listed.reply.eof {
                break;
            }
            place = (entries.last().expect("not empty").cookie, listed.cookieverf);
        }
        assert_eq!(names[..2], [b".".to_vec(), b"..".to_vec()]);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), FILES + 2, "{count}");
    }
}

#[test]
fn pieces_with_attributes_fit_both_counts_and_carry_handles() {
    let (mut fixture, root) = furnished();
    for (dircount, maxcount) in [(1_000, 2_000), (10_000, 1_000), (64, 1 << 20), (4_096, 32_768)] {
        let mut place = (0, cookieverf3::default());
        let mut total = 0;
        loop {
            let listed = list_plus(&mut fixture, &root, place, (dircount, maxcount)).unwrap();
            assert!(listed.packed_size() <= maxcount as usize);
            let entries = &listed.reply.entries.0;
            let name_bytes = |name: usize| 8 + 4 + name.next_multiple_of(4) + 8;
            let names: usize = entries.iter().map(|entry| name_bytes(entry.name.len())).sum();
            assert!(names <= dircount as usize || entries.len() == 1);
            for entry in entries {
                let Nfs3Result::Ok(found) =
                    fixture.getattr(&local(), &entry.name_handle.clone().unwrap())
                else {
                    panic!("a handle that works")
                };
                assert_eq!(found.obj_attributes.fileid, entry.fileid);
                assert_eq!(entry.name_attributes.clone().unwrap().fileid, entry.fileid);
            }
            total += entries.len();
            if listed.reply.eof {
                break;
            }
            place = (entries.last().expect("not empty").cookie, listed.cookieverf);
        }
        assert_eq!(total, FILES + 2);
    }
}

#[test]
fn a_count_for_not_even_one_entry_is_too_small() {
    let (mut fixture, root) = furnished();
    let start = (0, cookieverf3::default());
    for count in [0, 50, 120] {
        let result = list(&mut fixture, &root, start, count);
        assert_eq!(refusal(result), nfsstat3::NFS3ERR_TOOSMALL, "{count}");
        let result = list_plus(&mut fixture, &root, start, (count, count));
        assert_eq!(refusal(result), nfsstat3::NFS3ERR_TOOSMALL, "{count}");
    }
}

#[test]
fn at_the_end_an_empty_listing_is_no_error() {
    let (mut fixture, root) = furnished();
    let all = list(&mut fixture, &root, (0, cookieverf3::default()), 1 << 16).unwrap();
    assert!(all.reply.eof);
    let last = all.reply.entries.0.last().expect("not empty").cookie;
    let end = list(&mut fixture, &root, (last, all.cookieverf), 512).unwrap();
    assert!(end.reply.eof && end.reply.entries.0.is_empty());
}

/// Attributes, cookie verifier, the end of the list and `eof` take 104 bytes.
#[test]
fn a_count_for_not_even_an_empty_listing_is_too_small() {
    let (mut fixture, root) = furnished();
    let all = list(&mut fixture, &root, (0, cookieverf3::default()), 1 << 16).unwrap();
    let end = (all.reply.entries.0.last().expect("not empty").cookie, all.cookieverf);
    for (count, status) in [(103, nfsstat3::NFS3ERR_TOOSMALL), (104, nfsstat3::NFS3_OK)] {
        assert_eq!(refusal(list(&mut fixture, &root, end, count)), status, "{count}");
        let result = list_plus(&mut fixture, &root, end, (512, count));
        assert_eq!(refusal(result), status, "{count}");
    }
}

#[test]
fn a_cookie_with_the_verifier_of_another_server_is_refused() {
    let (mut fixture, root) = furnished();
    let first = list(&mut fixture, &root, (0, cookieverf3::default()), 512).unwrap();
    let cookie = first.reply.entries.0[1].cookie;
    let foreign = cookieverf3(*b"another!");
    let result = list(&mut fixture, &root, (cookie, foreign), 512);
    assert_eq!(refusal(result), nfsstat3::NFS3ERR_BAD_COOKIE);
    for good in [first.cookieverf, cookieverf3::default()] {
        assert_eq!(refusal(list(&mut fixture, &root, (cookie, good), 512)), nfsstat3::NFS3_OK);
    }
    assert_eq!(refusal(list(&mut fixture, &root, (0, foreign), 512)), nfsstat3::NFS3_OK);
}
