//! The whole server, from the bytes of connections down to a simulated disk.
//!
//! The input is a script for a hostile or broken client: calls of every kind with handles from
//! earlier replies, some of them damaged in transit, some repeated, several at a time, some
//! abandoned by a client that hangs up. These must hold:
//!
//! 1. Every whole record is answered by a matching reply, or the connection is no longer usable. An
//!    undamaged call is carried out, and an independent implementation of the protocol can decode
//!    its results.
//! 2. Another client goes on working, and finds its own data. A call that it repeats gets the same
//!    answer, however many others have called meanwhile.
//! 3. Calls from addresses that no export admits are refused, however many arrive.
//! 4. When all clients have gone, the server holds no more memory than its budgets allow: none for
//!    calls and answers, whatever became of them, and for the rest the configured amounts.
//! 5. The server stops cleanly, and its disk is consistent: it opens as clean, and the checker
//!    finds nothing.

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

/// Most steps of a script.
const MOST: usize = 150;
/// The other client checks its file after this many steps.
const LOOK: usize = 12;

fn check(bytes: &[u8]) {
    judge(disk_after(bytes));
}

/// Judges the disk of a stopped server.
///
/// # Panics
/// When it is not clean and consistent.
pub fn judge(image: Image) {
    judge::is_whole(&Executor::new(0), image);
}

/// Performs a script; returns the disk after the server has stopped cleanly.
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
