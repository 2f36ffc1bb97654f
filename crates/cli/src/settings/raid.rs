//! The section `[raid]` of `volume.toml`: the underlying set of disks of a volume.
//!
//! The labels on the disks describe the set and the states of its members. This section only
//! identifies the set, and holds the last known paths of its members.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Serialize};

/// Size of a set's number, in bytes.
const ID: usize = 16;
/// Default time that a member may be late at a start, in seconds.
const SPARE_AFTER_S: u64 = 60;

/// Contents of the section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaidSettings {
    /// Number of the set.
    pub set: [u8; ID],
    /// Last known paths of its members. A path is a hint: the label of the disk counts.
    pub members: Vec<PathBuf>,
    /// Paths of the spares.
    pub spares: Vec<PathBuf>,
    /// Seconds that a missing member may be late at a start before a spare replaces it. `None` for
    /// the default.
    pub spare_after_s: Option<u64>,
    /// Blocks that a disk may fail to read within an hour before it counts as failing. `None` for
    /// the default.
    pub read_errors_per_hour: Option<usize>,
}

/// Keys of the section.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RaidKeys {
    set: String,
    members: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    spares: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spare_after_s: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read_errors_per_hour: Option<usize>,
}

impl RaidKeys {
    pub(crate) fn parse(self) -> Result<RaidSettings, toml::de::Error> {
        let set = id_of(&self.set).ok_or_else(|| {
            let told = self.set.escape_debug();
            let expected = "the number of a set has 32 hexadecimal digits";
            toml::de::Error::custom(format!("raid.set is \"{told}\": {expected}"))
        })?;
        let Self { members, spares, spare_after_s, read_errors_per_hour, .. } = self;
        Ok(RaidSettings { set, members, spares, spare_after_s, read_errors_per_hour })
    }
}

impl RaidSettings {
    /// Keys of these settings.
    pub(crate) fn keys(&self) -> RaidKeys {
        let RaidSettings { set, members, spares, spare_after_s, read_errors_per_hour } =
            self.clone();
        RaidKeys { set: text_of(&set), members, spares, spare_after_s, read_errors_per_hour }
    }

    /// Time that a missing member may be late at a start.
    pub fn spare_after(&self) -> Duration {
        Duration::from_secs(self.spare_after_s.unwrap_or(SPARE_AFTER_S))
    }
}

/// Hexadecimal digits of the number of a set or a member.
pub fn text_of(id: &[u8; ID]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses the number of a set or a member.
pub fn id_of(text: &str) -> Option<[u8; ID]> {
    let digits: Vec<u8> = text.bytes().collect();
    if digits.len() != 2 * ID || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut id = [0; ID];
    for (byte, pair) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}
