//! Automatic snapshots of a server: one each hour, one each day, as `[snapshots]` of `volume.toml`
//! says, in UTC.
//!
//! The name of a snapshot is its kind with its hour or day. The name identifies the kind, and the
//! oldest snapshots of a kind are deleted when there are more than the settings keep. The oldest is
//! the one created first, whatever the clock said: after the clock was wrong, names are in no
//! order.
//!
//! An hour that begins while the volume is not served gets no snapshot later. A clock that is set
//! back reaches the same hour again, and finds its snapshot there.
//!
//! Invariant: a snapshot is deleted only if its name is one that this module gives.
//!
//! Not asserted: it is what [`Kind::is_of`] computes.

use std::time::Duration;

use duramen_settings::SnapshotsSettings;
use futures::FutureExt;
use runtime::Timestamp;

use super::keeper::Keeper;
use super::verbs::Wrong;
use crate::calendar::{show_day, show_hour};

/// Maximum interval at which the clock is read: a user may set it.
const LOOK: Duration = Duration::from_secs(60);

/// A kind of automatic snapshots.
#[derive(Clone, Copy)]
struct Kind {
    seconds: i64,
    /// Prefix of its names.
    word: &'static str,
    /// Formats the rest of the name from a time.
    show: fn(i64) -> String,
}

const HOURLY: Kind = Kind { seconds: 3600, word: "hourly-", show: show_hour };
const DAILY: Kind = Kind { seconds: 24 * 3600, word: "daily-", show: show_day };

impl Kind {
    /// Name of the snapshot for a time.
    fn name(self, seconds: i64) -> String {
        format!("{}{}", self.word, (self.show)(seconds))
    }

    /// Whether a snapshot of this name is of this kind: the name has digits exactly where the
    /// kind's names have digits.
    fn is_of(self, name: &str) -> bool {
        let shape = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "0");
        shape(name) == shape(&self.name(0))
    }

    fn number(self, seconds: i64) -> i64 {
        seconds.div_euclid(self.seconds)
    }
}

/// Creates and deletes snapshots in the background as the settings say, for as long as the reactor
/// runs.
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

/// Time to sleep: until the next hour, if it is close.
fn until_next(now: Timestamp) -> Duration {
    let left = HOURLY.seconds - now.seconds.rem_euclid(HOURLY.seconds);
    let left = Duration::from_secs(left.unsigned_abs());
    left.saturating_sub(Duration::from_nanos(now.nanoseconds.into())).min(LOOK)
}

/// Creates the snapshot for a time, and deletes the oldest ones.
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
            // Another request deleted it first.
            Ok(_) | Err(Wrong::Absent { .. }) => {}
            Err(wrong) => {
                keeper.say(format_args!("snapshot '{}' is not deleted: {wrong}", told.name));
            }
        }
    }
}
