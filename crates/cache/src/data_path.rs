//! The data path between the device and the tasks that read and write file data.
//!
//! ```text
//!  read <--- kept (data) <--- delayed, over the device
//!  write ---------------------> the device: spoils what is kept, and waits for what is delayed
//!  delay ---> delayed -- write_delayed --> the device
//!  hold ----> delayed -- let_go, when its owner has written it
//! ```
//!
//! Invariants:
//! 1. Only three kinds of writes reach the device: those of [`DataPath::write`], which notifies the
//!    data cache; delayed data, of which the cache was notified before; and repairs of a unit that
//!    did not fit its checksum.
//! 2. A read that has begun waits for the device alone, and for no other read.
//!
//! Not asserted: 1, which is about all that have the device; 2, which is about what is not awaited.

use std::future::Future;
use std::io::ErrorKind;
use std::ops::Range;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Io, IoError, Verb, slices};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{OptionFuture, try_join_all};

use crate::budget::Budget;
use crate::data::{DataCache, Found};
use crate::delayed::DelayedWrites;
use crate::planted::{Bug, is_planted};
use crate::refusals::Refusals;

/// See the module's prose. All positions are bytes of the device.
pub struct DataPath {
    device: Rc<dyn BlockDevice>,
    budget: Rc<Budget>,
    delayed: DelayedWrites,
    refusals: Rc<Refusals>,
    /// File data begins and ends with a unit of this many bytes on the device,
    unit: u64,
    /// and most of it is in blocks of this many.
    block_size: u64,
    /// The checksum function of a unit, where readers know the checksums.
    sum: Option<fn(&[u8]) -> u64>,
}

impl DataPath {
    /// The path to `device`, on which a file has blocks of `block_size` bytes, or some `unit`s.
    pub fn new(
        device: Rc<dyn BlockDevice>,
        budget: Rc<Budget>,
        (unit, block_size): (u64, u64),
    ) -> Self {
        let delayed = DelayedWrites::new(budget.beside().clone());
        Self { device, budget, delayed, refusals: Rc::default(), unit, block_size, sum: None }
    }

    /// The same path, for readers that know the checksum of each unit.
    pub fn with_sums(self, sum: fn(&[u8]) -> u64) -> Self {
        Self { sum: Some(sum), ..self }
    }

    /// The device itself.
    pub fn device(&self) -> &Rc<dyn BlockDevice> {
        &self.device
    }

    /// Size of the unit with which file data begins and ends, in bytes.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// The cache of file data.
    pub fn cache(&self) -> &Rc<DataCache> {
        self.budget.data()
    }

    /// Writes that found no room below.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Bytes of delayed data.
    pub fn delayed_bytes(&self) -> usize {
        self.delayed.bytes()
    }

    /// Reads file data, one piece after the other. `sums` are the checksums of the units that come
    /// from the device, if they are known; a unit that does not fit is repaired, if the device has
    /// another version of it. So the caller ensures that the bytes do not change until the read
    /// ends.
    ///
    /// # Errors
    /// Those of the device; [`ErrorKind::InvalidData`] when a unit does not fit its checksum.
    pub async fn read(&self, range: Range<u64>, sums: &[u64]) -> Result<Vec<Bytes>, IoError> {
        while self.cache().is_loading(&range) {
            self.cache().wait().await;
        }
        // From here on nothing is awaited until all reads have begun (invariant 2).
        let blocks = (range.end - range.start) / self.block_size + 1;
        let mut parts = Vec::with_capacity(blocks as usize);
        let (mut missing, mut reads) = (Vec::new(), Vec::new());
        let mut at = range.start;
        while at < range.end {
            match self.cache().find(at..range.end) {
                Found::Here(data) => {
                    at += data.len() as u64;
                    parts.push(data);
                }
                Found::Nothing(end) => {
                    let end = end.min(at - at % self.unit + block::PARTED_MOST as u64);
                    let first = ((at - range.start + range.start % self.unit) / self.unit) as usize;
                    reads.push(self.load(at..end, sums.get(first..).unwrap_or_default()));
                    missing.push(parts.len());
                    at = end;
                }
            }
        }
        if missing.is_empty() {
            return Ok(parts);
        }
        // Back to front, so that earlier indexes stay valid.
        for (place, data) in missing.into_iter().zip(try_join_all(reads).await?).rev() {
            parts.splice(place..place, data);
        }
        Ok(parts)
    }

    /// Begins, at once, a read that a task waits for.
    fn load(
        &self,
        range: Range<u64>,
        sums: &[u64],
    ) -> impl Future<Output = Result<Vec<Bytes>, IoError>> + use<> {
        let skip = (range.start % self.unit) as usize;
        let (from, to) = (range.start - skip as u64, range.end.next_multiple_of(self.unit));
        let loading = self.cache().begin(from..to);
        let read = self.begin_read(from..to, sums, true);
        let used = (range.end - from) as usize;
        async move {
            let data = read.await?;
            loading.keep(&data, used, false);
            Ok(slices(&data, skip, used - skip))
        }
    }

    /// Begins at once to read ahead whole units. The read goes on whether the future is dropped or
    /// not; its data is cached only if the future is run. It delays nothing: its blocks may be
    /// freed and overwritten meanwhile. So it repairs nothing, since its checksums may be those of
    /// the old contents.
    pub fn load_ahead(&self, range: Range<u64>, sums: &[u64]) -> impl Future<Output = ()> + use<> {
        let loading = self.cache().begin(range.clone());
        let read = self.begin_read(range, sums, is_planted(Bug::MendsAhead));
        async move {
            if let Ok(data) = read.await {
                loading.keep(&data, 0, true);
            }
        }
    }

