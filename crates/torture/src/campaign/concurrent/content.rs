//! The bytes of a file as a client may find them: now, and after a cut.
//!
//! A file is a row of cells. The model knows the current value of each cell, and the values that
//! may be on the disk: after an UNSTABLE write the old or the new one, after a COMMIT the new one
//! alone. A cut leaves one of them; a client's READ shows which. The same holds for the length,
//! which UNSTABLE writes only grow.
//!
//! Invariants:
//! 1. The value of a cell is among its possible values.
//! 2. The number of cells is the largest of the possible lengths; the only one, once it is known.
//! 3. A cell below the least possible length may hold zeros only if a client wrote them, or if it
//!    was a hole: a length never covers missing data. One above it may, once another write has
//!    moved the end: then the end may be on the disk without the data.
//!
//! Not asserted: 3, which is about how a cell came to hold what it may.

use super::words::CELL;

/// One sector of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cell {
    /// Unknown after a cut.
    now: Option<u8>,
    /// Sorted.
    may: Vec<u8>,
}

impl Cell {
    fn sure(value: u8) -> Self {
        Self { now: Some(value), may: vec![value] }
    }

    fn may_also(&mut self, value: u8) {
        if let Err(place) = self.may.binary_search(&value) {
            self.may.insert(place, value);
        }
    }
}

/// The bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    cells: Vec<Cell>,
    /// Sorted.
    lengths: Vec<usize>,
    /// Several lengths are possible until a client sees one.
    is_open: bool,
}

impl Default for Content {
    fn default() -> Self {
        Self { cells: Vec::new(), lengths: vec![0], is_open: false }
    }
}

impl Content {
    /// Length in bytes, if it is known.
    pub fn size(&self) -> Option<u64> {
        (!self.is_open).then_some(self.cells.len() as u64 * CELL)
    }

    /// The possible contents, one for each possible length. A caller that looks at the content
    /// picks one.
    pub fn settled(&self) -> Vec<Self> {
        if !self.is_open {
            return vec![self.clone()];
        }
        let with_length = |&length: &usize| {
            let cells = self.cells[..length].to_vec();
            Self { cells, lengths: vec![length], is_open: false }
        };
        self.lengths.iter().map(with_length).collect()
    }

    /// A complete WRITE.
    pub fn write(&mut self, at: usize, count: usize, value: u8, stable: bool) {
        let (before, end) = (self.lengths.clone(), at + count);
        while self.cells.len() < at {
            self.cells.push(Cell::sure(0));
        }
        for index in at..end {
            match self.cells.get_mut(index) {
                None => self.cells.push(Cell::sure(value)),
                Some(cell) if stable => *cell = Cell::sure(value),
                Some(cell) => {
                    cell.now = Some(value);
                    cell.may_also(value);
                }
            }
        }
        let length = self.cells.len();
        if stable {
            self.lengths.retain(|&length| length >= end);
        }
        if self.lengths.last() != Some(&length) {
            self.lengths.push(length);
        }
        if self.lengths != before {
            self.end_moved(before[0], Some(at..end));
        }
        self.check();
    }

    fn check(&self) {
        let may = |cell: &Cell| cell.now.is_none_or(|now| cell.may.contains(&now));
        debug_assert!(self.cells.iter().all(may), "invariant 1: a cell holds what it may hold");
        let is_largest = self.lengths.is_sorted() && self.lengths.last() == Some(&self.cells.len());
        debug_assert!(is_largest, "invariant 2: the largest length is that of the cells");
    }

    /// Invariant 3: the data of earlier writes behind the least length may be missing.
    fn end_moved(&mut self, least: usize, but: Option<std::ops::Range<usize>>) {
        let cells = self.cells.iter_mut().enumerate().skip(least);
        for (index, cell) in cells {
            if !but.as_ref().is_some_and(|but| but.contains(&index)) {
                cell.may_also(0);
            }
        }
    }

    /// A WRITE that a cut has left with some old cells, some new ones, and the old length.
    pub fn cut_write(&mut self, at: usize, count: usize, value: u8) {
        let cells = self.cells.iter_mut().skip(at).take(count);
        cells.for_each(|cell| cell.may_also(value));
    }

