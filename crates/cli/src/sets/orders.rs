//! Orders that change an open set.
//!
//! A new member is put on the list of `volume.toml` before anything else: a start after a cut finds
//! it there, and continues with it. A good member that is being replaced stays in until the new one
//! has everything. It leaves the list when the new member is complete.
//!
//! **A crash here means**, for a spare: it is listed as a spare and as a member. The disk holds its
//! label as a spare, or the remainder of a wipe, or a label that the others do not know yet: then
//! it is taken again ([`is_left`]). Or the others know its label: then it is a returning member.

mod interrupts;
mod lists;
mod online;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use block::file::{Access, DiskFile};
use duramen_settings::RaidSettings;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{Either, select};
use raid::label::{Id, Label, Slot, Standing, have_in_sync, new_id};
use raid::layout::Level;
use raid::{RebuildError, ScrubError, Scrubbed, Set, Status, Work};
use runtime::{Instant, Runtime};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use server::control::{Act, End, Job, Jobs, Refused};
use server::reactor::elsewhere;

use super::scrub::{named, unscrubbed};
use crate::folder::real_place;
use crate::losses::ScrubEnd;
use crate::members::{Member, is_spare, label_at, real};
use crate::occupied::what_is_on;
use crate::stack::{Lost, OpenSet, Returned, Scrub};
use crate::volume::Volume;
use crate::words;
pub(super) use interrupts::{Cancelled, WorkName};
pub(super) use lists::Removed;

/// How often to check whether a member is out.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a silent disk is skipped.
const LOOK_LIMIT: Duration = Duration::from_secs(5);
/// Number of tasks that attend to a set, each with a reference to it.
const ATTENDANTS: usize = 2;
/// Reason to refuse a rebuild while another one is under way.
const BUSY: &str = "a member is being made already";
/// Time to wait for a removed disk to close.
const LET_GO_PATIENCE: Duration = Duration::from_secs(5);
/// Time to wait for a new disk when it is looked at.
const LOOK_PATIENCE: Duration = Duration::from_secs(20);

/// Orders for an open set, with all that is needed to carry them out. A clone shares the same set.
#[derive(Clone)]
pub(crate) struct Orders {
    open: OpenSet,
    volume: Rc<Volume>,
    jobs: Jobs,
    /// Whether a member is being rebuilt, or a disk leaves the lists.
    is_busy: Rc<Cell<bool>>,
    is_scrubbing: Rc<Cell<bool>>,
    /// Disks that are being read, and have not answered yet.
    looked_at: Rc<RefCell<BTreeSet<PathBuf>>>,
    /// Spares already reported as unusable.
    troubled: Rc<RefCell<BTreeSet<PathBuf>>>,
    device: Rc<dyn Fn(DiskFile) -> Rc<dyn BlockDevice>>,
    runtime: Runtime,
    /// Time when the set was opened.
    begun: Instant,
}

/// Arguments of an order about a slot.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    slot: usize,
    path: Option<PathBuf>,
    #[serde(default)]
    force: bool,
}

/// Arguments of an order about a new spare.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidOfSpare {
    path: PathBuf,
    #[serde(default)]
    force: bool,
}

fn parse<T: DeserializeOwned>(said: Value) -> Result<T, Refused> {
    serde_json::from_value(said).map_err(|error| Refused::Senseless(error.to_string()))
}

/// Refuses a relative path, which would depend on the server's working directory.
fn whole(path: PathBuf) -> Result<PathBuf, Refused> {
    let why = "the path of a disk is a whole one, from / on";
    if path.is_absolute() { Ok(path) } else { Err(Refused::Senseless(why.to_owned())) }
}

/// Refuses the request with `409 Conflict` and this reason.
fn refusal(why: impl ToString) -> Refused {
    Refused::Conflict(why.to_string())
}

