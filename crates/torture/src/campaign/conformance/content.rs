//! The bytes of a sparse file of any size.

use std::collections::BTreeMap;
use std::rc::Rc;

const PAGE: u64 = 4096;

/// A file's bytes. Ranges that were never written read as zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    size: u64,
    pages: BTreeMap<u64, Rc<[u8; PAGE as usize]>>,
}

impl Content {
    /// Length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of memory that it uses.
    pub(crate) fn weight(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Truncates at `size`, or adds a hole.
    pub(crate) fn resize(&mut self, size: u64) {
        if size < self.size {
            drop(self.pages.split_off(&size.div_ceil(PAGE)));
            if let Some(page) = self.pages.get_mut(&(size / PAGE)) {
                Rc::make_mut(page)[(size % PAGE) as usize..].fill(0);
            }
        }
        self.size = size;
    }

    /// Writes `data` at `offset`.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        self.size = self.size.max(offset + data.len() as u64);
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let start = (at % PAGE) as usize;
            let (now, later) = rest.split_at(rest.len().min(PAGE as usize - start));
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Rc::new([0; PAGE as usize]));
            Rc::make_mut(page)[start..start + now.len()].copy_from_slice(now);
            at += now.len() as u64;
            rest = later;
        }
    }

    /// At most `count` bytes from `offset`, fewer at the end of the file.
    pub(crate) fn read(&self, offset: u64, count: u64) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(count)).max(offset);
        let mut bytes = vec![0; (end - offset) as usize];
        for (&number, page) in self.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let from = (number * PAGE).max(offset);
            let to = ((number + 1) * PAGE).min(end);
            if from < to {
                let source = &page[(from - number * PAGE) as usize..(to - number * PAGE) as usize];
                bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_and_cut_ends_read_as_zeros() {
        let mut content = Content::default();
        content.write(1 << 40, b"far");
        assert_eq!(content.size(), (1 << 40) + 3);
        assert_eq!(content.read((1 << 40) - 2, 9), b"\0\0far");
        content.resize(10_000);
        content.write(4090, &[7; 20]);
        content.resize(4100);
        content.resize(5000);
        assert_eq!(content.read(4089, 13), [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0]);
        assert_eq!(content.read(4999, 9), [0]);
        assert_eq!(content.read(u64::MAX, 9), []);
        assert_eq!(content.weight(), 2 * PAGE);
    }
}
