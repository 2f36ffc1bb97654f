//! What kind of network it is, and what became of what was sent.

use std::time::Duration;

use crate::Prng;

/// How long a segment is on its way, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// As a rule, in nanoseconds.
    pub usual_ns: (u64, u64),
    /// So many of a thousand are late,
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

/// How connections die, when neither end closes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// How long one lives, in nanoseconds.
    pub after_ns: (u64, u64),
    /// How long it takes an end to hear of it, each for itself, in nanoseconds.
    pub heard_ns: (u64, u64),
    /// So many of a thousand ends never hear of it, unless they have something to send and give up.
    pub unheard_per_mille: u64,
}

/// What kind of network it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkOptions {
    /// How long a segment is on its way.
    pub delay: Delay,
    /// Every byte on the line, in picoseconds, for each direction of each connection.
    pub byte_ps: u64,
    /// The longest segment, in bytes. They are of any length up to it.
    pub segment_max: usize,
    /// Bytes of one direction that were sent and not read yet: the most.
    pub window: usize,
    /// So many segments of a thousand are lost, and sent again.
    pub loss_per_mille: u64,
    /// The time after which a segment is sent again, in nanoseconds. It doubles each time.
    pub retransmit_ns: u64,
    /// The time after which a sender gives up, in nanoseconds.
    pub give_up_ns: u64,
    /// How connections die.
    pub death: Option<Death>,
}

impl Default for NetworkOptions {
    /// A local network of one gigabit a second that loses nothing.
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
    /// One that loses, delays and breaks: a bad day of a wireless network.
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

/// What becomes of messages that a sender sends again when it hears nothing. The connections lose
/// nothing; this is for a caller that cuts their bytes into messages, at either end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mishaps {
    /// So many of a thousand are never sent.
    pub dropped_per_mille: u64,
    /// So many of a thousand are sent twice.
    pub doubled_per_mille: u64,
    /// So many of a thousand wait, and are overtaken by later ones,
    pub late_per_mille: u64,
    /// for so long, in nanoseconds.
    pub late_ns: (u64, u64),
}

impl Mishaps {
    /// All of them, often.
    pub fn many() -> Self {
        Self {
            dropped_per_mille: 50,
            doubled_per_mille: 100,
            late_per_mille: 100,
            late_ns: (10_000, 50_000_000),
        }
    }

    /// When the copies of one message are sent, from now.
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

/// What a network has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Connections that were made.
    pub connections: u64,
    /// Attempts that were refused, or given up.
    pub refused: u64,
    /// Segments that were sent, each counted once.
    pub segments: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Segments that were lost or found no host, and were sent again.
    pub retransmissions: u64,
    /// Connections that died.
    pub deaths: u64,
    /// Ends that were told that their connection is no more, or gave it up.
    pub failures: u64,
}
