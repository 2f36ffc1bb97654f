//! Carries out the occasion of a workload of two faults, and records it.
//!
//! A story has two parts. In the first the set is open without the absent member, if the occasion
//! asks for that, and is closed again. The second is recorded, event by event, so that the judge
//! can cut it anywhere. Faults of calls last as long as the second part.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Durability, Verb};
use futures::future::{join, join3};
use raid::assembly::Witness;
use raid::label::{Id, Label, Standing};
use raid::{MakeOptions, OpenOptions, Set};
use runtime::Runtime;
use sim::{Disk, Effect, Event, Executor, Fault as Struck, Image, Mark, Persistence, Prng, Trace};

use super::super::model::bytes;
use super::case::{Area, Case, Fault, Occasion};
use super::rot::{Rotten, Target};
use super::solver::{BLOCK, Disks, Shape};
use super::workload::{Call, Done, RUBBISH, done, draw, mark_of};

/// Stripes of a tested set.
const ROWS: u64 = 6;
/// Mark of the first witness handed out.
const TOLD: u64 = 10_000;
/// Marks that the absent member's slot has a member again.
const REBUILT: u64 = 9_000;
/// Member that takes the absent one's place.
pub(super) const NEXT: Id = [77; 16];
/// Longest virtual time between the begin of a replacement and rot.
const ROT_AFTER_US: u64 = 4000;
/// Longest virtual time of any step.
pub(super) const PATIENCE: Duration = Duration::from_secs(4 * 3600);

/// The moment of the rot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    First,
    Between,
    /// While a replacement runs.
    During,
    Cut,
}

/// A story with its recording.
pub(super) struct Story {
    pub(super) case: Case,
    pub(super) shape: Shape,
    /// The set was unwritten from this byte on at first.
    pub(super) fresh_from: u64,
    pub(super) absent: usize,
    pub(super) faulty: usize,
    pub(super) hot: u64,
    /// Disks of the new set.
    pub(super) base: Disks,
    pub(super) moment: Moment,
    /// Effects of the rot before the cut, and the disks right after it.
    pub(super) rotten: Rotten,
    pub(super) after_rot: Option<Disks>,
    /// Calls of the first part, and of the second.
    pub(super) before: Vec<Done>,
    pub(super) calls: Vec<Done>,
    /// Recording of the second part, by disk; an unplugged disk has its image instead.
    pub(super) traces: Vec<Option<Trace>>,
    pub(super) unplugged: Disks,
    /// Serial number from which on the absent member's slot has a member again.
    pub(super) rebuilt: Option<u64>,
    /// The reads that fail do so until the end of the second part.
    pub(super) is_unread_throughout: bool,
    /// The set was closed at the end of the second part.
    pub(super) is_closed: bool,
    witness: Witness,
    told: Vec<(u64, Witness)>,
}

/// Disks of a world, and the witnesses kept outside of the set.
pub(super) struct World {
    pub(super) disks: Vec<Option<Rc<Disk>>>,
    /// Its trace has the marks of all calls.
    clock: Rc<Disk>,
    told: Rc<RefCell<Vec<Witness>>>,
    runtime: Runtime,
}

impl World {
    pub(super) fn new(executor: &Executor, images: &Disks) -> Self {
        let new = |image: &Option<Image>| image.clone().map(|image| Disk::new(executor, image));
        let clock = Disk::new(executor, Image::zeroed(BLOCK));
        clock.start_trace();
        let (told, runtime) = (Rc::default(), executor.runtime());
        Self { disks: images.iter().map(new).collect(), clock, told, runtime }
    }

