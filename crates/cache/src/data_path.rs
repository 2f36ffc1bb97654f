//! The way of file data between the device and the tasks that read and write it.
//!
//! ```text
//!  read <--- kept (data) <--- delayed, over the device
//!  write ---------------------> the device: spoils what is kept, and waits for what is delayed
//!  delay ---> delayed -- write_delayed --> the device
//!  hold ----> delayed -- let_go, when its owner has written it
//! ```
//!
//! Invariants:
//! 1. Nothing is written to the device but by [`DataPath::write`], which tells the cache of data,
//!    what was delayed, of which the cache has been told, and what belongs there, where a unit did
//!    not fit its checksum.
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

/// See the module's prose. All places are bytes of the device.
pub struct DataPath {
    device: Rc<dyn BlockDevice>,
    budget: Rc<Budget>,
    delayed: DelayedWrites,
    refusals: Rc<Refusals>,
    /// Data of a file begins and ends with a unit of so many bytes on the device,
    unit: u64,
    /// and most of it stands in blocks of so many.
    block_size: u64,
    /// How the checksum of a unit is made, where readers know it.
    sum: Option<fn(&[u8]) -> u64>,
}

impl DataPath {
    /// The way to `device`, on which a file has blocks of `block_size` bytes, or some `unit`s.
    pub fn new(
        device: Rc<dyn BlockDevice>,
        budget: Rc<Budget>,
        (unit, block_size): (u64, u64),
    ) -> Self {
        let delayed = DelayedWrites::new(budget.beside().clone());
        Self { device, budget, delayed, refusals: Rc::default(), unit, block_size, sum: None }
    }

    /// The same, where readers know the checksum of each unit.
    pub fn with_sums(self, sum: fn(&[u8]) -> u64) -> Self {
        Self { sum: Some(sum), ..self }
    }

    /// The device itself.
    pub fn device(&self) -> &Rc<dyn BlockDevice> {
        &self.device
    }

    /// Data of a file begins and ends with a unit of so many bytes.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// What is kept of it.
    pub fn cache(&self) -> &Rc<DataCache> {
        self.budget.data()
    }

    /// Writes for which there was no room below.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Bytes that are delayed.
    pub fn delayed_bytes(&self) -> usize {
        self.delayed.bytes()
    }

    /// Reads bytes that are data of a file, one piece after the other. What the device gives of it
    /// has these checksums, one a unit, if there are any; a unit that has not is mended, if the
    /// device has another version of it. So the caller sees to it that the bytes stay what they are
    /// until the read ends.
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
        // From behind, so that the places of those before stay.
        for (place, data) in missing.into_iter().zip(try_join_all(reads).await?).rev() {
            parts.splice(place..place, data);
        }
        Ok(parts)
    }

    /// Begins to read, at once, what a task waits for.
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

    /// Begins to read, at once, what a task will want, whole units.
    /// It is on its way, and arrives, whether the future is dropped or not; kept it is only if that
    /// is run. It holds nothing up: what it reads may be given back and written over meanwhile. So
    /// it mends nothing, since its checksums may be those of what stood there before.
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

    /// Writes data of a file to its place, where older data may be delayed.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn write_over(&self, start: u64, pieces: Vec<Bytes>) -> Result<(), IoError> {
        let range = start..start + block::length_of(&pieces);
        if self.delayed.has_any(&range) && !is_planted(Bug::OvertakenDelays) {
            self.write_delayed().await?; // invariant 4 of what is delayed
        }
        self.write(start, pieces).await
    }

    /// Nothing is needed of these bytes until they are written: a set of disks has less to do then.
    pub async fn vacate(&self, range: Range<u64>) {
        let stripe = self.device.geometry().stripe;
        if stripe.is_some_and(|stripe| !stripe.within(&range).is_empty()) {
            // A hint. Whoever cannot take it fails at the write.
            let _ = self.device.discard(range.start, range.end - range.start).await;
        }
    }

    /// Keeps whole units of data that have just been written.
    pub fn keep_written(&self, start: u64, data: &Bytes) {
        // On a damaged disk a block may lie anywhere, and be no stretch.
        if data.len() > block::PART && !start.is_multiple_of(self.block_size) {
            return;
        }
        self.budget.bound_data();
        self.cache().keep_written(start, data);
    }

    /// Keeps whole blocks of data that have just been written one after the other, and have their
    /// memory together.
    pub fn keep_written_together(&self, start: u64, blocks: &[Bytes]) {
        self.budget.bound_data();
        self.cache().keep_written_blocks(start, blocks, true);
    }

    /// Takes pieces of data, one after the other from byte `start` on, that a log has or is about
    /// to have; every reader sees them from now on.
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

    /// Takes a piece of data, of whole units and with memory of its own, that its owner is going to
    /// bring to its place: every reader sees it from now on.
    pub fn hold(&self, start: u64, data: Bytes) {
        self.cache().spoil(&(start..start + data.len() as u64));
        self.keep_written(start, &data);
        self.delayed.add(start, data);
    }

    /// What was held has come to its place.
    pub fn let_go(&self, start: u64, data: &Bytes) {
        self.drop_held(start..start + data.len() as u64);
        self.keep_written(start, data);
    }

    /// What was held is not needed.
    pub fn drop_held(&self, range: Range<u64>) {
        self.delayed.drop(&range);
    }

    /// Brings everything to the device that was delayed so far.
    ///
    /// # Errors
    /// Those of the device; then nothing is brought there any more.
    pub async fn write_delayed(&self) -> Result<(), IoError> {
        self.delayed.land(&*self.device, &self.refusals).await
    }

    /// These bytes were given back, and that is durable: what is delayed there is not needed.
    /// Completes when nothing is on its way to them.
    pub async fn forget_delayed(&self, range: Range<u64>) {
        self.delayed.forget(range).await;
    }

    /// The barrier.
    pub fn flush(&self) -> Io<()> {
        self.device.flush()
    }
}
