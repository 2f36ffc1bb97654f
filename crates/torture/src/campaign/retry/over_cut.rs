//! Cuts a call at every write, and repeats it to the next boot.
//!
//! The state on the disk decides the work of the repetition: none of the call is there, or all of
//! it, or one of the documented parts. After the answer all of it must be there.

use std::collections::BTreeSet;

use bytes::Bytes;
use nfs3_types::nfs3::{nfs_fh3, nfsstat3};
use sim::Prng;

use super::super::{Cuts, Options};
use super::cases::{Case, Parts, Undo};
use super::number::another_call_of_the_number;
use super::stage::{
    Base, PORT, Remains, Served, Stage, XID, exchange, receive, record, results, send,
};
use super::{Expectation, Judge, made_is_there, same};
use crate::explore::Before;
use crate::explore::disks::{Images, Recording};
use crate::explore::model::{View, What};
use crate::explore::recover::{record as return_of, recover};
use crate::explore::ways::known::Known;
use crate::explore::ways::look::repaired;
use crate::explore::ways::place::Place;
use crate::explore::ways::way::{Way, go};

/// Random losses of pending writes, besides losing all and nothing: in a short run,
const RANDOM: usize = 4;
/// and in a full one.
const RANDOM_FULL: usize = 60;

/// In a short run the power is cut again during one recovery in this many.
const NESTED: u64 = 3;

/// The connections and number of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// From the port of the first.
    OldPort,
    /// From another port.
    NewPort,
    /// Twice at once, on one connection.
    Doubled,
    /// Twice, on two connections.
    Twice,
    /// After another client has undone the call.
    AfterUndo,
}

const REPETITIONS: [Repetition; 5] = [
    Repetition::OldPort,
    Repetition::NewPort,
    Repetition::Doubled,
    Repetition::Twice,
    Repetition::AfterUndo,
];

/// The part of a call that a cut has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    All,
    Part,
}

/// A call that was carried out once, with its recording.
pub struct First {
    before: View,
    after: View,
    reply: Bytes,
    served: Served,
    root: nfs_fh3,
    events: usize,
    happened: Happened,
    cuts: Cuts,
}

/// The recording of the durable store, for cuts.
enum Happened {
    /// The events of disks.
    Recorded(Recording),
    /// States that a cut may leave of an engine over memory at each moment at which they change,
    /// and whether the call was answered by then.
    Sampled(Vec<(bool, Remains)>),
}

impl First {
    /// Carries out the call.
    ///
    /// # Errors
    /// When its answer is not the expected one.
    pub fn run(base: &Base, case: &Case, full: bool) -> Result<Self, String> {
        let random = if full { RANDOM_FULL } else { RANDOM };
        // The seed differs from that of recoveries: an epoch is a random number that must never be
        // reused.
        let stage = Stage::new(7, base.served, &base.remains)?;
        let before = stage.view()?;
        let mut cuts = Cuts::default();
        let (reply, events, happened) = match stage.world.ram().cloned() {
            Some(ram) => sampled(&stage, &ram, &record(case, XID), (random, &mut cuts))?,
            None => recorded(&stage, &record(case, XID))?,
        };
        let served = base.served;
        let status = status(case, &reply)?;
        if status != case.first {
            return Err(format!("it is answered with {status}, not {}", case.first));
        }
        made_is_there(case, &reply, &stage)?;
        let root = base.handles.root.clone();
        Ok(Self { before, after: stage.view()?, reply, served, root, events, happened, cuts })
    }

    /// Cuts of an engine over memory that take something, and those that leave something not
    /// acknowledged to any client.
    pub fn cuts(&self) -> Cuts {
        self.cuts
    }

    /// The number of events on the disks.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Whether the call has changed anything.
    pub fn has_changed(&self) -> bool {
        !same(&self.before, &self.after)
    }

    /// The state after one execution.
    pub fn after(&self) -> &View {
        &self.after
    }

