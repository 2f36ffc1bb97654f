//! Failures that a test orders in advance.
//!
//! A [`Fault`] names the calls that it strikes (a verb, a range, the nth call, once or from then
//! on) and its effect on them. Each fault counts the calls that match it separately. If several
//! strike the same call, delays add up, and of the other effects the one of the oldest fault
//! applies.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::time::Duration;

use block::{IoError, Verb};
use bytes::Bytes;

use crate::{Fate, SECTOR_SIZE};

/// Linux error numbers.
const EIO: i32 = 5;
const ENXIO: i32 = 6;
const ENOSPC: i32 = 28;

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// One call fails, the next one succeeds.
    Once,
    /// Every call from then on fails.
    Forever,
}

/// The effect on a call that is struck. A flush has no bytes: effects on bytes alone do not apply
/// to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// EIO. A read returns nothing, a write leaves any mixture of old and new, a flush strands the
    /// writes that it should have covered.
    Eio,
    /// ENOSPC, as from a thinly provisioned disk: nothing is changed. A flush strands its writes.
    NoSpace,
    /// The same at an address that was allocated before.
    Denied,
    /// Only this many sectors are transferred: a write leaves them new and the others old. The call
    /// fails, for the contract knows no partial success.
    Short {
        /// How many sectors of 512 bytes.
        sectors: u64,
    },
    /// Success without effect: a write is not written, a flush covers nothing, the buffer of a read
    /// stays as it was passed in.
    Lost,
    /// Success at another address: a read returns the data there, a write goes there, and the right
    /// address stays unchanged.
    Misdirected {
        /// The address in bytes: rounded down to the start of a sector, and limited so that the
        /// call ends inside the disk.
        to: u64,
    },
    /// Success, with one bit of the data flipped.
    Rot {
        /// The bit, counted from the start of the call, modulo its length.
        bit: u64,
    },
    /// Takes longer by this.
    Slow(Duration),
    /// ENXIO, and nothing is changed: the disk is gone.
    Dead,
    /// Never answered: the call is in flight until a power cut, where a write has the fate of any
    /// write in flight. Closing the disk waits as well.
    Silent,
}

/// A planned failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    verb: Option<Verb>,
    range: Option<Range<u64>>,
    /// Matching calls until it strikes, including that one; 1 is the next. 0 has struck.
    calls_left: u64,
    persistence: Persistence,
    effect: Effect,
}

impl Fault {
    /// Strikes the next call of a verb, and no other. Writes of either durability are one verb.
    pub fn on(verb: Verb, effect: Effect) -> Self {
        Self { verb: Some(verb), ..Self::on_any(effect) }
    }

    /// Strikes the next call, whatever it is.
    pub fn on_any(effect: Effect) -> Self {
        let persistence = Persistence::Once;
        Self { verb: None, range: None, calls_left: 1, persistence, effect }
    }

    /// Strikes only calls that touch these bytes; a flush touches none.
    pub fn within(self, range: Range<u64>) -> Self {
        Self { range: Some(range), ..self }
    }

    /// Strikes the `nth` matching call instead of the next; 1 is the next.
    pub fn nth(self, nth: u64) -> Self {
        assert!(nth > 0, "the first call is number 1");
        Self { calls_left: nth, ..self }
    }

    /// Strikes that call and every later one.
    pub fn forever(self) -> Self {
        self.lasting(Persistence::Forever)
    }

    /// Strikes once or from then on.
    pub fn lasting(self, persistence: Persistence) -> Self {
        Self { persistence, ..self }
    }

    fn fits(&self, verb: Verb, offset: u64, length: u64) -> bool {
        let touches =
            |range: &Range<u64>| length > 0 && range.start < offset + length && offset < range.end;
        self.verb.is_none_or(|own| own == verb) && self.range.as_ref().is_none_or(touches)
    }

    fn is_over(&self) -> bool {
        self.calls_left == 0 && self.persistence == Persistence::Once
    }
}

#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

/// The faults that strike one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Struck {
    pub(crate) effect: Option<Effect>,
    pub(crate) delay_ns: u64,
}

impl Faults {
    pub(crate) fn plan(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts a call and returns the faults that strike it.
    pub(crate) fn strike(&mut self, verb: Verb, offset: u64, length: u64) -> Struck {
        let mut struck = Struck::default();
        for fault in self.0.iter_mut().filter(|fault| fault.fits(verb, offset, length)) {
            fault.calls_left = fault.calls_left.saturating_sub(1);
            match (fault.calls_left, fault.effect) {
                (0, Effect::Slow(delay)) => {
                    let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
                    struck.delay_ns = struck.delay_ns.saturating_add(delay_ns);
                }
                (0, effect) => struck.effect = struck.effect.or(Some(effect)),
                _ => {}
            }
        }
        self.0.retain(|fault| !fault.is_over());
        struck
    }
}

impl Struck {
    /// The error for the caller, if there is one.
    pub(crate) fn error(&self, verb: Verb, offset: u64, length: u64) -> Option<IoError> {
        let from_code =
            |code| IoError::from_os(verb, offset, length, &io::Error::from_raw_os_error(code));
        match self.effect? {
            Effect::Eio => Some(from_code(EIO)),
            Effect::NoSpace => Some(from_code(ENOSPC)),
            Effect::Denied => Some(IoError { was_allocated: true, ..from_code(ENOSPC) }),
            Effect::Dead => Some(from_code(ENXIO)),
            Effect::Short { .. } if verb == Verb::Flush => None,
            Effect::Short { .. } => {
                let reading = verb == Verb::Read;
                let kind = if reading { ErrorKind::UnexpectedEof } else { ErrorKind::WriteZero };
                Some(IoError::new(verb, offset, length, kind))
            }
            Effect::Lost | Effect::Misdirected { .. } | Effect::Rot { .. } => None,
            Effect::Slow(_) | Effect::Silent => None,
        }
    }

