//! What a command can fail with: sentences that say what is wrong, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use designs::LookError;
use raid::assembly::Refused;

use crate::partitions::Partition;
use crate::words::quoted;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments do not fit each other, or what they name.
    #[error("{0}")]
    Usage(String),
    /// What was named is no volume.
    #[error("{} is no volume: {why}", path.display())]
    NotAVolume {
        /// What was named.
        path: PathBuf,
        /// What it lacks, and how to get it.
        why: String,
    },
    /// Making a file system would destroy something.
    #[error(
        "{} holds {what}, which would be destroyed; if that is meant, say --force",
        path.display()
    )]
    Occupied {
        /// Where.
        path: PathBuf,
        /// What.
        what: String,
    },
    /// What was named as a log is something else.
    #[error(
        "{} holds {what}, and is no log: name another file or device",
        path.display()
    )]
    NotALog {
        /// What was named.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The disk cannot be opened or created.
    #[error(transparent)]
    Open(#[from] block::file::OpenError),
    /// The set of disks cannot be opened or made.
    #[error("{}: {source}{}{}", path.display(), name_disks(disks), set_advice(source, disks))]
    Set {
        /// Which volume.
        path: PathBuf,
        /// Why not; disks by their places in `disks`.
        source: raid::OpenError,
        /// Those that were found.
        disks: Vec<PathBuf>,
    },
    /// A set of disks is not well, which standard output has told.
    #[error("the set is not well")]
    Unwell {
        /// What the process ends with.
        code: u8,
    },
    /// How a set of disks stands cannot be told.
    #[error(transparent)]
    UnknownSet(Box<Failure>),
    /// Members of a set have lost something together.
    #[error("{}: {bytes} bytes are lost: more members than one are wrong there", path.display())]
    Lost {
        /// Which volume.
        path: PathBuf,
        /// How much.
        bytes: u64,
    },
    /// No disk of a set has a part of what was to be written as an image.
    #[error("{}: {bytes} bytes are lost, and are zeros in the image", path.display())]
    NotInImage {
        /// Which volume.
        path: PathBuf,
        /// How much.
        bytes: u64,
    },
    /// A log could not give what it held, and an image lacks that.
    #[error("{}: the image lacks what could not be read of a log", path.display())]
    ShortImage {
        /// Which volume.
        path: PathBuf,
    },
    /// Places do not fit their checksums, and no other version of them does.
    #[error("{}: {places} places are lost: bring their files back from a backup", path.display())]
    Rotten {
        /// Which volume.
        path: PathBuf,
        /// How many.
        places: usize,
    },
    /// It was told to end before its time.
    #[error("{}: {what} was ended; nothing that was right has changed", path.display())]
    Ended {
        /// Which volume.
        path: PathBuf,
        /// What was ended.
        what: &'static str,
    },
    /// What is asked of a volume cannot be done as it is now.
    #[error("{}: {why}", path.display())]
    NotDone {
        /// Which volume.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The disk failed.
    #[error("{}: {source}", path.display())]
    Device {
        /// Which disk.
        path: PathBuf,
        /// How.
        source: block::IoError,
    },
    /// The log cannot be read, or is none.
    #[error("{}: {source}", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: journal::JournalError,
    },
    /// A set was to be made, and whoever asked for it did not want it any more.
    #[error("interrupted: no volume was made, and {0}")]
    Interrupted(&'static str),
    /// The disk holds no file system that we can use.
    #[error(
        "{}: {source}{}",
        path.display(),
        superblock_advice(source, *other, partition.as_deref())
    )]
    Superblock {
        /// Which disk.
        path: PathBuf,
        /// Why not.
        source: LookError,
        /// The engine of what it holds instead, if it is that of another one.
        other: Option<&'static str>,
        /// What is in a partition of it.
        partition: Option<Box<Partition>>,
    },
    /// No file system could be made.
    #[error("cannot make a file system on {}: {source}", path.display())]
    Mkfs {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: designs::MkfsError,
    },
    /// `volume.toml` makes no sense.
    #[error("cannot use {}: {why}{advice}", path.display())]
    Settings {
        /// Which file.
        path: PathBuf,
        /// Why not, with the line.
        why: String,
        /// How to write it anew, if its disk is there.
        advice: String,
    },
    /// A file or folder of the volume.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// With what.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The volume cannot be opened.
    #[error("{}: {}", path.display(), spell_out(source, words))]
    Engine {
        /// Which volume.
        path: PathBuf,
        /// What a command line says to mean it.
        words: String,
        /// Why not, and what to do.
        source: Box<designs::OpenError>,
    },
    /// The server of a volume was asked, and does not tell.
    #[error("the server that listens on {} does not tell: {why}", path.display())]
    Control {
        /// Where it was asked.
        path: PathBuf,
        /// What it says instead.
        why: String,
    },
    /// The server of a volume was there, and is not any more.
    #[error("{}: the server has ended", path.display())]
    ServerEnded {
        /// Which volume.
        path: PathBuf,
    },
    /// The control channel cannot be had.
    #[error(transparent)]
    Claim(#[from] server::control::ClaimError),
    /// What a volume needs of its log is saved beside that.
    #[error(
        "{}: the volume was not stopped cleanly, and what it did last is saved in {}: \
         'duramen serve {words}' brings it back",
        path.display(),
        saved.display()
    )]
    Saved {
        /// Which volume.
        path: PathBuf,
        /// Where.
        saved: PathBuf,
        /// What a command line says to mean the volume together with that log.
        words: String,
    },
    /// A path in a volume.
    #[error("{path}: {source}")]
    InVolume {
        /// The path, as it was given.
        path: String,
        /// The file system's reason.
        source: vfs::FsError,
    },
    /// The server cannot start, or ended badly.
    #[error(transparent)]
    Serve(#[from] server::ServeError),
    /// A server could not be measured.
    #[error(transparent)]
    Unmeasured(#[from] Box<bench::session::BenchError>),
    /// It was measured, and not all was well. The report says what.
    #[error("{errors} calls failed, and {troubles} things could not be done: see above")]
    Bench {
        /// Calls that failed.
        errors: u64,
        /// What else went wrong.
        troubles: usize,
    },
    /// What should be a trace is none.
    #[error("{}: {source}", path.display())]
    Trace {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: trace::BadTrace,
    },
    /// A picture could not be written.
    #[error(transparent)]
    Plot(#[from] bench::report::PlotError),
    /// The operating system gave no event queue.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// Standard output.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// A sentence of the engine knows the command that helps, and not on what: completes it.
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

/// What can be done about a set that is not opened.
fn set_advice(error: &raid::OpenError, disks: &[PathBuf]) -> String {
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
        _ => "",
    };
    advice.to_owned()
}

/// Which disk has which number.
fn name_disks(disks: &[PathBuf]) -> String {
    let named = disks.iter().enumerate();
    let named: Vec<_> = named.map(|(place, path)| format!("{place}: {}", path.display())).collect();
    if named.is_empty() {
        return "; no disk of it was found".to_owned();
    }
    format!(" (disks: {})", named.join(", "))
}

/// What can be done about a superblock that is none: there may be a good one elsewhere.
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

/// What can be done if a disk holds a volume of another engine than was said.
pub(crate) fn other_advice(other: Option<&str>) -> String {
    let advice =
        |engine| format!("; the disk holds a volume of engine {engine}: correct the volume.toml");
    other.map_or_else(String::new, advice)
}

impl Failure {
    /// What is there cannot be looked at.
    pub(crate) fn look(path: &Path, source: io::Error) -> Self {
        Self::File { verb: "look at", path: path.to_owned(), source }
    }

    /// The volume that a command line means by these words is not opened.
    pub(crate) fn refused(
        path: &Path,
        words: String,
        error: impl Into<designs::OpenError>,
    ) -> Self {
        Self::Engine { path: path.to_owned(), words, source: Box::new(error.into()) }
    }

    /// There is no space for all of a disk or a log.
    pub(crate) fn no_space(path: &Path, source: io::Error) -> Self {
        Self::File { verb: "take the space for", path: path.to_owned(), source }
    }

    /// What the process ends with: 2 when the command line was wrong, 1 for most else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::UnknownSet(_) => ExitCode::from(2),
            Self::Unwell { code } => ExitCode::from(*code),
            // The reader of a pipe had enough. Everything that it wanted went well.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            _ => ExitCode::from(1),
        }
    }

    /// Whether there is nothing to say about it.
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