/// A disk that is about to become a member.
pub(super) struct Replacing {
    pub(super) slot: usize,
    pub(super) device: Rc<dyn BlockDevice>,
    pub(super) member: Id,
    /// The in-sync member that it replaces, if any.
    pub(super) replaced: Option<Id>,
    /// Path of the replaced disk, if a user has taken that out: it stays a source until the new one
    /// is in.
    pub(super) offline: Option<PathBuf>,
    /// Whether the disk is new to the set: it is no source if it does not become a member.
    pub(super) is_new: bool,
}

impl Replacing {
    /// Rebuilds the disk as a member, in place of an in-sync member if there is one.
    pub(super) async fn carry_out(
        self,
        set: &Set,
        progress: impl FnMut(u64, u64) + 'static,
    ) -> Result<(), RebuildError> {
        let Self { slot, device, member, replaced, .. } = self;
        match replaced {
            Some(_) => set.replace(slot, device, member, progress).await,
            None => set.rebuild(slot, device, member, progress).await,
        }
    }
}

impl Orders {
    /// Creates the orders for the set of this volume. `device` makes the device of each new disk.
    pub(crate) fn new(
        volume: &Volume,
        open: &OpenSet,
        jobs: Jobs,
        device: impl Fn(DiskFile) -> Rc<dyn BlockDevice> + 'static,
        runtime: &Runtime,
    ) -> Self {
        let volume = Rc::new(volume.clone());
        Self {
            open: open.clone(),
            volume,
            jobs,
            is_busy: Rc::default(),
            is_scrubbing: Rc::default(),
            looked_at: Rc::default(),
            troubled: Rc::default(),
            device: Rc::new(device),
            runtime: runtime.clone(),
            begun: runtime.clock.now(),
        }
    }

    /// Handler of the control channel's orders.
    pub(crate) fn act(self) -> Act {
        Rc::new(move |order, said| {
            let orders = self.clone();
            async move { orders.carry_out(&order, said).await }.boxed_local()
        })
    }

    async fn carry_out(&self, order: &str, said: Value) -> Result<Value, Refused> {
        match order {
            "replace" => {
                let Said { slot, path, force } = parse(said)?;
                let none = || Refused::Senseless("a replacement needs a disk".to_owned());
                let path = whole(path.ok_or_else(none)?)?;
                let replacing = self.begin(slot, &path, force).await?;
                Ok(json!({ "job": self.rebuild(replacing) }))
            }
            "cancel" => self.cancel(parse(said)?).map(|()| json!({})),
            "pause" | "resume" => self.pause(order == "pause").map(|()| json!({})),
            "online" => {
                let Said { slot, path, .. } = parse(said)?;
                let path = path.map(whole).transpose()?;
                let replacing = self.begin_return(slot, path.as_deref()).await?;
                Ok(json!({ "job": self.rebuild(replacing) }))
            }
            "scrub" => self.begin_scrub().map(|job| json!({ "job": job })),
            "fail" => {
                let Said { slot, .. } = parse(said)?;
                self.fail(slot).await.map(|()| json!({}))
            }
            "spare" => {
                let SaidOfSpare { path, force } = parse(said)?;
                self.add_spare(&whole(path)?, force).await.map(|()| json!({}))
            }
            "remove" => {
                let removed = match parse(said)? {
                    Removed::Path(path) => Removed::Path(whole(path)?),
                    slot => slot,
                };
                self.remove(removed).await.map(|()| json!({}))
            }
            _ => Err(Refused::Unknown),
        }
    }

    /// Takes a member out. It keeps its slot and its place on the list, and does not come back by
    /// itself.
    pub(super) async fn fail(&self, slot: usize) -> Result<(), Refused> {
        // The disk stays open: it may have data that the others lack when another disk replaces it.
        self.open.set.fail(slot).await.map_err(refusal)?;
        self.note_list().await; // the member is out, even if the list is not updated
        Ok(())
    }

    /// Lets other programs open the disk of a slot that is out. A failing disk may take too long,
    /// so the wait is bounded.
    async fn let_go(&self, slot: usize) {
        let patience = self.runtime.clock.sleep(LET_GO_PATIENCE);
        select(self.open.set.let_go(slot).boxed_local(), patience).await;
    }

