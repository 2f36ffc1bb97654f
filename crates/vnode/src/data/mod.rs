//! File data: reading it, keeping UNSTABLE writes as pages, and writing pages back.
//!
//! Writing blocks is the only way in which data reaches a file. It takes the fragments that are
//! missing, writes the payload, and only when the device has it all is the Update staged that
//! points at it; the policy flushes before any pointer goes out. An overwrite goes to where the old
//! data is, in parallel with nothing: its Update follows it.
//!
//! A write that a caller waits for never becomes a page. Pages of its blocks are written back
//! first, and then its own data, which shows with the Update that brings it, and not before.
//!
//! Pages are written back when a caller asks for it, every few seconds, and when they are many
//! (`behind`). Then the file's lock is lent while the device writes: UNSTABLE writes and reads go
//! on, and whatever would change the file on the disk waits.
//!
//! A page has whole blocks set aside for the worst case, so that writing it back never meets a full
//! disk. Where that much is not free, a write goes to the disk at once instead, with exactly what
//! it takes: it is refused only if its data has no room.
//!
//! Invariants (all under the file's lock, which is borrowed where pages alone change):
//! 1. The size on disk covers only data that is stored, or holes.
//! 2. Whenever a file grows, what comes to be in it of its old last block is written anew: what lay
//!    on the disk behind the old end never shows.
//! 3. A page goes when its data is written back, or lost; then the verifier changes.
//!    One that was written anew meanwhile stays.
//! 4. While the lock is lent the file on the disk changes in nothing: what was planned holds when
//!    it is done. Only full blocks are written back then, so that no later write finds a short one
//!    for which no space was set aside.
//! 5. What a write that failed may have left on the disk is in doubt until it was written anew: no
//!    COMMIT says before that it is durable.
//!
//! Not asserted: 1 and 2, which are about bytes on the disk: the engine writes them.

mod ahead;
mod behind;
mod doubt;
mod read;
mod write;
mod write_back;
