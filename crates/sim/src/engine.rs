//! A machine between its disk and the clock: its calls, and its next alarm.
//!
//! Invariants:
//! 1. A machine is asked at every time that it has named, and has nothing due before.
//! 2. Only the first of several alarms counts. The clock cannot cancel the others: they find
//!    nothing to do.
//!
//! Not asserted: 2, which is about alarms that the clock cannot cancel.

use std::collections::BTreeMap;

use crate::timing::{Kind, Machine, Request};

/// The engine: see the module. `E` ends a call.
pub(crate) struct Engine<E> {
    machine: Box<dyn Machine>,
    last_ticket: u64,
    calls: BTreeMap<u64, E>,
    alarm_ns: Option<u64>,
}

impl<E> Engine<E> {
    pub(crate) fn new(machine: Box<dyn Machine>) -> Self {
        Self { machine, last_ticket: 0, calls: BTreeMap::new(), alarm_ns: None }
    }

    /// Gives a call to the machine.
    pub(crate) fn submit(&mut self, now_ns: u64, kind: Kind, offset: u64, length: u64, end: E) {
        self.last_ticket += 1;
        self.calls.insert(self.last_ticket, end);
        self.machine.submit(now_ns, Request { ticket: self.last_ticket, kind, offset, length });
    }

    /// Lets the machine do its due work; returns the ends of the calls that it answers.
    pub(crate) fn advance(&mut self, now_ns: u64) -> Vec<E> {
        let tickets = self.machine.advance(now_ns);
        let end = |ticket| self.calls.remove(&ticket).expect("a call is answered once");
        tickets.into_iter().map(end).collect()
    }

    /// The delay until the machine must be asked, unless an alarm is set already.
    pub(crate) fn set_alarm(&mut self, now_ns: u64) -> Option<u64> {
        let next_ns = self.machine.next_at()?;
        assert!(next_ns > now_ns, "invariant 1: what is due has been done");
        if self.alarm_ns.is_some_and(|alarm_ns| alarm_ns <= next_ns) {
            return None;
        }
        self.alarm_ns = Some(next_ns);
        Some(next_ns - now_ns)
    }

    /// Invariant 2.
    pub(crate) fn alarm_rings(&mut self, now_ns: u64) {
        self.alarm_ns = self.alarm_ns.filter(|&alarm_ns| alarm_ns > now_ns);
    }

    pub(crate) fn seeks(&self) -> u64 {
        self.machine.seeks()
    }
}