    /// Adds a spare, which waits until a member fails.
    pub(super) async fn add_spare(&self, path: &Path, force: bool) -> Result<(), Refused> {
        let Label { layout, set, .. } = self.open.set.label();
        if layout.level.spare_of(layout.members) == 0 {
            let why = format!("{} has no use for a spare", layout.level);
            return Err(Refused::Senseless(why));
        }
        let path = real_place(path);
        let place = path.clone();
        let is_listed = self.open.spares.borrow().iter().any(|spare| real(spare) == path);
        // A cut may have left the path on the list without making the disk a spare.
        if is_listed && elsewhere(move || is_spare(&place, &set)).await {
            return Err(refusal(format_args!("{} is a spare already", path.display())));
        }
        let device = self.open_new(&path, force).await?;
        // The list is written first, so that the disk is untouched if that fails.
        let _turn = self.open.list_turn.acquire(1).await;
        let [listed, mut spares] =
            [&self.open.listed, &self.open.spares].map(|list| list.borrow().clone());
        spares.retain(|spare| real(spare) != path);
        spares.push(path.clone());
        self.write(&listed, &spares).await.map_err(refusal)?;
        if let Err(error) = raid::make_spare(&*device, &set).await {
            self.note().await; // restores the old list
            return Err(refusal(format_args!("{}: {error}", path.display())));
        }
        // On the list while it is open: a task that removes it meanwhile finds it in use, or here.
        let others = |spare: &PathBuf| real(spare) != path;
        self.open.spares.borrow_mut().retain(others);
        self.open.spares.borrow_mut().push(path);
        let _ = device.close().await; // its label is durable
        Ok(())
    }

    /// Opens a disk that is about to become a spare or a member. It must be large enough, and empty
    /// unless `force` permits losing its contents.
    async fn open_new(&self, path: &Path, force: bool) -> Result<Rc<dyn BlockDevice>, Refused> {
        let open = |access| {
            let place = path.to_owned();
            elsewhere(move || open_unless_used(&place, access, force)).boxed_local()
        };
        // A refusal must not cost the set a source.
        let patience = self.runtime.clock.sleep(LOOK_PATIENCE);
        match select(open(Access::Glance), patience).await {
            Either::Left((looked, _)) => drop(looked?),
            Either::Right(_) => {
                return Err(refusal(format_args!("{} does not answer", path.display())));
            }
        }
        self.let_go_at(path).await;
        let device = (self.device)(open(Access::ReadWrite).await?.large_past_cache());
        let fits = self.open.set.fits(&*device);
        fits.map_err(|error| refusal(format_args!("{}: {error}", path.display())))?;
        Ok(device)
    }

    /// Closes the disk at this path if it is a disk of the set that is out.
    async fn let_go_at(&self, path: &Path) {
        self.open.release(path).await;
        for (slot, known) in self.open.set.label().slots.iter().enumerate() {
            let place = self.path_of_member(&known.member);
            if known.standing != Standing::InSync && place.is_some_and(|place| place == path) {
                self.let_go(slot).await;
            }
        }
    }

    /// Rebuilds returned members that are out.
    async fn bring_back(&self) {
        while !self.is_busy.get()
            && let Some(Returned { slot, member, device, .. }) = self.open.next_returned()
        {
            self.is_busy.set(true);
            let path = self.volume.path.display();
            let old = self.open.set.label().slots[slot];
            let replaced = Some(old.member).filter(|_| old.member != member);
            match replaced {
                Some(_) => words::say(format_args!("{path}: slot {slot} goes on being replaced")),
                None => words::say(format_args!(
                    "{path}: slot {slot} has its member back, which catches up"
                )),
            }
            let job = self.jobs.begin("rebuild", 0, "bytes", true);
            let replacing =
                Replacing { slot, device, member, replaced, offline: None, is_new: false };
            self.make_again(replacing, job).await;
            self.is_busy.set(false);
        }
    }