    /// SETATTR of a size.
    pub fn resize(&mut self, length: usize) {
        let least = self.lengths[0];
        self.cells.truncate(length);
        self.end_moved(least, None);
        self.cells.resize(length, Cell::sure(0));
        self.lengths = vec![length];
        self.check();
    }

    /// COMMIT of the whole file.
    pub fn commit(&mut self) {
        for cell in &mut self.cells {
            if let Some(now) = cell.now {
                cell.may = vec![now];
            }
        }
        self.lengths = vec![self.cells.len()];
        self.check();
    }

    /// A power cut.
    pub fn crash(&mut self) {
        for cell in self.cells.iter_mut().filter(|cell| cell.may.len() > 1) {
            cell.now = None;
        }
        self.is_open = self.lengths.len() > 1;
    }

    /// Whether a READ of the whole file may return `data`. If so, the content is known from then
    /// on.
    pub fn reads(&mut self, data: &[u8]) -> bool {
        self.size() == Some(data.len() as u64)
            && self.cells.iter_mut().zip(data.chunks(CELL as usize)).all(|(cell, bytes)| {
                let value = bytes[0];
                let fits = match cell.now {
                    Some(now) => now == value,
                    None => cell.may.contains(&value),
                };
                if fits && cell.now.is_none() {
                    *cell = Cell::sure(value);
                }
                fits && bytes.iter().all(|&byte| byte == value)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All data that a READ may return.
    fn readable(content: &Content, values: u8) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        for settled in content.settled() {
            let length = settled.cells.len();
            for number in 0..(values as usize).pow(length as u32) {
                let digit = |place: usize| (number / (values as usize).pow(place as u32)) as u8;
                let cells: Vec<u8> = (0..length).map(|place| digit(place) % values).collect();
                let bytes: Vec<u8> = cells.iter().flat_map(|&v| [v; CELL as usize]).collect();
                if settled.clone().reads(&bytes) {
                    found.push(cells);
                }
            }
        }
        found
    }

    fn file(writes: &[(usize, usize, u8, bool)]) -> Content {
        let mut content = Content::default();
        writes
            .iter()
            .for_each(|&(at, count, value, stable)| content.write(at, count, value, stable));
        content
    }

    #[test]
    fn unstable_data_is_there_until_a_cut_and_may_be_lost_then() {
        let mut content = file(&[(0, 1, 1, true), (0, 2, 2, false)]);
        assert_eq!(readable(&content, 4), [[2, 2]]);
        content.crash();
        assert_eq!(readable(&content, 4), [vec![1], vec![2], vec![1, 2], vec![2, 2]]);
    }

    #[test]
    fn what_was_committed_stays() {
        let mut content = file(&[(0, 1, 1, true), (0, 2, 2, false)]);
        content.commit();
        content.crash();
        assert_eq!(readable(&content, 4), [[2, 2]]);
    }

    #[test]
    fn a_stable_end_says_nothing_of_unstable_data_before_it() {
        let mut content = file(&[(0, 1, 1, false), (1, 1, 2, true)]);
        content.crash();
        assert_eq!(readable(&content, 4), [[0, 2], [1, 2]]);
    }

    #[test]
    fn what_was_read_after_a_cut_is_so() {
        let mut content = file(&[(0, 1, 1, true), (0, 1, 2, false)]);
        content.crash();
        assert!(content.clone().reads(&[2; CELL as usize]));
        assert!(content.reads(&[1; CELL as usize]) && !content.reads(&[2; CELL as usize]));
        content.crash();
        assert!(content.reads(&[1; CELL as usize]));
    }

    #[test]
    fn a_size_that_was_set_is_stable() {
        let mut content = file(&[(0, 3, 1, false)]);
        content.resize(2);
        content.resize(3);
        content.crash();
        assert_eq!(content.size(), Some(3 * CELL));
        assert!(readable(&content, 2).iter().all(|cells| cells[2] == 0));
    }

    #[test]
    fn a_cut_write_leaves_old_and_new_cells() {
        let mut content = file(&[(0, 2, 1, true)]);
        content.cut_write(0, 3, 2);
        assert_eq!(readable(&content, 4), [[1, 1]]);
        content.crash();
        assert_eq!(readable(&content, 4).len(), 4);
    }
}
