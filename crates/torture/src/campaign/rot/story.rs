//! The accesses to a damaged volume.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use cow::Kind;
use cow::format::snapshot::Died;
use designs::{CheckOptions, LogUse, Opened, Severity};
use shadow::format::kind;
use sim::{Executor, PAGE_SIZE, Prng};
use vfs::{FileSystem, FsError};

use super::judge::{
    Block, Fate, Held, Seen, class_of, judge, judge_repaired, must_serve, notices_all,
};
use super::workload::{
    Damage, Made, Page, VOLUME_BYTES, by_class, bytes_of, content, drawn, looked_by_a_check,
    may_be_hit, shape,
};
use crate::explore::control;
use crate::explore::design::Design;
use crate::explore::device::Device;
use crate::explore::disks::Images;
use crate::explore::driver::Driver;
use crate::explore::op::{HELD, Op};
use crate::explore::ram::Ram;

/// Longest virtual time of any step.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The directory for files that have lost their name.
const LOST: &str = "lost+found";
/// A snapshot taken of a damaged volume.
const NEW: &str = "new";

/// Idle time in which the engine does its background work.
const QUIET: Duration = Duration::from_secs(60);
/// Most bytes that deletions use for themselves.
const OWN_BYTES: u64 = 128 << 10;
/// Offset of the level in a metadata block.
const LEVEL: usize = 16;
/// Files that are made and removed again, so that the records of changes are folded.
const BUSY: usize = 40;
/// Bytes of files that fill a volume.
const FILLER: usize = 60_000;

/// Runs the story of a case.
///
/// # Errors
/// A violation by the damage.
pub(super) fn live(
    design: Design,
    seed: u64,
    made: &Made,
    told: &RefCell<String>,
) -> Result<(), String> {
    let mut prng = Prng::new(seed ^ 0x570e);
    let rams = Ram::all(&made.images);
    let held = made.held.clone();
    let block = Block::of_no_file();
    let executor = Executor::new(seed | 1);
    let (seen, is_repaired) = (None, false);
    let mut life = Life { design, executor, rams, held, block, seen, is_repaired, told };
    let is_plain = design.is_summed() && design.device() == Device::Plain;
    match prng.index(10) {
        0 if is_plain && !made.twins.is_empty() => {
            life.lose_twins(made.twins[prng.index(made.twins.len())], &mut prng)?;
        }
        1 if is_plain => life.lose_map_beside(made, &mut prng)?,
        2 if is_plain => life.lose_a_list(&mut prng)?,
        3 | 4 => life.lose_after_a_kill(&mut prng)?,
        _ => {
            let damage = Damage::draw(design, seed, made);
            let page = (damage.disk, damage.at / PAGE_SIZE as u64);
            life.block = Block::of(&bytes_of(&made.images, page), &made.held);
            if !damage.is_served {
                life.rot(&damage);
            }
            life.serve_damaged(&damage, &mut prng)?;
        }
    }
    life.repair()?;
    life.serve_repaired()
}

/// A damaged volume and its expected state.
struct Life<'a> {
    design: Design,
    executor: Executor,
    rams: Vec<Rc<Ram>>,
    held: Held,
    /// The damaged block.
    block: Block,
    /// The last reading.
    seen: Option<Seen>,
    is_repaired: bool,
    told: &'a RefCell<String>,
}

/// A volume in service.
struct Served {
    opened: Opened,
    driver: Driver,
}

