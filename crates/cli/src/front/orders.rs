//! Orders for the NVRAM of a served volume: `POST /v1/nvram/down` and `/up`.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use runtime::Runtime;
use serde_json::{Value, json};
use server::control::{Act, End, Job, Jobs, Refused};

use super::{Front, Status};
use crate::words;

/// Interval at which a change of the state is looked for.
const WATCH: Duration = Duration::from_millis(250);
/// Interval at which a job looks how much is still dirty.
const LOOK: Duration = Duration::from_millis(50);
/// Time for which calls may go on beside a job: then they wait for its end.
const BESIDE: Duration = Duration::from_secs(30);
/// Dirty bytes that are destaged while calls wait.
const REST: u64 = 1 << 20;

/// Handler of the orders of the control channel.
pub(crate) fn act(front: Option<Rc<Front>>, jobs: Jobs, runtime: &Runtime) -> Act {
    let runtime = runtime.clone();
    Rc::new(move |order, _| {
        let (front, jobs, runtime) = (front.clone(), jobs.clone(), runtime.clone());
        async move {
            let none = || Refused::Conflict("the volume has no NVRAM".to_owned());
            let front = front.ok_or_else(none)?;
            match &*order {
                "down" => go_down(&front, &jobs, &runtime),
                "up" => go_up(&front).await.map(|()| json!({})),
                _ => Err(Refused::Unknown),
            }
        }
        .boxed_local()
    })
}

/// Says how the NVRAM stands, and from then on each change of that.
pub(crate) fn watch(front: &Rc<Front>, volume: &Path, runtime: &Runtime) {
    front.announce(volume);
    if front.nvram().is_none() {
        return;
    }
    front.watch_twins();
    let (volume, last) = (volume.to_owned(), Status::of(front));
    let (front, clock) = (Rc::downgrade(front), runtime.clock.clone());
    runtime.tasks.spawn(Box::pin(async move {
        let mut last = last;
        loop {
            clock.sleep(WATCH).await;
            let Some(front) = front.upgrade() else { return };
            front.follow_beside();
            let status = Status::of(&front);
            let (volume, shown) = (volume.display(), front.shown());
            if !status.is_like(&last) {
                words::say(format_args!("{volume}: NVRAM{shown}: {}", status.change()));
            }
            let copies = status.copies.iter().zip(&last.copies);
            copies.filter(|(now, before)| now != before).for_each(|(now, _)| now.say(&volume));
            last = status;
        }
    }));
}

/// Holds writes again.
pub(crate) async fn go_up(front: &Front) -> Result<(), Refused> {
    let refused = |why: String| Refused::Conflict(why);
    let nvram = front.nvram().ok_or_else(|| refused(absence_of(front)))?;
    let lower = front.lower.as_ref().filter(|lower| lower.has_failed());
    lower.iter().for_each(|lower| lower.forgive());
    if let Some(error) = Status::of(front).error {
        return Err(refused(error));
    }
    if nvram.status().is_down {
        nvram.up().await.map_err(|error| refused(error.to_string()))?;
    } else if lower.is_none() {
        return Err(refused("its NVRAM is up already".to_owned()));
    }
    front.follow().await.map_err(|error| refused(error.to_string()))?;
    // It may have failed again.
    Status::of(front).error.map_or(Ok(()), |error| Err(refused(error)))
}

/// Why an order is refused for a volume that is open without its NVRAM.
fn absence_of(front: &Front) -> String {
    let why = front.absence().unwrap_or_default();
    format!("it is served without its NVRAM ({why}): that comes back with the next start")
}

/// Begins the job that brings everything to the disks and takes the NVRAM out of use.
fn go_down(front: &Rc<Front>, jobs: &Jobs, runtime: &Runtime) -> Result<Value, Refused> {
    let nvram = front.nvram().ok_or_else(|| Refused::Conflict(absence_of(front)))?;
    let why = match nvram.status() {
        status if status.is_down && !status.is_needed => Some("its NVRAM is down already"),
        _ if front.is_busy.replace(true) => Some("its NVRAM is about to go down"),
        _ => None,
    };
    if let Some(why) = why {
        return Err(Refused::Conflict(why.to_owned()));
    }
    let job = jobs.begin("destage", nvram.status().dirty_bytes, "bytes", true);
    let (id, front, runtime) = (job.id(), front.clone(), runtime.clone());
    let tasks = runtime.tasks.clone();
    tasks.spawn(Box::pin(async move {
        let end = destage(&front, &job, &runtime).await;
        front.is_busy.set(false);
        job.end(end);
    }));
    Ok(json!({ "job": id }))
}

/// Destages beside the calls at first, and the rest while they wait.
async fn destage(front: &Front, job: &Job, runtime: &Runtime) -> End {
    let nvram = front.nvram().expect("it was there");
    let total = nvram.status().dirty_bytes;
    let begun = runtime.clock.now();
    while runtime.clock.now().since(begun) < BESIDE {
        if job.is_cancelled() {
            nvram.hurry(false);
            return End::Cancelled;
        }
        let dirty = nvram.status().dirty_bytes;
        job.advance(total.saturating_sub(dirty), total);
        if dirty <= REST {
            break;
        }
        nvram.hurry(true);
        runtime.clock.sleep(LOOK).await;
    }
    let settled = front.go_down().await;
    nvram.hurry(false);
    match settled {
        Ok(()) => {
            job.advance(total, total);
            End::Done
        }
        Err(error) => {
            let is_down = nvram.status().is_down;
            let state =
                if is_down { "it is down, and the disks may not say so" } else { "it stays up" };
            words::say(format_args!("NVRAM{}: {state}: {error}", front.shown()));
            End::Failed
        }
    }
}
