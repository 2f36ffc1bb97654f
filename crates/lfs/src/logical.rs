//! The device as files see it: an offset is the address of a block, wherever that is now.
//!
//! A request finds the places of its units when it is made, and no task waits in between: so it
//! never goes to a place that a block has left. A segment counts the reads that are under way, and
//! is not used again as long as there are any.
//!
//! Invariants:
//! 1. A segment from which a read is under way has the same bytes until it ends.
//!
//! Not asserted: 1, which `rows` asserts where a segment is used again.

use std::io::ErrorKind;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, IsRight, Verb, slices};
use bytes::Bytes;
use cow::layout::Disk;
use cow::{Pointer, UNIT};
use futures::FutureExt;
use futures::future::{join_all, ready};

use crate::rows::{Piece, Rows};

/// See the module's prose.
pub(crate) struct Logical {
    device: Rc<dyn BlockDevice>,
    rows: Rc<Rows>,
}

/// A read is under way as long as it exists.
struct Reading {
    rows: Rc<Rows>,
    piece: Piece,
}

impl Reading {
    fn begin(rows: &Rc<Rows>, piece: Piece) -> Self {
        rows.count_reader(piece, true);
        Self { rows: rows.clone(), piece }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.rows.count_reader(self.piece, false);
    }
}

const UNIT_BYTES: u64 = UNIT as u64;

impl Logical {
    pub(crate) fn new(device: Rc<dyn BlockDevice>, rows: Rc<Rows>) -> Self {
        Self { device, rows }
    }

    /// The places of whole units.
    fn pieces(&self, verb: Verb, offset: u64, length: u64) -> Result<Vec<Piece>, IoError> {
        let are_units = offset.is_multiple_of(UNIT_BYTES) && length.is_multiple_of(UNIT_BYTES);
        let pieces = if are_units {
            self.rows.pieces(offset / UNIT_BYTES, length / UNIT_BYTES)
        } else {
            None
        };
        pieces.ok_or_else(|| IoError::new(verb, offset, length, ErrorKind::InvalidInput))
    }

    fn read_piece(&self, piece: Piece, buffer: Buffer) -> Io<Buffer> {
        let reading = Reading::begin(&self.rows, piece);
        let read = self.device.read(piece.place * UNIT_BYTES, buffer);
        async move {
            let read = read.await;
            drop(reading);
            read
        }
        .boxed_local()
    }
}

impl BlockDevice for Logical {
    fn geometry(&self) -> Geometry {
        let geometry = self.device.geometry();
        let size = self.rows.shape.rows() << crate::format::INDEX_BITS;
        Geometry { size: size * UNIT_BYTES, stripe: None, platters: None, ..geometry }
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        let pieces = match self.pieces(Verb::Read, offset, buffer.len() as u64) {
            Err(error) => return ready(Err(error)).boxed_local(),
            Ok(pieces) => pieces,
        };
        if let [piece] = pieces[..] {
            return self.read_piece(piece, buffer);
        }
        let room = |piece: &Piece| Buffer::unfilled(piece.units as usize * UNIT);
        let reads: Vec<_> = pieces.iter().map(|one| self.read_piece(*one, room(one))).collect();
        let all = async move {
            let mut at = 0;
            for read in join_all(reads).await {
                let read = read?;
                buffer[at..at + read.len()].copy_from_slice(&read);
                at += read.len();
            }
            Ok(buffer)
        };
        all.boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let pieces = match self.pieces(Verb::Write, offset, block::length_of(&data)) {
            Err(error) => return ready(Err(error)).boxed_local(),
            Ok(pieces) => pieces,
        };
        let mut at = 0;
        let mut writes = Vec::with_capacity(pieces.len());
        for Piece { place, units } in pieces {
            let length = units as usize * UNIT;
            let part = slices(&data, at, length);
            writes.push(self.device.write(place * UNIT_BYTES, part, durability));
            at += length;
        }
        join_all(writes).map(|all| all.into_iter().collect()).boxed_local()
    }

    fn flush(&self) -> Io<()> {
        self.device.flush()
    }

    /// A free place has no address.
    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        ready(self.pieces(Verb::Discard, offset, length).map(drop)).boxed_local()
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        match self.pieces(Verb::Read, offset, length) {
            Err(error) => ready(Err(error)).boxed_local(),
            Ok(pieces) => match pieces[..] {
                [Piece { place, .. }] => self.device.mend(place * UNIT_BYTES, length, is_right),
                _ => ready(Ok(None)).boxed_local(),
            },
        }
    }

    fn close(&self) -> Io<()> {
        self.device.close()
    }
}

/// The addresses of blocks.
pub struct Names(pub(crate) Rc<Rows>);

impl Disk for Names {
    fn locate(&self, pointer: Pointer) -> Option<u64> {
        self.0.has(pointer.address.get()).then(|| pointer.offset())
    }
}

/// Blocks of metadata in memory.
pub(crate) type Nodes = cow::nodes::Nodes<Names>;
