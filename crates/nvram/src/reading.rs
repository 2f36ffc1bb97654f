//! Reads: what buffers hold over what the device below has.

use std::io::ErrorKind;
use std::ops::Range;

use block::{Buffer as Memory, IoError, IsRight, Verb};
use futures::future::join_all;

use crate::cache::Cache;
use crate::directory::{Buffer, Entry, EntryState};
use crate::format::{BLOCK, SECTOR};
use crate::writing::{places, sectors};

/// Entries that are held, so that nobody takes their buffers.
struct Reading<'a> {
    cache: &'a Cache,
    entries: Vec<(Buffer, Entry, EntryState)>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut directory = self.cache.directory.borrow_mut();
        self.entries.iter().for_each(|(buffer, ..)| directory.release(*buffer));
        if !self.entries.is_empty() {
            self.cache.step();
        }
    }
}

/// The bytes of a block that these sectors are, neighbours together.
pub(crate) fn runs(place: u64, mask: u8) -> impl Iterator<Item = Range<u64>> {
    let mut sector = 0;
    std::iter::from_fn(move || {
        while sector < 8 && mask >> sector & 1 == 0 {
            sector += 1;
        }
        let first = sector;
        while sector < 8 && mask >> sector & 1 == 1 {
            sector += 1;
        }
        let at = |sector: u64| place * BLOCK + sector * SECTOR;
        (first < sector).then(|| at(first)..at(sector))
    })
}

impl Cache {
    pub(crate) async fn read(
        &self,
        offset: u64,
        buffer: Memory,
        is_medium: bool,
    ) -> Result<Memory, IoError> {
        let _open = self.gate.shared().await;
        self.read_open(offset, buffer, is_medium).await
    }

    /// The same for one that holds the gate.
    async fn read_open(
        &self,
        offset: u64,
        buffer: Memory,
        is_medium: bool,
    ) -> Result<Memory, IoError> {
        let length = buffer.len() as u64;
        self.below.geometry().check(Verb::Read, offset, length)?;
        let range = offset..offset + length;
        let mut buffer = Some(buffer);
        loop {
            let room = buffer.take().unwrap_or_else(|| Memory::unfilled(length as usize));
            if let Some(read) = self.try_read(&range, room, is_medium).await? {
                return Ok(read);
            }
        }
    }

    /// Reads once. None if an entry that has rotted is not current any more: a newer one is.
    async fn try_read(
        &self,
        range: &Range<u64>,
        buffer: Memory,
        is_medium: bool,
    ) -> Result<Option<Memory>, IoError> {
        let reading = self.reading(range);
        if reading.entries.is_empty() {
            return self.read_below(range.start, buffer, is_medium).await.map(Some);
        }
        let lost = reading
            .entries
            .iter()
            .find(|(_, entry, _)| entry.lost & sectors(entry.place, range) != 0);
        if let Some((_, entry, _)) = lost {
            return Err(lost_error(entry.place));
        }
        let read = reading.entries.iter().map(|(at, entry, state)| async move {
            if entry.mask & sectors(entry.place, range) == 0 {
                return Ok(None);
            }
            match self.read_entry(*at, entry).await {
                // The device below has it.
                Err(_) if matches!(state, EntryState::Clean | EntryState::Lost) => Ok(None),
                read => read,
            }
        });
        let blocks = join_all(read).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        for ((at, entry, state), block) in reading.entries.iter().zip(&blocks) {
            let is_wanted = entry.mask & sectors(entry.place, range) != 0;
            if block.is_some()
                || !is_wanted
                || matches!(state, EntryState::Clean | EntryState::Lost)
            {
                continue;
            }
            let now = self.directory.borrow().current(entry.place);
            if now.is_none_or(|(buffer, it, now)| {
                (buffer, it.sequence, now) != (*at, entry.sequence, *state)
            }) {
                return Ok(None);
            }
            self.directory.borrow_mut().lose(*at, entry.sequence);
            return Err(lost_error(entry.place));
        }
        let mut buffer = self.read_gaps(&reading, &blocks, range, buffer, is_medium).await?;
        for ((_, entry, _), block) in reading.entries.iter().zip(&blocks) {
            let Some(block) = block else { continue };
            for run in runs(entry.place, entry.mask & sectors(entry.place, range)) {
                let from = (run.start % BLOCK) as usize..((run.end - 1) % BLOCK + 1) as usize;
                let to = (run.start - range.start) as usize..(run.end - range.start) as usize;
                buffer[to].copy_from_slice(&block[from]);
            }
        }
        Ok(Some(buffer))
    }

    /// The entries of these bytes, held.
    fn reading(&self, range: &Range<u64>) -> Reading<'_> {
        let mut directory = self.directory.borrow_mut();
        let mut entries = Vec::new();
        for place in places(range.start, range.end - range.start) {
            let Some((buffer, entry, state)) = directory.current(place) else { continue };
            directory.hold(buffer);
            entries.push((buffer, entry, state));
        }
        drop(directory);
        Reading { cache: self, entries }
    }

    /// Reads what no buffer holds, and nothing else: the device below may have lost the rest.
    async fn read_gaps(
        &self,
        reading: &Reading<'_>,
        blocks: &[Option<Memory>],
        range: &Range<u64>,
        mut buffer: Memory,
        is_medium: bool,
    ) -> Result<Memory, IoError> {
        let mut gaps: Vec<Range<u64>> = Vec::new();
        let mut add = |gap: Range<u64>| match gaps.last_mut() {
            Some(last) if last.end == gap.start => last.end = gap.end,
            _ => gaps.push(gap),
        };
        let mut held = reading.entries.iter().zip(blocks).peekable();
        for place in places(range.start, range.end - range.start) {
            let wanted = sectors(place, range);
            let found = held.next_if(|((_, entry, _), _)| entry.place == place);
            let covered = found.map_or(
                0,
                |((_, entry, _), block)| {
                    if block.is_some() { entry.mask } else { 0 }
                },
            );
            runs(place, wanted & !covered).for_each(&mut add);
        }
        if gaps.first().is_some_and(|gap| gap == range) {
            return self.read_below(range.start, buffer, is_medium).await;
        }
        for gap in gaps {
            let room = Memory::unfilled((gap.end - gap.start) as usize);
            let bytes = self.read_below(gap.start, room, is_medium).await?;
            let at = (gap.start - range.start) as usize;
            buffer[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(buffer)
    }

    async fn read_below(
        &self,
        offset: u64,
        buffer: Memory,
        is_medium: bool,
    ) -> Result<Memory, IoError> {
        if is_medium {
            self.below.read_medium(offset, buffer).await
        } else {
            self.below.read(offset, buffer).await
        }
    }

    /// Looks for a version that is right: with what buffers hold, and whatever the device below can
    /// make of the rest.
    pub(crate) async fn mend(
        &self,
        offset: u64,
        length: u64,
        is_right: IsRight,
    ) -> Result<Option<Memory>, IoError> {
        self.below.geometry().check(Verb::Read, offset, length)?;
        let _open = self.gate.shared().await;
        let _held = self.hold(places(offset, length)).await;
        if let Ok(read) = self.read_open(offset, Memory::unfilled(length as usize), true).await
            && is_right(&read)
        {
            return Ok(Some(read));
        }
        let is_held = !self.reading(&(offset..offset + length)).entries.is_empty();
        if is_held {
            // The device below has not the latest bytes, and cannot judge its versions.
            return Ok(None);
        }
        self.below.mend(offset, length, is_right).await
    }
}

fn lost_error(place: u64) -> IoError {
    IoError::new(Verb::Read, place * BLOCK, BLOCK, ErrorKind::InvalidData)
}
