//! Calls from an address that no rule admits.

use std::net::Ipv4Addr;

use nfs3_types::mount::mountstat3;
use nfs3_types::nfs3::nfsstat3::NFS3ERR_ACCES;
use nfs3_types::xdr_codec::Void;

use crate::hostile::asking::{assert_all, assert_either};
use crate::hostile::fixture::{Load, Server, made_file};
use crate::hostile::names::listed;
use crate::hostile::wire::{Peer, mount, nfs};

#[test]
fn who_is_outside_the_export_gets_nothing_not_even_with_a_handle() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut inside, root) = server.mounted();
    let file = made_file(&mut inside, &root, b"file");
    for address in [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 255, 255, 254)] {
        let mut outside = Peer::connect_from(address.into(), server.address, 64 << 10);
        for path in [&b"/data"[..], b"/other", b"/data/file", b"/data/missing"] {
            let refused = outside.mount(path).expect_err("no rule admits it");
            assert!(matches!(refused, mountstat3::MNT3ERR_ACCES), "{refused:?}");
        }
        for handle in [&root, &file] {
            assert_all(&mut outside, &handle.data, NFS3ERR_ACCES);
            assert_either(&mut outside, &root, &handle.data, NFS3ERR_ACCES);
        }
        let Void = outside.call(nfs(nfs3_types::nfs3::NFS_PROGRAM::NFSPROC3_NULL), &Void).results();
        // It does not unmount other clients' mounts either.
        let Void = outside.call(mount(4), &Void).results();
        neighbour.is_served();
    }
    assert_eq!(listed(&mut inside, &root), [b"file"]);
    let mounts: nfs3_types::mount::mountlist<'_, '_> = inside.call(mount(2), &Void).results();
    assert_eq!(mounts.0.len(), 1, "of all that mounted, the one from inside");
    server.assert_bounded(Load { connections: 5, calls: 2, tokens: 2 << 20 });
    drop(inside);
    server.stop(neighbour);
}
