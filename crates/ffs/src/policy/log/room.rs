//! Room in the log: set aside before an Update is applied, so that staging never waits.
//!
//! The circle has room while the tail is not a circle ahead of the *durable* head. Whoever finds
//! none wakes the sync, which moves the head, and has the head named in a slot if no entry is about
//! to do that. A little is kept back for the entries that the writer makes itself.

use journal::format::{SEGMENT, UNIT};
use vfs::Lost;

use super::Log;

/// Kept back for entries that nobody has set room aside for, in bytes: see `Log::repeat`.
const KEPT_BACK: u64 = 2 * SEGMENT;

impl Log {
    /// Waits for `room` bytes.
    pub(super) async fn set_aside(&self, room: u64) -> Result<u64, Lost> {
        let _turn = self.queue.acquire(1).await;
        loop {
            if self.horizon.has_failed() {
                return Err(Lost);
            }
            if self.reserved.get() + room + KEPT_BACK <= self.journal.room() {
                self.reserved.set(self.reserved.get() + room);
                return Ok(room);
            }
            let landed = self.landed.wait();
            self.wanting.set(true);
            self.kick_sync();
            landed.await;
        }
    }

    /// An entry has its place: what was set aside for it is used, or free again.
    pub(super) fn use_up(&self, room: u64) {
        self.reserved.set(self.reserved.get() - room);
    }

    /// Somebody waits for room: makes durable that what is obsolete may be overwritten.
    pub(super) async fn give_room(&self) -> Result<(), block::IoError> {
        if !self.wanting.replace(false) {
            return Ok(());
        }
        let tail = self.journal.tail();
        if self.is_held_by_what_can_be_repeated() {
            self.repeat.set(true);
            self.kick_writer();
        }
        let head = self.head().unwrap_or(tail);
        if head > self.journal.durable_head() {
            self.journal.note_head(head).await?;
        }
        Ok(())
    }

    /// Whether the head is where it is for a chain or an answer, and far behind: then a newer entry
    /// has to tell of it.
    fn is_held_by_what_can_be_repeated(&self) -> bool {
        let tail = self.journal.tail();
        let Some(head) =
            self.head().filter(|head| tail - head > self.journal.capacity() / UNIT / 8)
        else {
            return false;
        };
        if self.chains.borrow().values().any(|active| active.recno == Some(head)) {
            return true;
        }
        let changes = self.head_of_changes().unwrap_or(tail);
        if head < changes && !self.has_room_for_answers() {
            self.memory.borrow_mut().give_way(changes);
        }
        head < changes
    }

    /// Whether an entry with answers of old takes nothing of what has been set aside.
    pub(super) fn has_room_for_answers(&self) -> bool {
        self.journal.room().saturating_sub(self.reserved.get()) >= KEPT_BACK
    }
}
