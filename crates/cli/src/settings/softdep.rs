//! The section `[softdep]` of `volume.toml`: the delays of soft updates.
//!
//! Missing keys have the defaults of [`SoftUpdatesOptions`]. Each error names its key and the
//! expected value.

use std::time::Duration;

use designs::SoftUpdatesOptions;
use serde::de::Error;
use serde::{Deserialize, Serialize};
use server::config::ByteSize;
use toml::Value;

/// Minimum memory that a user may request, in bytes: a few Updates have to fit.
const LEAST_MEMORY: u64 = 1 << 20;
/// Comment for a settings file without the section.
pub(crate) const HINT: &str = "
# [softdep]                 # how long changes wait for company, by what they change:
# inode_age = \"10 s\"        # an inode or a map,
# directory_age = \"15 s\"    # a directory,
# file_age = \"30 s\"         # and anything else
# memory = \"64 MiB\"         # what undoes changes may take; without: a quarter of the cache
# reclaim_share = 0.1       # the disk's time that reclaiming may take from clients
";

/// Contents of the section.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SoftdepSettings {
    inode_age: Option<Duration>,
    directory_age: Option<Duration>,
    file_age: Option<Duration>,
    memory: Option<u64>,
    reclaim_share: Option<f64>,
}

/// Keys of the section. Values are checked by hand, so that an error names its key.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SoftdepKeys {
    #[serde(skip_serializing_if = "Option::is_none")]
    inode_age: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory_age: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_age: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reclaim_share: Option<Value>,
}

impl SoftdepKeys {
    pub(crate) fn parse(self) -> Result<SoftdepSettings, toml::de::Error> {
        Ok(SoftdepSettings {
            inode_age: checked("inode_age", self.inode_age, age, AGE)?,
            directory_age: checked("directory_age", self.directory_age, age, AGE)?,
            file_age: checked("file_age", self.file_age, age, AGE)?,
            memory: checked("memory", self.memory, memory, MEMORY)?,
            reclaim_share: checked("reclaim_share", self.reclaim_share, share, SHARE)?,
        })
    }
}

impl SoftdepSettings {
    /// Whether the section is empty.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Keys of these settings.
    pub(crate) fn keys(&self) -> SoftdepKeys {
        let text = |age: Duration| match age.as_millis() {
            ms if ms.is_multiple_of(1000) => Value::String(format!("{} s", ms / 1000)),
            ms => Value::String(format!("{ms} ms")),
        };
        SoftdepKeys {
            inode_age: self.inode_age.map(text),
            directory_age: self.directory_age.map(text),
            file_age: self.file_age.map(text),
            memory: self.memory.map(|bytes| Value::Integer(bytes.cast_signed())),
            reclaim_share: self.reclaim_share.map(Value::Float),
        }
    }

    /// Options for the engine.
    pub fn options(&self) -> SoftUpdatesOptions {
        let mut options = SoftUpdatesOptions::default();
        let ages = &mut options.ages;
        ages.inode = self.inode_age.unwrap_or(ages.inode);
        ages.directory = self.directory_age.unwrap_or(ages.directory);
        ages.file = self.file_age.unwrap_or(ages.file);
        options.memory = self.memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        options.reclaim_share = self.reclaim_share.unwrap_or(options.reclaim_share);
        options
    }
}

fn checked<T>(
    key: &str,
    value: Option<Value>,
    parse: fn(&Value) -> Option<T>,
    expected: &str,
) -> Result<Option<T>, toml::de::Error> {
    let Some(value) = value else { return Ok(None) };
    match parse(&value) {
        Some(parsed) => Ok(Some(parsed)),
        None => Err(Error::custom(format!("softdep.{key} is {value}; expected: {expected}"))),
    }
}

const AGE: &str = "a time longer than 0, such as \"10 s\", \"500 ms\" or \"2 min\", or a number \
                   of seconds";
const MEMORY: &str = "a number of bytes, or text such as \"64 MiB\", and 1 MiB at least";
const SHARE: &str = "a number over 0 and up to 1, such as 0.1";

/// Maximum age, in milliseconds: a year.
const LONGEST_MS: u64 = 366 * 24 * 3600 * 1000;

fn age(value: &Value) -> Option<Duration> {
    const UNITS: [(&str, u64); 3] = [("ms", 1), ("min", 60_000), ("s", 1000)];
    let ms = match value {
        Value::Integer(seconds) => u64::try_from(*seconds).ok()?.checked_mul(1000)?,
        Value::String(text) => {
            let (unit, ms) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
            let number = text.strip_suffix(unit)?.trim_end();
            let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
            number.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(ms)?
        }
        _ => return None,
    };
    (1..=LONGEST_MS).contains(&ms).then(|| Duration::from_millis(ms))
}

fn memory(value: &Value) -> Option<u64> {
    let ByteSize(bytes) = value.clone().try_into().ok()?;
    (LEAST_MEMORY..=i64::MAX as u64).contains(&bytes).then_some(bytes)
}

fn share(value: &Value) -> Option<f64> {
    let share = match value {
        Value::Float(share) => *share,
        Value::Integer(share) => *share as f64,
        _ => return None,
    };
    (share > 0.0 && share <= 1.0).then_some(share)
}
