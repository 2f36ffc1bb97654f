//! The role of a single disk in a set of disks, as its own label describes it, without the other
//! disks.

use std::fmt;

use block::BlockDevice;
use duramen_settings::text_of;
use raid::label::{Label, Standing};
use serde::Serialize;

/// The word for the state of a member.
pub(crate) fn word_for(standing: Standing) -> &'static str {
    match standing {
        Standing::InSync => "in_sync",
        Standing::Stale => "stale",
        Standing::Rebuilding => "rebuilding",
        Standing::Empty => "empty",
        Standing::CatchingUp => "catching_up",
        Standing::Offline => "offline",
    }
}

/// The role of a disk by its own label. The names are those of the JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Membership {
    /// The disk has the label of a member.
    Member {
        /// Number of the set.
        set: String,
        level: String,
        /// Number of slots in the set.
        slots: usize,
        slot: usize,
        /// State of the slot by this label, or `incoming` for a disk that is about to take it.
        state: String,
        generation: u64,
        /// Whether other data was written over a part of the label.
        is_overwritten: bool,
    },
    /// The disk is a spare that waits to become a member.
    Spare {
        /// Number of the set.
        set: String,
    },
}

impl Membership {
    fn of(label: &Label, is_overwritten: bool) -> Self {
        let Label { set, slot, layout, slots, generation, .. } = label;
        let state = if label.is_incoming { "incoming" } else { word_for(slots[*slot].standing) };
        Self::Member {
            set: text_of(set),
            level: layout.level.to_string(),
            slots: layout.members,
            slot: *slot,
            state: state.to_owned(),
            generation: *generation,
            is_overwritten,
        }
    }
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member { set, level, slots, slot, state, generation, is_overwritten } => {
                let over =
                    if *is_overwritten { "; a part of its label is written over" } else { "" };
                write!(
                    f,
                    "the member of slot {slot} of set {set} ({level} of {slots} disks): {state} in \
                     generation {generation}, by its own label{over}"
                )
            }
            Self::Spare { set } => write!(f, "a spare of set {set}"),
        }
    }
}

/// Reads the role of a disk. `None` if it belongs to no set, or cannot be read.
pub(crate) async fn membership_of(device: &dyn BlockDevice) -> Option<Membership> {
    if let Ok(raid::Read { label, is_overwritten, .. }) = raid::labels_of(device).await {
        return Some(Membership::of(&label, is_overwritten));
    }
    let set = raid::spare_of(device).await.ok().flatten()?;
    Some(Membership::Spare { set: text_of(&set) })
}

/// Sentence that explains why a single disk of a set is not used as a volume.
pub(crate) fn no_volume_alone(membership: &Membership) -> String {
    format!(
        "the disk is {membership}; name the folder whose volume.toml has this set, and see \
         'duramen raid status' of it"
    )
}