    /// The part of its bytes that a failing write changes.
    pub(crate) fn failed_write(&self, chance: impl FnOnce() -> Fate) -> Option<Fate> {
        match self.effect? {
            Effect::Eio => Some(chance()),
            Effect::Short { .. } | Effect::NoSpace | Effect::Denied | Effect::Dead => {
                Some(Fate::Whole)
            }
            Effect::Lost | Effect::Misdirected { .. } | Effect::Rot { .. } => None,
            Effect::Slow(_) | Effect::Silent => None,
        }
    }

    /// The actual address of a call.
    pub(crate) fn place(&self, offset: u64, length: u64, size: u64) -> u64 {
        match self.effect {
            Some(Effect::Misdirected { to }) => (to - to % SECTOR_SIZE as u64).min(size - length),
            _ => offset,
        }
    }

    /// The actual data of a write.
    pub(crate) fn payload(&self, data: Bytes) -> Bytes {
        match self.effect {
            Some(Effect::Lost | Effect::NoSpace | Effect::Denied | Effect::Dead) => Bytes::new(),
            Some(Effect::Short { sectors }) => {
                let length = sectors.saturating_mul(SECTOR_SIZE as u64).min(data.len() as u64);
                data.slice(..length as usize)
            }
            Some(Effect::Rot { .. }) => {
                let mut bytes = data.to_vec();
                self.spoil(&mut bytes);
                bytes.into()
            }
            _ => data,
        }
    }

    /// Flips a bit of data in transit.
    pub(crate) fn spoil(&self, bytes: &mut [u8]) {
        if let (Some(Effect::Rot { bit }), false) = (self.effect, bytes.is_empty()) {
            let bit = bit % (bytes.len() as u64 * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }

    pub(crate) fn is(&self, effect: Effect) -> bool {
        self.effect == Some(effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(faults: &mut Faults, verb: Verb) -> Vec<bool> {
        (0..5).map(|_| faults.strike(verb, 0, 512).effect.is_some()).collect()
    }

    #[test]
    fn the_nth_call_of_its_verb_fails_once_or_from_then_on() {
        let mut faults = Faults::default();
        faults.plan(Fault::on(Verb::Read, Effect::Eio).nth(2));
        faults.plan(Fault::on(Verb::Flush, Effect::Eio).nth(3).forever());
        assert_eq!(calls(&mut faults, Verb::Write), [false; 5]);
        assert_eq!(calls(&mut faults, Verb::Read), [false, true, false, false, false]);
        assert_eq!(calls(&mut faults, Verb::Flush), [false, false, true, true, true]);
        faults.clear();
        assert_eq!(calls(&mut faults, Verb::Flush), [false; 5]);
    }

    #[test]
    fn a_range_strikes_what_touches_it_and_counts_nothing_else() {
        let mut faults = Faults::default();
        faults.plan(Fault::on_any(Effect::Dead).within(1024..2048).nth(2).forever());
        let mut strike = |offset, length| faults.strike(Verb::Write, offset, length).effect;
        assert_eq!(strike(0, 1024), None);
        assert_eq!(strike(512, 1024), None, "the first that touches it");
        assert_eq!(strike(2048, 512), None);
        assert_eq!(strike(1536, 512), Some(Effect::Dead));
        assert_eq!(faults.strike(Verb::Flush, 0, 0).effect, None);
    }

    #[test]
    fn delays_add_up_and_the_first_of_the_other_effects_holds() {
        let mut faults = Faults::default();
        faults.plan(Fault::on_any(Effect::Slow(Duration::from_nanos(3))).forever());
        faults.plan(Fault::on_any(Effect::Slow(Duration::from_nanos(4))));
        faults.plan(Fault::on(Verb::Read, Effect::Lost));
        faults.plan(Fault::on(Verb::Read, Effect::Eio).forever());
        let mut strike = || faults.strike(Verb::Read, 0, 512);
        assert_eq!(strike(), Struck { effect: Some(Effect::Lost), delay_ns: 7 });
        assert_eq!(strike(), Struck { effect: Some(Effect::Eio), delay_ns: 3 });
    }
}
