//! A client's knowledge of file data that is not known to be durable.
//!
//! A file has *versions*: its contents after each UNSTABLE write since it was last known to be
//! durable. Where data may have been lost (an error, another write verifier, a power cut) the file
//! is *unsure*: each of its sectors has the value of one of the possible contents, its length is
//! between theirs, and a look at the file fixes both.
//!
//! The rules:
//! 1. Data written after a loss lies over the remaining data, and is there: its reply has the
//!    verifier from after the loss.
//! 2. Where a write *failed*, a READ may show data that the disk never makes durable, whatever is
//!    flushed, until the power is cut: versions stay.
//! 3. Data written since the last loss, and then committed, lies over all versions.

use super::super::conformance::content::Content;
use super::super::conformance::judge::Verdict;
use super::super::conformance::step::{Act, Changes, Step, payload};

const SECTOR: usize = 512;

/// The effect of a step on a file's data.
#[derive(Clone)]
pub(super) enum Change {
    /// Writes bytes at an offset.
    Write(u64, Vec<u8>),
    /// Truncates the file, or adds a hole.
    Resize(u64),
}

impl Change {
    /// The change of a step, if it changes data.
    pub(super) fn of(step: &Step) -> Option<Self> {
        match step.act {
            Act::Write(_, offset, length, ..) => {
                Some(Self::Write(offset, payload(step.number, length)))
            }
            Act::Setattr(_, Changes { size: Some(size), .. }, _) => Some(Self::Resize(size)),
            _ => None,
        }
    }

    fn apply(&self, contents: &mut [Content]) {
        for content in contents {
            match self {
                Self::Write(offset, data) => content.write(*offset, data),
                Self::Resize(size) => content.resize(*size),
            }
        }
    }
}

/// A file's data: see the module.
#[derive(Clone, Default)]
pub(super) struct Data {
    /// The contents to which each sector may revert, the oldest first.
    versions: Vec<Content>,
    /// The possible current contents, if the file is unsure; otherwise they are the reference's.
    now: Option<Vec<Content>>,
    /// Writes since the last COMMIT and the last loss, and whether they succeeded.
    pending: Vec<(Change, bool)>,
    /// A write has failed: rule 2.
    failed: bool,
}

impl Data {
    pub(super) fn is_unsure(&self) -> bool {
        self.now.is_some()
    }

    /// A write succeeded on a file that was `before`.
    pub(super) fn write(&mut self, before: Content, change: &Change, is_durable: bool) {
        if is_durable {
            // The write covers its range, whatever becomes of the rest.
            change.apply(&mut self.versions);
        } else {
            self.versions.extend(self.now.clone().unwrap_or_else(|| vec![before]));
        }
        change.apply(self.now.as_deref_mut().unwrap_or_default()); // rule 1
        self.pending.push((change.clone(), true));
    }

    /// All written data is durable, unless it was lost before. Returns whether the file is as in
    /// the reference, and stays so.
    pub(super) fn commit(&mut self) -> bool {
        for (change, is_sure) in std::mem::take(&mut self.pending) {
            let mut done = self.versions.clone();
            change.apply(&mut done);
            if is_sure {
                self.versions = done; // rule 3
            } else {
                self.versions.extend(done);
            }
        }
        !self.failed && !self.is_unsure()
    }

    /// The same, with a change of length since.
    pub(super) fn resize(&mut self, change: &Change) -> bool {
        let is_known = self.commit();
        change.apply(&mut self.versions);
        change.apply(self.now.as_deref_mut().unwrap_or_default());
        is_known
    }

    /// Data that was not durable may be lost: a write has failed, or the power was cut.
    pub(super) fn lose(&mut self, current: Content, failed: bool) {
        let now = self.now.take().unwrap_or_else(|| vec![current]);
        self.versions.extend(now);
        self.now = Some(self.versions.clone());
        self.pending.clear();
        self.failed |= failed;
    }

    /// A call failed: it may have been carried out, wholly or in part, and data may be lost.
    pub(super) fn fail(&mut self, current: Content, change: Option<Change>) {
        let before = self.now.take().unwrap_or_else(|| vec![current]);
        let mut done = before.clone();
        change.iter().for_each(|change| change.apply(&mut done));
        self.versions.extend(before.into_iter().chain(done));
        self.now = Some(self.versions.clone());
        self.failed = true;
        match change {
            Some(write @ Change::Write(..)) => self.pending.push((write, false)),
            Some(Change::Resize(_)) => self.pending.clear(),
            None => {}
        }
    }

    /// A look at the file fixes its contents.
    pub(super) fn look(&mut self, size: u64, bytes: &[u8]) -> Verdict {
        self.now.take().map_or(Ok(()), |now| check_mixture(size, bytes, &now))
    }
}