    /// Reads a disk without blocking other work. `None` if it does not answer in time: until it
    /// does, it is not read again.
    async fn look_at<T: Send + 'static>(
        &self,
        path: &Path,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if !self.looked_at.borrow_mut().insert(path.to_owned()) {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        let (looked_at, place) = (self.looked_at.clone(), path.to_owned());
        let work = async move {
            let found = elsewhere(look).await;
            looked_at.borrow_mut().remove(&place);
            let _ = answer.send(found); // the receiver may have timed out
        };
        self.runtime.tasks.spawn(work.boxed_local());
        match select(answered, self.runtime.clock.sleep(LOOK_LIMIT)).await {
            Either::Left((found, _)) => found.ok(),
            Either::Right(_) => None,
        }
    }

    /// Whether a member was missing when the set was opened, and is still waited for.
    fn is_awaited(&self, slot: usize) -> bool {
        let raid = self.volume.settings.raid.as_ref();
        let patience = raid.map(RaidSettings::spare_after).unwrap_or_default();
        let is_late = self.runtime.clock.now().since(self.begun) >= patience;
        !is_late && self.open.late.borrow().contains(&slot)
    }

    /// Lets a spare replace a member that is out, or else one that is failing, if there are both a
    /// spare and such a member.
    async fn take_over(&self) {
        let status = self.open.set.status();
        let Label { slots, set, layout, .. } = &status.label;
        let left = slots.iter().filter(|slot| slot.standing == Standing::InSync).count();
        if left < layout.needed() || self.open.set.is_closed() {
            return; // the set has stopped
        }
        let out = (0..slots.len()).find(|&it| is_out(&status, it) && !self.is_awaited(it));
        let failing = || (0..slots.len()).find(|&it| status.met[it].is_failing);
        let (Some(slot), set) = (out.or_else(failing), *set) else { return };
        let (path, spares) = (self.volume.path.display(), self.open.spares.borrow().clone());
        for spare in spares {
            let is_listed = self.open.listed.borrow().iter().any(|it| real(it) == real(&spare));
            let place = spare.clone();
            let is_one = move || is_spare(&place, &set) || is_listed && is_left(&place, &set);
            let is_one = self.look_at(&spare, is_one).await.unwrap_or(false);
            let now = self.open.set.status();
            let has_begun = self.is_busy.get() || now.rebuild.is_some();
            let is_removed = !self.open.spares.borrow().contains(&spare);
            let needs_one = is_out(&now, slot) || now.met[slot].is_failing;
            if has_begun || is_removed || !needs_one {
                return; // the wait may have taken a while
            }
            let begun = if is_one {
                self.begin(slot, &spare, true).await
            } else {
                Err(refusal("it is not there, or no spare of this set any more"))
            };
            let shown = spare.display();
            match begun {
                Ok(replacing) => {
                    words::say(format_args!("{path}: {shown} takes the place of slot {slot}"));
                    self.troubled.borrow_mut().remove(&spare);
                    self.rebuild(replacing);
                    return;
                }
                Err(refused) if self.troubled.borrow_mut().insert(spare.clone()) => {
                    words::say(format_args!("{path}: the spare {shown} cannot be used: {refused}"));
                }
                Err(_) => {} // reported already; the spare may come back
            }
        }
    }

    /// Prepares a disk to become the member of a slot that is empty, or with `force` of one whose
    /// member stays in until the disk is filled. No other begins until that has ended.
    pub(super) async fn begin(
        &self,
        slot: usize,
        path: &Path,
        force: bool,
    ) -> Result<Replacing, Refused> {
        if self.is_busy.replace(true) {
            return Err(refusal(BUSY));
        }
        self.prepare(slot, path, force).await.inspect_err(|_| self.is_busy.set(false))
    }

