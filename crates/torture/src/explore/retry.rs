//! A client that reconnects after a crash: it repeats its unanswered calls, with the handles that
//! it held.
//!
//! The reply cache is gone, so a call that had been carried out is carried out again, and may be
//! refused because of its own work: a name exists, or is gone. The expected answer is therefore the
//! model's for the recovered state; but an exclusive creation recognises its own file. See
//! docs/durability.md, "A retry across a crash".

use std::rc::Rc;

use sim::Executor;
use vfs::{FsError, ObjectId};

use super::Style;
use super::caller::{Handles, call};
use super::design::Design;
use super::disks::Images;
use super::driver::Driver;
use super::judge::{History, Moment};
use super::model::{Act, Model, ROOT, View};
use super::op::{Mode, Op};
use super::ram::Ram;
use super::recover::SEED;
use super::server::{Server, handle};

/// Repeats the unanswered calls; if all were answered, the last one, whose answer may not have
/// arrived.
///
/// # Errors
/// A wrong answer or effect.
pub fn retry(
    design: Design,
    images: &Images,
    history: &History,
    moment: Moment,
) -> Result<(), String> {
    if design.is_delayed() || history.style == Style::RolledBack {
        return Ok(()); // nothing is promised of repetitions, or nothing is repeated
    }
    let executor = Executor::new(SEED);
    executor.block_on(async {
        let devices = images.0.iter().map(|image| Rc::new(Ram::new(image.clone())) as _).collect();
        let opened = design.open(devices, executor.runtime()).await;
        let files = opened.map_err(|error| format!("it does not come back: {error}"))?.files;
        let server = Server::new(executor.runtime(), files);
        let driver = Driver::new(server.witness.clone());
        let (view, ids) = driver.view().await.map_err(|error| error.to_string())?;
        let handles: Handles =
            history.handles.iter().map(|(&node, &id)| (node, handle(id))).collect();
        let held = driver.held().await.map_err(|error| error.to_string())?;
        let mut model = Model::with(&view, &held);
        for index in unanswered(history, moment) {
            let act = &history.acts[index].0;
            let call = call(&server, act, &handles);
            let reply = call.send(&server).await?;
            let found = (call.read)(&reply)?.result;
            let expected = expected(&mut model, history, index, &ids);
            if found != expected {
                let op = &act.op;
                return Err(format!("{op}, repeated, says {found:?} and not {expected:?}"));
            }
        }
        let (after, _) = driver.view().await.map_err(|error| error.to_string())?;
        let held = driver.held().await.map_err(|error| error.to_string())?;
        let known = model.held();
        let are_same = held.len() == known.len()
            && held.iter().zip(&known).all(|((name, (view, _)), (other_name, other))| {
                name == other_name && is_same(view, other)
            });
        if !is_same(&after, &model.view()) || !are_same {
            return Err("what was repeated did something else".to_owned());
        }
        driver.stop().await.map_err(|error| format!("it does not stop: {error}"))
    })
}

fn unanswered(history: &History, moment: Moment) -> Vec<usize> {
    let is_in = |bits: u32, index: &usize| bits >> index & 1 == 1;
    let mut begun = (0..history.acts.len()).filter(|index| is_in(moment.begun, index));
    let open: Vec<usize> = begun.clone().filter(|one| !is_in(moment.acknowledged, one)).collect();
    if open.is_empty() { begun.next_back().into_iter().collect() } else { open }
}

/// The model's result of an operation on the files that the old handles name now.
fn expected(
    model: &mut Model,
    history: &History,
    index: usize,
    ids: &[ObjectId],
) -> Result<(), FsError> {
    let act = &history.acts[index].0;
    let now = |node: usize| {
        let file = ids.iter().position(|id| *id == history.handles[&node]);
        if node == ROOT { Some(ROOT) } else { file.map(Model::node_of) }
    };
    let subject = now(act.subject).ok_or(FsError::Stale)?;
    let destination = act.destination.map(|node| now(node).ok_or(FsError::Stale)).transpose()?;
    let act = Act { subject, destination, ..act.clone() };
    match model.apply(&act) {
        Err(FsError::Exists) if matches!(act.op, Op::Create(_, Mode::Exclusive)) => {
            let node = model.child(subject, act.op.last_name())?;
            let is_own = history.given[index].is_some_and(|own| {
                ids.iter().position(|id| *id == own).map(Model::node_of) == Some(node)
            });
            // A call without a verifier has found a file that is not its own.
            let exclusive = |one: &usize| {
                matches!(history.acts[*one].0.op, Op::Create(_, Mode::Exclusive))
                    && history.given[*one] == history.given[index]
            };
            let is_first = (0..history.acts.len()).find(exclusive);
            if is_own && is_first == Some(index) { Ok(()) } else { Err(FsError::Exists) }
        }
        other => other,
    }
}

/// Whether two views show the same, whatever the numbers of their files.
fn is_same(one: &View, other: &View) -> bool {
    let mut same = std::collections::BTreeMap::new();
    one.len() == other.len()
        && one.iter().zip(other).all(|((path, seen), (other_path, other))| {
            path == other_path
                && (&seen.what, seen.mode, seen.links) == (&other.what, other.mode, other.links)
                && *same.entry(seen.file).or_insert(other.file) == other.file
        })
}