    /// Opens the set on the disks. A disk without a label is not a member.
    pub(super) async fn open(&self, witness: Option<Witness>) -> Result<Rc<Set>, String> {
        let mut devices: Vec<Rc<dyn BlockDevice>> = Vec::new();
        for disk in self.disks.iter().flatten() {
            if !matches!(raid::label_of(&**disk).await, Err(raid::OpenError::NoMember(..))) {
                devices.push(disk.clone());
            }
        }
        let (clock, told) = (self.clock.clone(), self.told.clone());
        let witnessed = move |story: Witness| {
            clock.mark(Mark::Number(TOLD + told.borrow().len() as u64));
            told.borrow_mut().push(story);
            Box::pin(async {}) as futures::future::LocalBoxFuture<'static, ()>
        };
        let witnessed = Rc::new(witnessed);
        let options = OpenOptions { witness, witnessed, ..OpenOptions::default() };
        let set = raid::open(devices, &self.runtime, options).await;
        set.map(Rc::new).map_err(|error| error.to_string())
    }

    /// The label of a disk, if it has one.
    pub(super) async fn label(&self, disk: usize) -> Option<Label> {
        raid::label_of(&**self.disks[disk].as_ref()?).await.ok()
    }

    /// The disks' current contents.
    pub(super) fn contents(&self) -> Disks {
        self.disks.iter().map(|disk| disk.as_ref().map(|disk| disk.contents())).collect()
    }

    pub(super) fn last_told(&self) -> Option<Witness> {
        self.told.borrow().last().cloned()
    }

    /// Makes calls while writes of a disk fail, from the `nth` write on.
    async fn drop_out(&self, disk: usize, nth: u64, (set, calls): (&Set, &[Call])) {
        let disk = self.disks[disk].clone().expect("it is there");
        disk.fail(Verb::Write, nth, Persistence::Forever);
        self.make(set, calls).await;
        disk.heal();
    }

    async fn make(&self, set: &Set, calls: &[Call]) {
        self.make_from(set, calls, 0).await;
    }

    /// Makes the calls from number `first` on.
    async fn make_from(&self, set: &Set, calls: &[Call], first: usize) {
        for (number, &call) in calls.iter().enumerate().skip(first) {
            self.clock.mark(Mark::Number(mark_of(number)));
            let made = match call {
                Call::Flush => set.flush().await,
                Call::Write { version, at, length, is_through } => {
                    let data = vec![bytes(version, at, length).into()];
                    let how = if is_through { Durability::Through } else { Durability::Plain };
                    set.write(at, data, how).await
                }
            };
            self.clock.mark(Mark::Number(mark_of(number) + if made.is_ok() { 1 } else { 2 }));
        }
    }
}

/// A new set whose content is version 0 up to a byte.
fn new_set(case: &Case, is_fresh: bool) -> (Shape, u64, Disks, Witness) {
    let executor = Executor::new(1);
    let level = case.device.level().expect("it is a set");
    let options = MakeOptions { level, unit: case.unit, log: 0 };
    let member_size = options.member_size(case.disks, ROWS);
    let rubbish = Image::from_bytes(&vec![RUBBISH; member_size as usize]);
    let world = World::new(&executor, &vec![Some(rubbish.clone()); case.disks]);
    let (label, fresh_from) = executor.block_on(async {
        let devices =
            || world.disks.iter().flatten().map(|disk| disk.clone() as Rc<dyn BlockDevice>);
        let devices: Vec<_> = devices().collect();
        raid::make(&devices, &options, &world.runtime).await.expect("there is room");
        let set = world.open(None).await.expect("it is new");
        let layout = set.layout();
        let rows = if is_fresh { ROWS - 2 } else { ROWS };
        let filled = rows * layout.width() * layout.unit;
        set.write(0, vec![bytes(0, 0, filled).into()], Durability::Plain).await.expect("whole");
        set.flush().await.expect("it is whole");
        set.close().await.expect("it is whole");
        (set.label(), filled)
    });
    let layout = label.layout;
    let shape = Shape {
        is_mirror: layout.level == raid::layout::Level::Mirrored,
        members: layout.members,
        unit: layout.unit,
        rows: layout.rows,
        data_start: label.data_start,
        member_size,
    };
    let mut images = world.contents();
    images.push(Some(rubbish));
    (shape, fresh_from, images, Witness::of(&label))
}

