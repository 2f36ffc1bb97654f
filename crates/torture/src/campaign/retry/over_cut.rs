//! A call, cut at every write, and repeated to the next boot.
//!
//! What is left on the disk decides what the repetition has to do: nothing of the call is there, or
//! all of it, or one of the parts that are documented. After the answer all of it has to be there.

use std::collections::BTreeSet;

use bytes::Bytes;
use nfs3_types::nfs3::nfsstat3;
use sim::{Choice, Image, Mark, Platter, Prng, Trace};

use super::super::Options;
use super::cases::{Case, Parts, Undo};
use super::stage::{Base, PORT, Stage, XID, exchange, receive, record, results, send};
use super::{Expectation, Judge, made_is_there, same};
use crate::explore::Before;
use crate::explore::disks::Images;
use crate::explore::model::{View, What};
use crate::explore::policy::Policy;
use crate::explore::recover::recover;

/// Random ways to lose what is pending, beside losing all and nothing: of a short run,
const RANDOM: usize = 4;
/// and of a full one.
const RANDOM_FULL: usize = 60;

/// How a call is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the port of the first.
    OldPort,
    /// From another port.
    NewPort,
    /// Twice at once.
    Doubled,
    /// Twice, on two connections.
    Twice,
    /// After somebody else has undone it.
    AfterUndo,
}

const WAYS: [Way; 5] = [Way::OldPort, Way::NewPort, Way::Doubled, Way::Twice, Way::AfterUndo];

/// What is left of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    All,
    Part,
}

/// A call that was carried out once, with all that happened to the disk.
pub struct First {
    before: View,
    after: View,
    reply: Bytes,
    trace: Trace,
}

impl First {
    /// Carries it out.
    ///
    /// # Errors
    /// When it is not answered as it should be.
    pub fn run(base: &Base, case: &Case) -> Result<Self, String> {
        let stage = Stage::new(1, base.image.clone())?;
        let before = stage.view()?;
        let disk = stage.world.disk();
        let reply = stage.world.run(async {
            let stream = stage.connect(PORT).await;
            disk.start_trace();
            let reply = exchange(&stream, &record(case, XID)).await?;
            disk.mark(0);
            Ok::<_, String>(reply)
        })?;
        let moment = std::time::Duration::from_millis(50);
        stage.world.run_for(moment, std::future::pending::<()>());
        let trace = disk.trace();
        let status = status(case, &reply)?;
        if status != case.first {
            return Err(format!("it is answered with {status}, not {}", case.first));
        }
        made_is_there(case, &reply, &stage)?;
        Ok(Self { before, after: stage.view()?, reply, trace })
    }

    /// The number of events that happen to the disk.
    pub fn events(&self) -> usize {
        self.trace.events().len()
    }

    /// What is there when it was carried out once.
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

