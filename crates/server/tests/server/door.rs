//! Clients that wait for a place.

use nfs3_types::nfs3::{MKDIR3args, NFS_PROGRAM, sattr3};
use server::{Config, Settings};
use tokio::io::AsyncReadExt;
use tokio::net::TcpSocket;

use crate::fixture::{Fixture, at, ephemeral, record, with_server};

/// A server with two places for connections, for 127.0.0.1 only.
fn two_places() -> Settings {
    let text = "[exports.data]\nclients = [{ network = \"127.0.0.1\", access = \"rw\" }]\n";
    let exports = Config::parse(text, "duramen.toml".as_ref()).expect("a good text").exports;
    let mut config = Config { exports, ..ephemeral() };
    config.limits.connections = 2;
    Settings { config, ..Settings::default() }
}

#[test]
fn the_next_client_is_looked_at_while_another_waits_for_a_place() {
    with_server(two_places(), async |fixture: Fixture| {
        let (client, root) = fixture.mounted().await;
        drop(client);
        fixture.data.gate().close();
        // Two calls that the disk does not answer take both places, and the same client waits for
        // another.
        let mut busy = Vec::new();
        for (xid, name) in ["one", "two", "three"].into_iter().enumerate() {
            let args = MKDIR3args { where_: at(&root, name), attributes: sattr3::default() };
            let mut raw = fixture.raw().await;
            raw.send(&record(xid as u32, NFS_PROGRAM::NFSPROC3_MKDIR, &args)).await;
            busy.push(raw);
        }
        while fixture.data.executed() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        // A stranger learns at once that there is no place for it.
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.2:0".parse().expect("an address")).expect("it is of this machine");
        let mut stranger = socket.connect(fixture.address).await.expect("the kernel accepts");
        assert_eq!(stranger.read(&mut [0]).await.expect("an end in good order"), 0);
        fixture.data.gate().open();
        drop(busy);
    });
}
