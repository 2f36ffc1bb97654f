//! Contents of files, and the contents that a cut may leave.
//!
//! A file is a list of sectors of 512 bytes, each with its *versions*: its contents after each
//! WRITE since an answer covered all of it, the newest last. A READ before a cut shows the newest;
//! after it each sector may have any of its versions, for a sector goes to the disk as a whole, at
//! any time. An answer covers bytes: those of a stable WRITE, or the range of a COMMIT, and these
//! are then the same in all versions. The same holds for the length: it lies in one of a few
//! intervals, and an answer ends those below it.
//!
//! Bytes that were never written are zeros in every version, and so are those behind an
//! acknowledged end. Bytes behind the end are not compared: a file whose truncation is cut has its
//! old bytes or none, and never zeros under the old length.

use std::ops::Range;
use std::rc::Rc;

use super::story::{Act, FILES, Step, payload};

/// The atomic unit of a disk.
const SECTOR: usize = 512;

/// The bytes of a sector; none if all are zero.
type Sector = Option<Rc<[u8]>>;

/// The contents of all files; `None` for one that does not exist.
pub(super) type Seen = Vec<Option<Vec<u8>>>;

/// An event of the model.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// The calls of a step are made.
    Begins(Step),
    /// One of them was answered; `stable` says whether a WRITE's data is stable.
    Answered { step: usize, act: usize, stable: bool },
    /// Everything was read after a recovery.
    Saw(Rc<Seen>),
}

/// A file, with all its possible contents.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    /// Versions by sector. Sectors missing at the end were never written.
    sectors: Vec<Vec<Sector>>,
    /// The length may be in any of these intervals, both ends included.
    sizes: Vec<(u64, u64)>,
    /// The length that a client sees.
    size: u64,
    /// Ranges written since the length was set. A COMMIT of a hole says nothing about it: no client
    /// wrote there.
    written: Vec<(u64, u64)>,
}

#[derive(Clone, Debug)]
enum Slot {
    Absent,
    There(File),
    /// It is being made or removed.
    Maybe(File),
}

/// The data that a COMMIT will cover: sectors as they were when it was made, and the end of the
/// file.
#[derive(Clone, Debug)]
pub(crate) struct Covered {
    range: Range<u64>,
    sectors: Vec<(usize, Sector)>,
    /// The end of the last byte in the range that a client wrote.
    reach: u64,
}

/// The model: see the module.
#[derive(Clone, Debug)]
pub(super) struct Model {
    seed: u64,
    may_stop_between: bool,
    slots: Vec<Slot>,
    /// The step in progress.
    step: Option<Step>,
    covered: Vec<Option<Covered>>,
}

impl Model {
    /// No files.
    pub(super) fn new(seed: u64, may_stop_between: bool) -> Self {
        let slots = vec![Slot::Absent; FILES];
        Self { seed, may_stop_between, slots, step: None, covered: Vec::new() }
    }

    /// The seed of all written bytes.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether a file exists for certain.
    pub(super) fn has(&self, file: usize) -> bool {
        matches!(self.slots[file], Slot::There(_))
    }

    /// The result of a READ.
    pub(super) fn read(&self, file: usize, offset: u64, count: u32) -> Vec<u8> {
        match &self.slots[file] {
            Slot::There(file) => file.read(offset, u64::from(count)),
            _ => Vec::new(),
        }
    }

    /// The length of a file.
    pub(super) fn size(&self, file: usize) -> u64 {
        match &self.slots[file] {
            Slot::There(file) => file.size,
            _ => 0,
        }
    }

    /// Follows an event.
    pub(super) fn hear(&mut self, told: &Told) {
        match told {
            Told::Begins(step) => self.begin(step),
            Told::Answered { act, stable, .. } => self.answered(*act, *stable),
            Told::Saw(seen) => {
                let slot = |bytes: &Option<Vec<u8>>| match bytes {
                    Some(bytes) => Slot::There(File::holding(bytes)),
                    None => Slot::Absent,
                };
                self.slots = seen.iter().map(slot).collect();
            }
        }
    }

    fn begin(&mut self, step: &Step) {
        // A COMMIT covers the writes that were answered before it was made.
        let covered = |act: &Act| match *act {
            Act::Commit { file, offset, count } => self.slots[file].file()?.cover(offset, count),
            _ => None,
        };
        self.covered = step.acts.iter().map(covered).collect();
        for (index, act) in step.acts.iter().enumerate() {
            let Some(number) = act.file() else { continue };
            let slot = &mut self.slots[number];
            match (*act, &mut *slot) {
                (Act::Create(_), Slot::Absent) => {
                    *slot = Slot::Maybe(File::holding(&[]));
                }
                (Act::Remove(_), Slot::There(file)) => *slot = Slot::Maybe(std::mem::take(file)),
                (Act::Write { offset, length, fill, .. }, Slot::There(file)) => {
                    file.write(offset, &payload(self.seed, (step.number, index), fill, length));
                }
                (Act::Resize { size, .. }, Slot::There(file)) => {
                    let is_between = size < file.size && self.may_stop_between;
                    file.sizes.push((size, if is_between { file.size } else { size }));
                }
                _ => {}
            }
        }
        self.step = Some(step.clone());
    }

