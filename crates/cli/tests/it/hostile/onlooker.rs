//! Measures how long other clients wait during an attack.
//!
//! An onlooker requests attributes all the time, and now and then writes the maximum amount of a
//! call. Its waits are printed but not asserted: on a machine with other load they prove nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nfs3_types::nfs3::*;

use crate::common::pause;
use crate::hostile::fixture::{Server, made_file, write_args};
use crate::hostile::wire::{Peer, nfs};

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(5);
/// Number of requests per write.
const QUESTIONS: u32 = 40;

/// A client in a thread of its own.
pub(crate) struct Onlooker {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<[Vec<Duration>; 2]>,
}

impl Onlooker {
    /// Starts an onlooker of a server, with its own connection.
    pub(crate) fn at(server: &Server) -> Self {
        let (mut peer, root) = server.mounted();
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = ends.clone();
        let thread = thread::spawn(move || {
            let file = made_file(&mut peer, &root, b"onlooker");
            let mut waits = [Vec::new(), Vec::new()];
            while !is_over.load(Ordering::Relaxed) {
                for _ in 0..QUESTIONS {
                    let args = GETATTR3args { object: file.clone() };
                    waits[0].push(timed(|| ask(&mut peer, NFS_PROGRAM::NFSPROC3_GETATTR, &args)));
                    pause(PAUSE);
                }
                let data = vec![7; 1 << 20];
                let args = write_args(&file, 0, &data);
                waits[1].push(timed(|| ask(&mut peer, NFS_PROGRAM::NFSPROC3_WRITE, &args)));
            }
            waits
        });
        Self { ends, thread }
    }

    /// Stops the onlooker and prints its waits.
    pub(crate) fn tell(self) {
        self.ends.store(true, Ordering::Relaxed);
        let waits = self.thread.join().expect("every call was answered");
        let thread = thread::current();
        for (mut waits, what) in waits.into_iter().zip(["GETATTR", "WRITE"]) {
            waits.sort_unstable();
            let p99 = waits[(waits.len() - 1) * 99 / 100];
            let name = thread.name().unwrap_or("?");
            println!(
                "{name}: {} times {what}: p99 {p99:?}, longest {:?}",
                waits.len(),
                waits.last()
            );
        }
    }
}

fn ask(peer: &mut Peer, procedure: NFS_PROGRAM, args: &impl nfs3_types::xdr_codec::Pack) {
    let (xid, record) = peer.record(nfs(procedure), args);
    peer.send(&record);
    let answer = peer.answer().expect("an answer");
    assert_eq!((answer.xid, answer.status()), (xid, nfsstat3::NFS3_OK));
}

#[expect(clippy::disallowed_methods, reason = "a real server's answers take real time")]
fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
