//! Calls that are remembered with their changes, while the log wraps around; cut at any moment.
//!
//! Each worker makes one call after the other in a directory of its own, and holds the keys of the
//! last few. So after a cut its directory shows how many of its calls were carried out, and the log
//! has to remember exactly those whose keys it held, each with the answer that the worker got.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use futures::future::join_all;
use journal::format::{SMALLEST, State};
use runtime::Timestamp;
use sim::{Disk, Executor, Image, Trace};
use ufs2::mkfs::mkfs;
use vfs::{
    Answer, CallKey, CallOutcome, CreateHow, Credentials, FileSystem, Found, LoggedReply, ObjectId,
    Repetitions, Requester, Sealed, SetAttributes, Stability, Wcc,
};

use super::Seeded;
use super::cutting::{
    Cut, Pair, acknowledged, acknowledgement, after_cut, cuts, random_cuts, sizes,
};
use super::volume::{Volume, name, try_open_pair};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const WORKERS: usize = 5;
const CALLS: usize = 42;
/// Number of keys that a worker holds.
const HELD: usize = 12;
/// Bytes that each worker writes with each call, so that the log wraps around.
const FILLING: usize = 12 << 10;

/// The answers of all calls, by worker and number.
type Answers = BTreeMap<(usize, usize), CallOutcome>;

/// A run with all of its answers.
pub(crate) struct Run {
    seed: u64,
    answers: Answers,
    traces: Pair<Trace>,
}

fn key(worker: usize, call: usize) -> CallKey {
    CallKey::new(&[worker as u8, call as u8]).expect("two bytes")
}

pub(crate) fn caller(worker: usize, call: usize) -> Requester {
    Requester { who: Credentials::root(), call: Some(Rc::new(key(worker, call))) }
}

/// The expected names after `calls` calls, with the mode of each.
fn after(calls: usize) -> BTreeMap<String, u16> {
    let mut names = BTreeMap::from([("filling".to_owned(), 0o644)]);
    for call in 0..calls {
        let first = call - call % 7;
        match call % 7 {
            0 => drop(names.insert(format!("d-{first}"), 0o755)),
            1 => drop(names.insert(format!("f-{first}"), 0o644)),
            2 => drop(names.insert(format!("l-{first}"), 0o644)),
            3 => {
                names.remove(&format!("f-{first}"));
                names.insert(format!("m-{first}"), 0o644);
            }
            4 => drop(names.remove(&format!("d-{first}"))),
            5 => drop(names.remove(&format!("l-{first}"))),
            _ => drop(names.insert(format!("m-{first}"), 0o600)),
        }
    }
    names
}

async fn made(sealed: Sealed<Answer<Found, Wcc>>) -> CallOutcome {
    let answer = sealed.open().await.expect("running").into_inner();
    let found = answer.result.expect("it is new");
    let attributes = Some(found.attributes);
    let about = [answer.about, Wcc::default()];
    CallOutcome { found: Some(found.id), attributes, about, has_failed: false }
}

async fn changed<W>(sealed: Sealed<Answer<(), W>>, about: impl Fn(W) -> [Wcc; 2]) -> CallOutcome {
    let answer = sealed.open().await.expect("running").into_inner();
    answer.result.expect("it is there");
    CallOutcome { about: about(answer.about), ..CallOutcome::default() }
}

/// Makes call number `call`.
async fn make(volume: &Volume, at: ObjectId, who: &Requester, call: usize) -> CallOutcome {
    let first = call - call % 7;
    let of = |letter: char| name(&format!("{letter}-{first}"));
    let mode = |mode| SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    let one = |about| [about, Wcc::default()];
    let find =
        async |letter| volume.lookup(at, &format!("{letter}-{first}")).await.expect("it was made");
    let files = &volume.files;
    match call % 7 {
        0 => made(files.mkdir(who, at, &of('d'), mode(0o755)).await).await,
        1 => {
            let how = CreateHow::Guarded(mode(0o644));
            made(files.create(who, at, &of('f'), how).await).await
        }
        2 => {
            let both = |(file, directory)| [Wcc { before: None, after: file }, directory];
            let done = changed(files.link(who, find('f').await, at, &of('l')).await, both).await;
            without_first_before(done)
        }
        3 => {
            let both = |(from, to)| [from, to];
            changed(files.rename(who, at, &of('f'), at, &of('m')).await, both).await
        }
        4 => changed(files.rmdir(who, at, &of('d')).await, one).await,
        5 => changed(files.remove(who, at, &of('l')).await, one).await,
        _ => changed(files.setattr(who, find('m').await, mode(0o600), None).await, one).await,
    }
}