/// Each sector has the value of some version, and the length is between theirs.
fn check_mixture(size: u64, bytes: &[u8], versions: &[Content]) -> Verdict {
    let sizes = versions.iter().map(Content::size);
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    if !(least..=most).contains(&size) {
        return Err(format!("size {size}, expected {least} to {most}"));
    }
    let whole = |version: &Content| {
        let mut whole = version.read(0, bytes.len() as u64);
        whole.resize(bytes.len(), 0);
        whole
    };
    let versions: Vec<Vec<u8>> = versions.iter().map(whole).collect();
    for (index, sector) in bytes.chunks(SECTOR).enumerate() {
        let range = index * SECTOR..index * SECTOR + sector.len();
        if !versions.iter().any(|version| &version[range.clone()] == sector) {
            return Err(format!("sector {index} was never there"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends within a sector.
    const FIRST: (u64, usize) = (0, 1300);
    /// Begins within a sector of the first.
    const SECOND: (u64, usize) = (800, 1000);

    fn write((offset, length): (u64, usize), fill: u8) -> Change {
        Change::Write(offset, vec![fill; length])
    }

    fn content(changes: &[Change]) -> Content {
        let mut content = [Content::default()];
        changes.iter().for_each(|change| change.apply(&mut content));
        content[0].clone()
    }

    fn look(data: &Data, changes: &[Change]) -> bool {
        let content = content(changes);
        data.clone().look(content.size(), &content.read(0, content.size())).is_ok()
    }

    #[test]
    fn what_is_written_after_a_loss_is_there_and_what_is_before_may_be() {
        let [first, second] = [write(FIRST, 1), write(SECOND, 2)];
        let mut data = Data::default();
        data.write(content(&[]), &first, false);
        data.lose(content(std::slice::from_ref(&first)), true);
        data.write(content(std::slice::from_ref(&first)), &second, false);
        assert!(look(&data, &[first.clone(), second.clone()]));
        assert!(look(&data, std::slice::from_ref(&second)), "the first was lost");
        assert!(!look(&data, &[first]), "no other loss was told");
        assert!(!look(&data, &[]));
        assert!(!look(&data, &[write(SECOND, 3)]), "nobody wrote that");
    }

    #[test]
    fn what_was_lost_together_was_lost_from_the_end() {
        let [first, second] = [write(FIRST, 1), write(SECOND, 2)];
        let mut data = Data::default();
        data.write(content(&[]), &first, false);
        data.write(content(std::slice::from_ref(&first)), &second, false);
        data.lose(content(&[first.clone(), second.clone()]), true);
        assert!(look(&data, &[]));
        assert!(look(&data, std::slice::from_ref(&first)));
        assert!(look(&data, &[first, second.clone()]));
        assert!(!look(&data, &[second]), "a sector of the second without the first");
    }

    #[test]
    fn what_was_committed_after_a_loss_stays_and_what_was_lost_may_come_and_go() {
        let [first, second] = [write(FIRST, 1), write(SECOND, 2)];
        let mut data = Data::default();
        data.write(content(&[]), &first, false);
        data.lose(content(std::slice::from_ref(&first)), true);
        let seen = content(&[]);
        assert_eq!(data.look(seen.size(), &[]), Ok(()));
        data.write(seen, &second, false);
        assert!(!data.commit(), "of the first nobody knows");
        data.lose(content(std::slice::from_ref(&second)), false);
        assert!(look(&data, std::slice::from_ref(&second)));
        assert!(look(&data, &[first.clone(), second]), "the first, when the power has gone");
        assert!(!look(&data, &[first]), "the second is durable");
        assert!(!look(&data, &[]));
    }

    #[test]
    fn what_was_committed_without_a_loss_is_known() {
        let first = write(FIRST, 1);
        let mut data = Data::default();
        data.write(content(&[]), &first, false);
        assert!(data.commit());
    }

    #[test]
    fn a_write_that_failed_may_be_there_under_what_was_committed() {
        let [first, second] = [write(FIRST, 1), write(SECOND, 2)];
        let mut data = Data::default();
        data.write(content(&[]), &first, false);
        data.fail(content(std::slice::from_ref(&first)), Some(second.clone()));
        assert!(look(&data, &[]), "it may be that all was lost");
        let seen = content(std::slice::from_ref(&first));
        assert_eq!(data.look(seen.size(), &seen.read(0, seen.size())), Ok(()));
        assert!(!data.commit());
        data.lose(seen, false);
        assert!(look(&data, std::slice::from_ref(&first)));
        assert!(look(&data, &[first, second.clone()]));
        assert!(!look(&data, &[]), "the first is durable");
        assert!(!look(&data, &[second]));
    }
}
