//! `set.state`: the state of the underlying set of disks, as the folder of a volume records it.
//!
//! A member of a mirror that is found alone cannot know whether the others have continued without
//! it. So the states of the members are also kept here, and made durable before anything is
//! acknowledged that one of them has missed ([`raid::Witnessed`]). The file is text, and replaced
//! as a whole.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duramen_settings::{id_of, text_of};
use raid::Witnessed;
use raid::assembly::Witness;
use raid::label::{Id, Slot, Standing};
use runtime::Clock;
use serde::{Deserialize, Serialize};
use server::reactor::elsewhere;

use crate::failure::Failure;
use crate::held_folder::HeldFolder;
use crate::membership::word_for;
use crate::words;

/// Name of the file in the folder of a volume on a set of disks.
pub(crate) const STATE_NAME: &str = "set.state";
/// Name of the file while it is written: a cut may leave such a file behind.
pub(crate) const NEW_STATE_NAME: &str = ".set.state.new";
/// Maximum size of the file, in bytes.
const PROBED: usize = 8 << 10;
/// Interval between attempts to write the file.
const AGAIN: Duration = Duration::from_secs(1);

/// Contents of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    set: String,
    generation: u64,
    slots: Vec<SlotKeys>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlotKeys {
    member: String,
    state: String,
    /// For a member that is not in sync: the last generation of the set in which it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_sync_at: Option<u64>,
}

fn to_text(set: &Id, witness: &Witness, last: &BTreeMap<Id, u64>) -> String {
    let keys = |slot: &Slot| {
        let last = last.get(&slot.member).copied();
        SlotKeys {
            member: text_of(&slot.member),
            state: word_for(slot.standing).to_owned(),
            in_sync_at: last.filter(|_| slot.standing != Standing::InSync),
        }
    };
    let slots = witness.slots.iter().map(keys).collect();
    let keys = Keys { set: text_of(set), generation: witness.generation, slots };
    toml::to_string(&keys).expect("its values are plain")
}

fn parse_keys(text: &str, set: &Id) -> Option<Keys> {
    let keys: Keys = toml::from_str(text).ok()?;
    (id_of(&keys.set)? == *set).then_some(keys)
}

fn parse(text: &str, set: &Id) -> Option<Witness> {
    let keys = parse_keys(text, set)?;
    let slot = |keys: SlotKeys| {
        let standing =
            Standing::ALL.into_iter().find(|standing| word_for(*standing) == keys.state)?;
        Some(Slot { member: id_of(&keys.member)?, standing })
    };
    let slots = keys.slots.into_iter().map(slot).collect::<Option<Vec<Slot>>>()?;
    Some(Witness { generation: keys.generation, slots })
}

/// Reads the state of a set from the folder of a volume, as [`read_held`] does.
///
/// # Errors
/// [`Failure`] if the file exists and cannot be read.
pub(crate) fn read(folder: &Path, set: &Id) -> Result<Option<Witness>, Failure> {
    read_held(&HeldFolder::open(folder)?, set)
}

