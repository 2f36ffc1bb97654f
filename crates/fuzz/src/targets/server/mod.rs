//! The whole server, from the bytes of connections down to a simulated disk.
//!
//! The input is a script of what a client does that means no good, or whose machine is broken:
//! calls of every kind with handles from earlier replies, some of them damaged on their way, some
//! repeated, several at a time, some left by a client that hangs up. What must hold:
//!
//! 1. Every whole record is answered by a reply that fits it, or the connection is of no further
//!    use. A call that was not damaged is carried out, and its results can be read by an
//!    independent implementation of the protocol.
//! 2. Another client goes on working, and finds what it wrote. A call that it repeats is answered
//!    as before, however many others have called meanwhile.
//! 3. Calls from addresses that no export admits are refused, in whatever numbers they come.
//! 4. When all have gone, the server holds no more memory than its budgets have: none for calls and
//!    answers, whatever became of them, and for the rest what was set.
//! 5. The server stops cleanly, and the disk that it leaves is whole: it opens as clean, and the
//!    checker finds nothing.

mod client;
mod connection;
mod host;
mod judge;
mod neighbour;
mod results;

use sim::{Executor, Image, Prng};

use super::Target;
use crate::input::Input;
use client::Hostile;
use host::Server;
use neighbour::Neighbour;

pub(super) const TARGET: Target =
    Target { name: "server", check, generate, longest: 2 << 10, memory: 48 << 20 };

/// The most things that one script does.
const MOST: usize = 150;
/// After how many of them the other client looks at its file.
const LOOK: usize = 12;

fn check(bytes: &[u8]) {
    judge(disk_after(bytes));
}

/// Judges a disk that a server left that was stopped.
///
/// # Panics
/// When it is not clean and whole.
pub fn judge(image: Image) {
    judge::is_whole(&Executor::new(0), image);
}

/// Acts a script out; the disk that is left once the server has stopped cleanly.
pub fn disk_after(bytes: &[u8]) -> Image {
    let mut input = Input::new(bytes);
    let shape = *input.pick(&host::SHAPES);
    let executor = Executor::new(input.u16().into());
    let disk = host::new_disk(&executor, shape);
    executor.block_on(async {
        let server = Server::start(&executor, disk.clone()).await;
        let mut neighbour = Neighbour::settle(&server).await;
        let mut hostile = Hostile::arrive(&server).await;
        for turn in 1..=MOST {
            if input.is_empty() {
                break;
            }
            hostile.act(&mut input).await;
            if turn.is_multiple_of(LOOK) {
                neighbour.look().await;
            }
        }
        neighbour.look().await;
        drop((hostile, neighbour));
        server.stop().await;
    });
    disk.contents()
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let mut script = vec![prng.next_u64() as u8, prng.next_u64() as u8, prng.next_u64() as u8];
    for _ in 0..2 + prng.below(60) {
        client::generate(prng, &mut script);
    }
    script
}