    async fn prepare(&self, slot: usize, path: &Path, force: bool) -> Result<Replacing, Refused> {
        let slots = self.open.set.label().slots;
        let refuse = |why: String| Err(refusal(why));
        let old = self.made_again(slot)?;
        let is_good = old.standing == Standing::InSync;
        if is_good && !force {
            return refuse(format!("slot {slot} has a good member; if that is meant, say --force"));
        }
        let path = real_place(path);
        let is_in = |member: &Member| {
            real_place(&member.path) == path && have_in_sync(&slots, &member.label.member())
        };
        if self.open.members.borrow().iter().any(is_in) {
            return refuse(format!("{} is a member already", path.display()));
        }
        if let Some(returned) = self.open.take_returned(slot, &path) {
            let Returned { device, member, .. } = returned;
            let replaced = Some(old.member).filter(|_| is_good);
            let (offline, is_new) = (None, false);
            return Ok(Replacing { slot, device, member, replaced, offline, is_new });
        }
        let device = self.open_new(&path, force).await?;
        let member = new_id(&*self.runtime.random);
        // A good member stays on the list until the new one has taken its place.
        let replaced = Some(old.member).filter(|_| is_good);
        let gone = Some(old.member).filter(|_| !is_good);
        let offline = self.path_of_offline(&old).filter(|place| *place != path);
        self.put_on_list(member, &path, (slot, gone)).await.map_err(refusal)?;
        Ok(Replacing { slot, device, member, replaced, offline, is_new: true })
    }

    /// Last known path of a member's disk, if a user has taken that member out.
    fn path_of_offline(&self, slot: &Slot) -> Option<PathBuf> {
        self.path_of_member(&slot.member).filter(|_| slot.standing == Standing::Offline)
    }

    /// Last known path of a member's disk.
    fn path_of_member(&self, member: &Id) -> Option<PathBuf> {
        let members = self.open.members.borrow();
        let its = members.iter().find(|one| one.label.member() == *member);
        its.map(|its| real(&its.path))
    }

    /// Returns a slot whose member can be rebuilt, unless a rebuild is under way.
    fn made_again(&self, slot: usize) -> Result<Slot, Refused> {
        let Label { slots, layout, .. } = self.open.set.label();
        let Some(old) = slots.get(slot).copied() else {
            let why = format!("there is no slot {slot}: there are 0 to {}", slots.len() - 1);
            return Err(Refused::Senseless(why));
        };
        if layout.level.spare_of(layout.members) == 0 {
            let why = format!("{} has nothing to make a member of", layout.level);
            return Err(Refused::Senseless(why));
        }
        if self.open.set.status().rebuild.is_some() {
            return Err(refusal(BUSY));
        }
        Ok(old)
    }

    /// Starts a rebuild as a background job, and returns the job's number.
    fn rebuild(&self, replacing: Replacing) -> u64 {
        let job = self.jobs.begin("rebuild", 0, "bytes", true);
        let (id, orders) = (job.id(), self.clone());
        let work = async move {
            orders.make_again(replacing, job).await;
            orders.is_busy.set(false);
        };
        self.runtime.tasks.spawn(work.boxed_local());
        id
    }

    async fn make_again(&self, replacing: Replacing, job: Job) {
        let Replacing { slot, member, replaced, is_new, .. } = replacing;
        let offline = replacing.offline.clone();
        let unit = self.open.set.layout().unit;
        let job = Rc::new(job);
        let told = job.clone();
        let progress = move |done, total| told.advance(done * unit, total * unit);
        let lost_before = self.open.set.status().done.lost_blocks;
        let filling = replacing.carry_out(&self.open.set, progress);
        let rebuilt = self.cancellable(&job, Work::Fill, filling).await;
        let path = self.volume.path.display();
        let end = match rebuilt {
            Ok(()) => {
                let has_lost = self.tell_made(slot, lost_before);
                self.is_made(member, replaced).await;
                if has_lost {
                    // The count ends with this server, the list of a scrub does not.
                    let _ = self.begin_scrub(); // refused if one is under way
                }
                if let Some(path) = offline {
                    self.open.release(&path).await;
                }
                End::Done
            }
            Err(error) => {
                words::say(format_args!("{path}: slot {slot} is not made again: {error}"));
                // The disk may serve as a spare again from the next start on.
                self.is_no_spare(member).await;
                // A disk that came back stays a source, and so does an old one in the slot.
                let has_slot = self.open.set.label().slots[slot].member == member;
                if is_new && has_slot {
                    self.let_go(slot).await;
                }
                if error == RebuildError::Cancelled { End::Cancelled } else { End::Failed }
            }
        };
        Rc::into_inner(job).into_iter().for_each(|job| job.end(end)); // the rebuild is over
    }