    fn answered(&mut self, index: usize, stable: bool) {
        let Some(step) = self.step.clone() else { return };
        let Some(number) = step.acts[index].file() else { return };
        let slot = &mut self.slots[number];
        match (step.acts[index], &mut *slot) {
            (Act::Create(_), Slot::Maybe(file)) => *slot = Slot::There(std::mem::take(file)),
            (Act::Remove(_), Slot::Maybe(_)) => *slot = Slot::Absent,
            (Act::Write { offset, length, fill, .. }, Slot::There(file)) if stable => {
                let bytes = payload(self.seed, (step.number, index), fill, length);
                file.make_sure(offset, &bytes);
            }
            (Act::Commit { .. }, Slot::There(file)) => {
                if let Some(covered) = self.covered[index].take() {
                    file.commit(&covered);
                }
            }
            (Act::Resize { size, .. }, Slot::There(file)) => file.resize(size),
            _ => {}
        }
    }

    /// Whether a recovery may show these contents.
    ///
    /// # Errors
    /// The first violation.
    pub(super) fn allows(&self, seen: &Seen) -> Result<(), String> {
        for (number, (slot, seen)) in self.slots.iter().zip(seen).enumerate() {
            match (slot, seen) {
                (Slot::Absent | Slot::Maybe(_), None) => {}
                (Slot::There(file) | Slot::Maybe(file), Some(bytes)) => {
                    file.allows(bytes).map_err(|reason| format!("file {number}: {reason}"))?;
                }
                (Slot::There(_), None) => return Err(format!("file {number} is missing")),
                (Slot::Absent, Some(_)) => return Err(format!("file {number} is there")),
            }
        }
        Ok(())
    }
}

impl Slot {
    fn file(&self) -> Option<&File> {
        match self {
            Self::There(file) => Some(file),
            _ => None,
        }
    }
}

impl File {
    /// A file with certain contents.
    pub(crate) fn holding(bytes: &[u8]) -> Self {
        let size = bytes.len() as u64;
        let sectors = bytes.chunks(SECTOR).map(|bytes| vec![sector(bytes)]).collect();
        Self { sectors, sizes: vec![(size, size)], size, written: Vec::new() }
    }

    /// Length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The result of a READ.
    pub(crate) fn read(&self, offset: u64, count: u64) -> Vec<u8> {
        let end = offset.saturating_add(count).min(self.size);
        let mut bytes = Vec::new();
        for (place, within) in parts(offset..end) {
            match self.newest(place) {
                Some(sector) => bytes.extend_from_slice(&sector[within]),
                None => bytes.resize(bytes.len() + within.len(), 0),
            }
        }
        bytes
    }

    fn newest(&self, place: usize) -> Sector {
        self.sectors.get(place).and_then(|versions| versions.last().cloned().flatten())
    }

    fn versions(&mut self, place: usize) -> &mut Vec<Sector> {
        if self.sectors.len() <= place {
            self.sectors.resize(place + 1, vec![None]);
        }
        &mut self.sectors[place]
    }

