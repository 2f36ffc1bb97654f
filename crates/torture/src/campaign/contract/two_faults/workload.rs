//! Writes and flushes of a workload of two faults, and the versions that a cut may leave.
//!
//! The calls of a workload come one after the other, each write with a version of its own. A sector
//! shows its last durable version or a later one.

use sim::{Event, Mark, Prng, Trace};

use super::super::model::{SECTOR, bytes};
use super::solver::{BLOCK, Shape};

/// Contents of a disk before it became a member.
pub(super) const RUBBISH: u8 = 0xee;

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// A write of bytes of the set.
    Write {
        version: u8,
        at: u64,
        length: u64,
        is_through: bool,
    },
    Flush,
}

/// A call and its outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) call: Call,
    /// Serial number of the event before which it was issued, and the same for its answer.
    pub(super) issued: Option<u64>,
    pub(super) answered: Option<u64>,
    pub(super) is_ok: bool,
}

/// Draws calls around a hot stripe: as many writes as asked for, and a flush as the last call.
pub(super) fn draw(
    shape: &Shape,
    hot: u64,
    writes: u64,
    first_version: u8,
    prng: &mut Prng,
) -> Vec<Call> {
    let stripe = shape.width() * shape.unit;
    let mut calls = Vec::new();
    for number in 0..writes {
        let lengths = [512, 2048, BLOCK, BLOCK, BLOCK, shape.unit, 2 * BLOCK, stripe, stripe + 512];
        let length = lengths[prng.index(lengths.len())];
        let step = if length.is_multiple_of(BLOCK) { BLOCK } else { SECTOR };
        let is_hot = prng.chance(3, 4);
        let from = if is_hot { hot * stripe } else { prng.below(shape.rows) * stripe };
        let at = match length {
            length if length >= stripe => from,
            _ => from + prng.below(stripe / step) * step,
        };
        let length = length.min(shape.size() - at);
        let is_through = prng.chance(1, 3);
        let version = first_version + number as u8;
        calls.push(Call::Write { version, at, length, is_through });
        if prng.chance(1, 3) {
            calls.push(Call::Flush);
        }
    }
    calls.push(Call::Flush);
    calls
}

/// Mark of an issued call; its answer has the next number, and a failure the one after that.
pub(super) fn mark_of(number: usize) -> u64 {
    3 * number as u64
}

/// Outcomes of calls, by the marks in a trace.
pub(super) fn done(calls: &[Call], trace: &Trace) -> Vec<Done> {
    let new = |&call| Done { call, issued: None, answered: None, is_ok: false };
    let mut done: Vec<Done> = calls.iter().map(new).collect();
    for event in trace.events() {
        let Event::Mark(Mark::Number(mark)) = event.event else { continue };
        let Some(done) = done.get_mut((mark / 3) as usize) else { continue };
        match mark % 3 {
            0 => done.issued = Some(event.serial),
            kind => {
                done.answered = Some(event.serial);
                done.is_ok = kind == 1;
            }
        }
    }
    done
}

/// Versions that each sector may show.
#[derive(Clone, Debug)]
pub(super) struct Versions {
    of: Vec<Vec<u8>>,
    /// From this byte on version 0 is zeros: the set was unwritten there.
    fresh_from: u64,
}

