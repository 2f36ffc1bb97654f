//! Ours against nfs-ganesha, both honest, on devices of the same kind: `cargo xtask race`.
//!
//! 1. Files are created on one file system and written completely; loop devices are set up on them.
//!    One has XFS, mounted `wsync`, which nfs-ganesha serves: each of its operations is on the
//!    device before it is answered. Two are ours, policy `log`, one for the disk and one for the
//!    log. Another XFS has default mount options, for a nfs-ganesha as people run it; its
//!    counterpart is ours with soft updates, declared delayed; and a plain folder has a volume of
//!    ours as people use it.
//! 2. Each round begins by writing files to each contestant and removing them, so that no
//!    measurement includes the time to get memory that no process had before: the host of a virtual
//!    machine may have to find it first. Then, for each of the [`rows`], `duramen bench` measures
//!    the contestants one after the other; the next round begins with the other of the two. The
//!    bare device is measured in each round, too. The contestants for comparison are measured in
//!    every second round.
//! 3. A ratio compares two measurements of one round; the result is the median over the rounds.
//!
//! The [`janitor`](crate::track::janitor) cleans up, also after an interrupt.

mod contestants;
mod engine;
mod raw;
mod results;
mod rows;
mod table;

use std::path::PathBuf;
use std::process::Command;

use contestants::{Contestant, Ground, Who};
use results::Results;
use rows::{Amount, LOADS, ROWS, Row};

use crate::servers::{bare, duramen, ganesha};
use crate::temporary::TemporaryFolder;
use crate::track::janitor::Janitor;
use crate::track::{disk, machine, page};
use crate::{Failure, Repository, Result, command, setup};

/// Size of a data device, in MiB.
const DISK_MIB: u64 = 4 << 10;

/// Size of our log: the default of a volume.
const LOG_MIB: u64 = 256;

/// Size of the device that is measured by itself.
const RAW_MIB: u64 = 1 << 10;

/// The amount to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of measurements of each contestant.
    pub rounds: u32,
    /// Seconds of each measurement.
    pub seconds: f64,
    /// Short form, to check that it works.
    pub quick: bool,
    /// Folder for the devices' files, instead of that of build products.
    pub folder: Option<PathBuf>,
    /// Output page.
    pub output: Option<PathBuf>,
    /// Only rows whose names contain this.
    pub only: Option<String>,
    /// The engine to compare with ours with policy `log`, instead.
    pub engine: Option<String>,
}

impl Plan {
    fn amount(&self) -> Amount {
        if self.quick {
            Amount { seconds: self.seconds, removed: [100, 1000], file_mib: 64 }
        } else {
            Amount { seconds: self.seconds, removed: [500, 8000], file_mib: 512 }
        }
    }

    fn is_chosen(&self, row: &Row) -> bool {
        let is_one = self.engine.is_none() || engine::is_measured(row);
        is_one && self.only.as_ref().is_none_or(|part| row.name.contains(part.as_str()))
    }

    /// Whether a contestant is measured in this round of a row.
    fn is_measured(&self, who: Who, row: &Row, round: u32) -> bool {
        match who {
            Who::Volatile | Who::Delayed | Who::File | Who::Bare => round.is_multiple_of(2),
            _ => self.engine.is_none() || engine::takes_part(who, row),
        }
    }
}

/// Races, prints the tables, and writes the page; returns whether everything could be measured.
pub fn run(repository: &Repository, plan: &Plan) -> Result<bool> {
    let user = command::capture(Command::new("id").arg("-u"))?;
    if user.trim() != "0" {
        return Err(Failure::new(
            "a race needs root: it makes loop devices, mounts XFS, runs nfs-ganesha and empties \
             the kernel's caches",
        ));
    }
    if plan.engine.is_some() {
        setup::engine_race()?
    } else {
        setup::race()?
    }
    let binary = duramen::build(repository)?;
    let bare = if plan.engine.is_some() { PathBuf::new() } else { bare::build(repository)? };
    let parent = plan.folder.clone().unwrap_or_else(|| repository.target());
    let folder = TemporaryFolder::within(&parent, "race")?;
    let mut janitor = Janitor::start()?;
    janitor.remove(folder.path())?;
    let is_direct = disk::can_be_direct(folder.path());
    let place = machine::describe(repository, folder.path(), "nfs-ganesha")?;
    println!("race: {} devices; files in {}", kind(is_direct), folder.path().display());
    let mapper = ganesha::mapper()?;
    if let Some(mapper) = &mapper {
        janitor.end(mapper.id(), "rpcbind")?;
    }
    let ground = Ground {
        binary: &binary,
        bare: &bare,
        folder: folder.path(),
        is_direct,
        disk_mib: if plan.engine.is_some() { engine::DISK_MIB } else { DISK_MIB },
        log_mib: LOG_MIB,
    };
    let raw = ground.disk(&mut janitor, "raw", RAW_MIB)?;
    let load = machine::load();
    let mut contestants = match &plan.engine {
        Some(engine) => engine::start(&ground, &mut janitor, engine)?,
        None => ground.start(&mut janitor, &raw)?,
    };
    let mut results = Results::default();
    for round in 0..plan.rounds {
        for contestant in &mut contestants {
            contestant.warm(&ground, &mut janitor, plan)?;
        }
        results.raw.measure(raw.path(), RAW_MIB, plan.seconds)?;
        for row in ROWS.iter().enumerate().filter(|(_, row)| plan.is_chosen(row)) {
            race(round, row, plan, &ground, &mut janitor, &mut contestants, &mut results)?;
        }
    }
    contestants.into_iter().try_for_each(Contestant::stop)?;
    drop(mapper);
    drop(janitor);
    let part = match &plan.engine {
        Some(engine) => engine::part(&ground, (plan, engine), (&place, &load), &results),
        None => part(plan, is_direct, &place, &results),
    };
    println!("{part}");
    if let Some(output) = &plan.output {
        page::write_part(output, &part)?;
    }
    Ok(results.troubles.is_empty())
}

