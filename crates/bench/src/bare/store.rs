//! Data store of the bare server: a device in pieces of one mebibyte, which files take as they
//! grow.
//!
//! Calls carry whole blocks of 32 KiB, within one piece. Data of WRITEs is gathered until a piece
//! is full or committed, and then a few threads move it: so the device works while sockets are
//! read, and gets pieces of the size that it prefers. A READ of uncached data reads the whole
//! piece, and the following ones.
//!
//! Calls avoid paying for new pages where possible. Memory of a WRITE returns to the thread that it
//! came from, that of the connection, where `block` reuses it; memory for READs is allocated at the
//! start, and returns.
//!
//! # Invariants
//! 1. A piece of the device belongs to one piece of one file, for ever: names that come back get
//!    their places again.
//! 2. A COMMIT is answered when the medium was flushed after all writes of the file had ended.
//! 3. At most [`ROOM`] pieces are on their way to the medium.
//! 4. When the device has failed, everything fails: see `medium`.
//! 5. No piece reaches into the journal's part of the medium.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use block::Buffer;
use bytes::Bytes;

use super::journal::{Change, Journal};
use super::lock;
use super::medium::{Device, Medium};

/// Data of a call is a multiple of this, and comes in parts of this size.
const BLOCK: usize = block::PART;

/// Bytes of a piece of the device, and of a file.
const PIECE: usize = 1 << 20;

/// Blocks of a piece.
const BLOCKS: usize = PIECE / BLOCK;

/// Concurrent transfers: enough that a device with its own thread, which waits for a processor, has
/// work.
const MOVERS: usize = 16;

/// Pieces to read ahead of a READ.
const AHEAD: usize = 3;

/// Maximum pieces that wait to be written.
const ROOM: usize = 256;

/// Pieces for which memory is allocated before any client reads: read-ahead of 32 connections.
const SPARE: usize = 128;

/// The store.
pub struct Store {
    device: Arc<Device>,
    journal: Arc<Journal>,
    /// Whether written data stays in memory, for its readers.
    keeps: bool,
    state: Mutex<State>,
    /// Memory for reads.
    spare: Spare,
    /// Signaled when there is something to move.
    ordered: Condvar,
    /// Signaled when there is room for another piece.
    freed: Condvar,
}

/// Unused memory for whole pieces.
type Spare = Arc<Mutex<Vec<Buffer>>>;

#[derive(Default)]
struct State {
    files: HashMap<Vec<u8>, File>,
    /// Pieces of the medium that belong to files.
    taken: u64,
    orders: VecDeque<Order>,
    /// Pieces on their way to the medium.
    writing: usize,
}

#[derive(Default)]
struct File {
    pieces: Vec<Option<Piece>>,
    on_the_way: OnTheWay,
    /// Signaled when some of the file was moved. Per file, so that not all connections wake.
    moved: Arc<Condvar>,
}

/// Writes of a file that are on their way to the medium.
#[derive(Default)]
struct OnTheWay {
    /// Number of runs of blocks that are not written yet.
    writing: usize,
    /// Blocks that were written, until the connection takes back their memory.
    spent: Vec<Bytes>,
}

/// A mebibyte of a file.
struct Piece {
    /// Offset on the medium.
    offset: u64,
    /// The blocks that are in memory.
    blocks: [Option<Bytes>; BLOCKS],
    /// Blocks that have to be written, a bit each.
    gathered: u32,
    is_loading: bool,
}

/// A transfer of a file's piece.
struct Order {
    file: Vec<u8>,
    number: usize,
    offset: u64,
    what: Cargo,
}

enum Cargo {
    /// Consecutive blocks.
    Write(Vec<Bytes>),
    /// A whole piece.
    Read,
}

/// Whole blocks in one piece of a file.
struct Range {
    number: usize,
    first: usize,
    count: usize,
}

impl Range {
    fn new(offset: u64, length: usize) -> io::Result<Range> {
        let (number, within) = ((offset / PIECE as u64) as usize, offset as usize % PIECE);
        let are_blocks = within.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK);
        if are_blocks && length > 0 && within + length <= PIECE {
            Ok(Range { number, first: within / BLOCK, count: length / BLOCK })
        } else {
            Err(ErrorKind::Unsupported.into())
        }
    }

    fn blocks(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }
}

impl Store {
    /// A store on a medium of its own, with a journal in the medium's last part.
    pub fn new(medium: Box<dyn Medium>, keeps: bool) -> Store {
        let device = Arc::new(Device::new(medium));
        let journal = Arc::new(Journal::new(device.clone()));
        let (ordered, freed) = (Condvar::new(), Condvar::new());
        let spare = (0..SPARE).filter(|_| !keeps).map(|_| Buffer::unfilled(PIECE));
        let spare = Arc::new(Mutex::new(spare.collect()));
        Store { device, journal, keeps, state: Mutex::default(), spare, ordered, freed }
    }