    /// A write in progress: the new bytes are possible from now on.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (place, within) in parts(offset..offset + bytes.len() as u64) {
            let (here, behind) = rest.split_at(within.len());
            rest = behind;
            let newest = self.newest(place);
            let versions = self.versions(place);
            versions.push(over(&newest, within, here));
            simplify(versions);
        }
        let end = offset + bytes.len() as u64;
        self.written.push((offset, end));
        if end > self.size {
            self.sizes.push((self.size, end));
            self.size = end;
        }
    }

    /// The new bytes are possible over every possible old content: there was a cut in between.
    pub(crate) fn write_over_any(&mut self, offset: u64, bytes: &[u8]) {
        let before = self.sectors.clone();
        self.write(offset, bytes);
        let mut rest = bytes;
        for (place, within) in parts(offset..offset + bytes.len() as u64) {
            let (here, behind) = rest.split_at(within.len());
            rest = behind;
            let none = vec![None];
            let older = before.get(place).unwrap_or(&none);
            let versions = self.versions(place);
            let newest = versions.pop().expect("it was written");
            versions.extend(older.iter().map(|one| over(one, within.clone(), here)));
            versions.push(newest);
            simplify(versions);
        }
    }

    /// An answered write: the bytes are certain from now on.
    pub(crate) fn make_sure(&mut self, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (place, within) in parts(offset..offset + bytes.len() as u64) {
            let (here, behind) = rest.split_at(within.len());
            rest = behind;
            let versions = self.versions(place);
            versions.iter_mut().for_each(|one| *one = over(one, within.clone(), here));
            simplify(versions);
        }
        self.reaches(offset + bytes.len() as u64);
    }

    /// The length is at least `end` from now on.
    fn reaches(&mut self, end: u64) {
        let sizes = self.sizes.iter().map(|&(low, high)| (low.max(end), high.max(end)));
        self.sizes = sizes.collect();
        self.sizes.sort_unstable();
        self.sizes.dedup();
    }

    /// The data that a COMMIT made now will cover.
    pub(crate) fn cover(&self, offset: u64, count: u32) -> Option<Covered> {
        let end = if count == 0 { u64::MAX } else { offset.saturating_add(u64::from(count)) };
        let range = offset..end.min(self.size);
        let sectors = parts(range.clone()).map(|(place, _)| (place, self.newest(place)));
        let within = |&(start, stop): &(u64, u64)| {
            (start < range.end && range.start < stop).then_some(stop.min(range.end))
        };
        let reach = self.written.iter().filter_map(within).max().unwrap_or(0);
        (!range.is_empty()).then(|| Covered { sectors: sectors.collect(), range, reach })
    }

    /// A COMMIT was answered.
    pub(crate) fn commit(&mut self, covered: &Covered) {
        for ((place, then), (_, within)) in covered.sectors.iter().zip(parts(covered.range.clone()))
        {
            let newest = self.newest(*place);
            let versions = self.versions(*place);
            let known = versions.iter().rposition(|one| one == then);
            let Some(known) = known else { continue };
            let bytes = then.as_deref().unwrap_or(&[0; SECTOR])[within.clone()].to_vec();
            versions[..known].iter_mut().for_each(|one| *one = over(one, within.clone(), &bytes));
            simplify(versions);
            debug_assert_eq!(versions.last(), Some(&newest));
        }
        self.reaches(covered.reach);
    }

    /// The length is `size` from now on.
    pub(crate) fn resize(&mut self, size: u64) {
        self.sectors.truncate((size as usize).div_ceil(SECTOR));
        let within = size as usize % SECTOR;
        if within > 0 && self.sectors.len() == (size as usize).div_ceil(SECTOR) {
            let versions = self.sectors.last_mut().expect("it has a sector");
            let zeros = vec![0; SECTOR - within];
            versions.iter_mut().for_each(|one| *one = over(one, within..SECTOR, &zeros));
            simplify(versions);
        }
        (self.sizes, self.size) = (vec![(size, size)], size);
        self.written.clear();
    }

    /// Whether a recovery may show these contents.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn allows(&self, bytes: &[u8]) -> Result<(), String> {
        let size = bytes.len() as u64;
        if !self.sizes.iter().any(|&(low, high)| (low..=high).contains(&size)) {
            return Err(format!("{size} bytes long, and not in {:?}", self.sizes));
        }
        let never = vec![None];
        for (place, seen) in bytes.chunks(SECTOR).enumerate() {
            let versions = self.sectors.get(place).unwrap_or(&never);
            let is_seen = |version: &Sector| match version {
                Some(version) => version[..seen.len()] == *seen,
                None => seen.iter().all(|&byte| byte == 0),
            };
            if !versions.iter().any(is_seen) {
                let newest = versions.last().cloned().flatten();
                let newest = newest.as_deref().unwrap_or(&[0; SECTOR]);
                let byte = (0..seen.len()).find(|&at| seen[at] != newest[at]).unwrap_or(0);
                return Err(format!(
                    "byte {} of {size} is {:#04x}, which is none of its {} versions (the newest \
                     has {:#04x})",
                    place * SECTOR + byte,
                    seen[byte],
                    versions.len(),
                    newest[byte]
                ));
            }
        }
        Ok(())
    }
}

fn sector(bytes: &[u8]) -> Sector {
    if bytes.iter().all(|&byte| byte == 0) {
        return None;
    }
    let mut sector = [0; SECTOR];
    sector[..bytes.len()].copy_from_slice(bytes);
    Some(Rc::from(sector))
}

/// A sector with a range of its bytes replaced.
fn over(old: &Sector, within: Range<usize>, bytes: &[u8]) -> Sector {
    let mut new = [0; SECTOR];
    if let Some(old) = old {
        new.copy_from_slice(old);
    }
    new[within].copy_from_slice(bytes);
    sector(&new)
}

