//! The allowed and the required state after some steps: a model of one file that is overwritten
//! repeatedly, one that is truncated in steps, new directories, and all answers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use vfs::{CallKey, CallOutcome, LoggedReply};

use super::super::model::{View, What};

/// The file that is overwritten repeatedly, sector by sector.
pub const WORK: &str = "work";
/// Its sectors.
pub const SECTORS: usize = 128;
/// The file that is truncated in steps,
pub const LONG: &str = "long";
/// its length before,
pub const BEFORE: u64 = 5 << 20;
/// and after.
pub const AFTER: u64 = 1_000;

/// An act of a way.
#[derive(Clone, Debug)]
pub enum Act {
    /// Makes a directory, by a call whose answer is kept.
    Make(String),
    /// Removes a directory.
    Remove(String),
    /// Fills these sectors of the file with a byte.
    Put(std::ops::Range<usize>, u8),
    /// Truncates the long file, by a call whose answer is kept.
    Shorten,
}

/// The progress of an act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// It was begun.
    pub begun: bool,
    /// It was acknowledged.
    pub acknowledged: bool,
}

/// The model: see the module.
#[derive(Clone, Default)]
pub struct Known {
    /// Files that no act changes.
    pub base: Rc<View>,
    /// The possible fill bytes of each sector.
    pub sectors: Vec<BTreeSet<u8>>,
    /// Directories, by their names.
    pub made: BTreeMap<String, Progress>,
    /// Directories that are removed.
    pub removed: BTreeMap<String, Progress>,
    /// The long file, if there is one.
    pub long: Option<Progress>,
    /// Whether the truncation's call must be remembered.
    pub long_is_told: bool,
    /// Answers from before.
    pub told: Rc<Vec<(Rc<CallKey>, CallOutcome)>>,
    /// Whether files without a name may be in `lost+found`: a repair was cut.
    pub reconnects: bool,
    /// Whether the volume always had a log, which keeps answers.
    pub remembers: bool,
}

/// The key of the call of an act.
pub fn key(name: &str) -> Rc<CallKey> {
    Rc::new(CallKey::new(name.as_bytes()).expect("names are short"))
}

/// The state that a reconnecting client finds.
pub struct Found {
    /// All names.
    pub view: View,
    /// The length of the long file.
    pub long: Option<u64>,
    /// All answers.
    pub remembered: Vec<LoggedReply>,
}

impl Known {
    /// The model after some of a way's acts.
    pub fn after(&self, acts: &[Act], marks: impl Iterator<Item = u64>) -> Self {
        let mut known = self.clone();
        for mark in marks {
            known.note(&acts[(mark / 2) as usize], mark % 2 == 1);
        }
        known
    }

    fn note(&mut self, act: &Act, acknowledged: bool) {
        let progress = Progress { begun: true, acknowledged };
        match act {
            Act::Make(name) => drop(self.made.insert(name.clone(), progress)),
            Act::Remove(name) => drop(self.removed.insert(name.clone(), progress)),
            Act::Shorten => self.long = Some(progress),
            Act::Put(sectors, byte) => {
                for sector in &mut self.sectors[sectors.clone()] {
                    if acknowledged {
                        sector.clear();
                    }
                    sector.insert(*byte);
                }
            }
        }
    }

    /// Whether the state is allowed.
    ///
    /// # Errors
    /// The violation.
    pub fn fits(&self, found: &Found) -> Result<(), String> {
        self.fits_names(&found.view)?;
        self.fits_work(&found.view)?;
        // There may be thousands.
        let answers: HashMap<&CallKey, &CallOutcome> = found
            .remembered
            .iter()
            .map(|one| (&*one.answered.key, &one.answered.outcome))
            .collect();
        self.fits_long(found.long, answers.get(&*key(LONG)).copied())?;
        if !self.remembers {
            return Ok(());
        }
        let lost = self.told.iter().filter(|(key, _)| !answers.contains_key(&**key)).count();
        if lost > 0 {
            return Err(format!("of {} answers {lost} are forgotten", self.told.len()));
        }
        for (key, done) in &*self.told {
            if answers[&**key] != done {
                return Err(format!(
                    "{key:?} is answered with {:?}, not {done:?}",
                    answers[&**key]
                ));
            }
        }
        for name in self.made.keys().filter(|name| !self.removed.contains_key(*name)) {
            let (there, told) = (found.view.contains_key(name), answers.contains_key(&*key(name)));
            if there != told {
                return Err(format!("{name} is there: {there}; its answer is: {told}"));
            }
        }
        Ok(())
    }

    fn fits_names(&self, view: &View) -> Result<(), String> {
        for (path, seen) in &*self.base {
            let Some(found) = view.get(path) else { return Err(format!("{path} is missing")) };
            if (found.mode, found.links) != (seen.mode, seen.links) {
                return Err(format!("{path} has another mode, or other links"));
            }
            if path != WORK && path != LONG && found.what != seen.what {
                return Err(format!("{path} holds something else"));
            }
        }
        let is_lost = |(name, how): &(&String, &Progress)| {
            how.acknowledged && !view.contains_key(*name) && !self.removed.contains_key(*name)
        };
        let is_back =
            |(name, how): &(&String, &Progress)| how.acknowledged && view.contains_key(*name);
        if let Some((name, _)) = self.removed.iter().find(is_back) {
            return Err(format!("{name} was removed, and is there"));
        }
        if let Some((name, _)) = self.made.iter().find(is_lost) {
            return Err(format!("{name} was made, and is missing"));
        }
        let is_found = |path: &String| self.reconnects && path.starts_with("lost+found");
        let known = |path: &String| {
            self.base.contains_key(path) || self.made.contains_key(path) || is_found(path)
        };
        match view.keys().find(|path| !known(path)) {
            Some(path) => Err(format!("{path} is there")),
            None => Ok(()),
        }
    }

    fn fits_work(&self, view: &View) -> Result<(), String> {
        let Some(What::Regular(bytes)) = view.get(WORK).map(|seen| &seen.what) else {
            return Err(format!("{WORK} is no file"));
        };
        if bytes.len() != SECTORS * 512 {
            return Err(format!("{WORK} has {} bytes", bytes.len()));
        }
        for (index, (sector, may)) in bytes.chunks(512).zip(&self.sectors).enumerate() {
            if let Some(byte) = sector.iter().find(|byte| !may.contains(byte)) {
                return Err(format!("{WORK} has {byte:#04x} in sector {index}, not {may:02x?}"));
            }
        }
        Ok(())
    }

    /// Checks the long file: its truncation takes effect as a whole, with the first step.
    fn fits_long(&self, size: Option<u64>, answer: Option<&CallOutcome>) -> Result<(), String> {
        let Some(Progress { begun, acknowledged }) = self.long else { return Ok(()) };
        let size = size.ok_or_else(|| format!("{LONG} is missing"))?;
        let told = answer.is_some() && self.remembers;
        match size {
            BEFORE if acknowledged || told => Err(format!("{LONG} is as long as before, told so")),
            BEFORE => Ok(()),
            AFTER if begun => Ok(()),
            _ => Err(format!("{LONG} has {size} bytes, and is told to be done: {told}")),
        }?;
        if !(acknowledged && self.remembers && self.long_is_told) {
            return Ok(());
        }
        let after = answer.and_then(|done| done.about[0].after);
        match after.map(|attributes| attributes.size) {
            Some(AFTER) => Ok(()),
            other => Err(format!("{LONG} became shorter, and the answer says {other:?}")),
        }
    }
}
