//! Random stories of callers that do not wait, on soft updates: files come and go, some before any
//! write has included them, and their inodes and blocks are reused. Such a story is cut anywhere
//! and continues while leaks of the cut are looked for.
//!
//! Each file is full of bytes of its own. So no byte of another file may ever be read, committed
//! data is whole, and after a stop nothing is leaked.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use block::Verb;
use bytes::Bytes;
use ffs::policy::softdep::SoftUpdatesOptions;
use ffs::{Disks, OpenOptions, PolicyKind, open};
use futures::future::join;
use runtime::{Clock, Timestamp};
use sim::{Choice, Disk, Effect, Executor, Fault, Image, Mark, Prng};
use ufs2::mkfs::mkfs;
use vfs::{
    Answer, CreateHow, Delayed, FileSystem, FsError, ObjectId, Requester, Sealed, SetAttributes,
    Stability,
};

use crate::common::cutting::{Pair, after_cut, cuts, judge, sizes};
use crate::common::raw::soft_update_violations;
use crate::common::volume::{Volume, name};
use vnode::Engine as _;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
/// Maximum number of bytes that are added to a file at once.
const LARGEST: u64 = 9_000;
const STEPS: usize = 60;
const DIRECTORIES: [&str; 3] = ["A", "B", "A/C"];

/// Events of a promise, in the order of the marks of a trace.
enum Event {
    /// This many bytes of a file stay.
    Promised(ObjectId, u64),
    /// The promise ends, since the caller changed the file.
    Withdrawn(ObjectId),
}

/// A caller that does not wait, and its model of the volume.
struct Teller<'v> {
    volume: &'v Volume,
    disk: &'v Disk,
    clock: Rc<dyn Clock>,
    chance: Prng,
    /// Directories, including the root.
    homes: Vec<ObjectId>,
    /// Names of files.
    names: Vec<(ObjectId, String, ObjectId)>,
    /// The byte of each file that ever existed, and whether it may have zeros after a cut: in place
    /// of UNSTABLE data, and behind data written after it was truncated.
    bytes: BTreeMap<ObjectId, (u8, bool)>,
    sizes: BTreeMap<ObjectId, u64>,
    /// Files in which a cut may have left zeros.
    holes: BTreeSet<ObjectId>,
    events: Vec<Event>,
    made: usize,
}

fn told<T, A>(sealed: Sealed<Answer<T, A>>) -> Result<T, FsError> {
    sealed.accept(Delayed::declared()).expect("running").into_inner().result
}

/// Bytes as runs of equal values.
fn runs_of(bytes: &[u8]) -> Vec<(u8, usize)> {
    bytes.chunk_by(|one, next| one == next).map(|run| (run[0], run.len())).collect()
}

fn attributes() -> SetAttributes {
    SetAttributes { mode: Some(0o755), ..SetAttributes::default() }
}

impl<'v> Teller<'v> {
    fn new(volume: &'v Volume, disk: &'v Disk, clock: Rc<dyn Clock>, chance: Prng) -> Self {
        let homes = vec![volume.files.root()];
        let (names, events, made) = Default::default();
        let (bytes, sizes, holes) = Default::default();
        Self { volume, disk, clock, chance, homes, names, bytes, sizes, holes, events, made }
    }

    fn note(&mut self, event: Event) {
        self.disk.mark(self.events.len() as u64);
        self.events.push(event);
    }

    fn home(&mut self) -> ObjectId {
        self.homes[self.chance.index(self.homes.len())]
    }

    fn some_name(&mut self) -> Option<usize> {
        let count = self.names.len();
        (count > 0).then(|| self.chance.index(count))
    }

