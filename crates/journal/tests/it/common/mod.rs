//! Helpers shared by the tests of this crate: a log on a simulated disk, and its entries.

pub(crate) mod bounds;
pub(crate) mod damage;
pub(crate) mod script;

use std::rc::Rc;

use block::{BlockDevice, Buffer};
use journal::format::{AREA, HEADER_SIZE, Header, SMALLEST, UNIT};
use journal::{Draft, Entry, Journal, JournalError, Live, Walker, find};
use sim::{Disk, Executor, Image, Machine, Options, Prng};

/// The number of the first epoch of every test.
pub(crate) const EPOCH: u64 = 0x1234_5678_9abc_def0;

/// The volume that has the log alone.
pub(crate) const VOLUME: u64 = 9;

/// An entry with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) recno: u64,
    pub(crate) draft: Draft,
}

/// A unique body of `length` bytes, for the entry with this sequence.
pub(crate) fn draft(sequence: u64, length: usize) -> Draft {
    let seed = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let byte = |index: usize| seed[index % 8] ^ (index as u8).wrapping_mul(29) ^ (index >> 8) as u8;
    Draft {
        records: sequence as u16 % 7,
        body: (0..length).map(byte).collect(),
        sequence,
        volume: 0,
    }
}

/// Takes as many drafts from the front as fit into one write.
pub(crate) fn batch_of(journal: &Journal, drafts: &mut Vec<Draft>) -> Vec<Draft> {
    let mut filling = journal.filling();
    let fits = drafts.iter().take_while(|draft| filling.takes(draft.body.len())).count();
    drafts.drain(..fits).collect()
}

/// A simulated disk and its executor.
pub(crate) struct World {
    executor: Executor,
    machine: Machine,
    pub(crate) disk: Rc<Disk>,
}

impl World {
    /// The smallest log: 16 segments.
    pub(crate) fn smallest() -> Self {
        Self::of(Image::zeroed(SMALLEST))
    }

    pub(crate) fn of(image: Image) -> Self {
        Self::with(image, Options::default())
    }

    pub(crate) fn with(image: Image, options: Options) -> Self {
        let executor = Executor::new(5);
        let machine = Machine::new(&executor);
        let disk = Disk::in_machine(&machine, image, options);
        Self { executor, machine, disk }
    }

    pub(crate) fn device(&self) -> Rc<dyn BlockDevice> {
        self.disk.clone()
    }

    /// Another disk in the same machine.
    pub(crate) fn another(&self, image: Image) -> Rc<Disk> {
        Disk::in_machine(&self.machine, image, Options::default())
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.executor.block_on(future)
    }

    pub(crate) fn begin(&self, epoch: u64) -> Journal {
        self.run(Journal::begin(self.device(), epoch, VOLUME, None))
            .expect("the device is large enough")
    }

    /// Places a batch, or as many as are needed, and waits for each.
    pub(crate) fn place(
        &self,
        journal: &Journal,
        mut drafts: Vec<Draft>,
        head: Option<u64>,
    ) -> Vec<Placed> {
        let mut placed = Vec::new();
        while !drafts.is_empty() {
            let batch = batch_of(journal, &mut drafts);
            let (recnos, written) = journal.place(batch.clone(), head);
            self.run(written).expect("a healthy disk");
            let recnos = recnos.into_iter().zip(batch);
            placed.extend(recnos.map(|(recno, draft)| Placed { recno, draft }));
        }
        placed
    }

    /// The log of an epoch, and its entries from head to tail.
    pub(crate) fn read(&self, epoch: u64) -> Result<Option<(Live, Vec<Placed>)>, JournalError> {
        self.run(read(&*self.disk, epoch))
    }

    /// As [`World::read`], for a log that must have entries.
    pub(crate) fn entries(&self, epoch: u64) -> (Live, Vec<Placed>) {
        self.read(epoch).expect("not damaged").expect("of this epoch")
    }

    /// The entries from the head on, closed or not.
    pub(crate) fn walk(&self, live: &Live) -> Vec<Placed> {
        let mut walker = Walker::new(&*self.disk, live.slot, live.head);
        let mut entries = Vec::new();
        while let Some(entry) = self.run(walker.next()).expect("readable") {
            entries.extend(placed(&entry));
        }
        entries
    }

    /// Reopens a closed device, as the next process does.
    pub(crate) fn reopen(&self) {
        self.run(self.disk.reopen(&self.machine));
    }

    /// The same bytes under a new disk, as after a restart.
    pub(crate) fn again(&self) -> Self {
        Self::of(self.disk.contents())
    }

    pub(crate) fn bytes(&self, offset: u64, length: u64) -> Vec<u8> {
        let read = self.disk.read(offset, Buffer::zeroed(length as usize));
        self.run(read).expect("inside the disk").to_vec()
    }

    /// The header at a recno, whatever it contains.
    pub(crate) fn header(&self, recno: u64, capacity: u64) -> Option<Header> {
        Header::read(&self.bytes(AREA + recno * UNIT % capacity, UNIT))
    }
}

async fn read(
    device: &dyn BlockDevice,
    epoch: u64,
) -> Result<Option<(Live, Vec<Placed>)>, JournalError> {
    let Some(live) = find(device, epoch).await? else { return Ok(None) };
    let mut walker = Walker::new(device, live.slot, live.head);
    let mut entries = Vec::new();
    let mut end = live.head;
    if live.bytes() > 0 {
        while let Some(entry) = walker.next().await? {
            end = entry.recno() + u64::from(entry.header.size.get()) / UNIT;
            entries.extend(placed(&entry));
        }
    }
    assert_eq!(end, live.tail, "the tail is where the chain ends");
    Ok(Some((live, entries)))
}

/// The draft of an entry, unless it only fills a segment.
fn placed(entry: &Entry) -> Option<Placed> {
    let header = &entry.header;
    let (records, sequence) = (header.records.get(), header.sequence.get());
    let draft = Draft { records, body: entry.body.to_vec(), sequence, volume: 0 };
    assert_eq!(header.length.get() as usize, HEADER_SIZE + draft.body.len());
    (draft != Draft::default()).then_some(Placed { recno: entry.recno(), draft })
}

/// Checks that every batch begins and ends at multiples of `unit` on a disk with such sectors.
pub(crate) fn batches_are_aligned(physical: u32, unit: u64) -> Result<(), String> {
    let options = Options { physical_sector_size: physical, ..Options::default() };
    let world = World::with(Image::zeroed(SMALLEST), options);
    let journal = world.begin(EPOCH);
    world.disk.start_trace();
    let mut prng = Prng::new(3);
    for sequence in 0..60 {
        let count = 1 + prng.below(3);
        let drafts = (0..count).map(|_| draft(sequence, prng.index(30_000))).collect();
        world.place(&journal, drafts, None);
    }
    for traced in world.disk.trace().events() {
        let sim::Event::WriteIssued { offset, data, .. } = &traced.event else { continue };
        if !offset.is_multiple_of(unit) || !(data.len() as u64).is_multiple_of(unit) {
            return Err(format!("{} bytes at {offset}, sectors of {physical}", data.len()));
        }
    }
    Ok(())
}
