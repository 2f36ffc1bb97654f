//! Read-ahead: data that a sequential reader will want next is requested before the reader asks.
//! The file's [`Reading`](crate::reading::Reading) sets the distance.

use std::ops::Range;

use cache::DataPath;
use futures::FutureExt;
use vfs::FsError;

use crate::engine::{Engine, File};
use crate::files::Files;
use crate::pages::Place;

/// The most bytes of one device read.
const PIECE: u64 = 512 << 10;

impl<E: Engine> Files<E> {
    /// Starts reading the data that a reader of these bytes will want next. Under the shared lock.
    ///
    /// Stops where the location of a block cannot be read: a READ that gets there reports the
    /// error.
    pub(crate) async fn read_ahead(&self, node: &File<E>, offset: u64, count: u64) {
        let Some(path) = self.engine.data() else { return };
        let has_room = path.cache().has_room_ahead();
        let mut reading = node.reading.get();
        let range = reading.advance(offset, count, has_room);
        node.reading.set(reading);
        let block_size = self.block_size();
        let end = range.end.min(node.stored_size());
        let blocks = range.start.div_ceil(block_size)..end.div_ceil(block_size);
        let (mut wanted, mut sums) = (0..0, Vec::new());
        for lbn in blocks {
            let Ok((block, sum)) = self.wanted_ahead(path, node, lbn, end).await else { break };
            let is_next = block.start == wanted.end && wanted.end - wanted.start < PIECE;
            if is_next {
                wanted.end = block.end;
            } else {
                self.begin_ahead(path, std::mem::replace(&mut wanted, block), &sums);
                sums.clear();
            }
            sums.extend(sum);
        }
        self.begin_ahead(path, wanted, &sums);
    }

    /// The bytes of a block to read ahead, as a range of the device, and their checksum, if they
    /// have one.
    async fn wanted_ahead(
        &self,
        path: &DataPath,
        node: &File<E>,
        lbn: u64,
        end: u64,
    ) -> Result<(Range<u64>, Option<u64>), FsError> {
        if node.pages.borrow().get(lbn).is_some() {
            return Ok((0..0, None));
        }
        let (start, sum) = match self.engine.place(node, lbn).await? {
            Place::Disk(start) => (start, None),
            Place::Summed(start, sum) => (start, Some(sum)),
            Place::Hole | Place::Memory(_) => return Ok((0..0, None)),
        };
        let length = (end - lbn * self.block_size()).min(self.block_size());
        let block = start..start + length.next_multiple_of(path.unit());
        Ok(if path.cache().has_any(&block) { (0..0, None) } else { (block, sum) })
    }

    fn begin_ahead(&self, path: &DataPath, range: Range<u64>, sums: &[u64]) {
        if !range.is_empty() {
            self.runtime.tasks.spawn(path.load_ahead(range, sums).boxed_local());
        }
    }
}
