//! Numbers at the ends of their ranges.

use nfs3_types::nfs3::NFS_PROGRAM::*;
use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::Opaque;

use crate::hostile::fixture::{Load, Server, made_file, write_args};
use crate::hostile::wire::Peer;

const OFFSETS: [u64; 4] = [(1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];

/// All attributes of a file except its access time.
fn attributes(peer: &mut Peer, file: &nfs_fh3) -> String {
    let args = GETATTR3args { object: file.clone() };
    let found: GETATTR3res = peer.nfs(NFSPROC3_GETATTR, &args).results();
    format!("{:?}", fattr3 { atime: nfstime3::default(), ..found.unwrap().obj_attributes })
}

#[test]
fn data_is_neither_read_nor_written_behind_all_files() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let file = made_file(&mut peer, &root, b"file");
    assert_eq!(peer.nfs(NFSPROC3_WRITE, &write_args(&file, 0, b"data")).status(), NFS3_OK);
    let before = attributes(&mut peer, &file);
    for offset in OFFSETS {
        for count in [0, 1, u32::MAX] {
            let args = READ3args { file: file.clone(), offset, count };
            let read: READ3res<'_> = peer.nfs(NFSPROC3_READ, &args).results();
            let read = read.unwrap();
            assert!(read.eof && read.data.is_empty() && read.count == 0, "{offset} {count}");
            let args = COMMIT3args { file: file.clone(), offset, count };
            assert_eq!(peer.nfs(NFSPROC3_COMMIT, &args).status(), NFS3_OK, "{offset} {count}");
        }
        for stable in [stable_how::UNSTABLE, stable_how::FILE_SYNC] {
            for data in [&b""[..], b"x"] {
                let args = WRITE3args { stable, ..write_args(&file, offset, data) };
                let status = peer.nfs(NFSPROC3_WRITE, &args).status();
                assert_eq!(status, NFS3ERR_FBIG, "{offset} {data:?}");
            }
            // More than the call contains: a contradiction at any offset.
            let data = Opaque::borrowed(&b"x"[..]);
            let count = u32::MAX;
            for offset in [0, offset] {
                let args =
                    WRITE3args { file: file.clone(), offset, count, stable, data: data.clone() };
                assert_eq!(peer.nfs(NFSPROC3_WRITE, &args).status(), NFS3ERR_INVAL, "{offset}");
            }
        }
        let new_attributes = sattr3 { size: Nfs3Option::Some(offset), ..sattr3::default() };
        let (object, guard) = (file.clone(), Nfs3Option::None);
        let args = SETATTR3args { object, new_attributes, guard };
        assert_eq!(peer.nfs(NFSPROC3_SETATTR, &args).status(), NFS3ERR_FBIG, "{offset}");
    }
    assert_eq!(attributes(&mut peer, &file), before);
    let args = READ3args { file: file.clone(), offset: 0, count: u32::MAX };
    let read: READ3res<'_> = peer.nfs(NFSPROC3_READ, &args).results();
    assert_eq!(read.unwrap().data.as_ref(), b"data");
    neighbour.is_served();
    server.assert_bounded(Load { connections: 3, calls: 2, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}

fn listing(peer: &mut Peer, dir: &nfs_fh3, place: (u64, [u8; 8]), count: u32) -> nfsstat3 {
    let (cookie, cookieverf) = (place.0, cookieverf3(place.1));
    let args = READDIR3args { dir: dir.clone(), cookie, cookieverf, count };
    peer.nfs(NFSPROC3_READDIR, &args).status()
}

fn listing_plus(
    peer: &mut Peer,
    dir: &nfs_fh3,
    place: (u64, [u8; 8]),
    (dircount, maxcount): (u32, u32),
) -> READDIRPLUS3res<'static> {
    let (cookie, cookieverf) = (place.0, cookieverf3(place.1));
    let args = READDIRPLUS3args { dir: dir.clone(), cookie, cookieverf, dircount, maxcount };
    peer.nfs(NFSPROC3_READDIRPLUS, &args).results()
}

fn status<T, E>(result: &Nfs3Result<T, E>) -> nfsstat3 {
    match result {
        Nfs3Result::Ok(_) => NFS3_OK,
        Nfs3Result::Err((status, _)) => *status,
    }
}

/// Two thousand files: more than fit into the longest READDIRPLUS listing.
#[test]
fn listings_of_no_and_of_four_billion_bytes() {
    const START: (u64, [u8; 8]) = (0, [0; 8]);
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let make = |number| {
        let name = format!("file-{number:04}").into_bytes();
        let how = createhow3::GUARDED(sattr3::default());
        let where_ = diropargs3 { dir: root.clone(), name: name.into() };
        CREATE3args { where_, how }
    };
    let made = peer.nfs_all(NFSPROC3_CREATE, &(0..2_000).map(make).collect::<Vec<_>>());
    assert!(made.iter().all(|answer| answer.status() == NFS3_OK));

    assert_eq!(listing(&mut peer, &root, START, 0), NFS3ERR_TOOSMALL);
    assert_eq!(listing(&mut peer, &root, START, u32::MAX), NFS3_OK);
    for dircount in [0, 1, 4096, u32::MAX] {
        let none = listing_plus(&mut peer, &root, START, (dircount, 0));
        assert_eq!(status(&none), NFS3ERR_TOOSMALL, "{dircount}");
        let some = listing_plus(&mut peer, &root, START, (dircount, u32::MAX)).unwrap();
        let entries = some.reply.entries.0.len();
        // The first entry always fits, or no listing would make progress; all of them never do.
        assert!((1..2_002).contains(&entries) && !some.reply.eof, "{dircount}: {entries}");
        assert!(dircount > 1 || entries == 1, "{dircount}: {entries}");
    }
    neighbour.is_served();
    for cookie in [1, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX] {
        for verifier in [[1; 8], [0xff; 8]] {
            let wrong = (cookie, verifier);
            assert_eq!(listing(&mut peer, &root, wrong, u32::MAX), NFS3ERR_BAD_COOKIE);
            let plus = listing_plus(&mut peer, &root, wrong, (u32::MAX, u32::MAX));
            assert_eq!(status(&plus), NFS3ERR_BAD_COOKIE);
        }
        // A cookie that was never handed out is a position in the directory like any other.
        let listed = listing_plus(&mut peer, &root, (cookie, [0; 8]), (u32::MAX, u32::MAX));
        let listed = listed.unwrap().reply;
        assert!(cookie == 1 || listed.eof && listed.entries.0.is_empty(), "{cookie}");
    }
    server.assert_bounded(Load { connections: 3, calls: 256, tokens: 4 << 20 });
    drop(peer);
    server.stop(neighbour);
}
