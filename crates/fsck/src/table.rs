//! The facts about every allocated inode: a dozen bytes each.

use vfs::FileKind;

/// An allocated inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Its type.
    pub(super) kind: FileKind,
    /// The link count in the inode.
    pub(super) links: u16,
    /// Number of names that were found, including "." and "..".
    pub(super) names: u32,
    /// The directory of the last name that was found; 0 for none. For a directory, the one that
    /// holds its name.
    pub(super) parent: u32,
}

/// All allocated inodes, by number. Memory is taken for each block of inodes that has a file.
pub(super) struct Table {
    per_block: u64,
    blocks: Vec<Option<Box<[Option<Slot>]>>>,
}

impl Table {
    /// A table of inodes below `count`, in blocks of `per_block`.
    pub(super) fn new(count: u64, per_block: u64) -> Self {
        let mut blocks = Vec::new();
        blocks.resize_with(count.div_ceil(per_block) as usize, || None);
        Self { per_block, blocks }
    }

    pub(super) fn insert(&mut self, ino: u64, kind: FileKind, links: u16) {
        let per_block = self.per_block;
        let block = self.blocks[(ino / per_block) as usize]
            .get_or_insert_with(|| vec![None; per_block as usize].into());
        block[(ino % per_block) as usize] = Some(Slot { kind, links, names: 0, parent: 0 });
    }

    pub(super) fn remove(&mut self, ino: u64) {
        if let Some(block) = &mut self.blocks[(ino / self.per_block) as usize] {
            block[(ino % self.per_block) as usize] = None;
        }
    }

    /// The file of this number, if there is one; any number is allowed.
    pub(super) fn get(&self, ino: u64) -> Option<&Slot> {
        let block = self.blocks.get((ino / self.per_block) as usize)?.as_ref()?;
        block[(ino % self.per_block) as usize].as_ref()
    }

    pub(super) fn get_mut(&mut self, ino: u64) -> Option<&mut Slot> {
        let block = self.blocks.get_mut((ino / self.per_block) as usize)?.as_mut()?;
        block[(ino % self.per_block) as usize].as_mut()
    }

    pub(super) fn kind(&self, ino: u64) -> Option<FileKind> {
        self.get(ino).map(|slot| slot.kind)
    }

    /// All files, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Slot)> {
        let per_block = self.per_block;
        self.blocks.iter().enumerate().flat_map(move |(index, block)| {
            let slots = block.iter().flat_map(|slots| slots.iter().enumerate());
            slots.filter_map(move |(offset, slot)| {
                Some((index as u64 * per_block + offset as u64, slot.as_ref()?))
            })
        })
    }

    /// The files with numbers in a range that begins and ends with whole blocks.
    pub(super) fn range(&self, range: std::ops::Range<u64>) -> impl Iterator<Item = (u64, &Slot)> {
        let per_block = self.per_block;
        (range.start / per_block..range.end / per_block).flat_map(move |index| {
            let block = self.blocks[index as usize].as_deref().unwrap_or_default();
            block.iter().enumerate().filter_map(move |(offset, slot)| {
                Some((index * per_block + offset as u64, slot.as_ref()?))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_in_order() {
        let mut table = Table::new(64, 16);
        for ino in [40, 3, 17] {
            table.insert(ino, FileKind::Regular, ino as u16);
        }
        assert_eq!(table.iter().map(|(ino, _)| ino).collect::<Vec<_>>(), [3, 17, 40]);
        assert_eq!(table.range(16..48).map(|(ino, _)| ino).collect::<Vec<_>>(), [17, 40]);
        table.remove(17);
        assert!(table.get(17).is_none() && table.get(1 << 40).is_none());
        assert_eq!(table.get(40).map(|slot| slot.links), Some(40));
    }
}