impl Story {
    /// Carries a case out.
    ///
    /// # Errors
    /// The violation in words: a call that never ends, or a panic of the set.
    pub(super) fn of(case: &Case) -> Result<Self, String> {
        let mut prng = Prng::new(case.seed);
        let (shape, fresh_from, base, witness) = new_set(case, prng.chance(1, 4));
        let absent = prng.index(case.disks);
        let faulty = match case.occasion {
            Occasion::Whole => absent,
            _ => (absent + 1 + prng.index(case.disks - 1)) % case.disks,
        };
        let moment = match (case.fault, case.occasion) {
            (Fault::Rot(area) | Fault::RotAll(area), _) if area.is_of_log() => Moment::Cut,
            (Fault::Tables, _) => Moment::Cut,
            (_, Occasion::FailedStart) => Moment::First,
            // Nothing comes between the first moment and a replacement.
            (Fault::Rot(Area::Label | Area::Table), Occasion::Replaced) => {
                [Moment::First, Moment::During, Moment::Cut][prng.index(3)]
            }
            _ => [Moment::First, Moment::Between, Moment::Cut][prng.index(3)],
        };
        let mut story = Self {
            case: *case,
            shape,
            fresh_from,
            absent,
            faulty,
            hot: prng.below(ROWS),
            base: base.clone(),
            moment,
            rotten: Rotten::default(),
            after_rot: None,
            before: Vec::new(),
            calls: Vec::new(),
            traces: Vec::new(),
            unplugged: Vec::new(),
            rebuilt: None,
            is_unread_throughout: false,
            is_closed: false,
            witness,
            told: Vec::new(),
        };
        let mut disks = base;
        story.rot(Moment::First, &mut disks, &mut prng);
        if case.occasion.begins_without() {
            story.first_part(&mut disks, &mut prng)?;
        }
        story.rot(Moment::Between, &mut disks, &mut prng);
        story.second_part(disks, &mut prng)?;
        Ok(story)
    }

    fn rot(&mut self, moment: Moment, disks: &mut Disks, prng: &mut Prng) {
        if moment == self.moment {
            self.rotten = self.target().strike(disks, prng);
            self.after_rot = Some(disks.clone());
        }
    }

