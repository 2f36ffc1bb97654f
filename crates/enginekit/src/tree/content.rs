//! Possible contents of a file after a cut.

use std::rc::Rc;

/// The unit at which a disk tears writes.
const SECTOR: usize = 512;

/// The possible contents of a file, the newest last. There is more than one while UNSTABLE data
/// waits, or while a write is in progress; then each sector may be from any of them.
#[derive(Clone)]
pub(crate) struct Content {
    versions: Vec<Rc<Vec<u8>>>,
    /// Whether some of it is UNSTABLE: then blocks land in any order, with holes between them.
    unstable: bool,
}

impl Content {
    pub(crate) fn empty() -> Self {
        Self { versions: vec![Rc::default()], unstable: false }
    }

    /// The contents that readers see.
    pub(crate) fn newest(&self) -> &Rc<Vec<u8>> {
        self.versions.last().expect("never without one")
    }

    /// Notes an UNSTABLE write: all older contents are still possible.
    pub(crate) fn write_unstable(&mut self, offset: usize, data: &[u8]) {
        self.unstable = true;
        self.versions.push(Rc::new(written(self.newest(), offset, data)));
    }

    /// Notes a stable write: its bytes are in all possible contents.
    pub(crate) fn write_stable(&mut self, offset: usize, data: &[u8]) {
        for version in &mut self.versions {
            *version = Rc::new(written(version, offset, data));
        }
    }

    /// The contents during a stable write. If the file has grown, all of the write is there.
    pub(crate) fn while_writing(&self, offset: usize, data: &[u8]) -> Self {
        let mut under_way = self.clone();
        let mut after = self.clone();
        after.write_stable(offset, data);
        if let [old] = &self.versions[..] {
            let mut new = after.newest().to_vec();
            new.truncate(old.len());
            after.versions = vec![Rc::new(new)];
        }
        under_way.versions.append(&mut after.versions);
        under_way
    }

    /// Notes a COMMIT.
    pub(crate) fn settle(&mut self) {
        self.unstable = false;
        self.versions.drain(..self.versions.len() - 1);
    }

    pub(crate) fn resize(&mut self, size: usize) {
        self.settle();
        let mut newest = self.newest().to_vec();
        newest.resize(size, 0);
        self.versions = vec![Rc::new(newest)];
    }

    /// Both together: for operations whose progress is unknown.
    pub(crate) fn join(&mut self, other: &Self) {
        self.unstable |= other.unstable;
        self.versions.extend(other.versions.iter().cloned());
    }

    /// Whether a cut may leave the contents `found`.
    pub(crate) fn allows(&self, found: &[u8]) -> bool {
        if let [only] = &self.versions[..] {
            return found == only.as_slice();
        }
        let lengths = self.versions.iter().map(|version| version.len());
        let (least, most) =
            (lengths.clone().min().unwrap_or(0), lengths.clone().max().unwrap_or(0));
        // UNSTABLE data lands by pieces of whole sectors: the file ends with one, or at a possible
        // length.
        let whole = self.unstable
            && found.len().is_multiple_of(SECTOR)
            && (least..=most).contains(&found.len());
        let long_enough = whole || lengths.clone().any(|length| length == found.len());
        long_enough
            && found.chunks(SECTOR).enumerate().all(|(index, sector)| {
                self.versions.iter().any(|version| self.shows(version, index * SECTOR, sector))
            })
    }

    /// Whether `version` has `sector` at `offset`; if holes are possible, with zeros behind its
    /// end.
    fn shows(&self, version: &[u8], offset: usize, sector: &[u8]) -> bool {
        let rest = version.get(offset..).unwrap_or_default();
        let (there, behind) = sector.split_at(sector.len().min(rest.len()));
        let hole = self.unstable && behind.iter().all(|&byte| byte == 0);
        *there == rest[..there.len()] && (hole || behind.is_empty())
    }
}

fn written(old: &[u8], offset: usize, data: &[u8]) -> Vec<u8> {
    let mut new = old.to_vec();
    new.resize(new.len().max(offset + data.len()), 0);
    new[offset..offset + data.len()].copy_from_slice(data);
    new
}
