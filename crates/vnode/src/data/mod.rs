//! File data: reading it, keeping UNSTABLE writes as pages, and writing pages back.
//!
//! Data reaches a file only by writing blocks. That takes the fragments that are missing and writes
//! the payload, and only when the device has it all is the Update staged that points at it; the
//! policy flushes before any pointer goes out. An overwrite goes to where the old data is, in
//! parallel with nothing: its Update follows it.
//!
//! A write that a caller waits for never becomes a page. Pages of its blocks are written back
//! first, and then its own data, which becomes visible with its Update, and not before.
//!
//! Pages are written back when a caller asks for it, every few seconds, and when there are many
//! (`behind`). Then the file's lock is lent while the device writes: UNSTABLE writes and reads go
//! on, and changes of the file on the disk wait.
//!
//! A page reserves whole blocks for the worst case, so that writing it back never meets a full
//! disk. Where that much is not free, a write goes to the disk at once instead, with exactly the
//! space that it takes: it is refused only if its data has no room.
//!
//! Invariants (all under the file's lock, which is borrowed where pages alone change):
//! 1. The size on disk covers only data that is stored, or holes.
//! 2. Whenever a file grows, the bytes of its old last block that come to be in it are rewritten:
//!    old contents of the disk behind the old end never show.
//! 3. A page is dropped when its data is written back, or lost; then the verifier changes.
//!    A page that was rewritten meanwhile stays.
//! 4. While the lock is lent the file on the disk changes in nothing: the plan is still valid when
//!    the write is done. Only full blocks are written back then, so that no later write finds a
//!    short block for which no space was reserved.
//! 5. A failed write leaves suspect data on the disk until that data was rewritten: no COMMIT calls
//!    it durable before.
//!
//! Not asserted: 1 and 2, which are about bytes on the disk: the engine writes them.

mod ahead;
mod behind;
mod doubt;
mod read;
mod write;
mod write_back;