    pub(super) fn target(&self) -> Target<'_> {
        Target {
            shape: &self.shape,
            fault: self.case.fault,
            member: self.faulty,
            hot: self.hot,
            old: &self.base,
        }
    }

    /// Opens the set without the absent member, may write to it, and closes it.
    fn first_part(&mut self, disks: &mut Disks, prng: &mut Prng) -> Result<(), String> {
        let executor = Executor::new(2);
        let mut there = disks.clone();
        there[self.absent] = None;
        there[self.shape.members] = None;
        let world = World::new(&executor, &there);
        let is_idle = matches!(self.case.occasion, Occasion::Late | Occasion::FailedStart);
        let writes = if is_idle { 0 } else { prng.between(1, 3) };
        let calls = draw(&self.shape, self.hot, writes, 1, prng);
        let calls = if is_idle { Vec::new() } else { calls };
        let is_scrubbed = prng.chance(1, 3);
        let part = async {
            // The set does not open with too few members; then no write is missed.
            let Ok(set) = world.open(Some(self.witness.clone())).await else { return };
            world.make(&set, &calls).await;
            if is_scrubbed {
                let _ = set.scrub(|_, _, _| ()).await; // it may have stopped
            }
            let _ = set.close().await;
        };
        executor.block_on_for(PATIENCE, part).ok_or("the first part has no end")?;
        self.before = done(&calls, &world.clock.trace());
        self.witness = world.last_told().unwrap_or(self.witness.clone());
        for (disk, after) in disks.iter_mut().zip(world.contents()) {
            *disk = after.or(disk.take());
        }
        Ok(())
    }

    /// The disks that are plugged in during the second part, and at the end.
    fn plugged(&self, disks: &Disks) -> Disks {
        let mut there = disks.clone();
        if matches!(self.case.occasion, Occasion::Away | Occasion::Spare) {
            there[self.absent] = None;
        }
        if !matches!(self.case.occasion, Occasion::Replaced | Occasion::Spare) {
            there[self.shape.members] = None;
        }
        there
    }

    fn second_part(&mut self, disks: Disks, prng: &mut Prng) -> Result<(), String> {
        let executor = Executor::new(3);
        let there = self.plugged(&disks);
        let world = World::new(&executor, &there);
        let version = 1 + self.before.len() as u8;
        let calls = draw(&self.shape, self.hot, prng.between(1, 4), version, prng);
        let is_early = prng.chance(1, 5);
        let (faults, is_throughout) = self.faults_of_calls(prng);
        self.is_unread_throughout = is_throughout;
        let mut faults = Some(faults);
        let nth_of_dropout = prng.between(1, 6);
        let (absent, new, occasion) = (self.absent, self.shape.members, self.case.occasion);
        let is_rebuilt = Cell::new(false);
        // Tables are two only when those that were damaged are written anew.
        let is_closed = self.is_replaced_with_tables();
        let rotten = RefCell::new(None);
        let part = async {
            let strike = |faults| self.strike(&world, faults);
            if is_early {
                strike(faults.take());
            }
            world.disks.iter().flatten().for_each(|disk| disk.start_trace());
            let Ok(set) = world.open(Some(self.witness.clone())).await else { return };
            strike(faults.take());
            let fill = async |disk: usize, member: Id| {
                let disk = world.disks[disk].clone().expect("it is there");
                let rebuilt = set.rebuild(absent, disk, member, |_, _| ()).await;
                if rebuilt.is_ok() {
                    world.clock.mark(Mark::Number(REBUILT));
                    is_rebuilt.set(true);
                }
            };
            let label = set.label();
            let own = label.slots[absent].member;
            let is_out = label.slots[absent].standing != Standing::InSync;
            match occasion {
                Occasion::Whole => join(world.make(&set, &calls), set.scrub(|_, _, _| ())).await.0,
                Occasion::Back | Occasion::Late | Occasion::FailedStart if is_out => {
                    join(world.make(&set, &calls), fill(absent, own)).await.0
                }
                Occasion::Away | Occasion::Back | Occasion::Late | Occasion::FailedStart => {
                    world.make(&set, &calls).await
                }
                Occasion::Dropout => {
                    let half = calls.len() / 2;
                    world.drop_out(absent, nth_of_dropout, (&set, &calls[..half])).await;
                    if set.label().slots[absent].standing == Standing::InSync {
                        world.clock.mark(Mark::Number(REBUILT));
                    } else {
                        fill(absent, own).await;
                    }
                    world.make_from(&set, &calls, half).await
                }
                Occasion::Replaced => {
                    *rotten.borrow_mut() = self.replace(&world, &set, &calls, &is_rebuilt).await;
                }
                Occasion::Spare => join(world.make(&set, &calls), fill(new, NEXT)).await.0,
            }
            if is_closed {
                let _ = set.close().await; // it may have stopped
            }
        };
        executor.block_on_for(PATIENCE, part).ok_or("the recorded part has no end")?;
        self.rotten = rotten.take().unwrap_or(std::mem::take(&mut self.rotten));
        self.is_closed = is_closed && is_rebuilt.get();
        self.keep_recording(&world, &calls, disks);
        Ok(())
    }

    /// Whether a member is replaced, and a table of checksums rots before that ends.
    fn is_replaced_with_tables(&self) -> bool {
        let Case { occasion, fault, .. } = self.case;
        let is_early = self.moment != Moment::Cut;
        is_early && occasion == Occasion::Replaced && fault == Fault::Rot(Area::Table)
    }

    /// Makes calls while another disk replaces the member. Returns the rot meanwhile, if the story
    /// asks for that.
    async fn replace(
        &self,
        world: &World,
        set: &Set,
        calls: &[Call],
        is_rebuilt: &Cell<bool>,
    ) -> Option<Rotten> {
        let replace = async {
            let disk = world.disks[self.shape.members].clone().expect("it is there");
            if set.replace(self.absent, disk, NEXT, |_, _| ()).await.is_ok() {
                world.clock.mark(Mark::Number(REBUILT));
                is_rebuilt.set(true);
            }
        };
        join3(world.make(set, calls), replace, self.rot_during(world)).await.2
    }

    /// Rots a block while a replacement runs, if the story asks for that.
    async fn rot_during(&self, world: &World) -> Option<Rotten> {
        if self.moment != Moment::During {
            return None;
        }
        let mut prng = Prng::new(self.case.seed ^ 0xd0);
        let after = Duration::from_micros(prng.below(ROT_AFTER_US));
        world.runtime.clock.sleep(after).await;
        Some(self.target().flip(&world.disks, &world.contents(), &mut prng))
    }

    /// Has calls of the faulty member fail; of each member where tables cannot be read.
    fn strike(&self, world: &World, faults: Option<Vec<Struck>>) {
        let is_struck = |disk: &usize| *disk == self.faulty || self.case.fault == Fault::Tables;
        let disks = (0..world.disks.len()).filter(is_struck);
        for disk in disks.filter_map(|disk| world.disks[disk].as_ref()) {
            faults.iter().flatten().for_each(|fault| disk.inject(fault.clone()));
        }
    }

    /// Keeps the recorded part: calls, marks, traces, and images of disks that were unplugged.
    fn keep_recording(&mut self, world: &World, calls: &[Call], disks: Disks) {
        let clock = world.clock.trace();
        self.calls = done(calls, &clock);
        let marks = clock.events().iter().filter_map(|event| match event.event {
            Event::Mark(Mark::Number(mark)) => Some((event.serial, mark)),
            _ => None,
        });
        for (serial, mark) in marks {
            if mark == REBUILT {
                self.rebuilt = Some(serial);
            } else if let Some(number) = mark.checked_sub(TOLD) {
                self.told.push((serial, world.told.borrow()[number as usize].clone()));
            }
        }
        let trace = |disk: &Option<Rc<Disk>>| disk.as_ref().map(|disk| disk.trace());
        self.traces = world.disks.iter().map(trace).collect();
        self.unplugged = disks;
        for (unplugged, trace) in self.unplugged.iter_mut().zip(&self.traces) {
            *unplugged = unplugged.take().filter(|_| trace.is_none());
        }
    }

    /// Draws faults of calls of the faulty member, or of each: some reads fail, or some writes find
    /// no room. Also returns whether all reads fail until the end.
    fn faults_of_calls(&self, prng: &mut Prng) -> (Vec<Struck>, bool) {
        let first = prng.between(1, 8);
        match self.case.fault {
            Fault::Unread => {
                let (unit, start) = (self.shape.unit, self.shape.data_start);
                let stripe = start + self.hot * unit;
                let all = start..start + self.shape.rows * unit;
                let range = if prng.chance(1, 2) { stripe..stripe + unit } else { all };
                let fault = Struck::on(Verb::Read, Effect::Eio).within(range);
                if prng.chance(1, 2) {
                    return (vec![fault.nth(1 + first / 4).forever()], true);
                }
                let some = first..first + prng.between(1, 6);
                (some.map(|nth| fault.clone().nth(nth)).collect(), false)
            }
            Fault::Tables => {
                let tables = self.shape.map_at() + BLOCK..self.shape.labels_at()[1];
                let fault = Struck::on(Verb::Read, Effect::Eio).within(tables);
                if prng.chance(1, 2) {
                    return (vec![fault.nth(1 + first / 4).forever()], true);
                }
                // A table is tried nine times, and two places of it each time.
                let some = first..first + prng.between(1, 120);
                (some.map(|nth| fault.clone().nth(nth)).collect(), false)
            }
            Fault::Full => {
                let effect = if prng.chance(1, 2) { Effect::NoSpace } else { Effect::Denied };
                let fault = Struck::on(Verb::Write, effect);
                let some = first..first + prng.between(1, 12);
                (some.map(|nth| fault.clone().nth(nth)).collect(), false)
            }
            Fault::Rot(_) | Fault::RotAll(_) => (Vec::new(), false),
        }
    }

    /// The witness kept outside before an event.
    pub(super) fn witness_at(&self, serial: u64) -> Witness {
        let latest = self.told.iter().rev().find(|(when, _)| *when < serial);
        latest.map_or(&self.witness, |(_, story)| story).clone()
    }
}
