//! Rounds: fill, work, stop or cut, empty, compare, stop, judge.

use std::rc::Rc;
use std::time::Duration;

use directory::entry::CHUNK_SIZE;
use runtime::Timestamp;
use sim::{Disk, Executor, Image, Prng};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{FileSystem, FsStat, ObjectId, Requester, SetAttributes, Stability};

use super::emptier::empty;
use super::filler::{File, Filler, Tally};
use super::room::Room;
use super::ways::{WAYS, Way};
use crate::common::foreign::findings_in;
use crate::common::volume::{Volume, try_open};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
/// The user whose rounds leave the reserve alone.
const USER: u32 = 10;

/// How a round with a full volume ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    /// Power fails while files are overwritten, shortened, renamed and removed.
    Cut,
}

/// One volume through many rounds.
pub(crate) struct Rounds {
    executor: Executor,
    prng: Prng,
    image: Image,
    label: String,
    /// FSSTAT of the new volume.
    empty: FsStat,
    pub(crate) tally: Tally,
}

impl Rounds {
    /// A new volume. The label identifies it when a round fails.
    pub(crate) fn new(label: &str, seed: u64, size: u64, options: &MkfsOptions) -> Self {
        let executor = Executor::new(seed);
        let disk = Disk::new(&executor, Image::zeroed(size));
        let empty = executor.block_on(async {
            mkfs(&*disk, options, &*executor.runtime().random, NOW).await.expect("it holds it");
            let volume = open(&executor, &disk).await;
            let space = volume.space().await;
            volume.files.shutdown().await.expect("a clean stop");
            space
        });
        let (label, tally) = (label.to_owned(), Tally::default());
        Self { image: disk.contents(), executor, prng: Prng::new(seed), label, empty, tally }
    }

    /// The next round. Every way is used by root and by a user, and a quarter of the rounds is cut.
    pub(crate) fn next(&mut self) {
        let number = self.tally.rounds as usize;
        let way = WAYS[number % WAYS.len()];
        let uid = if (number + number / WAYS.len()).is_multiple_of(2) { 0 } else { USER };
        let end = if number % 4 == 3 { End::Cut } else { End::Stop };
        println!("{}, round {number}: {way:?} by user {uid}, then {end:?}", self.label);
        let (disk, files) = self.fill(way, uid, end);
        // The judge is slow. Errors stay, unless the rebuild after a cut hides them: so it is asked
        // before and after one.
        self.empty(disk, &files, number % 4 > 1);
        self.tally.rounds += 1;
    }

    /// Fills the volume and ends the round; returns the expected files.
    fn fill(&mut self, way: Way, uid: u32, end: End) -> (Rc<Disk>, Vec<File>) {
        let disk = Disk::new(&self.executor, self.image.clone());
        let (executor, prng, tally) = (&self.executor, &mut self.prng, &mut self.tally);
        let mut volume = executor.block_on(open(executor, &disk));
        let home = executor.block_on(home(&mut volume, uid));
        let mut filler = Filler::new(&volume, &disk, prng, tally, home);
        executor.block_on(async {
            filler.fill(way).await;
            filler.work_when_full().await;
            filler.check().await;
        });
        let files = filler.files.clone();
        if end == End::Cut {
            let files = executor.block_on(filler.prepare_for_a_cut());
            let delay = Duration::from_micros(filler.prng.below(20_000));
            let busy = executor.block_on_for(delay, filler.be_busy());
            assert!(busy.is_none(), "there is work for longer");
            executor.crash();
            tally.cuts += 1;
            let image = disk.crash(prng);
            return (Disk::new(executor, image), files);
        }
        executor.block_on(async {
            use_the_reserve(&mut volume, uid, home).await;
            volume.files.shutdown().await.expect("a clean stop of a full volume");
        });
        (Disk::new(executor, disk.contents()), files)
    }

