//! File data: reading it, keeping UNSTABLE writes as pages, and landing pages on the disk.
//!
//! Landing is the only way in which data reaches a file. It takes the fragments that are missing,
//! writes the payload, and only when the device has it all is the Update staged that points at
//! it; the policy flushes before any pointer goes out. An overwrite goes to where the old data is,
//! in parallel with nothing: its Update follows it.
//!
//! A write that somebody waits for never becomes a page. Pages of its blocks land first, and then
//! its own data, which shows with the Update that brings it, and not before.
//!
//! Pages land when somebody asks for it, every few seconds, and when they are many (`behind`). Then
//! the file's lock is lent while the device writes: UNSTABLE writes and reads go on, and whatever
//! would change the file on the disk waits.
//!
//! A page has whole blocks set aside for the worst case, so that landing it never meets a full
//! disk. Where that much is not free, a write lands at once instead, with exactly what it takes:
//! it is refused only if its data has no room.
//!
//! Invariants (all under the file's lock, which is borrowed where pages alone change):
//! 1. The size on disk covers only data that has landed, or holes.
//! 2. Whenever a file grows, what comes to be in it of its old last block is written anew: what lay
//!    on the disk behind the old end never shows.
//! 3. A page goes when its data has landed, or when its data was lost; then the verifier changes.
//!    One that was written anew meanwhile stays.
//! 4. While the lock is lent the file on the disk changes in nothing: what was planned holds when
//!    it is done. Only full blocks land then, so that no later write finds a short one for which
//!    no space was set aside.
//! 5. What a write that failed may have left on the disk is in doubt until it was written anew: no
//!    COMMIT says before that it is durable.

mod ahead;
mod behind;
mod doubt;
mod land;
mod read;
mod write;

pub(crate) use ahead::Reading;
use bytes::Bytes;
pub(crate) use doubt::Doubts;

/// A stretch of several pieces, to be kept: by reference if it is a good part of one, else copied
/// together. So it keeps no more memory than twice its own.
fn gather(data: &[Bytes], start: usize, length: usize) -> Bytes {
    let mut skip = start;
    for piece in data {
        if skip + length <= piece.len() {
            return block::part_of(piece, skip..skip + length);
        }
        if skip < piece.len() {
            break;
        }
        skip -= piece.len();
    }
    block::Buffer::joined(&slices(data, start, length)).freeze()
}

/// The parts of several pieces that make up a stretch of them.
pub(crate) fn slices(data: &[Bytes], start: usize, length: usize) -> Vec<Bytes> {
    let mut skip = start;
    let mut left = length;
    let mut parts = Vec::new();
    for piece in data {
        if skip >= piece.len() {
            skip -= piece.len();
            continue;
        }
        let take = (piece.len() - skip).min(left);
        if take > 0 {
            parts.push(piece.slice(skip..skip + take));
        }
        left -= take;
        skip = 0;
    }
    parts
}

/// Zero bytes, shared.
pub(crate) fn zeros(length: usize) -> Bytes {
    static ZEROS: [u8; 65_536] = [0; 65_536];
    if length <= ZEROS.len() {
        Bytes::from_static(&ZEROS[..length])
    } else {
        block::Buffer::zeroed(length).freeze()
    }
}
