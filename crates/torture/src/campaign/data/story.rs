//! The acts of a story: lives of a server, each a list of steps, each a list of concurrent calls.

use std::fmt;
use std::time::Duration;

use sim::Prng;

use crate::explore::design::Shape;

/// Most files; their names are their numbers.
pub(super) const FILES: usize = 3;
/// Most bytes of one WRITE.
pub(super) const LARGEST: u64 = 1 << 20;

/// The data of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Zeros.
    Zeros,
    /// One byte, again and again.
    Same(u8),
    /// Random bytes.
    Random,
    /// Random bytes with zeros from a quarter to three quarters.
    Holey,
}

/// The stability of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stable {
    Unstable,
    DataSync,
    FileSync,
}

/// An act; names a file by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Create(usize),
    Remove(usize),
    Write {
        file: usize,
        offset: u64,
        length: u64,
        fill: Fill,
        stable: Stable,
    },
    Commit {
        file: usize,
        offset: u64,
        count: u32,
    },
    Resize {
        file: usize,
        size: u64,
    },
    Read {
        file: usize,
        offset: u64,
        count: u32,
    },
    /// Writes everything that waits in memory or in a log to its place.
    Settle,
    Wait(Duration),
}

/// Acts that run concurrently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Its number in the story.
    pub number: usize,
    pub acts: Vec<Act>,
}

/// The end of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A power cut, at any event.
    Cut,
    /// The process is killed after the last step; the disks keep their writes.
    Kill,
    /// A clean stop.
    Stop,
}

/// The time from one start of the server to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub steps: Vec<Step>,
    pub end: End,
}

/// A whole workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Story {
    pub seed: u64,
    pub shape: Shape,
    pub lives: Vec<Life>,
}

impl Story {
    /// The story with only these steps. A life without any is left out, unless it is the first.
    pub(super) fn with(&self, kept: &[usize]) -> Self {
        let mut story = self.clone();
        for life in &mut story.lives {
            life.steps.retain(|step| kept.contains(&step.number));
        }
        story.lives.retain(|life| !life.steps.is_empty());
        story
    }

    /// The numbers of its steps.
    pub(super) fn numbers(&self) -> Vec<usize> {
        self.lives.iter().flat_map(|life| life.steps.iter().map(|step| step.number)).collect()
    }
}

impl Act {
    /// The file of an act.
    pub(super) fn file(&self) -> Option<usize> {
        match *self {
            Self::Create(file)
            | Self::Remove(file)
            | Self::Write { file, .. }
            | Self::Commit { file, .. }
            | Self::Resize { file, .. }
            | Self::Read { file, .. } => Some(file),
            Self::Settle | Self::Wait(_) => None,
        }
    }
}

/// The bytes of a WRITE, determined by its step and act.
pub(super) fn payload(seed: u64, (step, act): (usize, usize), fill: Fill, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    match fill {
        Fill::Zeros => {}
        Fill::Same(byte) => bytes.fill(byte),
        Fill::Random | Fill::Holey => {
            Prng::new(seed ^ ((step as u64) << 40) ^ ((act as u64) << 32)).fill(&mut bytes);
        }
    }
    if fill == Fill::Holey {
        let quarter = bytes.len() / 4;
        bytes[quarter..3 * quarter].fill(0);
    }
    bytes
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(file) => write!(f, "create {file}"),
            Self::Remove(file) => write!(f, "remove {file}"),
            Self::Write { file, offset, length, fill, stable } => {
                write!(f, "write {file} at {offset}, {length} bytes, {fill:?}, {stable:?}")
            }
            Self::Commit { file, offset, count } => write!(f, "commit {file} {offset}+{count}"),
            Self::Resize { file, size } => write!(f, "resize {file} to {size}"),
            Self::Read { file, offset, count } => write!(f, "read {file} {offset}+{count}"),
            Self::Settle => write!(f, "settle"),
            Self::Wait(time) => write!(f, "wait {time:?}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let acts: Vec<String> = self.acts.iter().map(Act::to_string).collect();
        write!(f, "{}: {}", self.number, acts.join(" | "))
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { block_size, fragment_size, log_bytes, cache_bytes, sync_interval, .. } =
            self.shape;
        write!(
            f,
            "    blocks of {block_size}/{fragment_size}, a log of {log_bytes}, {cache_bytes} of \
             memory, a sync every {sync_interval:?}"
        )?;
        if let Some(stripe) = self.shape.stripe {
            write!(f, ", stripes of {stripe}")?;
        }
        for life in &self.lives {
            life.steps.iter().try_for_each(|step| write!(f, "\n    {step}"))?;
            write!(f, "\n    {}", format!("{:?}", life.end).to_lowercase())?;
        }
        Ok(())
    }
}
