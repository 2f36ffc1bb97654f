//! Mount paths.

use nfs3_types::nfs3::nfs_fh3;
use nfs3_types::rpc::accept_stat_data;
use nfs3_types::xdr_codec::Opaque;

use crate::hostile::fixture::{Load, Server, made_directory};
use crate::hostile::wire::mount;

#[test]
fn paths_lead_to_directories_of_their_volume_or_nowhere() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let sub = made_directory(&mut peer, &root, b"sub");
    let odd = made_directory(&mut peer, &root, b"\xff\xfe\x80");
    let long_way = |behind: &[u8], length: usize| {
        let slashes = vec![b'/'; length - b"/data".len() - behind.len()];
        [b"/data", &slashes[..], behind].concat()
    };
    let (longest, longest_sub) = (long_way(b"", 1024), long_way(b"sub", 1024));
    let good: [(&[u8], &nfs_fh3); 12] = [
        (b"/data/", &root),
        (b"//data//", &root),
        (b"data", &root),
        (b"/data/..", &root),
        (b"/data/../..", &root),
        (b"/data/sub", &sub),
        (b"/data/sub/", &sub),
        (b"/data/sub/../../sub/.", &sub),
        (b"/data/\xff\xfe\x80", &odd),
        (b"/data/\xff\xfe\x80/../sub", &sub),
        (&longest, &root),
        (&longest_sub, &sub),
    ];
    for (path, expected) in good {
        let text = String::from_utf8_lossy(path);
        assert_eq!(peer.mount(path).as_ref().expect(&text), expected, "{text}");
    }
    neighbour.is_served();
    let too_long_name = [b"/data/", &[b'n'; 256][..]].concat();
    let nothing_but_slashes = vec![b'/'; 1024];
    let bad: [(&[u8], &str); 15] = [
        (b"", "NOENT"),
        (b"..", "NOENT"),
        (b"//", "NOENT"),
        (b"/..", "NOENT"),
        (b"/../data", "NOENT"),
        (b"/./data", "NOENT"),
        (&nothing_but_slashes, "NOENT"),
        (b"/data\0", "NOENT"),
        (b"/da\0ta", "NOENT"),
        (b"/\xff\xfe\x80", "NOENT"),
        (b"/data/../other", "NOENT"),
        (b"/data/\xff\xfe\x81", "NOENT"),
        (b"/data/sub\0", "INVAL"),
        (b"/data/\0/sub", "INVAL"),
        (&too_long_name, "NAMETOOLONG"),
    ];
    for (path, expected) in bad {
        let refused = peer.mount(path).expect_err("it leads nowhere");
        let text = String::from_utf8_lossy(path);
        assert_eq!(format!("{refused:?}"), format!("MNT3ERR_{expected}"), "{text}");
    }
    server.assert_bounded(Load { connections: 3, calls: 2, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}

/// MNTPATHLEN is a bound of the protocol itself: a longer path is no valid argument.
#[test]
fn paths_longer_than_the_protocol_has_are_garbage() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let mut peer = server.peer();
    for length in [1025, 4096, 60_000] {
        let path = vec![b'/'; length];
        for procedure in [1, 3] {
            let answer = peer.call(mount(procedure), &Opaque::borrowed(&path));
            let garbage = matches!(answer.accepted(), accept_stat_data::GARBAGE_ARGS);
            assert!(garbage, "{procedure} of {length} bytes: {answer:?}");
        }
    }
    neighbour.is_served();
    server.assert_bounded(Load { connections: 3, calls: 2, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}
