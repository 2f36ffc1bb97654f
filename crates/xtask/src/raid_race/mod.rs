//! A set against its disks, and against btrfs: `cargo xtask raid-race`.
//!
//! 1. Four files are written completely, and loop devices are set up on them, past the cache of the
//!    file system below. All measurements use these four: the bare disks, the set that they form,
//!    and btrfs. No protocol and no file system of ours is in between.
//! 2. Each measurement is one run of `member-bench`, with the same reactor and the same requests
//!    for the set and for plain devices. The kernel's caches are dropped before each.
//! 3. In a round each of the [`rows`] is measured once for all of its sides, one right after the
//!    other, as long as no measurement destroys what the next one needs. A ratio compares two
//!    measurements of one round; the result is the median over the rounds.
//!
//! The [`janitor`](crate::track::janitor) cleans up, also after an interrupt.

mod btrfs;
mod program;
mod rows;

use std::path::{Path, PathBuf};
use std::process::Command;

use btrfs::Btrfs;
use rows::{PEER, Results, Row, Who};

use crate::temporary::TemporaryFolder;
use crate::track::disk::{self, Disk};
use crate::track::janitor::Janitor;
use crate::track::{machine, page};
use crate::{Failure, Repository, Result, command, setup};

/// Number of devices in the set. One of them is for parity.
const MEMBERS: u64 = 4;

/// Concurrent durable overwrites.
const WRITERS: u32 = 32;

/// The amount to measure, and the output.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of measurements of each.
    pub rounds: u32,
    /// Seconds of overwrites each time.
    pub seconds: f64,
    /// Short form, to check that it works.
    pub quick: bool,
    /// Folder for the devices' files, instead of that of build products.
    pub folder: Option<PathBuf>,
    /// Whether to print JSON.
    pub json: bool,
    /// The page whose part about sets is written.
    pub output: Option<PathBuf>,
}

/// Sizes in MiB.
#[derive(Clone, Copy, Debug)]
struct Amount {
    /// Size of a device.
    disk: u64,
    /// Data written sequentially to each.
    written: u64,
    /// Range from which overwrites are drawn.
    overwritten: u64,
}

impl Plan {
    fn amount(&self) -> Amount {
        if self.quick {
            Amount { disk: 256, written: 64, overwritten: 64 }
        } else {
            Amount { disk: 1024, written: 512, overwritten: 512 }
        }
    }
}

/// Races, prints the results, and writes its part of the page; returns whether everything could be
/// measured.
///
/// # Errors
/// When the race cannot be set up.
pub fn run(repository: &Repository, plan: &Plan) -> Result<bool> {
    let user = command::capture(Command::new("id").arg("-u"))?;
    if user.trim() != "0" {
        return Err(Failure::new(
            "a race of sets needs root: it makes loop devices, mounts btrfs and empties the \
             kernel's caches",
        ));
    }
    let mut results = Results::default();
    if let Err(failure) = setup::raid_race() {
        results.troubles.push(format!("{PEER}: {failure}"));
    }
    let binary = program::build(repository)?;
    let parent = plan.folder.clone().unwrap_or_else(|| repository.target());
    let folder = TemporaryFolder::within(&parent, "raid-race")?;
    let mut janitor = Janitor::start()?;
    janitor.remove(folder.path())?;
    let is_direct = disk::can_be_direct(folder.path());
    let machine = machine::describe(repository, folder.path(), "btrfs-progs")?;
    let place = Place { machine, load: machine::load() };
    let amount = plan.amount();
    let names = (0..MEMBERS).map(|number| format!("member-{number}"));
    let disks = names
        .map(|name| Disk::make(&mut janitor, folder.path(), &name, amount.disk, is_direct))
        .collect::<Result<Vec<_>>>()?;
    let btrfs = Btrfs::at(folder.path().join("btrfs"), &mut janitor)?;
    let disks: Vec<_> = disks.iter().map(Disk::path).collect();
    let track = Track { binary: &binary, disks: &disks, amount, seconds: plan.seconds, btrfs };
    for round in 0..plan.rounds {
        eprintln!("raid-race: round {} of {}", round + 1, plan.rounds);
        track.round(round, &mut results);
    }
    drop(janitor);
    let part = part(plan, is_direct, &place, &results);
    if plan.json {
        println!("{:#}", results.json());
    } else {
        println!("{part}");
    }
    if let Some(output) = &plan.output {
        page::write_part(output, &part)?;
    }
    results.troubles.iter().for_each(|trouble| eprintln!("raid-race: NOT MEASURED: {trouble}"));
    Ok(results.are_whole())
}

/// Description of the machine, for readers.
struct Place {
    machine: String,
    load: String,
}

/// The devices to race on.
struct Track<'a> {
    binary: &'a Path,
    disks: &'a [&'a Path],
    amount: Amount,
    seconds: f64,
    btrfs: Btrfs,
}