impl Life<'_> {
    /// Notes the progress of the story.
    fn at(&self, step: &str) {
        let mut told = self.told.borrow_mut();
        if !told.is_empty() && !told.ends_with(step) {
            told.push_str(", ");
        }
        if !told.ends_with(step) {
            told.push_str(step);
        }
    }

    fn devices(&self) -> Vec<Rc<dyn BlockDevice>> {
        self.rams.iter().map(|ram| ram.clone() as _).collect()
    }

    fn within<T>(&self, what: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let done = self.executor.block_on_for(PATIENCE, what);
        done.unwrap_or_else(|| Err("it does not end".to_owned()))
    }

    /// Opens the volume; `None` if it is refused.
    fn try_open(&self) -> Result<Option<Served>, String> {
        Ok(self.opened()?.ok())
    }

    fn opened(&self) -> Result<Result<Served, String>, String> {
        self.at("open");
        self.within(async {
            let (shape, runtime) = (shape(), self.executor.runtime());
            let opened = self.design.open_as(self.devices(), runtime, &shape).await;
            Ok(opened.map_err(|error| error.to_string()).map(|opened| {
                let driver = Driver::new(opened.files.clone());
                Served { opened, driver }
            }))
        })
    }

    /// Opens the volume; `None` if it is refused and may be.
    fn open(&self) -> Result<Option<Served>, String> {
        match self.opened()? {
            Ok(served) => Ok(Some(served)),
            Err(error) if must_serve(self.design, &self.block) => {
                Err(format!("it is refused: {error}"))
            }
            Err(_) => Ok(None),
        }
    }

    /// Applies the damage to its disk.
    fn rot(&mut self, damage: &Damage) {
        self.at(&format!("rot {damage}"));
        self.seen = None; // it may have come from memory
        let disk = &self.rams[damage.disk];
        disk.rot(damage.at, &damage.applied(&disk.image()));
    }

    /// Kills the server: its disks stay as they are.
    fn kill(&mut self) {
        self.at("kill");
        let images = Images(self.rams.iter().map(|ram| ram.image()).collect());
        self.executor = Executor::new(images.0.len() as u64);
        self.rams = Ram::all(&images);
    }

    /// One copy of a block rots and is read, then the other one.
    fn lose_twins(&mut self, twins: [Page; 2], prng: &mut Prng) -> Result<(), String> {
        for page in twins {
            self.rot(&Damage::of(prng, page));
            let served = self.open()?.ok_or("it is refused, and has another copy")?;
            self.look(&served)?;
            drop(served);
            self.kill();
        }
        let served = self.open()?.ok_or("it is refused, and has another copy")?;
        self.go_on(&served, "first")?;
        self.stop(&served)
    }

    /// A block of the map has rotted, and a block of pointers is unreadable for a while: the blocks
    /// below it are not allocated to other files.
    fn lose_map_beside(&mut self, made: &Made, prng: &mut Prng) -> Result<(), String> {
        let [map, pointers] =
            [kind::MAP, Kind::POINTERS].map(|kind| made.live.get(&(kind.byte())).cloned());
        let (Some(map), Some(pointers)) = (map, pointers) else { return Ok(()) };
        let map = map[prng.index(map.len())];
        self.rot(&Damage::of(prng, map));
        let (disk, page) = pointers[prng.index(pointers.len())];
        self.at(&format!("page {page} is unreadable"));
        self.rams[disk].set_unreadable(&[page]);
        if let Some(served) = self.try_open()? {
            for number in 0..VOLUME_BYTES as usize / FILLER {
                let (driver, name) = (&served.driver, format!("filler {number}"));
                let made = driver.fill(&name, content(&name, FILLER));
                if self.within(async { Ok(made.await) })?.is_err() {
                    break;
                }
            }
            drop(served);
            self.kill();
        }
        self.rams[disk].set_unreadable(&[]);
        let served = self.open()?.ok_or("it is refused, and nothing is lost")?;
        self.look(&served)?;
        self.stop(&served)
    }

    /// A dead list of the snapshots is unreadable during their deletion: the space on the other
    /// lists becomes free meanwhile, and all of it in the end.
    fn lose_a_list(&mut self, prng: &mut Prng) -> Result<(), String> {
        let served = self.open()?.ok_or("it is refused without damage")?;
        self.order(&served, "pin", &Op::Pin(NEW))?;
        let all: Vec<String> = self.held.files.keys().cloned().collect();
        for path in all.iter().filter(|path| !path.starts_with("many")) {
            let removed = self.within(async { Ok(served.driver.unlink(path).await) })?;
            removed.map_err(|error| format!("{path} is not removed: {error}"))?;
            self.held.files.remove(path);
        }
        self.busy(&served)?;
        self.stop(&served)?;
        let images = Images(self.rams.iter().map(|ram| ram.image()).collect());
        let looked = looked_by_a_check(self.design, &self.executor, &images)?;
        let list = |page: Page| {
            let bytes = bytes_of(&images, page);
            let is_list = class_of(&bytes) == Kind::DIED.byte() && bytes[LEVEL] == 0;
            let died = Died::read(&bytes).filter(|_| is_list)?;
            Some((page, died.runs.iter().map(|run| run.length * PAGE_SIZE as u64).sum::<u64>()))
        };
        let lists: Vec<(Page, u64)> = looked.into_iter().filter_map(list).collect();
        if lists.len() < 2 {
            return Ok(());
        }
        let served = self.open()?.ok_or("it is refused without damage")?;
        let ((disk, page), unread) = lists[prng.index(lists.len())];
        let others = lists.iter().map(|(_, bytes)| bytes).sum::<u64>() - unread;
        self.at(&format!("page {page} is unreadable"));
        self.rams[disk].set_unreadable(&[page]);
        let free = || served.opened.engine.space().free_bytes;
        let before = free();
        for op in [Op::Unpin(HELD), Op::Unpin(NEW)] {
            self.order(&served, "unpin", &op)?;
        }
        self.held.snapshot.clear();
        let files = &*served.opened.files;
        for number in self.within(control::deleting(files))? {
            self.at("delete");
            while let Ok(false) = self.within(control::step(files, number)) {}
        }
        let freed = free().saturating_sub(before);
        if freed + OWN_BYTES < others {
            return Err(format!(
                "{freed} bytes are free since one list cannot be read, not {others}"
            ));
        }
        self.rams[disk].set_unreadable(&[]);
        self.within(control::end_deletions(files))?;
        self.stop(&served)
    }

    /// Carries out an operation on snapshots, which must succeed.
    fn order(&self, served: &Served, word: &str, op: &Op) -> Result<(), String> {
        self.at(word);
        let done = self.within(control::carry_out(&*served.opened.files, op, || ()))?;
        done.map_err(|error| format!("{op}: {error}"))
    }

    /// The server is killed after all calls were answered, and then a block rots that the next
    /// start reads: the start gives up nothing, or is refused.
    fn lose_after_a_kill(&mut self, prng: &mut Prng) -> Result<(), String> {
        let served = self.open()?.ok_or("it is refused without damage")?;
        if prng.chance(1, 2) {
            self.busy(&served)?;
        }
        let bytes = content("zeroth", 30_000);
        let made = self.within(async { Ok(served.driver.fill("zeroth", bytes.clone()).await) })?;
        made.map_err(|error| format!("it is well, and nothing can be made: {error}"))?;
        self.held.files.insert("zeroth".to_owned(), Rc::new(bytes));
        let clock = self.executor.runtime().clock;
        self.within(async {
            clock.sleep(QUIET).await;
            Ok(())
        })?;
        drop(served);
        self.kill();
        let images = Images(self.rams.iter().map(|ram| ram.image()).collect());
        drop(self.try_open()?.ok_or("it does not come back")?);
        let mut read: Vec<Page> = self.rams[0].looked();
        read.retain(|&page| may_be_hit(self.design, page));
        self.rams = Ram::all(&images);
        self.kill();
        let page = drawn(prng, &by_class(&images, &read));
        self.block = Block::of(&bytes_of(&images, page), &self.held);
        self.rot(&Damage::of(prng, page));
        let Some(served) = self.try_open()? else {
            self.held.files.remove("zeroth"); // a repair may give it up
            return Ok(());
        };
        self.look(&served)?;
        self.go_on(&served, "first")?;
        self.stop(&served)
    }

    /// Makes and removes files.
    fn busy(&mut self, served: &Served) -> Result<(), String> {
        self.at("busy");
        let driver = &served.driver;
        let done = self.within(async {
            if driver.list(driver.root()).await.is_err() {
                return Ok(Ok(()));
            }
            for number in 0..BUSY {
                let name = format!("busy {number}");
                let done = match driver.fill(&name, vec![7; 100]).await {
                    Ok(()) => driver.unlink(&name).await,
                    failed => failed,
                };
                if done.is_err() {
                    return Ok(done);
                }
            }
            Ok(Ok(()))
        })?;
        match done {
            Err(error) if must_serve(self.design, &self.block) => {
                Err(format!("changes fail: {error}"))
            }
            _ => Ok(()),
        }
    }

    /// Serves the volume twice before the repair, the second time after a clean stop or a kill.
    fn serve_damaged(&mut self, damage: &Damage, prng: &mut Prng) -> Result<(), String> {
        let Some(served) = self.open()? else { return Ok(()) };
        if damage.is_served {
            self.look(&served)?;
            self.rot(damage);
        }
        self.look(&served)?;
        let rolls_back = prng.chance(1, 2);
        if prng.chance(1, 3) {
            self.busy(&served)?;
        }
        if prng.chance(1, 3) {
            self.remove_damaged(&served, prng.chance(1, 2))?;
        }
        self.go_on(&served, "first")?;
        self.snapshots(&served, rolls_back)?;
        self.stop(&served)?;
        if damage.is_served {
            self.seen = None;
        }
        if !self.held.snapshot.is_empty() && !self.roll_back()? {
            return Ok(());
        }
        let Some(served) = self.open()? else { return Ok(()) };
        self.look(&served)?;
        self.remove_damaged(&served, false)?;
        self.go_on(&served, "second")?;
        self.stop(&served)
    }

    fn serve_repaired(&mut self) -> Result<(), String> {
        let served = self.open()?.ok_or("it was repaired, and is refused")?;
        let seen = self.look(&served)?;
        judge_repaired((&self.held, &self.block), &seen)?;
        let made = self.within(async { Ok(served.driver.fill("third", vec![3; 5000]).await) })?;
        made.map_err(|error| format!("it was repaired, and nothing can be made: {error}"))?;
        self.stop(&served)?;
        self.check(false).map(drop)
    }

    /// Reads everything.
    fn look(&mut self, served: &Served) -> Result<Seen, String> {
        self.at("look");
        let seen =
            self.within(async { Ok(look(self.design, &served.driver, &self.held).await) })?;
        let known = (&seen, self.seen.as_ref());
        judge(self.design, (&self.held, &self.block), known, self.is_repaired)?;
        self.seen = Some(seen.clone());
        Ok(seen)
    }

    /// Makes a file, if the root directory is readable.
    fn go_on(&mut self, served: &Served, name: &str) -> Result<(), String> {
        self.at("make");
        let bytes = content(name, 30_000);
        let driver = &served.driver;
        let made = self.within(async {
            let readable = driver.list(driver.root()).await.is_ok();
            Ok((readable, driver.fill(name, bytes.clone()).await))
        })?;
        match made {
            (_, Ok(())) => drop(self.held.files.insert(name.to_owned(), Rc::new(bytes))),
            (true, Err(error)) if must_serve(self.design, &self.block) => {
                return Err(format!("nothing can be made: {error}"));
            }
            (_, Err(_)) => {}
        }
        self.look(served).map(drop)
    }

    /// Removes unreadable files whose directories are readable; `shortens` them before.
    fn remove_damaged(&mut self, served: &Served, shortens: bool) -> Result<(), String> {
        let Some(seen) = self.seen.clone() else { return Ok(()) };
        let is_damaged = |path: &&String| matches!(seen.fates.get(*path), Some(Fate::Failed(_)));
        let damaged: Vec<String> = self.held.files.keys().filter(is_damaged).cloned().collect();
        for path in &damaged {
            self.at("remove");
            let driver = &served.driver;
            let removed = self.within(async {
                // A file without a readable inode or directory cannot be removed.
                match driver.find(path).await {
                    Ok(id) if driver.attributes(id).await.is_ok() => {
                        if shortens {
                            let size = self.held.files[path].len() as u64;
                            let _ = driver.resize(path, size / 2).await; // it may fail
                        }
                        Ok(Some(driver.unlink(path).await))
                    }
                    _ => Ok(None),
                }
            })?;
            match removed {
                Some(Ok(())) => drop(self.held.files.remove(path)),
                Some(Err(error)) if must_serve(self.design, &self.block) => {
                    return Err(format!("{path} cannot be removed: {error}"));
                }
                _ => {}
            }
        }
        self.look(served).map(drop)
    }

    /// Makes a snapshot and deletes it, and deletes the old one if no rollback follows.
    fn snapshots(&mut self, served: &Served, rolls_back: bool) -> Result<(), String> {
        if !self.design.has_snapshots() {
            return Ok(());
        }
        let files = &*served.opened.files;
        let all = [("pin", Op::Pin(NEW)), ("unpin", Op::Unpin(NEW)), ("unpin", Op::Unpin(HELD))];
        for (word, op) in &all[..if rolls_back { 2 } else { 3 }] {
            self.at(word);
            match self.within(control::carry_out(files, op, || ()))? {
                Ok(()) => {}
                // The damaged block has its line in the list.
                Err(FsError::NoEntry) if *op == Op::Unpin(HELD) => {}
                Err(error) => return Err(format!("{op}: {error}")),
            }
        }
        if !rolls_back {
            self.held.snapshot.clear();
        }
        self.at("delete");
        self.within(control::end_deletions(files))
    }

    /// Rolls back to the snapshot, in a start of its own; returns whether the volume can be opened.
    fn roll_back(&mut self) -> Result<bool, String> {
        let Some(served) = self.open()? else { return Ok(false) };
        self.at("roll back");
        let op = Op::RollBack(HELD);
        match self.within(control::carry_out(&*served.opened.files, &op, || ()))? {
            Ok(()) => {
                self.held.files = std::mem::take(&mut self.held.snapshot);
                self.seen = None;
            }
            Err(FsError::NoEntry) => self.held.snapshot.clear(),
            Err(error) => return Err(format!("{op}: {error}")),
        }
        self.stop(&served)?;
        Ok(true)
    }

    fn stop(&mut self, served: &Served) -> Result<(), String> {
        self.at("stop");
        let files: &Rc<dyn FileSystem> = &served.opened.files;
        let stopped = self.within(async { Ok(files.shutdown().await) })?;
        match stopped {
            Err(error) if must_serve(self.design, &self.block) => {
                Err(format!("it does not stop: {error}"))
            }
            _ => Ok(()),
        }
    }

    /// Repairs the volume; a check afterwards finds nothing but losses.
    fn repair(&mut self) -> Result<(), String> {
        self.at("repair");
        self.is_repaired = true;
        self.check(true)?;
        self.at("check");
        self.check(false)
    }

    fn check(&self, repair: bool) -> Result<(), String> {
        let runtime = self.executor.runtime();
        let report = self.within(async {
            let stack = self.design.stack(self.devices(), &runtime).await;
            let disks = stack.map_err(|error| format!("the disks: {error}"))?;
            let prepare = self.design.work().prepare;
            let (volume, log) = (&disks.volume, disks.log.as_ref());
            let replayed = prepare(volume, log, &runtime, LogUse::Replay).await;
            let gives_up = repair && replayed.is_err();
            let prepared = match replayed {
                Ok(prepared) => prepared,
                Err(_) if repair => prepare(volume, log, &runtime, LogUse::GiveUp)
                    .await
                    .map_err(|error| format!("its log cannot be given up: {error}"))?,
                Err(error) => return Err(format!("repaired, its log is refused: {error}")),
            };
            let options = CheckOptions { repair, full: true, log: prepared.state };
            let (check, ring) = (self.design.work().check, disks.intents.as_ref());
            let report = check(volume, ring, &runtime, &options, &mut |_| ()).await;
            let report = report.map_err(|error| format!("it cannot be checked: {error}"))?;
            if gives_up && report.repaired {
                // Only a rebuilt superblock says whose the log is: a start would be refused, and
                // ask for the command once more.
                let given_up = prepare(volume, log, &runtime, LogUse::GiveUp).await;
                given_up.map_err(|error| format!("its log stays: {error}"))?;
            }
            volume.flush().await.map_err(|error| error.to_string())?;
            Ok(report)
        })?;
        if let Some(reason) = report.unrepaired.filter(|_| repair) {
            return Err(format!("it is not repaired: {reason}"));
        }
        let mut left = report.findings.list.iter().filter(|one| one.severity != Severity::Loss);
        match left.find(|one| !repair && one.severity != Severity::Note) {
            Some(finding) => Err(format!("it was repaired, and is not well: {finding}")),
            None => Ok(()),
        }
    }
}

/// Reads every expected file, and those that have lost their names. Where the format does not
/// detect damage of names, a file may have any.
async fn look(design: Design, driver: &Driver, held: &Held) -> Seen {
    let mut seen = Seen::default();
    for (path, bytes) in held.all() {
        let read = match driver.find(&path).await {
            Ok(id) => driver.read(id).await,
            Err(error) => Err(error),
        };
        let fate = match read {
            Ok(read) if read == **bytes => Fate::Right,
            Ok(_) => Fate::Wrong,
            Err(error) => Fate::Failed(error),
        };
        seen.fates.insert(path.clone(), fate);
    }
    let lost = driver.find(LOST).await.ok();
    let mut waiting = if notices_all(design) { Vec::from_iter(lost) } else { vec![driver.root()] };
    while let Some(directory) = waiting.pop() {
        for (_, id) in driver.list(directory).await.unwrap_or_default() {
            match driver.attributes(id).await.map(|attributes| attributes.kind) {
                Ok(vfs::FileKind::Directory) => waiting.push(id),
                Ok(vfs::FileKind::Regular) => seen.found.extend(driver.read(id).await),
                _ => {}
            }
        }
    }
    seen
}