    fn left(&self, case: &Case, view: &View) -> Option<Left> {
        if same(view, &self.after) {
            return Some(Left::All);
        }
        if same(view, &self.before) {
            return Some(Left::Nothing);
        }
        let fits = match case.parts {
            Parts::None => false,
            // A log entry is there or not; overwriting data does not go through it. The recovery
            // completes operations with intents.
            Parts::BothNames(..) | Parts::WithoutTarget(_) if self.served.design.remembers() => {
                false
            }
            Parts::BothNames(from, to) => {
                self.both_names(from, to).is_some_and(|it| same(view, &it))
            }
            Parts::WithoutTarget(path) => {
                let mut without = self.before.clone();
                without.remove(path);
                if let Some((parent, _)) = path.rsplit_once('/') {
                    without.entry(parent.into()).and_modify(|seen| seen.links -= 1);
                }
                same(view, &without)
            }
            Parts::Sectors(path) => self.is_mixed(path, view),
        };
        fits.then_some(Left::Part)
    }

    fn both_names(&self, from: &str, to: &str) -> Option<View> {
        let mut both = self.after.clone();
        let moved = both.get(to)?.clone();
        both.insert(from.into(), moved.clone());
        let names = both.values_mut().filter(|seen| seen.file == moved.file);
        names.for_each(|seen| seen.links += 1);
        Some(both)
    }

    /// Whether a file has its old length, and each byte is old or new.
    fn is_mixed(&self, path: &str, view: &View) -> bool {
        let bytes = |view: &View| match view.get(path).map(|seen| &seen.what) {
            Some(What::Regular(bytes)) => Some(bytes.clone()),
            _ => None,
        };
        let (Some(old), Some(new), Some(now)) =
            (bytes(&self.before), bytes(&self.after), bytes(view))
        else {
            return false;
        };
        let mut rest = view.clone();
        rest.insert(path.into(), self.before[path].clone());
        now.len() == old.len()
            && (0..now.len()).all(|at| now[at] == old[at] || new.get(at) == Some(&now[at]))
            && rest.len() == self.before.len()
    }
}

/// Makes the call, and records the events of the disks.
fn recorded(stage: &Stage, record: &Bytes) -> Result<(Bytes, usize, Happened), String> {
    let disk = stage.world.disk();
    let reply = stage.world.run(async {
        let stream = stage.connect(PORT).await;
        stage.world.start_recording();
        let reply = exchange(&stream, record).await?;
        disk.mark(0);
        Ok::<_, String>(reply)
    })?;
    let moment = std::time::Duration::from_millis(50);
    stage.world.run_for(moment, std::future::pending::<()>());
    let recording = stage.world.recording();
    Ok((reply, recording.events(), Happened::Recorded(recording)))
}

/// Makes the call, and samples at each moment the states that a cut may leave.
fn sampled(
    stage: &Stage,
    ram: &ram::Disk,
    record: &Bytes,
    (random, cuts): (usize, &mut Cuts),
) -> Result<(Bytes, usize, Happened), String> {
    let stream = stage.world.run(stage.connect(PORT));
    let begun = ram.events();
    let mut prng = stage.world.fork_prng();
    let mut samples = Vec::new();
    let mut sample = |answered: bool| {
        let mut push = |(platter, cut)| {
            *cuts = cuts.and(cut);
            samples.push((answered, Remains::Memory(Box::new(platter))));
        };
        push(ram.remains(|| false));
        push(ram.remains(|| true));
        (0..random).for_each(|_| push(ram.remains(|| prng.chance(1, 2))));
    };
    sample(false);
    stage.world.run(send(&stream, record))?;
    let mut known = begun;
    let moment = std::time::Duration::from_micros(5);
    let mut receiving = Box::pin(receive(&stream));
    let reply = loop {
        let reply = stage.world.run_for(moment, &mut receiving);
        if ram.events() != known || reply.is_some() {
            known = ram.events();
            sample(reply.is_some());
        }
        if let Some(reply) = reply {
            break reply?;
        }
    };
    stage.world.run_for(std::time::Duration::from_millis(50), std::future::pending::<()>());
    sample(true);
    Ok((reply, (ram.events() - begun) as usize, Happened::Sampled(samples)))
}