impl Track<'_> {
    /// Measures each row once for all of its sides. The order leaves each the state that it needs:
    /// raw writers destroy the set, and a copy destroys the member that is out.
    fn round(&self, round: u32, results: &mut Results) {
        let Amount { written, overwritten, .. } = self.amount;
        let (all, payload) = (written * MEMBERS, written * (MEMBERS - 1));
        let mut note = |row: Row, who: Who, rate: Result<f64>| match rate {
            Ok(rate) => {
                eprintln!("raid-race: {}: {who:?} {rate:.0}", row.name());
                results.add(row, who, round, rate);
            }
            Err(failure) => {
                let trouble = format!("{}: {who:?}: {failure}", row.name());
                if !results.troubles.contains(&trouble) {
                    results.troubles.push(trouble);
                }
            }
        };
        let three_quarters = |rate| rate * (MEMBERS - 1) as f64 / MEMBERS as f64;
        let raw = self.mib_per_s(&format!("write --mib {all}"), self.disks);
        note(Row::Write, Who::Limit, raw.map(three_quarters));
        let ours = self.mib_per_s(&format!("write --set --mib {payload}"), self.disks);
        note(Row::Write, Who::Ours, ours);
        let read = |words: &str| self.mib_per_s(&format!("{words} --mib {payload}"), self.disks);
        if round.is_multiple_of(2) {
            note(Row::Read, Who::Limit, read("read"));
        }
        let whole = read("read --set");
        note(Row::Read, Who::Ours, whole.clone());
        if !round.is_multiple_of(2) {
            note(Row::Read, Who::Limit, read("read"));
        }
        note(Row::Degraded, Who::Limit, whole);
        let others = &self.disks[..self.disks.len() - 1];
        let degraded = self.mib_per_s(&format!("read --set --mib {payload}"), others);
        note(Row::Degraded, Who::Ours, degraded);
        let copied = self.mib_per_s(&format!("remake --depth 4 --mib {written}"), self.disks);
        note(Row::Rebuild, Who::Limit, copied);
        note(Row::Rebuild, Who::Ours, self.mib_per_s("remake --set", self.disks));
        note(Row::Overwrite, Who::Ours, self.overwrites(" --set", self.disks));
        note(Row::Overwrite, Who::Limit, self.overwrites(" --past-cache", self.disks));
        let peer =
            self.btrfs.with_file(self.disks, overwritten, |file| self.overwrites("", &[file]));
        note(Row::Overwrite, Who::Peer, peer);
    }

    fn mib_per_s(&self, words: &str, disks: &[&Path]) -> Result<f64> {
        program::figure(&program::measure(self.binary, words, disks)?, "mib_per_s")
    }

    fn overwrites(&self, how: &str, disks: &[&Path]) -> Result<f64> {
        let (seconds, mib) = (self.seconds, self.amount.overwritten);
        let words =
            format!("overwrite{how} --mib {mib} --depth {WRITERS} --kib 8 --seconds {seconds}");
        program::figure(&program::measure(self.binary, &words, disks)?, "requests_per_s")
    }
}

/// Renders the part of the page for people.
fn part(plan: &Plan, is_direct: bool, place: &Place, results: &Results) -> String {
    let direct = if is_direct {
        "The devices go past its cache (direct I/O)."
    } else {
        "The devices go through its cache: it has no direct I/O for them."
    };
    let Amount { disk, written, overwritten } = plan.amount();
    let Place { machine, load } = place;
    format!(
        "# A set of disks

`cargo xtask raid-race {words}`

{machine}
A RAID-5 set of four members as a device, without a file system and a protocol, against what its
members do by themselves and against {PEER}, all on the same four loop devices over files of
{disk} MiB of one file system, which were written from end to end before.
{direct}
`member-bench` makes all requests, by io_uring, on one thread. Transfers of 64 KiB and more go past
the page cache for the set and for plain devices alike, smaller ones of the set go through it, as a
server has them.

Sequential requests are of 1 MiB, 16 under way at once: for the set together, for raw devices four
on each. A write ends with a flush. Of each device {written} MiB are written; as much payload as
that comes to is read of the set and of the devices. The raw copy reads three devices and writes the
fourth, with four pieces of 1 MiB under way; rates of it and of a rebuild are of what the new member
gets. Overwrites are of {overwritten} MiB that were written before, at multiples of 8 KiB, by
{WRITERS} writers for {seconds} s, each of which waits until its write is durable (`RWF_DSYNC`).
Those of the set and of the file of btrfs go through the page cache; those of the raw devices go
past it, which is faster there. btrfs is made with `mkfs.btrfs -d raid5 -m raid1`, and has otherwise
what it has by itself. The kernel forgets all that it could read again before each measurement.

Rates are medians; a ratio is that of two measurements of the same round, and of ratios there are
the median and the least and the most. The machine was not idle otherwise: its load was {load} when
the race began, which counts who computes or waits for a disk.

{table}",
        words = if plan.quick {
            "--quick".to_owned()
        } else {
            format!("--rounds {} --seconds {}", plan.rounds, plan.seconds)
        },
        seconds = plan.seconds,
        table = results.text(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_has_a_title_a_command_and_no_line_that_is_too_long() {
        let (rounds, seconds) = (100, 0.125);
        let plan = Plan { rounds, seconds, quick: false, folder: None, json: false, output: None };
        let place = Place { machine: "* a machine\n".to_owned(), load: "10.25".to_owned() };
        for is_direct in [false, true] {
            let part = part(&plan, is_direct, &place, &Results::default());
            assert!(part.starts_with("# A set of disks\n\n`cargo xtask raid-race --rounds 100 "));
            let long = part.lines().find(|line| !line.starts_with('|') && line.len() > 100);
            assert_eq!(long, None);
        }
    }
}
