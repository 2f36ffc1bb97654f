//! The calls of a life: three callers at once, on hot blocks and on all of them.

use std::ops::Range;
use std::time::Duration;

use sim::Prng;

/// Callers at once.
const CALLERS: u64 = 3;
/// Sectors that are written again and again.
const HOT: u64 = 128;
/// Sectors of a write that may pass by.
const LARGE: u64 = 256;

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Write {
        sectors: Range<u64>,
        is_through: bool,
    },
    Discard(Range<u64>),
    Read(Range<u64>),
    Mend(Range<u64>),
    Flush,
    /// Everything is brought below; with `true`, writes pass by from then on.
    Settle(bool),
    /// Writes are held again.
    Up,
    /// Everything is to go below beside the calls, or no more.
    Hurry(bool),
    Pause(Duration),
    /// The fault of the story begins.
    Strike,
    /// A clean stop.
    Stop,
}

impl Call {
    /// The sectors that it concerns.
    pub(super) fn sectors(&self) -> Range<u64> {
        match self {
            Self::Write { sectors, .. }
            | Self::Discard(sectors)
            | Self::Read(sectors)
            | Self::Mend(sectors) => sectors.clone(),
            _ => 0..0,
        }
    }
}

/// The calls of each caller on a volume of so many sectors, many of them about this one.
pub(super) fn draw((sectors, hot): (u64, u64), is_struck: bool, prng: &mut Prng) -> Vec<Vec<Call>> {
    let hot = hot.saturating_sub(HOT / 2).min(sectors - HOT);
    let most = [4, 12, 24][prng.index(3)];
    let mut callers: Vec<Vec<Call>> = (0..CALLERS)
        .map(|_| (0..prng.between(1, most)).map(|_| one(sectors, hot, prng)).collect())
        .collect();
    if is_struck {
        let at = prng.index(callers[0].len() + 1) / 2;
        callers[0].insert(at, Call::Strike);
    }
    callers
}

fn one(sectors: u64, hot: u64, prng: &mut Prng) -> Call {
    let (area, most) = match prng.below(20) {
        0 | 1 => (0..sectors, LARGE + 60),
        2..=10 => (hot..hot + HOT, 12),
        _ => (0..sectors, 40),
    };
    let least = if most > LARGE { LARGE } else { 1 };
    let count = prng.between(least, most);
    let first = prng.between(area.start, area.end - count);
    let all = first..first + count;
    // Whole blocks as often as any.
    let blocks = first / 8 * 8..(first + count).div_ceil(8) * 8;
    let all = if prng.chance(1, 2) { all } else { blocks };
    match prng.below(32) {
        0..=2 => Call::Flush,
        3 | 4 => Call::Discard(all),
        5..=7 => Call::Read(all),
        8 => Call::Mend(all),
        9 => Call::Settle(prng.chance(1, 2)),
        10 => Call::Up,
        11 => Call::Hurry(prng.chance(2, 3)),
        12 | 13 => Call::Pause(Duration::from_micros(prng.between(100, 20_000))),
        _ => Call::Write { sectors: all, is_through: prng.chance(1, 2) },
    }
}