    /// Empties the volume, compares FSSTAT with that of the new volume, stops, has it judged, and
    /// compares again.
    fn empty(&mut self, disk: Rc<Disk>, files: &[File], judged: bool) {
        let (executor, tally) = (&self.executor, &mut self.tally);
        executor.block_on(async {
            let volume = open(executor, &disk).await;
            check_all(&volume, files).await;
            empty(&volume, &mut self.prng, tally).await;
            compare(&volume, &self.empty, "what was removed counts as free at once").await;
            volume.settle().await;
            compare(&volume, &self.empty, "what was removed is free").await;
            let room = Room::of(volume.files.store().engine().geometry(), disk.contents());
            let free = (
                room.free_fragments() * volume.files.store().engine().geometry().fragment_size,
                room.free_inodes(),
            );
            let told = volume.space().await;
            assert_eq!(free, (told.free_bytes, told.free_files), "the maps and FSSTAT");
            volume.files.shutdown().await.expect("a clean stop");
        });
        self.image = disk.contents();
        if judged {
            // A cut after a truncation may leave bytes behind the end of a file, which is noted;
            // but there is no file here.
            let name = format!("rounds-{}", self.label);
            let found = findings_in(&name, |path| self.image.save(path).expect("a file"));
            assert_eq!(found.unwrap_or_default(), "", "{}", self.label);
        }
        let disk = Disk::new(executor, self.image.clone());
        executor.block_on(async {
            let volume = open(executor, &disk).await;
            compare(&volume, &self.empty, "what was removed is free on the disk").await;
            volume.files.shutdown().await.expect("a clean stop");
        });
        self.image = disk.contents();
    }
}

async fn open(executor: &Executor, disk: &Rc<Disk>) -> Volume {
    let opened = try_open(executor.runtime(), disk.clone()).await;
    opened.unwrap_or_else(|error| panic!("{error}")).0
}

/// Makes a directory of this user, and makes the volume act as the user from then on.
async fn home(volume: &mut Volume, uid: u32) -> ObjectId {
    let home = volume.mkdir(volume.files.root(), "home").await.expect("an empty volume");
    let owner = SetAttributes { uid: Some(uid), gid: Some(uid), ..SetAttributes::default() };
    let sealed = volume.files.setattr(&volume.root, home, owner, None).await;
    sealed.open().await.expect("running").into_inner().result.expect("root may");
    volume.root = Requester::from(vfs::Credentials { uid, gid: uid, groups: Vec::new() });
    home
}

/// Checks that root still has room where users have none.
async fn use_the_reserve(volume: &mut Volume, uid: u32, home: ObjectId) {
    volume.root = Requester::root();
    let space = volume.space().await;
    if uid != 0 && space.free_files > 0 {
        let id = volume.create(home, "of-root").await.expect("room for root");
        let length = volume.files.store().engine().geometry().fragment_size as usize;
        let written = volume.write(id, 0, vec![1; length], Stability::FileSync).await;
        assert_eq!(written, Ok(()), "the reserve is for root");
    }
}

async fn check_all(volume: &Volume, files: &[File]) {
    for file in files {
        file.check(volume).await;
    }
}

/// Compares FSSTAT with that of the new volume. The root directory does not shrink: only its space
/// beyond the first fragment may be missing.
async fn compare(volume: &Volume, empty: &FsStat, what: &str) {
    let geometry = volume.files.store().engine().geometry();
    let root = volume.attributes(volume.files.root()).await;
    let held = held_fragments(geometry, root.size);
    assert_eq!(root.used, held * geometry.fragment_size, "what the root directory holds");
    let grown = (held - held_fragments(geometry, CHUNK_SIZE as u64)) * geometry.fragment_size;
    let (free_bytes, available_bytes) = (empty.free_bytes - grown, empty.available_bytes - grown);
    let expected = FsStat { free_bytes, available_bytes, ..*empty };
    assert_eq!(volume.space().await, expected, "{what}; the root directory holds {held} fragments");
}

/// Fragments of a file without holes: its blocks and the indirect blocks that lead to them.
fn held_fragments(geometry: &ufs2::layout::Geometry, size: u64) -> u64 {
    let blocks = size.div_ceil(geometry.block_size);
    if blocks <= 12 {
        return size.div_ceil(geometry.fragment_size);
    }
    let (mut indirect, fan) = (0, geometry.pointers_per_indirect);
    let mut behind = blocks - 12;
    for tree in 1..=3 {
        let here = behind.min(fan.pow(tree));
        indirect += (0..tree).map(|level| here.div_ceil(fan.pow(level + 1))).sum::<u64>();
        behind -= here;
    }
    (blocks + indirect) * geometry.fragments_per_block
}