fn status(case: &Case, reply: &Bytes) -> Result<nfsstat3, String> {
    results(reply)?.status(case.target).ok_or_else(|| "a reply without a status".into())
}

/// Cuts a call everywhere, and repeats it in every way.
pub fn judge(judge: &mut Judge<'_>, first: &First, options: &Options) {
    let mut prng = Prng::new(options.seed);
    let mut again = Prng::new(options.seed + 1);
    let random = if options.full { RANDOM_FULL } else { RANDOM };
    let recording = match &first.happened {
        Happened::Recorded(recording) => recording,
        Happened::Sampled(samples) => {
            for (number, (answered, remains)) in samples.iter().enumerate() {
                repeat(judge, first, (&format!("sample {number}"), *answered), remains);
            }
            return;
        }
    };
    let mut seen = BTreeSet::new();
    for cut in recording.cuts() {
        let answered = recording.marks_before(cut.position).any(|mark| mark == 0);
        let random = (0..random).map(|_| cut.random(&mut prng));
        for images in [cut.durable(), cut.whole()].into_iter().chain(random) {
            if !seen.insert((images.fingerprint(), answered)) {
                continue;
            }
            let when = format!("cut after {} events", cut.position);
            repeat(judge, first, (&when, answered), &Remains::Disks(images.clone()));
            if options.full || again.chance(1, NESTED) {
                for more in
                    [cut_again(first, &images, &mut again), by_the_way(first, &images, &mut again)]
                {
                    match more {
                        Ok((more, images)) => {
                            let remains = Remains::Disks(images);
                            repeat(judge, first, (&format!("{when}, {more}"), answered), &remains);
                        }
                        Err(reason) => judge.violate(&when, &reason),
                    }
                }
            }
        }
    }
}

/// The state after a second power cut during the recovery.
fn cut_again(first: &First, images: &Images, prng: &mut Prng) -> Result<(String, Images), String> {
    let recording = return_of(first.served.design, images)?;
    let cuts: Vec<_> = recording.cuts().collect();
    let cut = &cuts[prng.index(cuts.len())];
    Ok((format!("and {} events of the return", cut.position), cut.random(prng)))
}

/// The state after a repair, or after a start and a stop, before the call is repeated; under policy
/// `log` that may be cut as well. Under `sync` an interrupted repair keeps files that have lost
/// their name, which is neither the state before nor after.
fn by_the_way(first: &First, images: &Images, prng: &mut Prng) -> Result<(String, Images), String> {
    let way = [Way::Repair, Way::Close][prng.index(2)];
    let place = Place::new(first.served.design, images);
    let went = go(way, &place, &Known::default(), 0)?.ok_or("it needs to be repaired")?;
    let goes_on = !first.served.design.has_log() || !prng.chance(2, 3);
    let position = if goes_on { went.events() } else { prng.index(went.events() + 1) };
    let more = format!("and {} to event {position}", way.name());
    let cut = went.cut(position).ok_or("it is of disks")?;
    let is_cut = position < went.events();
    let mut images = if is_cut { cut.random(prng) } else { cut.whole() };
    if is_cut && way == Way::Repair {
        // A user repeats a repair if the program asks for it.
        images = repaired(&Place::new(first.served.design, &images))?.contents();
    }
    Ok((more, images))
}

fn repeat(judge: &mut Judge<'_>, first: &First, (when, answered): (&str, bool), remains: &Remains) {
    judge.counts.images += 1;
    let case = judge.case;
    let view = match remains {
        Remains::Disks(images) => {
            recover(first.served.design, images, &Before::new()).map(|recovered| recovered.view)
        }
        Remains::Memory(_) => Stage::new(2, first.served, remains).and_then(|stage| stage.view()),
    };
    let view = match view {
        Ok(view) => view,
        Err(reason) => return judge.violate(when, &reason),
    };
    let Some(left) = first.left(case, &view) else {
        return judge.violate(when, "what is left is neither before nor after, nor a known part");
    };
    if answered && left != Left::All {
        return judge.violate(when, "it was answered, and is not there");
    }
    for way in REPETITIONS {
        judge.counts.states += 1;
        let judged = match way {
            Repetition::AfterUndo => after_undo(judge, first, left, remains),
            _ => again(judge, first, left, (&view, remains), way),
        };
        if let Err(reason) = judged {
            judge.violate(&format!("{when}, {left:?} of it left, repeated {way:?}"), &reason);
        }
    }
}

