//! Reasons why a server cannot start, or ended with an error.

use std::net::SocketAddr;
use std::path::PathBuf;

use dispatch::VolumesError;
use vfs::FsError;

use crate::config::ConfigError;
use crate::stuck::{STOP_TIMEOUT, StuckVolumes};

/// Reason why a server cannot start, or ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The volumes cannot be served together.
    #[error(transparent)]
    Volumes(#[from] VolumesError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error.
        source: std::io::Error,
    },
    /// The trace cannot be created.
    #[error("cannot write the trace {}: {}", path.display(), why_no_trace(source))]
    Trace {
        /// Path of the trace.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(std::io::Error),
    /// There is no thread for the control channel.
    #[error("cannot open the control channel: {0}")]
    Control(std::io::Error),
    /// A volume stopped before it was served.
    #[error("a volume has stopped: a write to its disk failed")]
    Stopped,
    /// A volume could not be left clean. Its next start repairs it.
    #[error("the volume {volume} could not be shut down cleanly: {source}")]
    Shutdown {
        /// Name of the volume.
        volume: String,
        /// The error.
        source: FsError,
    },
    /// Disks do not answer. Their volumes are not clean; their next start repairs them.
    #[error(
        "the stop was given up after {seconds} seconds in which no disk answered: {0}; whatever \
         was answered as durable is durable, and the next start recovers the rest",
        seconds = STOP_TIMEOUT.as_secs()
    )]
    Stuck(StuckVolumes),
    /// A second signal came before the end. Volumes are not clean; their next start repairs them.
    #[error("stopped at once by a second signal")]
    Interrupted,
}

impl ServeError {
    /// Whether the process should end at once, because its disks may never answer.
    pub fn ends_at_once(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Stuck(_))
    }
}

/// Why a trace cannot be created. It is always a new file: nothing is overwritten.
fn why_no_trace(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            "it is there already: move it away, or name a new file".to_owned()
        }
        _ => error.to_string(),
    }
}
