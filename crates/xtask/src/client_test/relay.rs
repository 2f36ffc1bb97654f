//! A relay to the server that stays open while the server is away.
//!
//! A Linux client that loses its connection reconnects immediately. If no server listens it retries
//! after three seconds, then after six, and so on: a server that dies every second would mostly
//! meet no client. The relay always listens, and holds the client's data until there is a server
//! again.
//!
//! 1. Bytes pass unchanged. Data from a server is forwarded even if that server has died since.
//! 2. A connection that ends on the server's side ends on the client's side, and vice versa: the
//!    client notices every death.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::failure::While;
use crate::servers::duramen::Server;
use crate::{Result, clock};

/// Interval of attempts to connect to an absent server.
const PAUSE: Duration = Duration::from_millis(2);
/// Bytes forwarded at once.
const PIECE: usize = 64 << 10;

/// Listens until it is dropped.
#[derive(Debug)]
pub(super) struct Relay {
    port: u16,
    closed: Arc<AtomicBool>,
}

impl Relay {
    /// A relay to `server`, and to the servers that replace it.
    pub(super) fn to(server: &Server) -> Result<Relay> {
        Relay::to_port(server.port())
    }

    fn to_port(target: u16) -> Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).while_doing("the relay")?;
        let port = listener.local_addr().while_doing("the relay")?.port();
        let closed = Arc::<AtomicBool>::default();
        let given = closed.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(io::Result::ok) {
                if given.load(Ordering::Relaxed) {
                    break;
                }
                let given = given.clone();
                thread::spawn(move || serve(&client, target, &given));
            }
        });
        Ok(Relay { port, closed })
    }

    /// Its port on 127.0.0.1.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // Wake the listener, unless it has gone already.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// Serves one connection. An error of either end ends it.
fn serve(client: &TcpStream, target: u16, closed: &AtomicBool) {
    let server = loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, target)) {
            Ok(server) => break server,
            Err(_) if closed.load(Ordering::Relaxed) => return,
            Err(_) => clock::sleep(PAUSE),
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = hand_on(client, &server);
            // The server may still have data to send.
            let _ = server.shutdown(Shutdown::Write);
        });
        let _ = hand_on(&server, client);
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
}

fn hand_on(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    to.set_nodelay(true)?;
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            length => to.write_all(&piece[..length])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers one byte with the next byte, on one connection.
    fn answer_once(listener: &TcpListener) {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        stream.write_all(&[byte[0] + 1]).unwrap();
    }

    #[test]
    fn a_call_waits_for_a_server_and_its_death_is_told() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let relay = Relay::to_port(port).unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).unwrap();
        client.write_all(&[7]).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        answer_once(&listener);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, [8]);
    }
}