    /// Whether a file is as long as before, and each byte old or new.
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

fn status(case: &Case, reply: &Bytes) -> Result<nfsstat3, String> {
    results(reply)?.status(case.target).ok_or_else(|| "a reply without a status".into())
}

/// Cuts a call everywhere, and repeats it in every way.
pub fn judge(judge: &mut Judge<'_>, first: &First, options: &Options) {
    let mut prng = Prng::new(options.seed);
    let random = if options.full { RANDOM_FULL } else { RANDOM };
    let mut seen = BTreeSet::new();
    for (position, platter) in first.trace.cuts() {
        let marks = first.trace.marks_before(position);
        let answered = marks.filter(|mark| **mark == Mark::Number(0)).count() > 0;
        for image in images(&platter, random, &mut prng) {
            if !seen.insert((image.fingerprint(), answered)) {
                continue;
            }
            judge.counts.images += 1;
            let when = format!("cut after {position} events");
            repeat(judge, first, (&when, answered), &image);
        }
    }
}

fn images(platter: &Platter, random: usize, prng: &mut Prng) -> Vec<Image> {
    let whole = platter.image_with(|_| sim::Fate::Whole);
    let random = (0..random).map(|_| platter.image(&Choice::random(platter, prng)));
    [platter.durable_image(), whole].into_iter().chain(random).collect()
}

fn repeat(judge: &mut Judge<'_>, first: &First, (when, answered): (&str, bool), image: &Image) {
    let case = judge.case;
    let view = match recover(Policy::Sync, &Images(vec![image.clone()]), &Before::new()) {
        Ok(recovered) => recovered.view,
        Err(reason) => return judge.violate(when, &reason),
    };
    let Some(left) = first.left(case, &view) else {
        return judge.violate(when, "what is left is neither before nor after, nor a known part");
    };
    if answered && left != Left::All {
        return judge.violate(when, "it was answered, and is not there");
    }
    for way in WAYS {
        judge.counts.states += 1;
        let judged = match way {
            Way::AfterUndo => after_undo(judge, first, (left, answered), image),
            _ => again(judge, first, (left, answered), (&view, image), way),
        };
        if let Err(reason) = judged {
            judge.violate(&format!("{when}, {left:?} of it left, repeated {way:?}"), &reason);
        }
    }
}

/// What a repetition is answered.
fn expected(judge: &Judge<'_>, left: Left) -> nfsstat3 {
    match (judge.expectation, left) {
        (Expectation::Original, _) | (Expectation::Documented, Left::Nothing) => judge.case.first,
        (Expectation::Documented, Left::All) => judge.case.again,
        (Expectation::Documented, Left::Part) => nfsstat3::NFS3_OK,
    }
}

fn again(
    judge: &Judge<'_>,
    first: &First,
    (left, answered): (Left, bool),
    (view, image): (&View, &Image),
    way: Way,
) -> Result<(), String> {
    let case = judge.case;
    let stage = Stage::new(2, image.clone())?;
    let replies = stage.world.run(send_again(&stage, &record(case, XID), way))?;
    let wanted = expected(judge, left);
    for reply in &replies {
        let status = status(case, reply)?;
        if status != wanted {
            return Err(format!("it is answered with {status}, not {wanted}"));
        }
        if reply != &replies[0] {
            return Err("it is answered in two ways".into());
        }
        if judge.expectation == Expectation::Original && answered && *reply != first.reply {
            return Err("it is answered otherwise than the first time".into());
        }
        made_is_there(case, reply, &stage)?;
    }
    let stays = left == Left::Part && matches!(case.parts, Parts::BothNames(..));
    let goal = if stays { view } else { &first.after };
    match same(&stage.view()?, goal) {
        true => Ok(()),
        false => Err(format!("not what one execution makes: {:?}", stage.view()?)),
    }
}

async fn send_again(stage: &Stage, record: &Bytes, way: Way) -> Result<Vec<Bytes>, String> {
    let port = if way == Way::NewPort { 0 } else { PORT };
    let stream = stage.connect(port).await;
    match way {
        Way::OldPort | Way::NewPort | Way::AfterUndo => Ok(vec![exchange(&stream, record).await?]),
        Way::Doubled => {
            send(&stream, record).await?;
            send(&stream, record).await?;
            Ok(vec![receive(&stream).await?, receive(&stream).await?])
        }
        Way::Twice => {
            let one = exchange(&stream, record).await?;
            drop(stream);
            let other = stage.connect(0).await;
            Ok(vec![one, exchange(&other, record).await?])
        }
    }
}

/// Somebody else has undone it, and nothing remembers that it was carried out: then the repetition
/// is like any other call. Where it is remembered, it changes nothing.
fn after_undo(
    judge: &Judge<'_>,
    first: &First,
    (left, answered): (Left, bool),
    image: &Image,
) -> Result<(), String> {
    let case = judge.case;
    if case.undo == Undo::Nothing {
        return Ok(());
    }
    let run = |xid| {
        let stage = Stage::new(3, image.clone())?;
        stage.world.run(stage.undo(case.undo));
        let undone = stage.view()?;
        let record = record(case, xid);
        let reply = stage.world.run(send_again(&stage, &record, Way::AfterUndo))?.remove(0);
        Ok::<_, String>((undone, stage.view()?, reply))
    };
    let (undone, now, reply) = run(XID)?;
    if judge.expectation == Expectation::Original && left == Left::All {
        if !same(&undone, &now) {
            return Err("it is carried out again, over what somebody else has done".into());
        }
        return match answered && reply != first.reply {
            true => Err("it is answered otherwise than the first time".into()),
            false => Ok(()),
        };
    }
    let (_, like, other) = run(XID + 1)?;
    if status(case, &reply)? != status(case, &other)? || !same(&now, &like) {
        return Err("it is neither remembered nor carried out as any other call".into());
    }
    Ok(())
}
