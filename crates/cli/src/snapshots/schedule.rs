//! Snapshots that a server makes by itself: one each hour, one each day, as `[snapshots]` of
//! `volume.toml` says, in Greenwich's time.
//!
//! Each bears its kind and its hour or day as its name: by that it is known, and the oldest of a
//! kind go when there are more than are to be kept. The oldest is the one that was made first,
//! whatever the clock said: after a clock that was wrong, names are no order.
//!
//! An hour that begins while the volume is not served is not made up for. A clock that is set
//! back comes to the same hour again, and finds its snapshot there.
//!
//! Invariant: a snapshot goes only if its name is one that this gives.
//!
//! Not asserted: it is what [`Kind::is_of`] computes.

use std::time::Duration;

use duramen_settings::SnapshotsSettings;
use futures::FutureExt;
use runtime::Timestamp;

use super::keeper::Keeper;
use super::verbs::Wrong;
use crate::calendar::{show_day, show_hour};

/// How often the clock is looked at, at least: somebody may set it.
const LOOK: Duration = Duration::from_secs(60);

/// One of the kinds.
#[derive(Clone, Copy)]
struct Kind {
    seconds: i64,
    /// What its name begins with.
    word: &'static str,
    /// What follows, of a time.
    show: fn(i64) -> String,
}

const HOURLY: Kind = Kind { seconds: 3600, word: "hourly-", show: show_hour };
const DAILY: Kind = Kind { seconds: 24 * 3600, word: "daily-", show: show_day };

impl Kind {
    /// The name of the snapshot that belongs to a time.
    fn name(self, seconds: i64) -> String {
        format!("{}{}", self.word, (self.show)(seconds))
    }

    /// Whether a snapshot of this name is one of them: digits stand where they have digits.
    fn is_of(self, name: &str) -> bool {
        let shape = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "0");
        shape(name) == shape(&self.name(0))
    }

    fn number(self, seconds: i64) -> i64 {
        seconds.div_euclid(self.seconds)
    }
}

/// Makes and deletes snapshots as the settings say, beside everything else, for as long as the
/// reactor runs.
pub(crate) fn attend(keeper: Keeper, settings: SnapshotsSettings) {
    let kinds = [(HOURLY, settings.hourly), (DAILY, settings.daily)];
    let kinds = kinds.into_iter().filter_map(|(kind, keep)| Some((kind, keep? as usize)));
    let kinds: Vec<_> = kinds.collect();
    if kinds.is_empty() {
        return;
    }
    if !keeper.has_any() {
        return keeper.say(format_args!(
            "its volume.toml has a section [snapshots], and its engine has no snapshots"
        ));
    }
    let tasks = keeper.runtime.tasks.clone();
    tasks.spawn(async move { keep(&keeper, &kinds).await }.boxed_local());
}

async fn keep(keeper: &Keeper, kinds: &[(Kind, usize)]) {
    let clock = keeper.runtime.clock.clone();
    let mut last = clock.wall();
    loop {
        clock.sleep(until_next(clock.wall())).await;
        let now = clock.wall();
        for &(kind, most) in kinds {
            if kind.number(now.seconds) > kind.number(last.seconds) {
                take(keeper, kind, most, now.seconds).await;
            }
        }
        last = now;
    }
}

/// How long to sleep: until the next hour, if it comes soon.
fn until_next(now: Timestamp) -> Duration {
    let left = HOURLY.seconds - now.seconds.rem_euclid(HOURLY.seconds);
    let left = Duration::from_secs(left.unsigned_abs());
    left.saturating_sub(Duration::from_nanos(now.nanoseconds.into())).min(LOOK)
}

/// Makes the snapshot of a time, and has the oldest go.
async fn take(keeper: &Keeper, kind: Kind, most: usize, seconds: i64) {
    let name = kind.name(seconds);
    match keeper.create(&name).await {
        Ok(_) => {}
        Err(Wrong::Taken(_)) => return, // the clock was set back
        Err(wrong) => return keeper.say(format_args!("snapshot '{name}' is not made: {wrong}")),
    }
    let Ok(mut all) = keeper.list().await else { return };
    all.retain(|told| !told.is_deleting() && kind.is_of(&told.name));
    let more = all.len().saturating_sub(most);
    for told in &all[..more] {
        match keeper.delete(&told.name).await {
            // Somebody else was faster.
            Ok(_) | Err(Wrong::Absent { .. }) => {}
            Err(wrong) => {
                keeper.say(format_args!("snapshot '{}' is not deleted: {wrong}", told.name));
            }
        }
    }
}