    /// Starts a scrub of the whole set as a background job, and returns the job's number.
    fn begin_scrub(&self) -> Result<u64, Refused> {
        if self.open.set.layout().level == Level::Striped && self.lost_in_front().is_none() {
            return Err(unscrubbed(ScrubError::Striped));
        }
        if self.is_scrubbing.replace(true) {
            return Err(unscrubbed(ScrubError::Busy));
        }
        let job = self.jobs.begin("scrub", 0, "bytes", true);
        let (id, orders, job) = (job.id(), self.clone(), Rc::new(job));
        let work = async move {
            let told = job.clone();
            let scrubbing = orders.scrub(move |done, total| told.advance(done, total));
            let done = match orders.cancellable(&job, Work::Scrub, scrubbing).await {
                Ok(scrub) => Ok(orders.named(scrub, ScrubEnd::Completed).await),
                Err(error) => Err(error),
            };
            orders.is_scrubbing.set(false);
            let path = orders.volume.path.display();
            let end = match done {
                Ok(scrub) => {
                    let Scrub { mended, unread_bytes: unread, .. } = scrub;
                    let lost = scrub.lost_bytes();
                    words::say(format_args!(
                        "{path}: scrubbed: {mended} mended, {lost} bytes lost, {unread} unread"
                    ));
                    End::Done
                }
                Err(error) => {
                    words::say(format_args!("{path}: not scrubbed to the end: {error}"));
                    if error == ScrubError::Cancelled { End::Cancelled } else { End::Failed }
                }
            };
            Rc::into_inner(job).into_iter().for_each(|job| job.end(end)); // the scrub is over
        };
        self.runtime.tasks.spawn(work.boxed_local());
        Ok(id)
    }

    /// Scrubs the set and waits for the end. `progress` receives the bytes done and the bytes in
    /// all.
    pub(super) async fn scrub(
        &self,
        progress: impl Fn(u64, u64) + 'static,
    ) -> Result<Scrub, ScrubError> {
        let (unit, kept) = (self.open.set.layout().unit, self.open.scrub.clone());
        let tell = move |done: u64, total: u64, found: &Scrubbed| {
            let lost = found.lost.iter();
            let lost = lost.map(|&(offset, length)| Lost::somewhere(offset, length));
            let (done_bytes, total_bytes) = (done * unit, total * unit);
            progress(done_bytes, total_bytes);
            let (mended, lost) = (found.mended, lost.collect());
            let unread_bytes = found.unread.iter().map(|(_, length)| length).sum();
            let scrub = Scrub { done_bytes, total_bytes, mended, lost, unread_bytes };
            *kept.borrow_mut() = Some(scrub);
        };
        self.open.scrub.take();
        let scrubbed = self.open.set.scrub(tell).await;
        let lost = self.lost_in_front();
        let mut scrub = match scrubbed {
            Ok(_) => self.open.scrub.borrow().clone().unwrap_or_default(),
            // Such a set has nothing to compare, but its NVRAM knows what it has lost.
            Err(ScrubError::Striped) if lost.is_some() => Scrub::default(),
            Err(error) => {
                let found = self.open.scrub.borrow().clone().unwrap_or_default();
                self.named(found, ScrubEnd::Cancelled).await;
                return Err(error);
            }
        };
        scrub.lost.extend(lost.into_iter().flatten());
        *self.open.scrub.borrow_mut() = Some(scrub.clone());
        Ok(scrub)
    }