    /// Starts the threads that do transfers, until the process ends.
    pub(super) fn start(self) -> io::Result<Arc<Store>> {
        let store = Arc::new(self);
        for _ in 0..MOVERS {
            let store = store.clone();
            thread::Builder::new().spawn(move || store.move_all())?;
        }
        Ok(store)
    }

    /// Takes blocks, and orders the write of a piece that they complete.
    pub(super) fn write(&self, file: &[u8], offset: u64, data: Vec<Bytes>) -> io::Result<()> {
        let range = Range::new(offset, block::length_of(&data) as usize)?;
        if data.len() != range.count {
            return Err(ErrorKind::Unsupported.into());
        }
        let mut state = self.state()?;
        while state.writing >= ROOM {
            state = self.sleep(&self.freed, state)?; // invariant 3
        }
        state.place(file, range.number, self.journal.start())?; // invariants 1 and 5
        let (on_the_way, piece) = state.piece(file, range.number)?;
        let mut spent = std::mem::take(&mut on_the_way.spent);
        for (block, data) in range.blocks().zip(data) {
            spent.extend(piece.blocks[block].replace(data));
            piece.gathered |= 1 << block;
        }
        if piece.gathered == u32::MAX {
            self.order_writes(&mut state, file, range.number);
        }
        drop(state);
        drop(spent); // here, in the connection's thread
        Ok(())
    }

    /// Reads whole blocks of a file that was written.
    pub(super) fn read(&self, file: &[u8], offset: u64, length: usize) -> io::Result<Vec<Bytes>> {
        let range = Range::new(offset, length)?;
        let mut state = self.state()?;
        loop {
            let (_, piece) = state.piece(file, range.number)?;
            let blocks = piece.blocks[range.blocks()].iter().cloned().collect();
            match blocks {
                Some(blocks) if self.keeps => return Ok(blocks),
                None if self.keeps => return Err(ErrorKind::NotFound.into()),
                Some(blocks) => {
                    if range.blocks().end == BLOCKS && piece.gathered == 0 {
                        piece.blocks = Default::default(); // a client reading on does not come back
                    }
                    self.read_ahead(&mut state, file, range.number + 1);
                    return Ok(blocks);
                }
                None => {
                    self.read_ahead(&mut state, file, range.number);
                    let moved = state.moved(file)?;
                    state = self.sleep(&moved, state)?;
                }
            }
        }
    }

    /// Writes all of a file, and flushes the medium.
    pub(super) fn commit(&self, file: &[u8]) -> io::Result<()> {
        let mut state = self.state()?;
        for number in 0..state.files.get(file).map_or(0, |file| file.pieces.len()) {
            self.order_writes(&mut state, file, number);
        }
        let mut spent = Vec::new();
        while let Some(file) = state.files.get_mut(file) {
            spent.append(&mut file.on_the_way.spent);
            if file.on_the_way.writing == 0 {
                break;
            }
            state = self.sleep(&file.moved.clone(), state)?;
        }
        drop(state);
        drop(spent);
        self.device.flush() // invariant 2
    }

