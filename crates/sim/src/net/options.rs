//! Options of a network, and counters of its traffic.

use std::time::Duration;

use crate::Prng;

/// The delay of a segment, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The usual delay, in nanoseconds.
    pub usual_ns: (u64, u64),
    /// Segments per thousand that are late,
    pub late_per_mille: u64,
    /// by this, in nanoseconds.
    pub late_ns: (u64, u64),
}

impl Delay {
    pub(super) fn draw(&self, prng: &mut Prng) -> u64 {
        let is_late = prng.chance(self.late_per_mille, 1000);
        let late_ns = if is_late { prng.between(self.late_ns.0, self.late_ns.1) } else { 0 };
        prng.between(self.usual_ns.0, self.usual_ns.1).saturating_add(late_ns)
    }
}

/// The death of connections that neither end closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// The lifetime of a connection, in nanoseconds.
    pub after_ns: (u64, u64),
    /// The delay of each end's notification, in nanoseconds.
    pub heard_ns: (u64, u64),
    /// Ends per thousand that are never notified, unless they send and give up.
    pub unheard_per_mille: u64,
}

/// Options of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkOptions {
    /// The delay of a segment.
    pub delay: Delay,
    /// Transmission time of a byte, in picoseconds, for each direction of each connection.
    pub byte_ps: u64,
    /// The longest segment, in bytes. Lengths are random up to it.
    pub segment_max: usize,
    /// Most bytes of one direction that were sent and not read yet.
    pub window: usize,
    /// Segments per thousand that are lost and retransmitted.
    pub loss_per_mille: u64,
    /// The retransmission timeout of a segment, in nanoseconds. It doubles each time.
    pub retransmit_ns: u64,
    /// The time after which a sender gives up, in nanoseconds.
    pub give_up_ns: u64,
    /// The death of connections, if they die.
    pub death: Option<Death>,
}

impl Default for NetworkOptions {
    /// A local network of one gigabit a second without losses.
    fn default() -> Self {
        Self {
            delay: Delay { usual_ns: (20_000, 120_000), late_per_mille: 0, late_ns: (0, 0) },
            byte_ps: 8_000,
            segment_max: 64 << 10,
            window: 256 << 10,
            loss_per_mille: 0,
            retransmit_ns: 200_000_000,
            give_up_ns: 120_000_000_000,
            death: None,
        }
    }
}

impl NetworkOptions {
    /// A network that loses, delays and breaks: a bad day of a wireless network.
    pub fn bad() -> Self {
        Self {
            delay: Delay {
                usual_ns: (100_000, 2_000_000),
                late_per_mille: 30,
                late_ns: (1_000_000, 300_000_000),
            },
            byte_ps: 80_000,
            segment_max: 4096,
            window: 64 << 10,
            loss_per_mille: 10,
            give_up_ns: 20_000_000_000,
            death: Some(Death {
                after_ns: (50_000_000, 10_000_000_000),
                heard_ns: (100_000, 2_000_000_000),
                unheard_per_mille: 300,
            }),
            ..Self::default()
        }
    }
}

/// Mishaps of messages that a sender repeats when no reply arrives. The connections lose nothing;
/// this is for a caller that splits their bytes into messages, at either end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mishaps {
    /// Messages per thousand that are never sent.
    pub dropped_per_mille: u64,
    /// Messages per thousand that are sent twice.
    pub doubled_per_mille: u64,
    /// Messages per thousand that wait, and are overtaken by later ones,
    pub late_per_mille: u64,
    /// with this delay, in nanoseconds.
    pub late_ns: (u64, u64),
}

impl Mishaps {
    /// All mishaps, often.
    pub fn many() -> Self {
        Self {
            dropped_per_mille: 50,
            doubled_per_mille: 100,
            late_per_mille: 100,
            late_ns: (10_000, 50_000_000),
        }
    }

    /// The delays of the copies of one message.
    pub(super) fn draw(&self, prng: &mut Prng) -> Vec<Duration> {
        let copies = match prng.below(1000) {
            roll if roll < self.dropped_per_mille => 0,
            roll if roll < self.dropped_per_mille + self.doubled_per_mille => 2,
            _ => 1,
        };
        let mut wait = || {
            if prng.chance(self.late_per_mille, 1000) {
                Duration::from_nanos(prng.between(self.late_ns.0, self.late_ns.1))
            } else {
                Duration::ZERO
            }
        };
        (0..copies).map(|_| wait()).collect()
    }
}

/// Counters of a network's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Connections made.
    pub connections: u64,
    /// Attempts that were refused or given up.
    pub refused: u64,
    /// Segments sent, each counted once.
    pub segments: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Segments that were lost or found no host, and were retransmitted.
    pub retransmissions: u64,
    /// Connections that died.
    pub deaths: u64,
    /// Ends that were notified of the loss of their connection, or gave it up.
    pub failures: u64,
}
