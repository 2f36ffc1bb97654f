//! New chunks are filled ahead of whoever takes them, by a thread of its own: the kernel makes all
//! of a chunk zeros, which takes a third of the time in which a mebibyte is written to a file, and
//! a reactor has only one thread.
//!
//! It begins with the first chunk that is new, and sleeps while enough are ready. Who finds none
//! ready fills one himself, as if there were no such thread.

use std::sync::{Condvar, Once, PoisonError};
use std::thread;

use super::{CHUNK, Chunks, chunks, fill};

/// Chunks that are to be ready: a thread that has to wait for a processor is some milliseconds
/// late.
const READY: usize = 6;

static WANTED: Condvar = Condvar::new();
static BEGINNING: Once = Once::new();

/// Fewer chunks may be ready than there should be.
pub(super) fn look(chunks: &Chunks) {
    if chunks.empty.len() < READY {
        // Without such a thread all is as it was before.
        BEGINNING.call_once(|| drop(thread::Builder::new().spawn(fill_all)));
        WANTED.notify_one();
    }
}

/// The life of the thread.
fn fill_all() {
    let mut all = chunks();
    loop {
        let start = match all.empty.len() < READY {
            true => all.begin_ahead(),
            false => None,
        };
        let Some(start) = start else {
            all = WANTED.wait(all).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(all);
        fill(start, CHUNK);
        all = chunks();
        all.keep_or_release(start);
    }
}