/// The expected answer to a repetition.
fn expected(judge: &Judge<'_>, first: &First, left: Left) -> nfsstat3 {
    match (judge.expectation_of(first), left) {
        (Expectation::Original, _) | (Expectation::Documented, Left::Nothing) => judge.case.first,
        (Expectation::Documented, Left::All) => judge.case.again,
        (Expectation::Documented, Left::Part) => nfsstat3::NFS3_OK,
    }
}

fn again(
    judge: &Judge<'_>,
    first: &First,
    left: Left,
    (view, remains): (&View, &Remains),
    way: Repetition,
) -> Result<(), String> {
    let case = judge.case;
    let stage = Stage::new(2, first.served, remains)?;
    let replies = stage.world.run(send_again(&stage, &record(case, XID), way))?;
    let wanted = expected(judge, first, left);
    let original = left == Left::All && judge.expectation_of(first) == Expectation::Original;
    for reply in &replies {
        let status = status(case, reply)?;
        if status != wanted {
            return Err(format!("it is answered with {status}, not {wanted}"));
        }
        if reply != &replies[0] {
            return Err("it is answered in two ways".into());
        }
        if original && *reply != first.reply {
            return Err("it is answered otherwise than the first time".into());
        }
        made_is_there(case, reply, &stage)?;
    }
    let stays = left == Left::Part && matches!(case.parts, Parts::BothNames(..));
    let goal = if stays { view } else { &first.after };
    if !same(&stage.view()?, goal) {
        return Err(format!("not what one execution makes: {:?}", stage.view()?));
    }
    // A rebooted client starts its numbers anew: the same number comes with another call.
    stage.world.run(another_call_of_the_number(&stage, &first.root))
}

async fn send_again(stage: &Stage, record: &Bytes, way: Repetition) -> Result<Vec<Bytes>, String> {
    let port = if way == Repetition::NewPort { 0 } else { PORT };
    let stream = stage.connect(port).await;
    match way {
        Repetition::OldPort | Repetition::NewPort | Repetition::AfterUndo => {
            Ok(vec![exchange(&stream, record).await?])
        }
        Repetition::Doubled => {
            send(&stream, record).await?;
            send(&stream, record).await?;
            Ok(vec![receive(&stream).await?, receive(&stream).await?])
        }
        Repetition::Twice => {
            let one = exchange(&stream, record).await?;
            drop(stream);
            let other = stage.connect(0).await;
            Ok(vec![one, exchange(&other, record).await?])
        }
    }
}

/// Another client has undone the call. If the server does not remember it, the repetition is like
/// any other call. If it does, the repetition changes nothing.
fn after_undo(
    judge: &Judge<'_>,
    first: &First,
    left: Left,
    remains: &Remains,
) -> Result<(), String> {
    let case = judge.case;
    if case.undo == Undo::Nothing {
        return Ok(());
    }
    let run = |xid| {
        let stage = Stage::new(3, first.served, remains)?;
        stage.world.run(stage.undo(case.undo));
        let undone = stage.view()?;
        let record = record(case, xid);
        let reply = stage.world.run(send_again(&stage, &record, Repetition::AfterUndo))?.remove(0);
        Ok::<_, String>((undone, stage.view()?, reply))
    };
    let (undone, now, reply) = run(XID)?;
    if judge.expectation_of(first) == Expectation::Original && left == Left::All {
        if !same(&undone, &now) {
            return Err("it is carried out again, over what somebody else has done".into());
        }
        return if reply == first.reply {
            Ok(())
        } else {
            Err("it is answered otherwise than the first time".into())
        };
    }
    let (_, like, other) = run(XID + 1)?;
    if status(case, &reply)? != status(case, &other)? || !same(&now, &like) {
        return Err("it is neither remembered nor carried out as any other call".into());
    }
    Ok(())
}
