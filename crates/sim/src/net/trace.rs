//! All that happened on a network.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use runtime::Instant;

use crate::Digest;

/// Something that happened on a network. An end of a connection is 0 where it was asked for, and
/// 1 where it was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkEvent {
    /// A connection was made.
    Connected {
        /// Its number.
        connection: u64,
        /// The end that asked.
        from: SocketAddr,
        /// The end that was asked.
        to: SocketAddr,
    },
    /// No listener would have accepted it.
    Refused {
        /// The end that asked.
        from: SocketAddr,
        /// The end that was asked.
        to: SocketAddr,
    },
    /// An end sent a segment; an empty one is the end of what it sends.
    Sent {
        /// The number of the connection.
        connection: u64,
        /// The end that sent.
        end: usize,
        /// Bytes.
        length: usize,
    },
    /// It arrived.
    Arrived {
        /// The number of the connection.
        connection: u64,
        /// The end that sent.
        end: usize,
        /// Bytes.
        length: usize,
    },
    /// It found no host, and will be sent again.
    Unreachable {
        /// The number of the connection.
        connection: u64,
        /// The end that sent.
        end: usize,
    },
    /// An end was told that the connection is no more, or gave it up.
    Failed {
        /// The number of the connection.
        connection: u64,
        /// The end.
        end: usize,
        /// What it was told.
        kind: ErrorKind,
    },
    /// A connection died.
    Died {
        /// Its number.
        connection: u64,
    },
    /// Two hosts can no more reach each other, or can again.
    Split {
        /// The hosts.
        hosts: [IpAddr; 2],
        /// Whether they can.
        healed: bool,
    },
}

/// An event with its time and its place among all events of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkTraced {
    /// Grows over the network and all disks of a world.
    pub serial: u64,
    /// When.
    pub at: Instant,
    /// What.
    pub event: NetworkEvent,
}

impl NetworkEvent {
    pub(super) fn add_to(&self, digest: &mut Digest) {
        let numbers = match *self {
            Self::Connected { connection, from, to } => {
                [21, connection, u64::from(from.port()), u64::from(to.port())]
            }
            Self::Refused { from, to } => [22, 0, u64::from(from.port()), u64::from(to.port())],
            Self::Sent { connection, end, length } => [23, connection, end as u64, length as u64],
            Self::Arrived { connection, end, length } => {
                [24, connection, end as u64, length as u64]
            }
            Self::Unreachable { connection, end } => [25, connection, end as u64, 0],
            Self::Failed { connection, end, kind } => [26, connection, end as u64, kind as u64],
            Self::Died { connection } => [27, connection, 0, 0],
            Self::Split { healed, .. } => [28, u64::from(healed), 0, 0],
        };
        numbers.into_iter().for_each(|number| digest.add(number));
    }
}