/// Drops duplicate versions: the later one stays.
fn simplify(versions: &mut Vec<Sector>) {
    for index in (0..versions.len().saturating_sub(1)).rev() {
        if versions[index + 1..].contains(&versions[index]) {
            versions.remove(index);
        }
    }
}

/// The sectors of a range of bytes, with the part of each.
fn parts(range: Range<u64>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let sector = SECTOR as u64;
    let places =
        if range.is_empty() { 0..0 } else { range.start / sector..range.end.div_ceil(sector) };
    places.map(move |place| {
        let start = range.start.max(place * sector) - place * sector;
        let end = range.end.min((place + 1) * sector) - place * sector;
        (place as usize, start as usize..end as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> File {
        File::holding(bytes)
    }

    fn mixed(parts: &[(u8, usize)]) -> Vec<u8> {
        parts.iter().flat_map(|&(byte, count)| vec![byte; count]).collect()
    }

    #[test]
    fn a_write_that_was_cut_leaves_each_sector_old_or_new() {
        let mut file = file(&[1; 1024]);
        file.write(0, &[2; 1024]);
        assert!(file.allows(&mixed(&[(1, 512), (2, 512)])).is_ok());
        assert!(file.allows(&mixed(&[(1, 500), (2, 524)])).is_err(), "a torn sector");
        file.make_sure(0, &[2; 1024]);
        assert!(file.allows(&[1; 1024]).is_err());
        assert!(file.allows(&[2; 1024]).is_ok());
    }

    #[test]
    fn a_commit_covers_its_range_and_nothing_else() {
        let mut file = file(&[]);
        file.write(0, &[7; 2000]);
        let covered = file.cover(0, 600).expect("something");
        file.commit(&covered);
        assert!(file.allows(&[7; 500]).is_err(), "too short");
        assert!(file.allows(&[7; 600]).is_ok());
        assert!(file.allows(&mixed(&[(7, 1024), (0, 976)])).is_ok());
        assert!(file.allows(&mixed(&[(7, 600), (0, 1400)])).is_ok());
        assert!(file.allows(&mixed(&[(7, 512), (0, 1488)])).is_err(), "it was committed");
    }

    #[test]
    fn a_commit_of_a_hole_says_nothing_of_the_length() {
        let mut file = file(&[]);
        file.write(5000, &[7; 100]);
        let covered = file.cover(1000, 100).expect("something");
        file.commit(&covered);
        assert!(file.allows(&[]).is_ok());
        let covered = file.cover(1000, 4050).expect("something");
        file.commit(&covered);
        assert!(file.allows(&mixed(&[(0, 5000), (7, 49)])).is_err());
        assert!(file.allows(&mixed(&[(0, 5000), (7, 50)])).is_ok());
    }

    #[test]
    fn a_commit_covers_nothing_that_was_written_while_it_was_under_way() {
        let mut file = file(&[1; 512]);
        let covered = file.cover(0, 0).expect("something");
        file.write(0, &[2; 512]);
        file.commit(&covered);
        assert!(file.allows(&[1; 512]).is_ok() && file.allows(&[2; 512]).is_ok());
    }

    #[test]
    fn a_stable_write_says_nothing_of_unstable_bytes_beside_it() {
        let mut file = file(&[1; 512]);
        file.write(0, &[2; 100]);
        file.write(200, &[3; 100]);
        file.make_sure(200, &[3; 100]);
        let with = |byte| mixed(&[(byte, 100), (1, 100), (3, 100), (1, 212)]);
        assert!(file.allows(&with(1)).is_ok() && file.allows(&with(2)).is_ok());
        assert!(file.allows(&mixed(&[(2, 100), (1, 412)])).is_err());
    }

    #[test]
    fn zeros_do_not_come_before_the_shorter_length() {
        let mut model = Model::new(1, true);
        model.hear(&Told::Saw(Rc::new(vec![Some(vec![5; 3000]), None, None])));
        let step = Step { number: 0, acts: vec![Act::Resize { file: 0, size: 700 }] };
        model.hear(&Told::Begins(step));
        let allows =
            |model: &Model, bytes: Vec<u8>| model.allows(&vec![Some(bytes), None, None]).is_ok();
        assert!(allows(&model, vec![5; 3000]) && allows(&model, vec![5; 700]));
        assert!(!allows(&model, mixed(&[(5, 700), (0, 2300)])));
        model.hear(&Told::Answered { step: 0, act: 0, stable: false });
        assert!(!allows(&model, vec![5; 3000]) && allows(&model, vec![5; 700]));
        model.hear(&Told::Begins(Step {
            number: 1,
            acts: vec![Act::Resize { file: 0, size: 3000 }],
        }));
        assert!(allows(&model, mixed(&[(5, 700), (0, 2300)])), "and old bytes never come again");
        assert!(!allows(&model, vec![5; 3000]));
    }
}
