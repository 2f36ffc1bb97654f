//! Names of arbitrary bytes, in every procedure that takes one.

use nfs3_types::nfs3::NFS_PROGRAM::{self, *};
use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;

use crate::hostile::fixture::{Load, Server, at, made_directory, made_file};
use crate::hostile::wire::{Answer, Peer, Raw, bytes_of};

/// All names of a directory but "." and "..", sorted.
pub(crate) fn listed(peer: &mut Peer, directory: &nfs_fh3) -> Vec<Vec<u8>> {
    let (mut names, mut cookie, mut cookieverf) = (Vec::new(), 0, cookieverf3::default());
    loop {
        let args = READDIR3args { dir: directory.clone(), cookie, cookieverf, count: 8192 };
        let listed: READDIR3res<'_> = peer.nfs(NFSPROC3_READDIR, &args).results();
        let listed = listed.unwrap();
        for entry in &listed.reply.entries.0 {
            cookie = entry.cookie;
            names.push(entry.name.as_ref().to_vec());
        }
        cookieverf = listed.cookieverf;
        if listed.reply.eof {
            names.retain(|name| name != b"." && name != b"..");
            names.sort();
            return names;
        }
    }
}

/// Arguments that create a new object as `name` in `directory`.
type Maker = (NFS_PROGRAM, fn(&nfs_fh3, &nfs_fh3, &[u8]) -> Vec<u8>);

/// The procedures that create names; `file` may get another name.
const MAKERS: [Maker; 4] = [
    (NFSPROC3_CREATE, |directory, _, name| {
        let how = createhow3::GUARDED(sattr3::default());
        bytes_of(&CREATE3args { where_: at(directory, name), how })
    }),
    (NFSPROC3_MKDIR, |directory, _, name| {
        bytes_of(&MKDIR3args { where_: at(directory, name), attributes: sattr3::default() })
    }),
    (NFSPROC3_SYMLINK, |directory, _, name| {
        // The target is as odd as the name.
        let target = if name.is_empty() { b"target" } else { name };
        let symlink_attributes = sattr3::default();
        let symlink = symlinkdata3 { symlink_attributes, symlink_data: target.into() };
        bytes_of(&SYMLINK3args { where_: at(directory, name), symlink })
    }),
    (NFSPROC3_LINK, |directory, file, name| {
        bytes_of(&LINK3args { file: file.clone(), link: at(directory, name) })
    }),
];

/// Creates all these names with one procedure.
fn make(
    peer: &mut Peer,
    maker: Maker,
    place: (&nfs_fh3, &nfs_fh3),
    names: &[Vec<u8>],
) -> Vec<Answer> {
    let args = |name: &Vec<u8>| Raw((maker.1)(place.0, place.1, name));
    peer.nfs_all(maker.0, &names.iter().map(args).collect::<Vec<_>>())
}

/// Expected status for a name that does not exist yet.
fn expected(name: &[u8]) -> nfsstat3 {
    match name {
        b"" => NFS3ERR_ACCES,
        b"." | b".." => NFS3ERR_EXIST,
        _ if name.len() > 255 => NFS3ERR_NAMETOOLONG,
        _ if name.contains(&b'/') || name.contains(&0) => NFS3ERR_INVAL,
        _ => NFS3_OK,
    }
}

/// Every byte alone, and the odder ones at the end of a long name.
fn odd_names() -> Vec<Vec<u8>> {
    let alone = (0..=255).map(|byte| vec![byte]);
    let odd = [0, 1, b' ', b'.', b'/', b'\\', 0x7f, 0x80, 0xc0, 0xff];
    let long = odd.map(|byte| [vec![b'n'; 254], vec![byte]].concat());
    let lengths = [0, 255, 256, 257, 4096, 30_000].map(|length| vec![b'l'; length]);
    alone.chain(long).chain(lengths).chain([b"..".to_vec(), b"...".to_vec()]).collect()
}

