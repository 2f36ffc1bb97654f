//! The section `[nvram]` of `volume.toml`: the NVRAM in front of a volume's set of disks.
//!
//! The labels of the set say whether there is one, and which. This section only holds its last
//! known path.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Contents of the section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvramSettings {
    /// File or device.
    pub path: PathBuf,
    /// File or device that says how its battery is: `ok` or `low`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<PathBuf>,
    /// Whether the log of policy `log` stays in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pin_log: bool,
}

impl NvramSettings {
    /// Those of a new NVRAM.
    pub const fn new(path: PathBuf, pin_log: bool) -> Self {
        Self { path, health: None, pin_log }
    }
}
