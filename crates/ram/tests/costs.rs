//! The cost of reading snapshots, in instructions, with few and with many of them.
//!
//! `valgrind` counts the instructions of this very program, which then makes calls of one kind and
//! nothing else. The engine keeps everything in memory, so that only the path through the namespace
//! and the table of snapshots is counted.

use std::env;
use std::process::Command;
use std::rc::Rc;

use namespace::Namespace;
use ram::{Disk, Ram, RamOptions, open};
use runtime::Timestamp;
use sim::Executor;
use vfs::{Credentials, DirectoryEntry, FileSystem, Name, Requester, SnapshotNumber};
use vnode::Files;

const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };

/// Orders for the counted program: the kind of call, and the number of snapshots.
const COUNTED: &str = "DURAMEN_COUNTED";

const FEW: u32 = 100;
const MANY: u32 = 800;
/// Number of counted calls.
const CALLS: u32 = 10;

/// A kind of counted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// GETATTR of the `.snapshot`.
    Getattr,
    /// LOOKUP of the newest snapshot.
    Lookup,
    /// READDIR of the ten newest.
    Tail,
    /// READDIR of all.
    Whole,
}

const KINDS: [Kind; 4] = [Kind::Getattr, Kind::Lookup, Kind::Tail, Kind::Whole];

struct Volume {
    executor: Executor,
    files: Namespace<Files<Ram>>,
    who: Credentials,
    count: u32,
}

impl Volume {
    /// A volume with this many snapshots.
    fn new(count: u32) -> Self {
        let (executor, disk) = (Executor::new(1), Disk::new(1 << 20, NOW));
        let files = executor.block_on(open(disk, executor.runtime(), RamOptions::default()));
        let files = Namespace::new(files.unwrap_or_else(|error| panic!("{error}")));
        let volume = Self { executor, files, who: Requester::root().who, count };
        let all = volume.files.snapshots().expect("this engine has them");
        for number in 1..=count {
            let pin = async { all.pin(&name(number)).await.open().await };
            let made = volume.executor.block_on(pin).expect("it runs").into_inner();
            assert_eq!(made.expect("a new one").number, SnapshotNumber(number.into()));
        }
        volume
    }

    #[inline(never)]
    fn ask(&self, kind: Kind) {
        let (files, who) = (&self.files, &self.who);
        let listing = files.root().within(SnapshotNumber::LISTING);
        let mut every = |_: &DirectoryEntry| true;
        let mut list = async |cookie| {
            let listed = files.readdir(who, listing, cookie, false, &mut every).await;
            listed.open().await.expect("it runs").into_inner().result.expect("it is listed")
        };
        match kind {
            Kind::Getattr => {
                let told = async { files.getattr(listing).await.open().await };
                assert!(self.executor.block_on(told).expect("it runs").into_inner().is_ok());
            }
            Kind::Lookup => {
                let newest = name(self.count);
                let found = async { files.lookup(who, listing, &newest).await.open().await };
                let found = self.executor.block_on(found).expect("it runs").into_inner();
                assert!(found.result.is_ok());
            }
            Kind::Tail => {
                let tail = list(u64::from(self.count) + 2 - 10);
                assert_eq!(self.executor.block_on(tail).entries.len(), 10);
            }
            Kind::Whole => {
                let all = self.executor.block_on(list(0));
                assert_eq!(all.entries.len(), self.count as usize + 2);
            }
        }
    }
}

fn name(number: u32) -> Name {
    Name::parse(format!("of {number}").as_bytes()).expect("a legal name")
}

/// The counted part, as a function of its own, so that the counter sees it as one.
#[inline(never)]
fn counted(volume: &Rc<Volume>, kind: Kind) {
    (0..CALLS).for_each(|_| volume.ask(kind));
}

/// Instructions of the calls; `None` without valgrind.
fn cost(kind: Kind, count: u32) -> Option<u64> {
    let counter = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=costs::counted")
        .arg(env::current_exe().expect("this program"))
        .args(["--exact", "looking_at_snapshots_costs_what_is_told"])
        .env(COUNTED, format!("{kind:?} {count}"))
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&counter.stderr);
    assert!(counter.status.success(), "{said}");
    let total = said.lines().find_map(|line| line.split_once("Collected :")).expect("a total").1;
    Some(total.trim().parse().expect("a number"))
}

/// Runs the orders in the environment, if this is the counted program.
fn is_counted() -> bool {
    let Ok(asked) = env::var(COUNTED) else { return false };
    let (kind, count) = asked.split_once(' ').expect("a kind and a number");
    let kind = KINDS.into_iter().find(|known| format!("{known:?}") == kind).expect("a kind");
    let volume = Rc::new(Volume::new(count.parse().expect("a number")));
    // Brings the results into memory, and lets the allocator tidy up before the count.
    [Kind::Whole, kind].into_iter().for_each(|kind| volume.ask(kind));
    counted(&volume, kind);
    true
}

#[test]
fn looking_at_snapshots_costs_what_is_told() {
    if is_counted() {
        return;
    }
    for kind in KINDS {
        let Some((few, many)) = cost(kind, FEW).zip(cost(kind, MANY)) else {
            eprintln!("SKIPPED: valgrind is not there to count instructions");
            return;
        };
        println!("{kind:?}: {few} instructions of {FEW} snapshots, {many} of {MANY}");
        let told = if kind == Kind::Whole { u64::from(MANY / FEW) } else { 1 };
        assert!(2 * many < 3 * told * few, "{kind:?} costs {few}, and of many {many}");
    }
}
