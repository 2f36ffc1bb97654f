//! Volumes whose disks do not answer when a server stops.

use std::fmt;
use std::time::Duration;

/// Time without a completed call of any disk after which a stop gives up. One flush of much data
/// may take most of it; init systems often kill a process after 90 seconds.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A volume that a stop has given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckVolume {
    /// Its name.
    pub name: String,
    /// Calls that are still being executed; 0 if its shutdown has begun.
    pub calls: u64,
}

/// One clause: `volume data waits for 2 calls that its disk does not answer`.
impl fmt::Display for StuckVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, calls } = self;
        match calls {
            0 => write!(f, "volume {name} waits for its disk to take the last writes"),
            1 => write!(f, "volume {name} waits for 1 call that its disk does not answer"),
            _ => write!(f, "volume {name} waits for {calls} calls that its disk does not answer"),
        }
    }
}

/// The volumes that a stop has given up, as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckVolumes(pub Vec<StuckVolume>);

impl fmt::Display for StuckVolumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(StuckVolume::to_string).collect();
        f.write_str(&all.join(", and "))
    }
}
