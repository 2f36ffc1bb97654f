//! `losses`: lost places of a volume that scrubs have found, for use when no server runs any more.
//!
//! A scrub that completes, or a check of all data, has read everything: its list replaces the
//! previous one. A scrub that is interrupted adds to the list. The file is for people and for
//! `duramen fsck`: a cut may lose it, and the next scrub writes it again. A bare disk has no folder
//! and keeps no list.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use server::reactor::elsewhere;

use crate::calendar::show_time;
use crate::failure::Failure;
use crate::volume::replace;
use crate::words;

/// Name of the file in the folder of a volume.
pub(crate) const LOSSES_NAME: &str = "losses";
/// Name of the file while it is written.
pub(crate) const NEW_LOSSES_NAME: &str = ".losses.new";

/// A place with no good version left. The names are those of JSON objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loss {
    /// Path of the file with the loss, if a file has it.
    pub(crate) path: Option<String>,
    /// Other known paths of the file.
    #[serde(default)]
    pub(crate) other_paths: Vec<String>,
    /// Name of the snapshot with the loss, if the live files do not have it.
    pub(crate) snapshot: Option<String>,
    /// Offset in the file, in bytes; on the volume, if no file has the loss.
    pub(crate) offset: u64,
    /// Length in bytes, if it is known.
    pub(crate) length: Option<u64>,
    /// When a scrub found it, in seconds since 1970.
    pub(crate) found_at: i64,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, other_paths, snapshot, offset, length, found_at } = self;
        f.write_str(path.as_deref().unwrap_or("no file, on the volume"))?;
        if !other_paths.is_empty() {
            write!(f, " (also {})", other_paths.join(", "))?;
        }
        snapshot.as_ref().map_or(Ok(()), |name| write!(f, " in snapshot {name}"))?;
        match length {
            Some(length) => write!(f, ": {length} bytes at byte {offset}")?,
            None => write!(f, ": from byte {offset} on")?,
        }
        write!(f, ", found on {} UTC", show_time(*found_at))
    }
}

/// The known losses of an open volume, and the outcome of its scrubs: its health rests on them. A
/// scrub that begins, or that a user cancels, takes nothing back.
pub(crate) struct LossBook {
    folder: Option<PathBuf>,
    known: RefCell<Vec<Loss>>,
    failure: RefCell<Option<String>>,
}

/// Summary of a [`LossBook`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownLosses {
    /// Number of lost places.
    pub(crate) places: usize,
    /// Reason why the last scrub that was not cancelled failed, if it did.
    pub(crate) failure: Option<String>,
}

/// End of a scrub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScrubEnd {
    /// It has read everything.
    Completed,
    /// A user has ended it.
    Cancelled,
    /// It could not continue, for this reason.
    Failed(String),
}

impl LossBook {
    /// The book of a volume with this folder: it begins with the losses that are kept there.
    pub(crate) fn open(folder: Option<PathBuf>) -> Rc<Self> {
        let known = RefCell::new(folder.as_deref().map(read).unwrap_or_default());
        Rc::new(Self { folder, known, failure: RefCell::default() })
    }

    /// Its summary.
    pub(crate) fn known(&self) -> KnownLosses {
        let (places, failure) = (self.known.borrow().len(), self.failure.borrow().clone());
        KnownLosses { places, failure }
    }

    /// Number of lost bytes, as far as their number is known.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(&self.known.borrow())
    }

    /// Notes the end of a scrub with these findings, and saves what is lost.
    pub(crate) async fn note(&self, losses: Vec<Loss>, end: ScrubEnd) {
        let is_all = end == ScrubEnd::Completed;
        match end {
            ScrubEnd::Completed => drop(self.failure.take()),
            ScrubEnd::Cancelled => {}
            ScrubEnd::Failed(why) => drop(self.failure.replace(Some(why))),
        }
        let known = self.known.take();
        let known = if is_all { losses } else { with(known, losses) };
        self.known.replace(known.clone());
        let Some(folder) = self.folder.clone() else { return };
        elsewhere(move || write(&folder, &known)).await.unwrap_or_else(words::say);
    }
}

