//! Failures of commands: sentences that say what is wrong, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use designs::LookError;
use raid::assembly::Refused;

use crate::partitions::Partition;
use crate::words::quoted;

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments do not fit each other or the volume they name.
    #[error("{0}")]
    Usage(String),
    /// The path names no volume.
    #[error("{} is no volume: {why}", path.display())]
    NotAVolume {
        /// The path.
        path: PathBuf,
        /// The missing part, and how to provide it.
        why: String,
    },
    /// A new file system would destroy existing data.
    #[error(
        "{} holds {what}, which would be destroyed; if that is meant, say --force",
        path.display()
    )]
    Occupied {
        /// Path of the disk.
        path: PathBuf,
        /// The existing data.
        what: String,
    },
    /// The path of a log names something else.
    #[error(
        "{} holds {what}, and is no log: name another file or device",
        path.display()
    )]
    NotALog {
        /// The path.
        path: PathBuf,
        /// The data found there.
        what: &'static str,
    },
    /// The disk cannot be opened or created.
    #[error(transparent)]
    Open(#[from] block::file::OpenError),
    /// The set of disks cannot be opened or created.
    #[error("{}: {source}{}{}", path.display(), name_disks(disks), set_advice(source, path, disks))]
    Set {
        /// Path of the volume.
        path: PathBuf,
        /// The reason. It names disks by their index in `disks`.
        source: raid::OpenError,
        /// Disks that were found.
        disks: Vec<PathBuf>,
    },
    /// The NVRAM in front of a set of disks cannot be used, or not without a loss.
    #[error(
        "{}: its NVRAM{}: {source}{}",
        path.display(),
        shown_nvrams(nvrams),
        nvram_advice(source, path, nvrams)
    )]
    Nvram {
        /// Path of the volume.
        path: PathBuf,
        /// Paths of the NVRAM, or of two, as far as the settings have them.
        nvrams: Vec<PathBuf>,
        /// The reason.
        source: nvram::OpenError,
    },
    /// A set of disks is unhealthy, as standard output has already said.
    #[error("the set is not well")]
    Unwell {
        /// Exit code of the process.
        code: u8,
    },
    /// The state of a set of disks cannot be determined.
    #[error(transparent)]
    UnknownSet(Box<Failure>),
    /// Members of a set have lost data that no redundancy restores.
    #[error("{}: {bytes} bytes are lost: more members than one are wrong there", path.display())]
    Lost {
        /// Path of the volume.
        path: PathBuf,
        /// Bytes lost.
        bytes: u64,
    },
    /// A member of a set was filled, except for blocks that no disk gave.
    #[error("{}: the member of slot {slot} is in, but {what}", path.display())]
    Incomplete {
        /// Path of the volume.
        path: PathBuf,
        /// The slot.
        slot: usize,
        /// The blocks that it lacks.
        what: String,
    },
    /// Part of the image to be written is on no disk of the set.
    #[error("{}: {bytes} bytes are lost, and are zeros in the image", path.display())]
    NotInImage {
        /// Path of the volume.
        path: PathBuf,
        /// Bytes missing.
        bytes: u64,
    },
    /// A log could not provide all of its contents, so an image lacks them.
    #[error("{}: the image lacks what could not be read of a log", path.display())]
    ShortImage {
        /// Path of the volume.
        path: PathBuf,
    },
    /// Blocks do not match their checksums, and no other version of them does.
    #[error("{}: {places} places are lost: bring their files back from a backup", path.display())]
    Rotten {
        /// Path of the volume.
        path: PathBuf,
        /// Number of places.
        places: usize,
    },
    /// The command was ended before it was complete.
    #[error("{}: {what} was ended; nothing that was right has changed", path.display())]
    Ended {
        /// Path of the volume.
        path: PathBuf,
        /// The work that was ended.
        what: &'static str,
    },
    /// The volume cannot carry out the request in its present state.
    #[error("{}: {why}", path.display())]
    NotDone {
        /// Path of the volume.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The disk failed.
    #[error("{}: {source}", path.display())]
    Device {
        /// Path of the disk.
        path: PathBuf,
        /// The error.
        source: block::IoError,
    },
    /// The log cannot be read, or the file is no log.
    #[error("{}: {source}", path.display())]
    Log {
        /// Path of the log.
        path: PathBuf,
        /// The reason.
        source: journal::JournalError,
    },
    /// The caller withdrew the request to make a set.
    #[error("interrupted: no volume was made, and {0}")]
    Interrupted(&'static str),
    /// The disk holds no file system that we can use.
    #[error(
        "{}: {source}{}",
        path.display(),
        superblock_advice(source, *other, partition.as_deref())
    )]
    Superblock {
        /// Path of the disk.
        path: PathBuf,
        /// The reason.
        source: LookError,
        /// The engine of the volume on the disk, if it belongs to another engine.
        other: Option<&'static str>,
        /// Contents of a partition of the disk.
        partition: Option<Box<Partition>>,
    },
    /// A file system could not be created.
    #[error("cannot make a file system on {}: {source}", path.display())]
    Mkfs {
        /// Path of the disk.
        path: PathBuf,
        /// The reason.
        source: designs::MkfsError,
    },
    /// `volume.toml` is invalid.
    #[error("cannot use {}: {why}{advice}", path.display())]
    Settings {
        /// Path of the file.
        path: PathBuf,
        /// The reason, with the line.
        why: String,
        /// How to write it anew, if its disk exists.
        advice: String,
    },
    /// A file or folder of the volume cannot be used.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// The operation that failed.
        verb: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The volume cannot be opened.
    #[error("{}: {}", path.display(), spell_out(source, words))]
    Engine {
        /// Path of the volume.
        path: PathBuf,
        /// Command-line words that name the volume.
        words: String,
        /// The reason, and advice.
        source: Box<designs::OpenError>,
    },
    /// The server of a volume gave no answer to the request.
    #[error("the server that listens on {} does not tell: {why}", path.display())]
    Control {
        /// Path of the socket.
        path: PathBuf,
        /// The answer of the server instead.
        why: String,
    },
    /// The server of a volume was running and has ended.
    #[error("{}: the server has ended", path.display())]
    ServerEnded {
        /// Path of the volume.
        path: PathBuf,
    },
    /// The control channel cannot be claimed.
    #[error(transparent)]
    Claim(#[from] server::control::ClaimError),
    /// Records that a volume needs were saved beside its log.
    #[error(
        "{}: the volume was not stopped cleanly, and what it did last is saved in {}: \
         'duramen serve {words}' brings it back",
        path.display(),
        saved.display()
    )]
    Saved {
        /// Path of the volume.
        path: PathBuf,
        /// Path of the saved records.
        saved: PathBuf,
        /// Command-line words that name the volume together with that log.
        words: String,
    },
    /// A path in a volume cannot be used.
    #[error("{path}: {source}")]
    InVolume {
        /// The path, as it was given.
        path: String,
        /// The file system's reason.
        source: vfs::FsError,
    },
    /// The server cannot start, or ended with an error.
    #[error(transparent)]
    Serve(#[from] server::ServeError),
    /// A server could not be measured.
    #[error(transparent)]
    Unmeasured(#[from] Box<bench::session::BenchError>),
    /// A measurement had errors. The report lists them.
    #[error("{errors} calls failed, and {troubles} things could not be done: see above")]
    Bench {
        /// Number of failed calls.
        errors: u64,
        /// Number of other problems.
        troubles: usize,
    },
    /// The file is no valid trace.
    #[error("{}: {source}", path.display())]
    Trace {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        source: trace::BadTrace,
    },
    /// A chart could not be written.
    #[error(transparent)]
    Plot(#[from] bench::report::PlotError),
    /// The operating system provided no event queue.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// Completes the commands in a sentence of the engine, which knows the command that helps but not
/// its arguments.
pub(crate) fn spell_out(sentence: impl ToString, words: &str) -> String {
    const COMMAND: &str = "'duramen fsck";
    let sentence = sentence.to_string();
    let mut parts = sentence.split(COMMAND);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (options, rest) = part.split_once('\'').unwrap_or((part, ""));
        whole.push_str(&format!("{COMMAND}{options} {words}'{rest}"));
    }
    whole
}

/// Paths of NVRAMs, each behind a space.
pub(crate) fn shown_nvrams(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| format!(" {}", path.display())).collect();
    shown.join(" and")
}

/// Ways to go on when an NVRAM is needed and cannot be used.
fn nvram_advice(source: &nvram::OpenError, volume: &Path, paths: &[PathBuf]) -> String {
    use nvram::OpenError::{Device, Label, Unpaired};
    if !matches!(source, Unpaired(_) | Label(_) | Device(_)) {
        return String::new();
    }
    let bring = match paths {
        [] => "name it in volume.toml: [nvram] path = \"...\"",
        [..] => "bring the right one back",
    };
    format!(
        "; {bring}, or give up what it alone has: 'duramen fsck --repair --without-nvram {}'",
        quoted(volume)
    )
}

/// Advice on a set that cannot be opened.
fn set_advice(error: &raid::OpenError, volume: &Path, disks: &[PathBuf]) -> String {
    let advice = match error {
        raid::OpenError::Refused(Refused::Apart(one, other, _)) => {
            let keep = |kept: usize, lost: usize| {
                let (kept, lost) = (&disks[kept], &disks[lost]);
                let (shown, lost) = (kept.display(), quoted(lost));
                format!(
                    "to keep what {shown} has, and lose what the other one has alone, say 'duramen \
                     mkfs --bare --force {lost}', and then 'duramen serve --degraded'"
                )
            };
            return format!("; {}; {}", keep(*one, *other), keep(*other, *one));
        }
        raid::OpenError::Refused(Refused::MaybeOld(_)) => {
            "; if what is missing is gone for good, 'duramen serve --degraded' goes on without it"
        }
        raid::OpenError::Refused(Refused::AllOld { .. }) => {
            "; if they were brought back from a backup, or what is missing is gone for good, \
             'duramen serve --degraded' goes on with what they hold, and what came later is lost"
        }
        raid::OpenError::NoLogDevice | raid::OpenError::LogDevice(_) => {
            return format!(
                "; bring the right NVRAM back, or give up what it alone has: 'duramen fsck \
                 --repair --without-nvram {}'",
                quoted(volume)
            );
        }
        raid::OpenError::Hole(_) => {
            "; connect disks that are missing or were taken out: one of them may have it. If none \
             has, 'duramen serve --degraded' goes on without it, and what it changed is lost"
        }
        _ => "",
    };
    advice.to_owned()
}

/// Lists the numbers and paths of disks.
fn name_disks(disks: &[PathBuf]) -> String {
    let named = disks.iter().enumerate();
    let named: Vec<_> = named.map(|(place, path)| format!("{place}: {}", path.display())).collect();
    if named.is_empty() {
        return "; no disk of it was found".to_owned();
    }
    format!(" (disks: {})", named.join(", "))
}

/// Advice on an invalid superblock: there may be a good copy elsewhere.
fn superblock_advice(
    error: &LookError,
    other: Option<&str>,
    partition: Option<&Partition>,
) -> String {
    const COPIES: &str =
        "; if there was a file system, 'duramen fsck' looks for a copy of its superblock";
    if let Some(partition) = partition {
        return format!("; {partition}");
    }
    match error {
        LookError::NoVolume { has_copies: true, .. } if other.is_none() => COPIES.to_owned(),
        LookError::NoVolume { .. } | LookError::Device(_) => other_advice(other),
    }
}

/// Advice on a disk whose volume belongs to another engine than its settings say.
pub(crate) fn other_advice(other: Option<&str>) -> String {
    let advice =
        |engine| format!("; the disk holds a volume of engine {engine}: correct the volume.toml");
    other.map_or_else(String::new, advice)
}

impl Failure {
    /// A failure to inspect a path.
    pub(crate) fn look(path: &Path, source: io::Error) -> Self {
        Self::File { verb: "look at", path: path.to_owned(), source }
    }

    /// A refusal to open the volume that these command-line words name.
    pub(crate) fn refused(
        path: &Path,
        words: String,
        error: impl Into<designs::OpenError>,
    ) -> Self {
        Self::Engine { path: path.to_owned(), words, source: Box::new(error.into()) }
    }

    /// A lack of space to allocate all of a disk or a log.
    pub(crate) fn no_space(path: &Path, source: io::Error) -> Self {
        Self::File { verb: "take the space for", path: path.to_owned(), source }
    }

    /// Exit code of the process: 2 for a wrong command line, 1 for most other failures.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::UnknownSet(_) => ExitCode::from(2),
            Self::Unwell { code } => ExitCode::from(*code),
            // The reader of a pipe closed it early. All of its requests succeeded.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            _ => ExitCode::from(1),
        }
    }

    /// Whether the failure needs no message.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::Unwell { .. } => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_helps_is_told_to_its_end() {
        let told = spell_out("it's so: 'duramen fsck --repair' mends it", "a.img --log l");
        assert_eq!(told, "it's so: 'duramen fsck --repair a.img --log l' mends it");
        assert_eq!(spell_out("serve it", "a.img"), "serve it");
    }
}
