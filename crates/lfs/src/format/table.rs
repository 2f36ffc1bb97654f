//! A block of the table: a line for each of some rows.

use cow::{Place, Secret};

use super::alone::{opened, sealed};
use super::bits::Bits;
use super::codec::Writer;
use super::kind;

/// Bytes of a line.
const LINE: usize = 96;
/// Lines in a block.
pub const ROWS: usize = cow::BODY / LINE;

/// Whose blocks a row has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// The contents of files.
    #[default]
    Files,
    /// Metadata of files.
    Metadata,
    /// Lines and lists of snapshots, and replies: no snapshot holds them.
    Volume,
}

impl Owner {
    const ALL: [Self; 3] = [Self::Files, Self::Metadata, Self::Volume];
}

/// A row as the table has it. One whose `used` is empty is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The first of its units.
    pub place: u64,
    /// The checkpoint in which it was begun.
    pub born: u64,
    /// Whose blocks it has.
    pub owner: Owner,
    /// Indexes that have a unit there, in their order.
    pub present: Bits,
    /// Those of them that are in use.
    pub used: Bits,
}

fn place(block: u64) -> Place {
    Place { kind: kind::TABLE, owner: 0, level: 0, index: block }
}

/// Encodes a block of the table, as a checkpoint leaves it.
pub fn write(block: u64, lines: &[Line], number: u64, secret: &Secret) -> Vec<u8> {
    assert!(lines.len() <= ROWS, "a block has so many lines");
    let mut body = Writer::default();
    for line in lines {
        let from = body.0.len();
        body.u64(line.place);
        body.u64(line.born);
        body.u64(line.owner as u64);
        line.present.0.iter().chain(&line.used.0).for_each(|&word| body.u64(word));
        body.0.resize(from + LINE, 0);
    }
    sealed(body, place(block), number, secret)
}

/// Decodes it: the checkpoint that wrote it, and its lines.
pub fn read(bytes: &[u8], block: u64, secret: &Secret) -> Option<(u64, Vec<Line>)> {
    let (number, mut body) = opened(bytes, place(block), secret)?;
    let mut lines = Vec::with_capacity(ROWS);
    for _ in 0..ROWS {
        let (place, born, owner) = (body.u64()?, body.u64()?, body.u64()?);
        let owner = *Owner::ALL.get(usize::try_from(owner).ok()?)?;
        let mut bits = [Bits::default(); 2];
        for word in bits.iter_mut().flat_map(|bits| &mut bits.0) {
            *word = body.u64()?;
        }
        body.bytes(LINE - 88)?;
        let [present, used] = bits;
        lines.push(Line { place, born, owner, present, used });
    }
    Some((number, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let mut line = Line { place: 77, born: 5, owner: Owner::Volume, ..Line::default() };
        line.present.set(255);
        line.used.set(255);
        let lines = vec![line; ROWS];
        let block = write(3, &lines, 9, &[1; 16]);
        assert_eq!(read(&block, 3, &[1; 16]), Some((9, lines)));
        assert_eq!(read(&block, 4, &[1; 16]), None);
    }
}
