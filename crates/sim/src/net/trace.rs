//! The recorded events of a network.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use runtime::Instant;

use crate::Digest;

/// An event of a network. The end of a connection that requested it is 0, the one that accepted it
/// is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkEvent {
    /// A connection was made.
    Connected {
        /// Its number.
        connection: u64,
        /// The end that requested it.
        from: SocketAddr,
        /// The end that accepted it.
        to: SocketAddr,
    },
    /// An attempt found no listener.
    Refused {
        /// The end that requested it.
        from: SocketAddr,
        /// The end that refused it.
        to: SocketAddr,
    },
    /// An end sent a segment; an empty one ends the stream.
    Sent {
        /// The number of the connection.
        connection: u64,
        /// The end that sent.
        end: usize,
        /// Bytes.
        length: usize,
    },
    /// A segment arrived.
    Arrived {
        /// The number of the connection.
        connection: u64,
        /// The end that sent.
        end: usize,
        /// Bytes.
        length: usize,
    },
    /// A segment found no host, and will be retransmitted.
    Unreachable {
        /// The number of the connection.
        connection: u64,
        /// The end that sent.
        end: usize,
    },
    /// An end was notified of the loss of the connection, or gave it up.
    Failed {
        /// The number of the connection.
        connection: u64,
        /// The end.
        end: usize,
        /// The error that it got.
        kind: ErrorKind,
    },
    /// A connection died.
    Died {
        /// Its number.
        connection: u64,
    },
    /// Two hosts can no longer reach each other, or can again.
    Split {
        /// The hosts.
        hosts: [IpAddr; 2],
        /// Whether they can again.
        healed: bool,
    },
}

/// An event with its time and its position among all events of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkTraced {
    /// Grows over the network and all disks of a world.
    pub serial: u64,
    /// The time.
    pub at: Instant,
    /// The event.
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