#[test]
fn names_of_any_bytes_are_made_listed_found_moved_and_removed() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let file = made_file(&mut peer, &root, b"file");
    let names = odd_names();
    let mut good: Vec<Vec<u8>> =
        names.iter().filter(|name| expected(name) == NFS3_OK).cloned().collect();
    good.sort();
    assert_eq!(good.len(), 253 + 8 + 2, "a byte, long ones, the longest, and three dots");
    for maker in MAKERS {
        let directory = made_directory(&mut peer, &root, format!("{:?}", maker.0).as_bytes());
        for (name, answer) in names.iter().zip(make(&mut peer, maker, (&directory, &file), &names))
        {
            assert_eq!(answer.status(), expected(name), "{:?} of {name:02x?}", maker.0);
        }
        assert_eq!(listed(&mut peer, &directory), good, "{:?}", maker.0);
        neighbour.is_served();
        // All non-directories are found and removed in the same way, so CREATE represents them.
        let is_directory = maker.0 as u32 == NFSPROC3_MKDIR as u32;
        if is_directory || maker.0 as u32 == NFSPROC3_CREATE as u32 {
            let moved = made_directory(&mut peer, &root, format!("{:?}-2", maker.0).as_bytes());
            find_move_and_remove(&mut peer, &names, (&directory, &moved), is_directory);
            assert!(listed(&mut peer, &directory).is_empty());
            assert!(listed(&mut peer, &moved).is_empty());
        }
    }
    server.assert_bounded(Load { connections: 3, calls: 256, tokens: 64 << 20 });
    drop(peer);
    server.stop(neighbour);
}

fn find_move_and_remove(
    peer: &mut Peer,
    names: &[Vec<u8>],
    (directory, moved): (&nfs_fh3, &nfs_fh3),
    is_directory: bool,
) {
    let with = |args: fn(diropargs3<'_>) -> Vec<u8>, directory: &nfs_fh3| -> Vec<Raw> {
        names.iter().map(|name| Raw(args(at(directory, name)))).collect()
    };
    let dots = |name: &[u8]| name == b"." || name == b"..";
    let lookups = with(|what| bytes_of(&LOOKUP3args { what }), directory);
    for (name, answer) in names.iter().zip(peer.nfs_all(NFSPROC3_LOOKUP, &lookups)) {
        let expected = if dots(name) { NFS3_OK } else { expected(name) };
        assert_eq!(answer.status(), expected, "LOOKUP of {name:02x?}");
    }
    let both = names.iter().map(|name| (at(directory, name), at(moved, name)));
    let renames: Vec<_> = both.map(|(from, to)| RENAME3args { from, to }).collect();
    for (name, answer) in names.iter().zip(peer.nfs_all(NFSPROC3_RENAME, &renames)) {
        let expected = if dots(name) { NFS3ERR_INVAL } else { expected(name) };
        assert_eq!(answer.status(), expected, "RENAME of {name:02x?}");
    }
    // From a valid name to an invalid one.
    let bad: Vec<&Vec<u8>> = names.iter().filter(|name| expected(name) != NFS3_OK).collect();
    let both = bad.iter().map(|name| (at(moved, b"a"), at(moved, name)));
    let renames: Vec<_> = both.map(|(from, to)| RENAME3args { from, to }).collect();
    for (name, answer) in bad.iter().zip(peer.nfs_all(NFSPROC3_RENAME, &renames)) {
        let expected = if dots(name) { NFS3ERR_INVAL } else { expected(name) };
        assert_eq!(answer.status(), expected, "RENAME to {name:02x?}");
    }
    let (procedure, removals) = if is_directory {
        (NFSPROC3_RMDIR, with(|object| bytes_of(&RMDIR3args { object }), moved))
    } else {
        (NFSPROC3_REMOVE, with(|object| bytes_of(&REMOVE3args { object }), moved))
    };
    for (name, answer) in names.iter().zip(peer.nfs_all(procedure, &removals)) {
        let expected = match &name[..] {
            b".." if is_directory => NFS3ERR_NOTEMPTY,
            b"." | b".." => NFS3ERR_INVAL,
            name => expected(name),
        };
        assert_eq!(answer.status(), expected, "{procedure:?} of {name:02x?}");
    }
}