/// An answer for comparison: the reply of a LINK does not have the old attributes of the file.
fn without_first_before(mut done: CallOutcome) -> CallOutcome {
    done.about[0].before = None;
    done
}

/// Runs the workers.
pub(crate) fn record(seed: u64) -> Run {
    let executor = Executor::new(seed);
    let images = Pair { home: Image::zeroed(16 << 20), log: Some(Image::zeroed(SMALLEST)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    let answers = RefCell::new(Answers::new());
    let traces = executor.block_on(async {
        mkfs(&*disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let volume = opened.unwrap_or_else(|error| panic!("{error}")).0;
        let root = volume.files.root();
        let mut homes = Vec::new();
        for worker in 0..WORKERS {
            let home = volume.mkdir(root, &format!("worker-{worker}")).await.expect("new");
            homes.push((home, volume.create(home, "filling").await.expect("new")));
        }
        disks.map(|disk| disk.start_trace());
        let (volume, answers, disks) = (&volume, &answers, &disks);
        let work = homes.into_iter().enumerate().map(|(worker, (home, filling))| async move {
            let mut held = VecDeque::new();
            for call in 0..CALLS {
                if held.len() == HELD {
                    held.pop_front();
                }
                let who = caller(worker, call);
                let done = make(volume, home, &who, call).await;
                held.push_back(who);
                answers.borrow_mut().insert((worker, call), done);
                disks.home.mark(acknowledgement(worker as u64, call + 1));
                let data = vec![call as u8; FILLING];
                volume.write(filling, 0, data, Stability::FileSync).await.expect("room");
            }
        });
        join_all(work).await;
        disks.map(|disk| disk.trace())
    });
    Run { seed, answers: answers.into_inner(), traces }
}

impl Run {
    /// Cuts the run `count` times; returns the first error.
    pub(crate) fn first_wrong(&self, count: u64) -> Result<(), String> {
        let all = random_cuts(&self.traces, self.seed, cuts(count));
        all.iter().try_for_each(|cut| {
            self.wrong_after(cut).map_err(|wrong| format!("{}: {wrong}", cut.label()))
        })
    }

    fn wrong_after(&self, cut: &Cut) -> Result<(), String> {
        let (executor, disks) = after_cut(cut.seed, cut.image()?);
        let held = executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            let volume = opened.map_err(|error| error.to_string())?.0;
            let held = taken(&volume).await?;
            for worker in 0..WORKERS {
                let least = acknowledged(&self.traces.home, cut.position, worker as u64);
                self.compare(&volume, &held, worker, least).await?;
            }
            // Inherited answers stay, whatever else goes through the log, and whatever the stop.
            let root = volume.files.root();
            let filling =
                volume.create(root, "filling").await.map_err(|error| error.to_string())?;
            for round in 0..120 {
                let data = vec![round; FILLING];
                volume.write(filling, 0, data, Stability::FileSync).await.expect("room");
            }
            if cut.seed.is_multiple_of(2) {
                volume.files.shutdown().await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(held)
        })?;
        let (executor, disks) =
            after_cut(cut.seed, disks.map(|disk| disk.platter().durable_image()));
        executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            let volume = opened.map_err(|error| format!("once more: {error}"))?.0;
            let again = taken(&volume).await?;
            if summary(&again) == summary(&held) {
                volume.files.shutdown().await.map_err(|error| error.to_string())
            } else {
                Err("what was remembered is not remembered once more".into())
            }
        })
    }

    /// Checks that the remembered answers of a worker match its directory.
    async fn compare(
        &self,
        volume: &Volume,
        held: &[LoggedReply],
        worker: usize,
        least: usize,
    ) -> Result<(), String> {
        let home = volume.lookup(volume.files.root(), &format!("worker-{worker}")).await;
        let there = seen(volume, home.map_err(|error| error.to_string())?).await?;
        let done = (least..=CALLS.min(least + 1)).find(|&calls| after(calls) == there);
        let Some(done) = done else {
            return Err(format!("worker {worker} was told of {least} calls, and has {there:?}"));
        };
        let of_worker =
            held.iter().filter_map(|remembered| match remembered.answered.key.as_bytes() {
                &[by, call] if usize::from(by) == worker => {
                    Some((usize::from(call), remembered.answered.outcome))
                }
                _ => None,
            });
        let remembered: BTreeMap<usize, CallOutcome> = of_worker.collect();
        let needed: BTreeSet<usize> = ((least + 1).saturating_sub(HELD)..done).collect();
        for call in needed {
            let Some(&answer) = remembered.get(&call) else {
                return Err(format!("call {call} of worker {worker} is not remembered"));
            };
            let like_link = if call % 7 == 2 { without_first_before(answer) } else { answer };
            if like_link != self.answers[&(worker, call)] {
                return Err(format!("call {call} of worker {worker} has another answer"));
            }
        }
        match remembered.keys().next_back() {
            Some(&call) if call >= done => {
                Err(format!("call {call} of worker {worker} is remembered and was not carried out"))
            }
            _ => Ok(()),
        }
    }
}