    /// Makes `steps` steps, after which everything in the model exists.
    async fn tell(&mut self, steps: usize) -> Result<(), String> {
        for _ in 0..steps {
            match self.step().await {
                Ok(()) | Err(FsError::NoSpace) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        self.check_all().await
    }

    /// A step that may be refused for lack of room.
    async fn step(&mut self) -> Result<(), FsError> {
        match self.chance.below(20) {
            0..5 => self.create().await,
            5..9 => self.append().await,
            9..13 => self.remove().await,
            13 => self.link().await,
            14 | 15 => self.rename().await,
            16 => self.truncate().await,
            17 | 18 => self.commit().await,
            _ => {
                let most = [1, 1_000, 5_000, 20_000][self.chance.index(4)];
                self.clock.sleep(Duration::from_millis(self.chance.below(most))).await;
                Ok(())
            }
        }
    }

    async fn create(&mut self) -> Result<(), FsError> {
        let (who, home) = (Requester::root(), self.home());
        let long =
            if self.chance.chance(1, 3) { "-with-a-long-name".repeat(6) } else { String::new() };
        let text = format!("f{}{long}", self.made);
        let how = CreateHow::Guarded(attributes());
        let id = told(self.volume.files.create(&who, home, &name(&text), how).await)?.id;
        self.made += 1;
        self.bytes.insert(id, (self.made as u8 | 1, false));
        self.sizes.insert(id, 0);
        self.names.push((home, text, id));
        Ok(())
    }

    async fn append(&mut self) -> Result<(), FsError> {
        let Some(at) = self.some_name() else { return Ok(()) };
        let (id, size) = (self.names[at].2, self.sizes[&self.names[at].2]);
        let data = vec![self.bytes[&id].0; self.chance.between(1, LARGEST) as usize];
        let length = data.len() as u64;
        let stability = [Stability::Unstable, Stability::FileSync][self.chance.index(2)];
        self.bytes.get_mut(&id).expect("it was made").1 |= stability == Stability::Unstable;
        let pieces = vec![Bytes::from(data)];
        let who = Requester::root();
        told(self.volume.files.write(&who, id, size, pieces, stability).await)?;
        self.sizes.insert(id, size + length);
        Ok(())
    }

    /// A file that loses a name, perhaps its last, is no longer promised.
    fn lose(&mut self, at: usize) {
        let (_, _, id) = self.names.swap_remove(at);
        if !self.names.iter().any(|(_, _, of)| *of == id) {
            self.note(Event::Withdrawn(id));
        }
    }

    async fn remove(&mut self) -> Result<(), FsError> {
        match self.some_name() {
            Some(at) => self.remove_at(at).await,
            None => Ok(()),
        }
    }

    async fn remove_at(&mut self, at: usize) -> Result<(), FsError> {
        let (home, text, _) = self.names[at].clone();
        let who = Requester::root();
        self.lose(at); // from now on it may be gone
        told(self.volume.files.remove(&who, home, &name(&text)).await)
    }

    async fn link(&mut self) -> Result<(), FsError> {
        let Some(at) = self.some_name() else { return Ok(()) };
        let (id, home, text) = (self.names[at].2, self.home(), format!("l{}", self.made));
        self.made += 1;
        let who = Requester::root();
        told(self.volume.files.link(&who, id, home, &name(&text)).await)?;
        self.names.push((home, text, id));
        Ok(())
    }

    /// To a new name, or over another file.
    async fn rename(&mut self) -> Result<(), FsError> {
        let Some(at) = self.some_name() else { return Ok(()) };
        let (from, old, id) = self.names[at].clone();
        let over = self.some_name().filter(|over| self.names[*over].2 != id);
        let (to, new) = match over.filter(|_| self.chance.chance(1, 2)) {
            Some(over) => {
                let (home, text, _) = self.names[over].clone();
                self.lose(over);
                (home, text)
            }
            None => (self.home(), format!("r{}", self.made)),
        };
        self.made += 1;
        let who = Requester::root();
        told(self.volume.files.rename(&who, from, &name(&old), to, &name(&new)).await)?;
        let moved = self.names.iter().position(|(home, text, _)| (*home, text) == (from, &old));
        self.names.swap_remove(moved.expect("it was there"));
        self.names.push((to, new, id));
        Ok(())
    }

    async fn truncate(&mut self) -> Result<(), FsError> {
        let Some(at) = self.some_name() else { return Ok(()) };
        let id = self.names[at].2;
        let size = self.chance.below(self.sizes[&id] + 1);
        self.note(Event::Withdrawn(id));
        self.bytes.get_mut(&id).expect("it was made").1 = true;
        let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        told(self.volume.files.setattr(&Requester::root(), id, changes, None).await)?;
        self.sizes.insert(id, size);
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), FsError> {
        let Some(at) = self.some_name() else { return Ok(()) };
        let id = self.names[at].2;
        self.volume.files.ensure_named(id).await?;
        let (committed, passed) = join(self.volume.commit(id), self.come_and_go()).await;
        committed?;
        self.note(Event::Promised(id, self.sizes[&id]));
        passed
    }

    /// A file comes and goes while the disk is busy.
    async fn come_and_go(&mut self) -> Result<(), FsError> {
        for _ in 0..3 {
            self.clock.sleep(Duration::from_micros(self.chance.below(300))).await;
            self.create().await?;
            self.clock.sleep(Duration::from_micros(self.chance.below(300))).await;
            self.remove_at(self.names.len() - 1).await?;
        }
        Ok(())
    }

    /// Checks that every byte of a file is its own, and that the first `kept` ones are there.
    /// Returns the number of bytes.
    async fn check_bytes(&self, id: ObjectId, kept: u64) -> Result<u64, String> {
        let bytes = self.volume.read(id).await.map_err(|error| format!("{id:?}: {error}"))?;
        match self.bytes.get(&id) {
            _ if bytes.iter().take(kept as usize).filter(|byte| **byte != 0).count() as u64
                != kept =>
            {
                Err(format!(
                    "of {id:?}, of which {kept} bytes are to stay, is {:?}",
                    runs_of(&bytes)
                ))
            }
            Some(&(own, has_zeros))
                if bytes.iter().all(|&byte| byte == own || byte == 0 && has_zeros) =>
            {
                Ok(bytes.len() as u64)
            }
            own => Err(format!("{id:?} holds {:?} for {own:?}", runs_of(&bytes))),
        }
    }

    /// Checks that everything in the model exists.
    async fn check_all(&self) -> Result<(), String> {
        for (home, text, id) in &self.names {
            let found = self.volume.lookup(*home, text).await;
            if found != Ok(*id) {
                return Err(format!("{text} is {found:?}"));
            }
            let whole = self.sizes[id];
            let size =
                self.check_bytes(*id, if self.holes.contains(id) { 0 } else { whole }).await?;
            if size != whole {
                return Err(format!("{text} has {size} bytes, not {whole}"));
            }
        }
        Ok(())
    }

    /// Builds the model from a volume that a cut left in another one's story.
    async fn find_all(&mut self, bytes: &BTreeMap<ObjectId, (u8, bool)>) -> Result<(), String> {
        self.bytes = bytes.clone();
        let holes = bytes.iter().filter(|(_, (_, has_zeros))| *has_zeros);
        self.holes = holes.map(|(&id, _)| id).collect();
        let mut open = self.homes.clone();
        while let Some(home) = open.pop() {
            let list = self.volume.list(home).await.map_err(|error| format!("a list: {error}"))?;
            for text in list.into_iter().filter(|text| !text.starts_with('.')) {
                let id = self.volume.lookup(home, &text).await;
                let id = id.map_err(|error| format!("{text}: {error}"))?;
                if self.volume.attributes(id).await.kind == vfs::FileKind::Directory {
                    open.push(id);
                    self.homes.push(id);
                } else {
                    let size = self.check_bytes(id, 0).await?;
                    self.sizes.insert(id, size);
                    self.names.push((home, text, id));
                }
            }
        }
        Ok(())
    }
}

/// A volume that is served at once, with a slow reclaim.
async fn open_volume(executor: &Executor, disk: &Rc<Disk>) -> Volume {
    let softdep = SoftUpdatesOptions { reclaim_share: 0.01, ..SoftUpdatesOptions::default() };
    let options = OpenOptions { softdep, finishes_reclaim: true, ..OpenOptions::default() };
    let disks = Disks::alone(disk.clone());
    let policy = PolicyKind::SoftUpdates;
    let opened = open(policy, disks, executor.runtime(), &options, &mut |_| ()).await;
    Volume::new(opened.unwrap_or_else(|error| panic!("{error}")).files)
}

/// Runs a story, stops, and checks; then cuts it, and continues.
fn tell(seed: u64, block: (u64, u64), wanted: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, Image::zeroed(8 << 20));
    let mut chance = Prng::new(seed);
    let (trace, events, bytes) = executor.block_on(async {
        let random = executor.runtime().random;
        mkfs(&*disk, &sizes(block.0, block.1), &*random, NOW).await.expect("it fits");
        let volume = open_volume(&executor, &disk).await;
        let clock = executor.runtime().clock;
        let mut teller = Teller::new(&volume, &disk, clock, chance.fork());
        for path in DIRECTORIES {
            let (home, text) = match path.rsplit_once('/') {
                Some((_, text)) => (teller.homes[1], text),
                None => (teller.homes[0], path),
            };
            let made = volume.mkdir(home, text).await;
            teller.homes.push(made.expect("there is room"));
        }
        volume.settle().await;
        disk.start_trace();
        teller.tell(STEPS).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>((disk.trace(), teller.events, teller.bytes))
    })?;
    judge(&disk, "soft-story")?;
    let count = trace.cuts().count() as u64;
    let at: Vec<u64> = (0..wanted).map(|_| chance.below(count)).collect();
    for (position, platter) in trace.cuts() {
        if !at.contains(&(position as u64)) {
            continue;
        }
        let image = platter.image(&Choice::random(&platter, &mut chance));
        let mut promised = BTreeMap::new();
        for mark in trace.marks_before(position) {
            let Mark::Number(index) = mark else { continue };
            match events[*index as usize] {
                Event::Promised(id, size) => drop(promised.insert(id, size)),
                Event::Withdrawn(id) => drop(promised.remove(&id)),
            }
        }
        go_on(&image, &promised, &bytes, chance.fork())
            .map_err(|error| format!("cut at {position} of {count}: {error}"))?;
    }
    Ok(())
}

/// Checks a disk after a cut, runs another story while reclaim runs, stops and checks.
fn go_on(
    image: &Image,
    promised: &BTreeMap<ObjectId, u64>,
    bytes: &BTreeMap<ObjectId, (u8, bool)>,
    mut chance: Prng,
) -> Result<(), String> {
    let wrong = soft_update_violations(image);
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    let (executor, disks) = after_cut(chance.next_u64(), Pair { home: image.clone(), log: None });
    executor.block_on(async {
        let volume = open_volume(&executor, &disks.home).await;
        let clock = executor.runtime().clock;
        let mut teller = Teller::new(&volume, &disks.home, clock, chance.fork());
        teller.made = 100;
        teller.find_all(bytes).await?;
        for (id, size) in promised {
            teller.check_bytes(*id, *size).await?;
        }
        teller.tell(STEPS / 2).await?;
        if !volume.files.store().engine().wait_for_reclaim().await {
            return Err("reclaim cannot go on".to_owned());
        }
        teller.check_all().await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    judge(&disks.home, "soft-story-again")
}

/// The first story that fails.
fn first_wrong(stories: u64, cuts: u64) -> Option<String> {
    (0..stories).find_map(|seed| {
        let block = [(4096, 512), (8192, 1024), (4096, 4096)][seed as usize % 3];
        tell(seed, block, cuts).err().map(|error| format!("story {seed}: {error}"))
    })
}

#[test]
fn whatever_comes_and_goes_no_file_loses_or_finds_a_byte() {
    assert_eq!(first_wrong(cuts(16), 4), None);
}

/// A new volume whose access times are written on request of the test.
async fn new_volume(executor: &Executor, disk: &Rc<Disk>) -> Volume {
    let random = executor.runtime().random;
    mkfs(&**disk, &sizes(4096, 4096), &*random, NOW).await.expect("it fits");
    let housekeeping_interval = Duration::from_secs(100_000);
    let options = OpenOptions { keeps_data: false, housekeeping_interval, ..Default::default() };
    let (policy, disks) = (PolicyKind::SoftUpdates, Disks::alone(disk.clone()));
    let opened = open(policy, disks, executor.runtime(), &options, &mut |_| ()).await;
    Volume::new(opened.unwrap_or_else(|error| panic!("{error}")).files)
}

/// A directory comes and goes, and a write of its block, which was changed without a delta, is
/// slow: files are made and written meanwhile.
fn reuse_what_is_on_its_way() -> Result<(), String> {
    const DATA: [u8; 12_288] = [7; 12_288];
    let executor = Executor::new(5);
    let disk = Disk::new(&executor, Image::zeroed(8 << 20));
    executor.block_on(async {
        let volume = new_volume(&executor, &disk).await;
        let clock = executor.runtime().clock;
        let mut teller = Teller::new(&volume, &disk, clock.clone(), Prng::new(1));
        let (root, who) = (volume.files.root(), Requester::root());
        for index in 0..8 {
            // Each group has initialised inodes.
            let home = volume.mkdir(root, &format!("d{index}")).await.expect("there is room");
            volume.create(home, "first").await.expect("there is room");
            teller.homes.push(home);
        }
        volume.settle().await;
        let made = volume.files.mkdir(&who, root, &name("D"), attributes()).await;
        teller.homes.push(told(made).expect("there is room").id);
        let come_and_go = async |teller: &mut Teller| {
            let home = *teller.homes.last().expect("it was made");
            let how = CreateHow::Guarded(attributes());
            told(volume.files.create(&who, home, &name("x"), how).await).expect("there is room");
            told(volume.files.remove(&who, home, &name("x")).await).expect("it is there");
        };
        come_and_go(&mut teller).await;
        let slow = || disk.inject(Fault::on(Verb::Write, Effect::Slow(Duration::from_secs(1))));
        let begun = || clock.sleep(Duration::from_millis(100));
        slow();
        join(volume.files.store().engine().write_times(), async {
            begun().await;
            come_and_go(&mut teller).await;
        })
        .await;
        slow();
        let mut files = Vec::new();
        join(volume.files.store().engine().write_times(), async {
            begun().await;
            told(volume.files.rmdir(&who, root, &name("D")).await).expect("it is empty");
            for &home in &teller.homes[1..9] {
                let how = CreateHow::Guarded(attributes());
                let file = volume.files.create(&who, home, &name("file"), how).await;
                let file = told(file).expect("there is room").id;
                let pieces = vec![Bytes::from(DATA.to_vec())];
                let written = volume.files.write(&who, file, 0, pieces, Stability::FileSync).await;
                told(written).expect("there is room");
                files.push(file);
            }
        })
        .await;
        for file in files {
            volume.commit(file).await.expect("it is there");
            let bytes = volume.read(file).await.expect("it is there");
            if bytes != DATA {
                return Err(format!("{file:?} holds {:?}", &runs_of(&bytes)[..3]));
            }
        }
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    judge(&disk, "soft-reuse")
}

#[test]
fn a_block_that_is_on_its_way_is_not_used_again() {
    assert_eq!(reuse_what_is_on_its_way(), Ok(()));
}

/// The new name of a directory goes after the rest of the Update that added it has landed.
fn cancel_late() -> Result<(), String> {
    let executor = Executor::new(5);
    let disk = Disk::new(&executor, Image::zeroed(8 << 20));
    executor.block_on(async {
        let volume = new_volume(&executor, &disk).await;
        let (root, who) = (volume.files.root(), Requester::root());
        let home = volume.mkdir(root, "p").await.expect("there is room");
        volume.mkdir(home, "d").await.expect("there is room");
        volume.settle().await;
        let (old, new) = (&name("d"), &name("e"));
        told(volume.files.rename(&who, home, old, home, new).await).expect("it is there");
        executor.runtime().clock.sleep(Duration::from_millis(12_500)).await;
        told(volume.files.rmdir(&who, home, new).await).expect("it is empty");
        volume.settle().await;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    judge(&disk, "soft-late")
}

#[test]
fn a_name_may_be_cancelled_when_all_else_has_landed() {
    assert_eq!(cancel_late(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn files_that_are_forgotten_too_soon_are_seen() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use ffs::planted::Bug;

    use crate::common::bugs::{plant, unplant};

    for (bug, cuts) in [(Bug::NamedVoids, 4), (Bug::WrittenVoids, 0)] {
        plant(bug);
        let outcome = catch_unwind(AssertUnwindSafe(|| first_wrong(200, cuts)));
        unplant();
        let said = outcome.unwrap_or_else(|_| Some("an assertion".to_owned()));
        println!("{bug:?}: {}", said.expect("it is seen"));
    }
    plant(Bug::HastyReuse);
    let reused = reuse_what_is_on_its_way();
    plant(Bug::StaleHangs);
    let cancelled = catch_unwind(cancel_late);
    unplant();
    println!("{}", reused.expect_err("it is seen"));
    assert!(cancelled.is_err(), "a round brings nothing home");
}
