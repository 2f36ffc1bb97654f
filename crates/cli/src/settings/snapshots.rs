//! The section `[snapshots]` of `volume.toml`: the snapshots that a server creates by itself, and
//! how many of them it keeps.

use serde::de::Error;
use serde::{Deserialize, Serialize};
use toml::Value;

/// Comment for a settings file without the section.
pub(crate) const HINT: &str = "
# [snapshots]   # what the server makes by itself, and how many of each kind it keeps:
# hourly = 24   # one when an hour begins,
# daily = 30    # and one when a day does
";

/// Maximum number of snapshots kept of a kind.
const MOST: u32 = 10_000;

/// Contents of the section. Kinds that it does not name are not created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotsSettings {
    /// Number of hourly snapshots to keep.
    pub hourly: Option<u32>,
    /// Number of daily snapshots to keep.
    pub daily: Option<u32>,
}

/// Keys of the section. Values are checked by hand, so that an error names its key.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SnapshotsKeys {
    #[serde(skip_serializing_if = "Option::is_none")]
    hourly: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    daily: Option<Value>,
}

impl SnapshotsKeys {
    pub(crate) fn parse(self) -> Result<SnapshotsSettings, toml::de::Error> {
        let (hourly, daily) = (number("hourly", self.hourly)?, number("daily", self.daily)?);
        Ok(SnapshotsSettings { hourly, daily })
    }
}

impl SnapshotsSettings {
    /// Whether no snapshots are to be created.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Keys of these settings.
    pub(crate) fn keys(&self) -> SnapshotsKeys {
        let value = |number: u32| Value::Integer(number.into());
        SnapshotsKeys { hourly: self.hourly.map(value), daily: self.daily.map(value) }
    }
}

fn number(key: &str, value: Option<Value>) -> Result<Option<u32>, toml::de::Error> {
    let Some(value) = value else { return Ok(None) };
    let parsed = value.as_integer().and_then(|number| u32::try_from(number).ok());
    match parsed.filter(|number| (1..=MOST).contains(number)) {
        Some(number) => Ok(Some(number)),
        None => Err(Error::custom(format!(
            "snapshots.{key} is {value}; expected: a number from 1 to {MOST}"
        ))),
    }
}
