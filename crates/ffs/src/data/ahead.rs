//! Reading ahead: what a sequential reader will want next is on its way before it asks. How far,
//! the file's [`Reading`](crate::reading::Reading) says.

use std::ops::Range;
use std::rc::Rc;

use futures::FutureExt;
use vfs::FsError;

use crate::engine::Ffs;
use crate::inode::Node;

/// What is asked of the device at once, in bytes.
const PIECE: u64 = 512 << 10;

impl Ffs {
    /// Lets what a reader of these bytes will want next be on its way. Under the shared lock.
    ///
    /// It ends where it cannot be said where data is: whoever comes there is told.
    pub(crate) async fn read_ahead(&self, node: &Rc<Node>, offset: u64, count: u64) {
        let has_room = self.home.data().cache().has_room_ahead();
        let mut reading = node.reading.get();
        let range = reading.advance(offset, count, has_room);
        node.reading.set(reading);
        let geometry = self.geometry();
        let end = range.end.min(node.dinode().size.get());
        let blocks = range.start.div_ceil(geometry.block_size)..end.div_ceil(geometry.block_size);
        let mut wanted = 0..0;
        for lbn in blocks {
            let Ok(block) = self.wanted_ahead(node, lbn, end).await else { break };
            let is_next = block.start == wanted.end && wanted.end - wanted.start < PIECE;
            if is_next {
                wanted.end = block.end;
            } else {
                self.begin_ahead(std::mem::replace(&mut wanted, block));
            }
        }
        self.begin_ahead(wanted);
    }

    /// What of a block is to be read ahead, in bytes of the device.
    async fn wanted_ahead(
        &self,
        node: &Rc<Node>,
        lbn: u64,
        end: u64,
    ) -> Result<Range<u64>, FsError> {
        let geometry = self.geometry();
        if node.pages.borrow().get(lbn).is_some() {
            return Ok(0..0);
        }
        let address = self.map().find(node, None, lbn).await?;
        let start = geometry.byte_address(address);
        let length = (end - lbn * geometry.block_size).min(geometry.block_size);
        let block = start..start + length.next_multiple_of(geometry.fragment_size);
        let is_here = address == 0 || self.home.data().cache().has_any(&block);
        Ok(if is_here { 0..0 } else { block })
    }

    fn begin_ahead(&self, range: Range<u64>) {
        if !range.is_empty() {
            self.runtime.tasks.spawn(self.home.data().load_ahead(range).boxed_local());
        }
    }
}
