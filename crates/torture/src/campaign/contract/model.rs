//! The contents that the contract allows at a cut.
//!
//! Every sector shows a *version*: the initial one, or that of one of the writes. A write that no
//! flush covers may be there or not, sector by sector. A covered one must be there, or a later one
//! that may be. A discarded range may hold any bytes, until a write to it is covered.

use sim::{Event, Mark, Trace};

use super::workload::Workload;

/// Bytes of a sector.
pub(super) const SECTOR: u64 = 512;
/// Beside the versions that a sector may show: any bytes are allowed.
const ANYTHING: u8 = 1 << 7;

/// Calls of a workload, each with a mark when it is issued and one when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// A write, by its number.
    Write(usize),
    Flush,
    /// A discard of the range of a write, by the write's number.
    Discard(usize),
}

/// The bytes of a sector in a version. Version 0 is the initial content: zeros in a set that was
/// never written.
fn content(version: u8, sector: u64, is_fresh: bool) -> [u8; SECTOR as usize] {
    if version == 0 && is_fresh {
        return [0; SECTOR as usize];
    }
    // Writes zeros now and then: lost data must not look like them.
    if version == 2 && sector.is_multiple_of(3) {
        return [0; SECTOR as usize];
    }
    let mut word = (u64::from(version) << 32 | sector).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::array::from_fn(|_| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 24) as u8
    })
}

/// The bytes of a range in a version.
pub(super) fn bytes(version: u8, at: u64, length: u64) -> Vec<u8> {
    let sectors = at / SECTOR..(at + length) / SECTOR;
    sectors.flat_map(|sector| content(version, sector, false)).collect()
}

/// All bytes of a device in each version.
#[derive(Clone)]
pub(super) struct Contents([Vec<u8>; 3]);

impl Contents {
    /// Contents of a device of `size` bytes.
    pub(super) fn new(size: u64, is_fresh: bool) -> Self {
        let sectors = || 0..size / SECTOR;
        let all = |version| sectors().flat_map(move |sector| content(version, sector, is_fresh));
        Self([0, 1, 2].map(|version| all(version).collect()))
    }

    /// The versions that each sector may show, bit by bit.
    pub(super) fn shown(&self, bytes: &[u8]) -> Vec<u8> {
        let sectors = bytes.chunks(SECTOR as usize).enumerate();
        let shown = sectors.map(|(number, sector)| {
            let at = number * SECTOR as usize;
            let is_shown = |version: &usize| self.0[*version][at..].starts_with(sector);
            (0..=2).filter(is_shown).fold(0, |shown, version| shown | 1 << version)
        });
        shown.collect()
    }
}

/// When a call was issued and answered with success, as serial numbers of the world.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    issued: Option<u64>,
    answered: Option<u64>,
}

/// The calls of a run, with their times.
pub(super) struct Timeline {
    calls: Vec<(Call, Span)>,
    is_through: bool,
    writes: [(u64, u64); 2],
}

impl Timeline {
    /// Builds the timeline from the marks in a trace: call `n` is issued with `2 n` and answered
    /// with `2 n + 1`.
    pub(super) fn new(
        workload: &Workload,
        calls: &[Call],
        is_through: bool,
        trace: &Trace,
    ) -> Self {
        let mut spans = vec![Span::default(); calls.len()];
        for event in trace.events() {
            let Event::Mark(Mark::Number(number)) = event.event else { continue };
            let Some(span) = spans.get_mut((number / 2) as usize) else { continue };
            let time = if number % 2 == 0 { &mut span.issued } else { &mut span.answered };
            *time = Some(event.serial);
        }
        let calls = calls.iter().copied().zip(spans).collect();
        Self { calls, is_through, writes: workload.writes }
    }

    /// For each sector, bit by bit, the versions that it may show after a cut before the event with
    /// this serial.
    pub(super) fn allowed(&self, serial: u64, sectors: u64) -> Vec<u8> {
        let before = |time: Option<u64>| time.filter(|&time| time < serial);
        let issued = |pick: fn(Call) -> Option<usize>| -> Vec<(usize, Span)> {
            let calls = self.calls.iter().filter(|(_, span)| before(span.issued).is_some());
            calls.filter_map(|&(call, span)| Some((pick(call)?, span))).collect()
        };
        let writes = issued(|call| match call {
            Call::Write(number) => Some(number),
            Call::Flush | Call::Discard(_) => None,
        });
        let discards = issued(|call| match call {
            Call::Discard(number) => Some(number),
            Call::Flush | Call::Write(_) => None,
        });
        let is_durable = |span: &Span| {
            let Some(answered) = before(span.answered) else { return false };
            let covers = |&(call, flush): &(Call, Span)| {
                call == Call::Flush
                    && before(flush.answered).is_some()
                    && flush.issued.is_some_and(|issued| issued > answered)
            };
            self.is_through || self.calls.iter().any(covers)
        };
        (0..sectors)
            .map(|sector| {
                let at = sector * SECTOR;
                let covers = |number: usize| {
                    let (start, length) = self.writes[number];
                    (start..start + length).contains(&at)
                };
                let here: Vec<&(usize, Span)> =
                    writes.iter().filter(|(number, _)| covers(*number)).collect();
                // A version is excluded once a durable write came after it.
                let is_over = |answered: Option<u64>| {
                    here.iter().any(|(_, later)| {
                        let follows = answered.is_some_and(|time| later.issued > Some(time));
                        is_durable(later) && follows
                    })
                };
                let mut discards = discards.iter().filter(|(number, _)| covers(*number));
                let may_be_any = discards.any(|(_, span)| !is_over(before(span.answered)));
                let any = if may_be_any { ANYTHING } else { 0 };
                let old = u8::from(!is_over(Some(0)));
                here.iter().fold(old | any, |allowed, (number, span)| {
                    let may_be = !is_over(before(span.answered));
                    allowed | u8::from(may_be) << (number + 1)
                })
            })
            .collect()
    }
}

/// Whether sectors show allowed versions.
///
/// # Errors
/// The first sector that does not.
pub(super) fn judge(shown: &[u8], allowed: &[u8]) -> Result<(), String> {
    for (sector, (&shown, &allowed)) in shown.iter().zip(allowed).enumerate() {
        if shown & allowed == 0 && allowed & ANYTHING == 0 {
            let words = |versions: u8| {
                let versions = (0..3).filter(|version| versions >> version & 1 == 1);
                versions.map(|version: u8| version.to_string()).collect::<Vec<_>>().join(", ")
            };
            let shows = match shown {
                0 => "what was never written".to_owned(),
                shown => format!("version {}", words(shown)),
            };
            return Err(format!("sector {sector} shows {shows}, and may show {}", words(allowed)));
        }
    }
    Ok(())
}
