//! What `volume.toml` says: the settings of a volume that are not on its disk.
//!
//! The file is text that a person may have changed, so whatever it holds is either understood or
//! refused with the place and the reason. An unknown key is refused: it may be a typing error, or
//! mean something to a version that came later.
//!
//! A library of its own, though the program is all that uses it: so a fuzzer can reach it.
//! Architecture invariant: text into types and back; no files, no disks.

use serde::{Deserialize, Serialize};

/// How a volume makes its changes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// Write each change once to a log beside the disk, and in place later; after a crash the log
    /// is replayed
    #[default]
    Log,
    /// Write in place, in an order that a crash cannot hurt, with a flush between the ranks
    Sync,
}

/// What `volume.toml` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The policy.
    pub policy: PolicyName,
    /// Bytes that the log grows to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size: Option<u64>,
}

impl Settings {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// Where the text is wrong, and why.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The text of a file that says this.
    pub fn to_text(&self) -> String {
        toml::to_string(self).expect("settings are plain values")
    }
}