impl Versions {
    /// Versions after calls that all ended before, and calls that were cut before an event.
    pub(super) fn at_cut(
        shape: &Shape,
        fresh_from: u64,
        before: &[Done],
        cut: (&[Done], u64),
    ) -> Self {
        let mut of: Vec<Vec<(u8, bool)>> = vec![vec![(0, true)]; (shape.size() / SECTOR) as usize];
        let cut_calls = cut.0.iter().map(|&done| Done {
            issued: done.issued.filter(|&at| at < cut.1),
            answered: done.answered.filter(|&at| at < cut.1),
            is_ok: done.is_ok && done.answered.is_some_and(|at| at < cut.1),
            ..done
        });
        for Done { call, issued, is_ok, .. } in before.iter().copied().chain(cut_calls) {
            match call {
                _ if issued.is_none() => {}
                Call::Write { version, at, length, is_through } => {
                    for sector in &mut of[(at / SECTOR) as usize..((at + length) / SECTOR) as usize]
                    {
                        if is_ok && is_through {
                            sector.clear();
                        }
                        sector.push((version, is_ok));
                    }
                }
                Call::Flush if is_ok => {
                    for sector in &mut of {
                        let last = sector.iter().rposition(|(_, is_ok)| *is_ok).unwrap_or(0);
                        sector.drain(..last);
                    }
                }
                Call::Flush => {}
            }
        }
        let versions = |all: Vec<(u8, bool)>| all.into_iter().map(|(version, _)| version).collect();
        Self { of: of.into_iter().map(versions).collect(), fresh_from }
    }

    /// Bytes of a sector in a version.
    fn content(&self, version: u8, sector: usize) -> Vec<u8> {
        let at = sector as u64 * SECTOR;
        let is_nothing = version == 0 && at >= self.fresh_from;
        if is_nothing { vec![0; SECTOR as usize] } else { bytes(version, at, SECTOR) }
    }

    fn sectors(block: u64) -> std::ops::Range<usize> {
        let each = (BLOCK / SECTOR) as usize;
        block as usize * each..(block as usize + 1) * each
    }

    /// The bytes of a block, if only one content is allowed.
    pub(super) fn certain(&self, block: u64) -> Option<Vec<u8>> {
        let sectors = Self::sectors(block);
        let is_certain = sectors.clone().all(|sector| self.of[sector].len() == 1);
        let bytes = || sectors.flat_map(|sector| self.content(self.of[sector][0], sector));
        is_certain.then(|| bytes().collect())
    }

    /// Whether a block has sectors that no version ever wrote.
    pub(super) fn is_fresh(&self, block: u64) -> bool {
        let is_old = |sector: usize| self.of[sector] == [0];
        block * BLOCK >= self.fresh_from && Self::sectors(block).all(is_old)
    }

    /// Judges a block that was read, and allows only its shown versions from now on.
    ///
    /// # Errors
    /// The first sector that shows no allowed version.
    pub(super) fn judge(&mut self, block: u64, read: &[u8]) -> Result<(), String> {
        for (sector, shown) in Self::sectors(block).zip(read.chunks(SECTOR as usize)) {
            let mut fits = self.of[sector].clone();
            fits.retain(|&version| self.content(version, sector) == shown);
            if fits.is_empty() {
                let other = (0..64).find(|&version| self.content(version, sector) == shown);
                let is_all = |byte: u8| shown.iter().all(|&it| it == byte);
                let what = match other {
                    Some(version) => format!("version {version}"),
                    None if is_all(0) => "zeros".to_owned(),
                    None if is_all(RUBBISH) => "bytes of before the set".to_owned(),
                    None => "rubbish".to_owned(),
                };
                return Err(format!(
                    "block {block}: sector {sector} shows {what}, and may show {:?}",
                    self.of[sector]
                ));
            }
            self.of[sector] = fits;
        }
        Ok(())
    }

    /// Also allows all versions of these calls.
    pub(super) fn widen(&mut self, calls: &[Done], until: u64) {
        for done in calls.iter().filter(|done| done.issued.is_some_and(|at| at < until)) {
            let Call::Write { version, at, length, .. } = done.call else { continue };
            for sector in (at / SECTOR) as usize..((at + length) / SECTOR) as usize {
                if !self.of[sector].contains(&version) {
                    self.of[sector].push(version);
                }
            }
        }
    }

    /// Also allows the versions that another may show.
    pub(super) fn plus(&mut self, other: &Self) {
        for (own, other) in self.of.iter_mut().zip(&other.of) {
            let new: Vec<u8> = other.iter().copied().filter(|it| !own.contains(it)).collect();
            own.extend(new);
        }
    }
}
