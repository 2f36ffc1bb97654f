//! The section `[nvram]` of `volume.toml`: the NVRAM in front of a volume's set of disks.
//!
//! The labels of the set say whether there is one, and which. This section only holds its last
//! known path, or two.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Contents of the section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvramSettings {
    /// File or device.
    pub path: PathBuf,
    /// That of a second one, if there are two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<PathBuf>,
    /// File or device that says how its battery is: `ok` or `low`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<PathBuf>,
    /// Whether the log of policy `log` stays in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pin_log: bool,
}

impl NvramSettings {
    /// Those of a new NVRAM, or of two; `None` if there is none.
    pub fn of(paths: impl IntoIterator<Item = PathBuf>, pin_log: bool) -> Option<Self> {
        let mut paths = paths.into_iter();
        let path = paths.next()?;
        Some(Self { path, second: paths.next(), health: None, pin_log })
    }

    /// All files or devices.
    pub fn paths(&self) -> Vec<PathBuf> {
        [&self.path].into_iter().chain(&self.second).cloned().collect()
    }
}