    /// Data that the NVRAM in front of the set has lost, if there is an NVRAM.
    fn lost_in_front(&self) -> Option<Vec<Lost>> {
        let nvram = self.open.front.as_ref()?.nvram()?;
        let lost = nvram.lost().into_iter();
        Some(lost.map(|range| Lost::somewhere(range.start, range.end - range.start)).collect())
    }

    /// Adds the files with lost data to a scrub, and notes its findings. Clients are served while
    /// the files are searched.
    pub(super) async fn named(&self, mut scrub: Scrub, end: ScrubEnd) -> Scrub {
        if !scrub.lost.is_empty() {
            let (volume, lost) = ((*self.volume).clone(), scrub.lost.clone());
            scrub.lost = elsewhere(move || named(&volume, lost)).await;
            *self.open.scrub.borrow_mut() = Some(scrub.clone());
        }
        let losses = scrub.losses(self.runtime.clock.wall().seconds);
        self.open.losses.note(losses, end).await;
        scrub
    }

    /// Reports whether a new member is complete, and which blocks it lacks. Returns whether data is
    /// lost.
    fn tell_made(&self, slot: usize, lost_before: u64) -> bool {
        let (path, status) = (self.volume.path.display(), self.open.set.status());
        let lost = status.done.lost_blocks - lost_before.min(status.done.lost_blocks);
        let unread = status.met[slot].unread;
        if lost == 0 && unread == 0 {
            words::say(format_args!("{path}: the member of slot {slot} is up to date"));
        }
        if lost > 0 {
            words::say(format_args!(
                "{path}: the member of slot {slot} is in, but for {lost} blocks that no disk has: \
                 'duramen raid scrub' names the files"
            ));
        }
        if unread > 0 {
            words::say(format_args!(
                "{path}: the member of slot {slot} is in, but for {unread} blocks that other disks \
                 could not read; they are not lost, and it gets them as soon as a disk gives them"
            ));
        }
        lost > 0
    }

    /// Reports the slots that are out when the set is opened, and since when.
    fn tell_start(&self) {
        let (label, path) = (self.open.set.label(), self.volume.path.display());
        let members = self.open.members.borrow();
        if let lacked @ 1.. = self.open.set.status().done.lacked_records {
            words::say(format_args!(
                "{path}: the log of the set lacks {lacked} records: what was written last may be \
                 lost, or as it was before"
            ));
        }
        for (slot, known) in label.slots.iter().enumerate() {
            if known.standing == Standing::InSync {
                continue;
            }
            let since = match label.out_since(slot) {
                Some(since) => format!("it was up to date until generation {since}"),
                None => "the labels do not tell since when".to_owned(),
            };
            let its = members.iter().find(|one| one.label.member() == known.member);
            let place = its.map_or("its disk was not found".to_owned(), |its| {
                format!("its disk is {}", its.path.display())
            });
            words::say(format_args!(
                "{path}: the set is degraded: slot {slot} is out; {since}, and this is generation \
                 {}; {place}",
                label.generation
            ));
        }
    }

    /// Starts the tasks that rebuild returned members and report changes of members.
    pub(crate) fn attend(&self) {
        self.tell_start();
        let orders = self.clone();
        // A task of its own, so that a silent disk delays nothing else.
        let look = async move {
            let (set, clock) = (Rc::downgrade(&orders.open.set), orders.runtime.clock.clone());
            while set.strong_count() > ATTENDANTS {
                orders.find_late().await;
                clock.sleep(WATCH_INTERVAL).await;
            }
        };
        self.runtime.tasks.spawn(look.boxed_local());
        let orders = self.clone();
        let work = async move {
            let (set, clock) = (Rc::downgrade(&orders.open.set), orders.runtime.clock.clone());
            while set.strong_count() > ATTENDANTS {
                orders.bring_back().await;
                orders.take_over().await;
                clock.sleep(WATCH_INTERVAL).await;
            }
        };
        self.runtime.tasks.spawn(work.boxed_local());
        let (set, path) = (Rc::downgrade(&self.open.set), self.volume.path.clone());
        let clock = self.runtime.clock.clone();
        let (mut known, errors) = (self.open.set.status(), self.open.errors.clone());
        let watch = async move {
            loop {
                clock.sleep(WATCH_INTERVAL).await;
                let Some(set) = set.upgrade() else { return };
                let now = set.status();
                drop(set);
                tell_changes(&path, &known, &now);
                errors.keep(&now).await;
                known = now;
            }
        };
        self.runtime.tasks.spawn(watch.boxed_local());
    }
}