    fn begin_read(
        &self,
        range: Range<u64>,
        sums: &[u64],
        mends: bool,
    ) -> impl Future<Output = Result<Vec<Bytes>, IoError>> + use<> {
        self.budget.bound_data();
        let units = ((range.end - range.start) / self.unit) as usize;
        let sums: Vec<u64> = sums.iter().copied().take(units).collect();
        let (sum, unit, device) = (self.sum, self.unit as usize, self.device.clone());
        let buffer = Buffer::unfilled((range.end - range.start) as usize);
        let delayed = self.delayed.over(&range);
        let is_all = matches!(&delayed[..], [(_, only)] if only.len() == buffer.len());
        let read = if is_all {
            std::future::ready(Ok(buffer)).boxed_local()
        } else {
            self.device.read(range.start, buffer)
        };
        async move {
            let mut buffer = read.await?;
            for (at, data) in delayed {
                buffer[at..at + data.len()].copy_from_slice(&data);
            }
            let Some(sum) = sum else { return Ok(buffer.freeze_in_parts()) };
            for (index, &right) in sums.iter().enumerate() {
                let place = index * unit..(index + 1) * unit;
                if sum(&buffer[place.clone()]) == right {
                    continue;
                }
                let (at, length) = (range.start + place.start as u64, unit as u64);
                let is_right = Rc::new(move |bytes: &[u8]| sum(bytes) == right);
                let mend = mends.then(|| device.mend(at, length, is_right));
                let mended = OptionFuture::from(mend).await.transpose()?.flatten();
                let Some(mended) = mended else {
                    return Err(IoError::new(Verb::Read, at, length, ErrorKind::InvalidData));
                };
                buffer[place].copy_from_slice(&mended);
            }
            Ok(buffer.freeze_in_parts())
        }
    }

    /// Writes pieces, one after the other, from byte `start` on.
    pub fn write(&self, start: u64, pieces: Vec<Bytes>) -> Io<()> {
        let range = start..start + block::length_of(&pieces);
        self.cache().spoil(&range);
        let (cache, refusals) = (self.cache().clone(), self.refusals.clone());
        let written = self.device.write(start, pieces, Durability::Plain);
        let write = async move {
            let result = written.await;
            cache.spoil(&range);
            result.inspect_err(|error| refusals.note(error))
        };
        write.boxed_local()
    }

    /// Writes file data in place, where older data may be delayed.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn write_over(&self, start: u64, pieces: Vec<Bytes>) -> Result<(), IoError> {
        let range = start..start + block::length_of(&pieces);
        if self.delayed.has_any(&range) && !is_planted(Bug::OvertakenDelays) {
            self.write_delayed().await?; // invariant 4 of delayed writes
        }
        self.write(start, pieces).await
    }

    /// The contents of these bytes are not needed until they are written: a set of disks has less
    /// to do then.
    pub async fn vacate(&self, range: Range<u64>) {
        let stripe = self.device.geometry().stripe;
        if stripe.is_some_and(|stripe| !stripe.within(&range).is_empty()) {
            // A hint. A device that cannot take it fails at the write.
            let _ = self.device.discard(range.start, range.end - range.start).await;
        }
    }

    /// Caches whole units of data that have just been written.
    pub fn keep_written(&self, start: u64, data: &Bytes) {
        // On a damaged disk a block may be anywhere, and may not be a stretch.
        if data.len() > block::PART && !start.is_multiple_of(self.block_size) {
            return;
        }
        self.budget.bound_data();
        self.cache().keep_written(start, data);
    }

    /// Caches whole adjacent blocks that have just been written, and share their memory.
    pub fn keep_written_together(&self, start: u64, blocks: &[Bytes]) {
        self.budget.bound_data();
        self.cache().keep_written_blocks(start, blocks, true);
    }

    /// Delays adjacent pieces of data from byte `start` on that a log has or is about to have;
    /// every reader sees them from now on.
    pub fn delay(&self, mut start: u64, pieces: &[Bytes]) {
        let length = block::length_of(pieces);
        self.cache().spoil(&(start..start + length));
        let are_blocks = length.is_multiple_of(self.block_size);
        for part in Buffer::joined(pieces).freeze_in_parts() {
            self.delayed.add(start, part.clone());
            if are_blocks && part.len() <= block::PART {
                self.keep_written(start, &part);
            }
            start += part.len() as u64;
        }
    }

    /// Delays a piece of data, of whole units and with memory of its own, that its owner will write
    /// in place: every reader sees it from now on.
    pub fn hold(&self, start: u64, data: Bytes) {
        self.cache().spoil(&(start..start + data.len() as u64));
        self.keep_written(start, &data);
        self.delayed.add(start, data);
    }

    /// The owner has written held data in place.
    pub fn let_go(&self, start: u64, data: &Bytes) {
        self.drop_held(start..start + data.len() as u64);
        self.keep_written(start, data);
    }

    /// Held data is not needed.
    pub fn drop_held(&self, range: Range<u64>) {
        self.delayed.drop(&range);
    }

    /// Writes all data delayed so far to the device.
    ///
    /// # Errors
    /// Those of the device; then nothing is written there any more.
    pub async fn write_delayed(&self) -> Result<(), IoError> {
        self.delayed.land(&*self.device, &self.refusals).await
    }

    /// These bytes were freed, and that is durable: data delayed there is not needed. Completes
    /// when no write to them is in flight.
    pub async fn forget_delayed(&self, range: Range<u64>) {
        self.delayed.forget(range).await;
    }

    /// Flushes the device.
    pub fn flush(&self) -> Io<()> {
        self.device.flush()
    }
}
