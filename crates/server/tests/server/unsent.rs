//! Peers that ask for much and read nothing: the bytes of their replies in the kernel.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use nfs3_types::mount::MOUNT_PROGRAM;
use nfs3_types::rpc::{call_body, msg_body, opaque_auth, rpc_msg};
use nfs3_types::xdr_codec::Pack;
use server::{Config, Settings};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::fixture::{Fixture, ephemeral, fragments, with_server};

/// Number of calls of one peer: their replies are 3 MiB.
const CALLS: u32 = 500;
/// Half of the bytes that the peer's kernel accepts.
const WINDOW_BYTES: u32 = 4 << 10;
/// Number of polls without a change after which the kernel's bytes count as final.
const STILL: usize = 100;

/// A server with 300 rules, one of which admits 127.0.0.1.
fn many_rules() -> Settings {
    let others = (0..300).map(|number| format!("10.1.{}.{}", number / 256, number % 256));
    let rules: Vec<_> = others
        .chain(["127.0.0.1".to_owned()])
        .map(|network| format!("{{ network = \"{network}\", access = \"rw\" }}"))
        .collect();
    let text = format!("[exports.data]\nclients = [{}]\n", rules.join(", "));
    let exports = Config::parse(&text, "duramen.toml".as_ref()).expect("a good text").exports;
    Settings { config: Config { exports, ..ephemeral() }, ..Settings::default() }
}

/// A call of the MOUNT program's EXPORT.
fn export(xid: u32) -> Vec<u8> {
    let body = call_body {
        rpcvers: 2,
        prog: nfs3_types::mount::PROGRAM,
        vers: nfs3_types::mount::VERSION,
        proc: MOUNT_PROGRAM::MOUNTPROC3_EXPORT as u32,
        cred: opaque_auth::default(),
        verf: opaque_auth::default(),
    };
    let mut bytes = Vec::new();
    let message = rpc_msg { xid, body: msg_body::CALL(body) };
    message.pack(&mut bytes).expect("memory takes everything");
    fragments(&bytes, usize::MAX)
}

/// Formats an address like the kernel's table of connections.
fn in_table(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { panic!("it is an IPv4 address") };
    format!("{:08X}:{:04X}", u32::from_le_bytes(address.ip().octets()), address.port())
}

/// Bytes of the server that the kernel holds for this peer, sent or not.
fn standing(server: SocketAddr, peer: &TcpStream) -> usize {
    let peer = in_table(peer.local_addr().expect("it is bound"));
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the system is Linux");
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row[1] == in_table(server) && row[2] == peer);
    let (sending, _) = row.expect("it is connected")[4].split_once(':').expect("two queues");
    usize::from_str_radix(sending, 16).expect("a number")
}

/// Maximum number of bytes that the kernel holds for a peer of this address that reads nothing.
async fn most_standing(fixture: &Fixture, from: Ipv4Addr) -> usize {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(WINDOW_BYTES).expect("it is small");
    socket.bind(SocketAddrV4::new(from, 0).into()).expect("it is of this machine");
    let mut peer = socket.connect(fixture.address).await.expect("the server accepts");
    let calls: Vec<u8> = (0..CALLS).flat_map(export).collect();
    peer.write_all(&calls).await.expect("the kernel takes them");
    let (mut most, mut still) = (0, 0);
    while most == 0 || still < STILL {
        let now = standing(fixture.address, &peer);
        still = if now > most { 0 } else { still + 1 };
        most = most.max(now);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    most
}

#[test]
fn replies_that_nobody_takes_are_bounded_in_the_kernel_most_of_all_those_of_strangers() {
    with_server(many_rules(), async |fixture: Fixture| {
        for (address, bound) in [([127, 0, 0, 1], 256 << 10), ([127, 0, 0, 2], 64 << 10)] {
            let most = most_standing(&fixture, address.into()).await;
            assert!(most <= bound, "{most} of {bound} bytes for {address:?}");
        }
    });
}
