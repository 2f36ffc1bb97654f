//! The section `[raid]` of `volume.toml`: the set of disks on which a volume stands.
//!
//! Labels on the disks say what the set is and how its members stand. Here is only which set is
//! meant, and where its members were seen last.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Serialize};

/// Bytes of a set's number.
const ID: usize = 16;
/// Seconds that a member may be late at a start, unless the section says otherwise.
const SPARE_AFTER_S: u64 = 60;

/// What the section says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaidSettings {
    /// The number of the set.
    pub set: [u8; ID],
    /// Where its members were last. A path is a hint: the label of what is there counts.
    pub members: Vec<PathBuf>,
    /// Where disks are that wait to become members.
    pub spares: Vec<PathBuf>,
    /// Seconds that a member which is missing at a start may be late, before a spare takes its
    /// place. `None` for the usual time.
    pub spare_after_s: Option<u64>,
    /// Blocks that a disk may fail to read within an hour before it counts as failing. `None` for
    /// the usual number.
    pub read_errors_per_hour: Option<usize>,
}

/// The keys of the section.
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
    /// The keys that say this.
    pub(crate) fn keys(&self) -> RaidKeys {
        let RaidSettings { set, members, spares, spare_after_s, read_errors_per_hour } =
            self.clone();
        RaidKeys { set: text_of(&set), members, spares, spare_after_s, read_errors_per_hour }
    }

    /// How long a member that is missing at a start may be late.
    pub fn spare_after(&self) -> Duration {
        Duration::from_secs(self.spare_after_s.unwrap_or(SPARE_AFTER_S))
    }
}

/// The digits of a number of a set or of a member.
pub fn text_of(id: &[u8; ID]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The number that has these digits.
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