    /// Adds a change to those that are made durable next.
    pub(super) fn change(&self, payload: Vec<Bytes>) -> Change {
        self.journal.enter(payload)
    }

    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        self.usable(lock(&self.state))
    }

    fn sleep<'a>(
        &self,
        until: &Condvar,
        state: MutexGuard<'a, State>,
    ) -> io::Result<MutexGuard<'a, State>> {
        self.usable(until.wait(state).unwrap_or_else(PoisonError::into_inner))
    }

    fn usable<'a>(&self, state: MutexGuard<'a, State>) -> io::Result<MutexGuard<'a, State>> {
        self.device.check().map(|()| state) // invariant 4
    }

    fn order(&self, state: &mut State, order: Order) {
        state.orders.push_back(order);
        self.ordered.notify_one();
    }

    /// Orders writes of a piece's gathered blocks, one for each run of blocks.
    fn order_writes(&self, state: &mut State, file: &[u8], number: usize) {
        loop {
            let Ok((on_the_way, piece)) = state.piece(file, number) else { return };
            let first = piece.gathered.trailing_zeros() as usize;
            if first == BLOCKS {
                return;
            }
            let run = first..first + (piece.gathered >> first).trailing_ones() as usize;
            run.clone().for_each(|block| piece.gathered &= !(1 << block));
            let run = &mut piece.blocks[run];
            let blocks = run
                .iter_mut()
                .filter_map(|block| if self.keeps { block.clone() } else { block.take() });
            let what = Cargo::Write(blocks.collect());
            let offset = piece.offset + (first * BLOCK) as u64;
            on_the_way.writing += 1;
            state.writing += 1;
            self.order(state, Order { file: file.to_vec(), number, offset, what });
        }
    }

    /// Orders reads of pieces, from `first` on, that are neither in memory nor on their way.
    fn read_ahead(&self, state: &mut State, file: &[u8], first: usize) {
        for number in first..=first + AHEAD {
            let Ok((_, piece)) = state.piece(file, number) else { return };
            if !piece.is_loading && piece.blocks.iter().any(Option::is_none) {
                piece.is_loading = true;
                let (file, offset) = (file.to_vec(), piece.offset);
                self.order(state, Order { file, number, offset, what: Cargo::Read });
            }
        }
    }

    /// Main loop of a thread that does transfers.
    fn move_all(&self) {
        let mut state = lock(&self.state);
        loop {
            let Some(Order { file, number, offset, what }) = state.orders.pop_front() else {
                state = self.ordered.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let moved = self.carry(offset, what);
            state = lock(&self.state);
            match moved {
                Ok(moved) => state.note(&file, number, moved),
                Err(_) => {
                    // A sleeper checks the device when it wakes.
                    state.files.values().for_each(|file| file.moved.notify_all());
                    self.freed.notify_all();
                }
            }
            if state.writing < ROOM {
                self.freed.notify_one();
            }
        }
    }

    fn carry(&self, offset: u64, what: Cargo) -> io::Result<Moved> {
        match what {
            Cargo::Write(blocks) => {
                self.device.write(offset, &blocks).map(|()| Moved::Written(blocks))
            }
            Cargo::Read => {
                let spare = lock(&self.spare).pop();
                let mut buffer = spare.unwrap_or_else(|| Buffer::unfilled(PIECE));
                self.device.read(offset, &mut buffer)?;
                let lent = Lent { buffer: Some(buffer), home: self.spare.clone() };
                Ok(Moved::Loaded(Bytes::from_owner(lent)))
            }
        }
    }
}

/// Memory that returns to the spares with the last reference.
struct Lent {
    buffer: Option<Buffer>,
    home: Spare,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        lock(&self.home).extend(self.buffer.take());
    }
}

/// Result of a transfer.
enum Moved {
    Written(Vec<Bytes>),
    Loaded(Bytes),
}

impl State {
    /// A piece of a file that has a place, and the file's pending writes.
    fn piece(&mut self, file: &[u8], number: usize) -> io::Result<(&mut OnTheWay, &mut Piece)> {
        let file = self.files.get_mut(file).ok_or(ErrorKind::NotFound)?;
        let piece = file.pieces.get_mut(number).and_then(Option::as_mut);
        Ok((&mut file.on_the_way, piece.ok_or(ErrorKind::NotFound)?))
    }

    /// Gives a piece of a file the next place on the medium, unless it has one.
    fn place(&mut self, file: &[u8], number: usize, size: u64) -> io::Result<()> {
        let offset = self.taken * PIECE as u64;
        let file = self.files.entry(file.to_vec()).or_default();
        if file.pieces.len() <= number {
            file.pieces.resize_with(number + 1, || None);
        }
        if file.pieces[number].is_some() {
            return Ok(());
        }
        if offset + PIECE as u64 > size {
            return Err(ErrorKind::StorageFull.into());
        }
        let blocks = Default::default();
        file.pieces[number] = Some(Piece { offset, blocks, gathered: 0, is_loading: false });
        self.taken += 1;
        Ok(())
    }

    fn moved(&self, file: &[u8]) -> io::Result<Arc<Condvar>> {
        self.files.get(file).map(|file| file.moved.clone()).ok_or(ErrorKind::NotFound.into())
    }

    /// Records a finished transfer of a piece.
    fn note(&mut self, file: &[u8], number: usize, moved: Moved) {
        let Ok((on_the_way, piece)) = self.piece(file, number) else { return };
        match moved {
            Moved::Loaded(bytes) => {
                piece.is_loading = false;
                for (index, block) in piece.blocks.iter_mut().enumerate() {
                    block.get_or_insert_with(|| bytes.slice(index * BLOCK..(index + 1) * BLOCK));
                }
            }
            Moved::Written(blocks) => {
                on_the_way.writing -= 1;
                on_the_way.spent.extend(blocks);
                self.writing -= 1;
            }
        }
        if let Ok(moved) = self.moved(file) {
            moved.notify_all();
        }
    }
}