/// The names of a directory, and the mode of each.
async fn seen(volume: &Volume, directory: ObjectId) -> Result<BTreeMap<String, u16>, String> {
    let mut seen = BTreeMap::new();
    for text in volume.list(directory).await.map_err(|error| error.to_string())? {
        if !matches!(text.as_str(), "." | "..") {
            let id = volume.lookup(directory, &text).await.map_err(|error| error.to_string())?;
            seen.insert(text, volume.attributes(id).await.mode);
        }
    }
    Ok(seen)
}

async fn taken(volume: &Volume) -> Result<Vec<LoggedReply>, String> {
    let sealed = volume.files.take_remembered();
    Ok(sealed.open().await.map_err(|error| error.to_string())?.into_inner())
}

fn summary(remembered: &[LoggedReply]) -> Vec<(Vec<u8>, CallOutcome)> {
    let one = |one: &LoggedReply| (one.answered.key.as_bytes().to_vec(), one.answered.outcome);
    let mut all: Vec<_> = remembered.iter().map(one).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

/// Size of a long file before it is truncated, and after.
pub(crate) const LONG: u64 = 24 << 20;
pub(crate) const SHORT: u64 = 1_000;

/// A long file is truncated in steps, by a call that must be remembered. Returns the traces of the
/// disks, and the answer of the call.
pub(crate) fn cut_short(seed: u64) -> (Pair<Trace>, CallOutcome) {
    let executor = Executor::new(seed);
    let images = Pair { home: Image::zeroed(48 << 20), log: Some(Image::zeroed(4 << 20)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    executor.block_on(async {
        mkfs(&*disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let volume = opened.unwrap_or_else(|error| panic!("{error}")).0;
        let file = volume.create(volume.files.root(), "file").await.expect("new");
        for piece in 0..LONG >> 20 {
            let data = vec![1; 1 << 20];
            volume.write(file, piece << 20, data, Stability::Unstable).await.expect("room");
        }
        volume.settle().await;
        disks.map(|disk| disk.start_trace());
        let who = caller(0, 0);
        let size = SetAttributes { size: Some(SHORT), ..SetAttributes::default() };
        let sealed = volume.files.setattr(&who, file, size, None).await;
        let done = changed(sealed, |about| [about, Wcc::default()]).await;
        disks.home.mark(acknowledgement(0, 1));
        volume.settle().await;
        (disks.map(|disk| disk.trace()), done)
    })
}

/// The size of the truncated file, and the remembered answer of the call that truncated it, which
/// stays as long as its key is held.
pub(crate) async fn size_and_answer(volume: &Volume) -> Result<(u64, Vec<LoggedReply>), String> {
    let held = taken(volume).await?;
    let file = volume.lookup(volume.files.root(), "file").await;
    // A reader waits until the truncation is done.
    let data = volume.read(file.map_err(|error| error.to_string())?).await;
    let size = data.map_err(|error| error.to_string())?.len() as u64;
    Ok((size, held))
}

/// Power fails at any moment while a long file is truncated. Once the truncation has begun the call
/// is remembered; and in the end with its answer.
pub(crate) fn long_file_cut_short(seed: u64) -> Result<(), String> {
    let (traces, expected) = cut_short(seed);
    for cut in random_cuts(&traces, seed, 40) {
        let (executor, disks) = after_cut(cut.seed, cut.image()?);
        let is_answered = acknowledged(&traces.home, cut.position, 0) > 0;
        let (size, held) = executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            size_and_answer(&opened.map_err(|error| error.to_string())?.0).await
        })?;
        let answer = held.first().map(|remembered| remembered.answered.outcome);
        match (size, answer) {
            (LONG, None) if !is_answered => {}
            (SHORT, Some(done)) if done == expected => {}
            (SHORT, Some(done)) if done == CallOutcome::default() && !is_answered => {}
            _ => return Err(format!("{}: {size} bytes, answered {answer:?}", cut.label())),
        }
    }
    Ok(())
}

/// Callers that drop their keys; returns whether their answers stay in the log.
pub(crate) fn forgotten_calls() -> Result<(), String> {
    let executor = Executor::new(1);
    let images = Pair { home: Image::zeroed(16 << 20), log: Some(Image::zeroed(SMALLEST)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    executor.block_on(async {
        mkfs(&*disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let volume = opened.unwrap_or_else(|error| panic!("{error}")).0;
        let home = volume.mkdir(volume.files.root(), "home").await.expect("new");
        let filling = volume.create(home, "filling").await.expect("new");
        for call in 0..CALLS {
            make(&volume, home, &caller(0, call), call).await;
            let data = vec![call as u8; FILLING];
            for _ in 0..6 {
                let write = volume.write(filling, 0, data.clone(), Stability::FileSync);
                write.await.expect("room");
            }
        }
        let statistics = volume.files.store().engine().log_statistics().expect("there is a log");
        match (statistics.answers.kept, statistics.answers.again, statistics.answers_held) {
            (kept, 0, held) if kept == CALLS as u64 && held < 3 => Ok(()),
            counted => Err(format!("answers that came, went again, and are held: {counted:?}")),
        }
    })
}

/// The number of repetitions survives a crash, a clean stop, and a log that has wrapped around
/// since.
pub(crate) fn repetitions() -> Result<(), String> {
    let executor = Executor::new(1);
    let images = Pair { home: Image::zeroed(16 << 20), log: Some(Image::zeroed(SMALLEST)) };
    let mut disks = images.map(|image| Disk::new(&executor, image.clone()));
    executor.block_on(async {
        mkfs(&*disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
    });
    for (round, is_clean) in [(1, true), (2, false), (3, true), (4, false)] {
        let told = executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            let volume = opened.map_err(|error| error.to_string())?.0;
            volume.files.count_repetition(false);
            volume.files.count_repetition(true);
            let file = volume.create(volume.files.root(), &format!("file-{round}")).await;
            let file = file.map_err(|error| error.to_string())?;
            for _ in 0..120 {
                let data = vec![round; FILLING];
                volume.write(file, 0, data, Stability::FileSync).await.expect("room");
            }
            if is_clean {
                volume.files.shutdown().await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(disks.map(|disk| disk.platter().durable_image()))
        })?;
        disks = told.map(|image| Disk::new(&executor, image.clone()));
        let log = disks.log.clone().expect("it has one");
        let counted = executor.block_on(async {
            let slot = journal::peek(&*log).await.expect("whole").expect("a log");
            let mut answers = ffs::replay::Answers::default();
            let see = |entry: &journal::Entry| answers.see(entry);
            let live = match slot.state() {
                State::Open => journal::find_with(&*log, slot.epoch.get(), see).await,
                _ => journal::at_rest(&*log, see).await,
            };
            let live = live.expect("whole").expect("of this volume");
            answers.survived(live.head).repetitions
        });
        let expected =
            Repetitions { answered: 2 * u64::from(round), over_a_start: u64::from(round) };
        if counted != expected {
            return Err(format!("in round {round} the log tells of {counted:?}"));
        }
    }
    Ok(())
}
