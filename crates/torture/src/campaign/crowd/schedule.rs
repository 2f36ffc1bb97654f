//! Advances a crowd step by step, with a check after each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;

use super::judge;
use super::ledger::{Found, Lane, Role};
use super::stage::Stage;
use super::workload::{Workload, is_guest};

/// Longest virtual time of a crowd.
const LONGEST: Duration = Duration::from_secs(1_000);

/// Runs until `done` returns a value.
pub(super) fn until<T>(
    stage: &Stage,
    workload: &Workload,
    mut is_there: impl FnMut() -> Option<T>,
) -> Result<T, String> {
    let end = stage.executor.now().after(LONGEST);
    loop {
        if let Some(there) = is_there() {
            return Ok(there);
        }
        if stage.executor.now() > end || !stage.executor.step() {
            return Err(format!("it hangs at {:?}", stage.executor.now()));
        }
        note_newcomers(stage, workload);
        judge::look(stage, workload)?;
    }
}

/// Runs for this time.
pub(super) fn run_for(stage: &Stage, workload: &Workload, time: Duration) -> Result<(), String> {
    let clock = stage.executor.runtime().clock;
    let over: Rc<RefCell<Option<()>>> = Rc::default();
    let mark = over.clone();
    let sleep = clock.sleep(time);
    let wait = async move {
        sleep.await;
        mark.replace(Some(()));
    };
    stage.executor.runtime().tasks.spawn(wait.boxed_local());
    until(stage, workload, || over.borrow_mut().take())
}

/// Notes the state that a newcomer finds, before the server has accepted it.
fn note_newcomers(stage: &Stage, workload: &Workload) {
    let lanes = stage.ledger.lanes.borrow();
    let is_new = |lane: &&Rc<Lane>| lane.role == Role::Newcomer && lane.found.get().is_none();
    for newcomer in lanes.values().filter(is_new) {
        let others = lanes.values().filter(|lane| lane.ended.get().is_none());
        let others: Vec<&Rc<Lane>> =
            others.filter(|lane| lane.address != newcomer.address).collect();
        newcomer.found.set(Some(found(newcomer, &others, workload)));
    }
}

fn found(newcomer: &Lane, others: &[&Rc<Lane>], workload: &Workload) -> Found {
    let seated: Vec<&Lane> =
        others.iter().map(|lane| &***lane).filter(|lane| lane.is_seated()).collect();
    let waiting = others.len() - seated.len();
    let strangers =
        seated.iter().filter(|lane| !is_guest(lane.address.ip()) && !lane.owes()).count();
    let mut held: BTreeMap<IpAddr, u64> = BTreeMap::new();
    seated.iter().for_each(|lane| *held.entry(lane.address.ip()).or_default() += 1);
    let own = held.get(&newcomer.address.ip()).copied().unwrap_or_default();
    held.entry(newcomer.address.ip()).or_default();
    let share = workload.bounds.connections / held.len() as u64;
    let most = held.values().max().copied().unwrap_or_default();
    let is_short = own < share && most > share && waiting == 0;
    let owes = seated.iter().any(|lane| lane.owes());
    Found { seated: seated.len() as u64, is_easy: !owes && (strangers > waiting || is_short) }
}