/// Reads the state of a set. An invalid file, or one of another set, counts as missing: then half
/// of a mirror is not trusted.
///
/// # Errors
/// [`Failure`] if the file exists and cannot be read.
pub(crate) fn read_held(folder: &HeldFolder, set: &Id) -> Result<Option<Witness>, Failure> {
    match folder.read(STATE_NAME) {
        Ok(text) => Ok(text.and_then(|text| parse(&text, set))),
        Err(Failure::File { source, .. }) if source.kind() == ErrorKind::InvalidData => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The last generation in which each member was in sync, as far as it is known. A disk with an
/// earlier one is an old copy.
pub(crate) fn last_in_sync(folder: &HeldFolder, set: &Id) -> BTreeMap<Id, u64> {
    let text = folder.read(STATE_NAME).ok().flatten().unwrap_or_default();
    let Some(Keys { generation, slots, .. }) = parse_keys(&text, set) else {
        return BTreeMap::new();
    };
    let last = |slot: SlotKeys| {
        let is_in = slot.state == word_for(Standing::InSync);
        Some((id_of(&slot.member)?, if is_in { generation } else { slot.in_sync_at? }))
    };
    slots.into_iter().filter_map(last).collect()
}

/// Writes the state durably.
///
/// # Errors
/// [`Failure::File`].
pub(crate) fn write(folder: &HeldFolder, set: &Id, witness: &Witness) -> Result<(), Failure> {
    let text = to_text(set, witness, &last_in_sync(folder, set));
    folder.replace(STATE_NAME, NEW_STATE_NAME, text.as_bytes())
}

/// Checks that the state can be written: a start that waited for that later would seem to hang.
///
/// # Errors
/// [`Failure::File`].
pub(crate) fn probe(folder: &HeldFolder) -> Result<(), Failure> {
    folder.probe(NEW_STATE_NAME, PROBED)
}

/// Records the state while the set is open, on a thread of its own: the folder's disk may be slow.
/// If it cannot be written, nothing that a member has missed is acknowledged until it can.
pub(crate) fn keep(folder: Arc<HeldFolder>, set: Id, clock: Rc<dyn Clock>) -> Witnessed {
    // A thread that nobody waits for any more must not write over a later state.
    let written: Arc<Mutex<u64>> = Arc::default();
    Rc::new(move |witness| {
        let (folder, clock, written) = (folder.clone(), clock.clone(), written.clone());
        Box::pin(async move {
            let mut has_told = false;
            let attempt = || {
                let (folder, witness) = (folder.clone(), witness.clone());
                let written = written.clone();
                elsewhere(move || write_newer(&folder, &set, &witness, &written))
            };
            while let Err(failure) = attempt().await {
                if !std::mem::replace(&mut has_told, true) {
                    words::say(format_args!("{failure}; what is written waits until it can be"));
                }
                clock.sleep(AGAIN).await;
            }
        })
    })
}

/// Writes the state, unless one of a later generation is written already.
fn write_newer(
    folder: &HeldFolder,
    set: &Id,
    witness: &Witness,
    written: &Mutex<u64>,
) -> Result<(), Failure> {
    let mut written = written.lock().expect("a thread that panics ends the process");
    if witness.generation >= *written {
        write(folder, set, witness)?;
        *written = witness.generation;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_known_is_read_as_it_was_written() {
        let folder = std::env::temp_dir().join(format!("duramen-state-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let held = HeldFolder::open(&folder).expect("it is there");
        let set = [7; 16];
        assert_eq!(read(&folder, &set).expect("no file says nothing"), None);
        let slots = Standing::ALL.iter().zip(0_u8..).map(|(&standing, byte)| {
            let member = [byte; 16];
            Slot { member, standing }
        });
        let witness = Witness { generation: u64::from(u32::MAX), slots: slots.collect() };
        write(&held, &set, &witness).expect("there is room");
        assert_eq!(read(&folder, &set).expect("it is there"), Some(witness.clone()));
        assert_eq!(read(&folder, &[8; 16]).expect("it is there"), None, "it is of another set");
        // The first slot is in sync, and becomes stale.
        let later = [3, 4].map(|generation| {
            let mut slots = witness.slots.clone();
            slots[0].standing = Standing::Stale;
            Witness { generation: witness.generation + generation, slots }
        });
        later.iter().for_each(|it| write(&held, &set, it).expect("there is room"));
        assert_eq!(read(&folder, &set).expect("it is there"), Some(later[1].clone()));
        let last = last_in_sync(&held, &set);
        assert_eq!(last, BTreeMap::from([([0; 16], witness.generation)]));
        for wrong in ["", "generation = 3", "generation = 3\nslots = [{member = \"x\"}]", "\u{0}"] {
            fs::write(folder.join(STATE_NAME), wrong).expect("there is room");
            assert_eq!(read(&folder, &set).expect("it is there"), None, "{wrong}");
        }
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
