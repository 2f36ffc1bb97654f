//! What is done with a damaged volume.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use designs::{CheckOptions, LogUse, Opened, Severity};
use sim::{Executor, PAGE_SIZE};
use vfs::{FileSystem, FsError};

use super::judge::{Block, Fate, Held, Seen, judge, judge_repaired, must_serve};
use super::workload::{Damage, Made, content, shape};
use crate::explore::control;
use crate::explore::design::Design;
use crate::explore::driver::Driver;
use crate::explore::op::{HELD, Op};
use crate::explore::ram::Ram;

/// More virtual time than anything may take.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The directory for what has lost its name.
const LOST: &str = "lost+found";
/// A snapshot that is made of a damaged volume.
const NEW: &str = "new";

/// Lives the story of a case.
///
/// # Errors
/// What damage may not do.
pub(super) fn live(
    design: Design,
    seed: u64,
    made: &Made,
    damage: &Damage,
    told: &RefCell<String>,
) -> Result<(), String> {
    let executor = Executor::new(seed | 1);
    let mut images = made.images.clone();
    if !damage.is_served {
        let bytes = damage.applied(&images.0[damage.disk]);
        images.0[damage.disk].write(damage.at, &bytes);
    }
    let rams = Ram::all(&images);
    let held = made.held.clone();
    let mut page = vec![0; PAGE_SIZE];
    made.images.0[damage.disk].read(damage.at, &mut page);
    let block = Block::of(&page, &held);
    let mut life = Life { design, executor, rams, held, block, seen: None, told };
    life.serve_damaged(damage, seed.is_multiple_of(3))?;
    life.repair()?;
    life.serve_repaired()
}

/// A volume with damage, and what is known of it.
struct Life<'a> {
    design: Design,
    executor: Executor,
    rams: Vec<Rc<Ram>>,
    held: Held,
    /// What is damaged.
    block: Block,
    /// What was seen last.
    seen: Option<Seen>,
    told: &'a RefCell<String>,
}

/// A volume that is served.
struct Served {
    opened: Opened,
    driver: Driver,
}

impl Life<'_> {
    /// Notes how far the story is.
    fn at(&self, step: &str) {
        let mut told = self.told.borrow_mut();
        let comma = if told.contains(';') { ", " } else { "; " };
        told.push_str(comma);
        told.push_str(step);
    }

    fn devices(&self) -> Vec<Rc<dyn BlockDevice>> {
        self.rams.iter().map(|ram| ram.clone() as _).collect()
    }

    fn within<T>(&self, what: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let done = self.executor.block_on_for(PATIENCE, what);
        done.unwrap_or_else(|| Err("it does not end".to_owned()))
    }

    /// Opens it; nothing if it is refused, where that may be.
    fn open(&self) -> Result<Option<Served>, String> {
        self.at("open");
        let opened = self.within(async {
            Ok(self.design.open_as(self.devices(), self.executor.runtime(), &shape()).await)
        })?;
        match opened {
            Ok(opened) => {
                let driver = Driver::new(opened.files.clone());
                Ok(Some(Served { opened, driver }))
            }
            Err(error) if must_serve(self.design, &self.block) => {
                Err(format!("it is refused: {error}"))
            }
            Err(_) => Ok(None),
        }
    }

    /// Two lives before the repair, the second after a clean stop.
    fn serve_damaged(&mut self, damage: &Damage, rolls_back: bool) -> Result<(), String> {
        let Some(served) = self.open()? else { return Ok(()) };
        if damage.is_served {
            self.look(&served)?;
            let disk = &self.rams[damage.disk];
            disk.rot(damage.at, &damage.applied(&disk.image()));
            self.at("rot");
            self.seen = None; // it may have been in memory
        }
        self.look(&served)?;
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
        self.remove_damaged(&served)?;
        self.go_on(&served, "second")?;
        self.stop(&served)
    }

    fn serve_repaired(&mut self) -> Result<(), String> {
        let served = self.open()?.ok_or("it was repaired, and is refused")?;
        let seen = self.look(&served)?;
        judge_repaired(&self.held, &seen)?;
        let made = self.within(async { Ok(served.driver.fill("third", vec![3; 5000]).await) })?;
        made.map_err(|error| format!("it was repaired, and nothing can be made: {error}"))?;
        self.stop(&served)?;
        self.check(false).map(drop)
    }

    /// Reads everything.
    fn look(&mut self, served: &Served) -> Result<Seen, String> {
        self.at("look");
        let seen = self.within(async { Ok(look(&served.driver, &self.held).await) })?;
        judge(self.design, (&self.held, &self.block), &seen, self.seen.as_ref())?;
        self.seen = Some(seen.clone());
        Ok(seen)
    }

    /// Makes a file, where the root directory can be read.
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

    /// Removes files that cannot be read, as long as their directories can be.
    fn remove_damaged(&mut self, served: &Served) -> Result<(), String> {
        let Some(seen) = self.seen.clone() else { return Ok(()) };
        let is_damaged = |path: &&String| seen.fates.get(*path) == Some(&Fate::Failed(FsError::Io));
        let damaged: Vec<String> = self.held.files.keys().filter(is_damaged).cloned().collect();
        for path in &damaged {
            self.at("remove");
            let driver = &served.driver;
            let removed = self.within(async {
                // What has no inode, or no directory, has nothing that can be removed.
                match driver.find(path).await {
                    Ok(id) if driver.attributes(id).await.is_ok() => {
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

    /// Makes a snapshot and deletes it, and the one that was there if nothing goes back to it.
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
                // Its line in the list is what is damaged.
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

    /// Goes back to the snapshot, in a life of its own; says whether it can be opened.
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

    /// Repairs it; then a check finds nothing but losses.
    fn repair(&mut self) -> Result<(), String> {
        self.at("repair");
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
            let prepared = match replayed {
                Ok(prepared) => prepared,
                Err(_) if repair => prepare(volume, log, &runtime, LogUse::GiveUp)
                    .await
                    .map_err(|error| format!("its log cannot be given up: {error}"))?,
                Err(error) => return Err(format!("repaired, its log is refused: {error}")),
            };
            let options = CheckOptions { repair, full: true, log: prepared.state };
            let report = self.design.check(volume, &runtime, &options).await;
            let report = report.map_err(|error| format!("it cannot be checked: {error}"))?;
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

/// What there is of each file, and of those that have lost their names.
async fn look(driver: &Driver, held: &Held) -> Seen {
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
    let Ok(lost) = driver.find(LOST).await else { return seen };
    let mut waiting = vec![lost];
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