/// Opens a disk, unless it has contents that `force` does not permit losing.
fn open_unless_used(path: &Path, access: Access, force: bool) -> Result<DiskFile, Refused> {
    let disk = DiskFile::open(path, access).map_err(refusal)?;
    match what_is_on(&disk, path).map_err(refusal)?.filter(|_| !force) {
        Some(what) => {
            let path = path.display();
            Err(refusal(format_args!("{path} holds {what}; if that is meant, say --force")))
        }
        None => Ok(disk),
    }
}

/// Whether a cut may have left this spare after it had begun to replace a member. The caller has
/// checked that it is listed as a member, too. Such a disk is empty, or has a label of the set. The
/// replacement itself refuses an in-sync member.
fn is_left(spare: &Path, set: &Id) -> bool {
    match label_at(spare) {
        Ok(label) => label.set == *set,
        Err(_) => DiskFile::open(spare, Access::Glance)
            .is_ok_and(|disk| what_is_on(&disk, spare).is_ok_and(|what| what.is_none())),
    }
}

/// Whether the member of a slot is out, or its rebuild has stopped.
fn is_out(status: &Status, slot: usize) -> bool {
    let standing = status.label.slots[slot].standing;
    standing.is_out() || standing.is_coming()
}

/// Reports changes of the members of a set.
fn tell_changes(path: &Path, before: &Status, now: &Status) {
    let path = path.display();
    let slots = before.label.slots.iter().zip(&now.label.slots);
    for (slot, (before, now)) in slots.enumerate() {
        if !before.standing.is_out() && now.standing == Standing::Stale {
            words::say(format_args!(
                "{path}: the member of slot {slot} is out; 'duramen raid replace' makes another \
                 one, and 'duramen raid online' has it come back if its disk is well"
            ));
        }
        if !before.standing.is_out() && now.standing == Standing::Offline {
            words::say(format_args!(
                "{path}: the member of slot {slot} was taken out; 'duramen raid online' has it \
                 come back"
            ));
        }
    }
    let standings = &now.label.slots;
    for (slot, (before, now)) in before.met.iter().zip(&now.met).enumerate() {
        let wrong = now.checksum_errors - before.checksum_errors;
        if wrong > 0 {
            words::say(format_args!(
                "{path}: the member of slot {slot} has given {wrong} blocks that were never \
                 written there; 'duramen raid scrub' looks for more"
            ));
        }
        let is_in = standings[slot].standing == Standing::InSync;
        if now.is_failing && !before.is_failing && is_in {
            words::say(format_args!(
                "{path}: the member of slot {slot} is failing: too many of its blocks could not be \
                 read. It stays in use until another disk has its place: a spare takes it by \
                 itself, or use 'duramen raid replace'"
            ));
        }
        if now.waits_for_room && !before.waits_for_room {
            words::say(format_args!(
                "{path}: the member of slot {slot} waits for room: make space on its host"
            ));
        }
        if before.waits_for_room && !now.waits_for_room {
            words::say(format_args!("{path}: the member of slot {slot} waits for room no more"));
        }
        if let (None, Some(time)) = (before.silent_for, now.silent_for) {
            let time = time.as_secs();
            words::say(format_args!(
                "{path}: the member of slot {slot} has not answered for {time} s, while others \
                 have; what needs it waits until it does, or the system gives up on it"
            ));
        }
        if let (Some(_), None) = (before.silent_for, now.silent_for) {
            words::say(format_args!("{path}: the member of slot {slot} answers again, or is out"));
        }
    }
}