/// Number of lost bytes, as far as their number is known.
pub(crate) fn bytes_of(losses: &[Loss]) -> u64 {
    losses.iter().filter_map(|loss| loss.length).sum()
}

/// Reads the losses from the folder of a volume. An invalid file counts as empty.
pub(crate) fn read(folder: &Path) -> Vec<Loss> {
    let text = fs::read_to_string(folder.join(LOSSES_NAME)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Saves the losses that a scrub has found; `is_all` says that it completed. Without a folder
/// nothing is saved. A failure is reported and has no other effect.
pub(crate) async fn keep(folder: Option<PathBuf>, losses: Vec<Loss>, is_all: bool) {
    let Some(folder) = folder else { return };
    let kept = elsewhere(move || {
        if is_all { write(&folder, &losses) } else { write(&folder, &with(read(&folder), losses)) }
    });
    kept.await.unwrap_or_else(words::say);
}

/// Merges new losses into the known ones.
fn with(mut known: Vec<Loss>, new: Vec<Loss>) -> Vec<Loss> {
    let is_same = |one: &Loss, other: &Loss| {
        (&one.path, &one.snapshot, one.offset) == (&other.path, &other.snapshot, other.offset)
    };
    known.retain(|old| !new.iter().any(|new| is_same(old, new)));
    known.extend(new);
    known
}

/// Writes the list of all known losses.
///
/// # Errors
/// [`Failure::File`].
pub(crate) fn write(folder: &Path, losses: &[Loss]) -> Result<(), Failure> {
    if losses.is_empty() {
        return forget(folder);
    }
    let text = serde_json::to_string_pretty(losses).expect("all keys are names");
    replace(&folder.join(LOSSES_NAME), &folder.join(NEW_LOSSES_NAME), text.as_bytes())
}

/// Removes the list: no loss is known any more.
///
/// # Errors
/// [`Failure::File`].
pub(crate) fn forget(folder: &Path) -> Result<(), Failure> {
    let path = folder.join(LOSSES_NAME);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::File { verb: "remove", path, source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(path: &str, offset: u64) -> Loss {
        let (other_paths, length) = (Vec::new(), Some(4096));
        let path = Some(path.to_owned());
        Loss { path, other_paths, snapshot: None, offset, length, found_at: 7 }
    }

    #[test]
    fn health_rests_on_the_last_complete_scrub_and_on_later_findings() {
        let book = LossBook::open(None);
        let noted = |losses, end| {
            futures::executor::block_on(book.note(losses, end));
            let KnownLosses { places, failure } = book.known();
            (places, failure.is_some())
        };
        let failed = || ScrubEnd::Failed("no room".to_owned());
        assert_eq!(noted(vec![loss("/a", 0), loss("/b", 0)], ScrubEnd::Completed), (2, false));
        assert_eq!(noted(vec![], ScrubEnd::Cancelled), (2, false), "it was not everywhere");
        assert_eq!(noted(vec![loss("/a", 0), loss("/c", 0)], failed()), (3, true));
        assert_eq!(noted(vec![], ScrubEnd::Cancelled), (3, true), "nothing is known better");
        assert_eq!(book.bytes(), 3 * 4096);
        assert_eq!(noted(vec![loss("/a", 0)], ScrubEnd::Completed), (1, false));
        assert_eq!(noted(vec![], ScrubEnd::Completed), (0, false));
    }

    #[test]
    fn a_scrub_that_was_cut_short_adds_to_what_is_known() {
        let folder = std::env::temp_dir().join(format!("duramen-losses-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("there is room");
        let [a, b] = ["/a", "/b"].map(|path| loss(path, 0));
        write(&folder, std::slice::from_ref(&a)).expect("there is room");
        assert_eq!(read(&folder), std::slice::from_ref(&a));
        assert_eq!(with(read(&folder), vec![a.clone(), b.clone()]), [a.clone(), b]);
        assert_eq!(with(read(&folder), vec![]), [a], "it may not have come so far");
        write(&folder, &[]).expect("there is room");
        assert!(!folder.join(LOSSES_NAME).exists());
        fs::remove_dir(&folder).expect("it is empty");
    }
}