/// Measures a row in a round.
fn race(
    round: u32,
    (row_place, row): (usize, &Row),
    plan: &Plan,
    ground: &Ground<'_>,
    janitor: &mut Janitor,
    contestants: &mut [Contestant],
    results: &mut Results,
) -> Result<()> {
    for (load_place, load) in LOADS.into_iter().enumerate() {
        let is_measured = |one: &&mut Contestant| plan.is_measured(one.who, row, round);
        let mut now: Vec<_> = contestants.iter_mut().filter(is_measured).collect();
        if !round.is_multiple_of(2) {
            now.reverse();
        }
        let mut said = Vec::new();
        for contestant in now {
            let who = contestant.who;
            contestant.suit(row, load, ground.folder, janitor)?;
            match contestant.measure(ground.binary, row, load, plan) {
                Ok(sample) => {
                    said.push(format!("{who:?} {:.0}", sample.rate));
                    results.add((row_place, load_place), who, round, sample);
                }
                Err(failure) => {
                    let connections = load.connections();
                    let trouble = format!("{} over {connections}: {who:?}: {failure}", row.name);
                    said.push(format!("{who:?} FAILED: {failure}"));
                    results.troubles.push(trouble);
                }
            }
        }
        let connections = load.connections();
        println!(
            "race: round {} of {}, {} over {connections}: {}",
            round + 1,
            plan.rounds,
            row.name,
            said.join(", ")
        );
    }
    Ok(())
}

fn kind(is_direct: bool) -> &'static str {
    if is_direct { "loop, direct I/O," } else { "loop, buffered," }
}

/// Renders the part of the page for people.
fn part(plan: &Plan, is_direct: bool, place: &str, results: &Results) -> String {
    let direct = if is_direct {
        "The devices go past its cache (direct I/O)."
    } else {
        "The devices go through its cache: it has no direct I/O for them."
    };
    format!(
        "# Benchmarks

`cargo xtask race --rounds {rounds} --seconds {seconds}`

{place}
Duramen, policy `log`, against nfs-ganesha on XFS mounted `wsync`: both answer when the data is on
stable storage. They have loop devices over files of one file system, which were written from end
to end before: ganesha one of {disk} MiB, Duramen one of {disk} MiB for the disk and one of
{log} MiB for the log. {direct}
All settings are those that each has by itself. A volatile ganesha, on XFS mounted with its
defaults, stands beside, and so does Duramen with soft updates (policy `softdep`) on a device of
{disk} MiB, of a volume that is declared delayed: both answer before the data is on the disk, except
to COMMIT and stable WRITEs. So does *a server that only moves bytes*: it has no file system, no
reply cache and no checks, and a device of the same kind, past the cache. GETATTR and LOOKUP it
answers at once. CREATE, MKDIR, REMOVE, RMDIR and WRITE with FILE_SYNC change nothing, but are
answered when 256 bytes for each and the payload are durable: all that wait are one write, of whole
blocks of 4 KiB behind those before, and one flush; what comes meanwhile is the next. Nothing of
that is ever written to another place or read again. UNSTABLE payload it answers when it has it,
while the device takes what came before in pieces of 1 MiB; COMMIT waits for that and flushes. READ
it answers from its memory, cold from the device, of which it reads 3 MiB ahead. What it comes to is
about what client, sockets and device leave to a server on this machine; where another is faster, it
is no limit.

Each row is measured by `duramen bench` for {seconds} s a round, with one call under way on each
connection, by turns, `sync` before each. A round begins with files of {warmed} MiB that are written
to each and removed, so that memory is at hand. Rates are medians; a ratio is that of two
measurements of the same round, and of ratios there are the median and the least and the most. What
stands beside is measured in every second round. The client and the kernel's threads share the
processors with the server; the machine was not idle otherwise. Cold reads begin with
`/proc/sys/vm/drop_caches`, read each part once, and are held against what the device says it has
read; for them Duramen, which keeps data by itself, is started anew with a memory of {little}.
*Wanted* is what the project sets itself.

{tables}
Processor time is that of the server's process with its threads. What the kernel does in threads of
its own (write-back, XFS's log) is in neither figure.
",
        rounds = plan.rounds,
        seconds = plan.seconds,
        disk = DISK_MIB,
        log = LOG_MIB,
        warmed = plan.amount().warmed_mib(),
        little = contestants::LITTLE_MEMORY,
        tables = table::render(results),
    )
}
