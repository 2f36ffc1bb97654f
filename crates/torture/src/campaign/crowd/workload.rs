//! A crowd, drawn from a seed: the server's limits, the arrivals, and each client's behaviour.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use dispatch::{CALL_MEMORY, Limits, MAX_TRANSFER};
use door::{Bounds, MAX_AT_DOOR};
use sim::Prng;

use crate::explore::design::Design;

/// About the longest record, with the overhead of a call.
const LONGEST: u64 = MAX_TRANSFER as u64 + CALL_MEMORY + 4096;
/// More memory than a crowd can ask for.
const AMPLE: u64 = 512 << 20;

/// The kind of a crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// There is enough of everything, and each client has its turn.
    Flood,
    /// There is little of everything.
    Scarce,
    /// Most of the memory is held by replies that peers do not take.
    Deaf,
    /// One client asks for more data than there is memory for, and takes it as slowly as it may.
    Hoard,
    /// All places are taken, by occupants of one kind, and more clients want one.
    Full(Occupants),
    /// A limit is reached, and exceeded by one.
    Edge(Edge),
}

/// The clients that hold the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupants {
    /// Strangers that call all the time.
    BusyStrangers,
    /// One working address with all of them.
    OneAddress,
    /// Idle admitted clients, each with an address of its own.
    QuietGuests,
    /// One address with all of them, on which no replies are taken.
    Deaf,
    /// A bit of everything, and some clients that take no replies.
    Mixed,
}

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// Unanswered calls of a connection.
    Calls,
    /// Turns of all clients.
    Turns,
    /// Places, and room at the door.
    Places,
    /// The length of a record.
    Record,
    /// Clients that come at once while strangers hold all places.
    Backlog,
}

/// A crowd.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) design: Design,
    pub(super) seed: u64,
    pub(super) scene: Scene,
    pub(super) limits: Limits,
    pub(super) bounds: Bounds,
    pub(super) peers: Vec<Peer>,
}

/// One client.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    pub(super) manner: Manner,
    pub(super) start: Duration,
    /// Bytes that its kernel and ours buffer each way.
    pub(super) room: usize,
}

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// One small call at a time, `calls` in all, with a pause of up to `pause_us` microseconds.
    Quiet { calls: u64, pause_us: u64 },
    /// Calls without waiting for answers, over `connections` connections one after the other.
    Pipelined { calls: u64, mix: Mix, connections: u64 },
    /// The same, with `step` bytes at a time each way and a pause between.
    Slow { calls: u64, mix: Mix, step: usize, pause_us: u64 },
    /// Calls whose replies are never taken.
    Deaf { calls: u64, mix: Mix },
    /// READs of whole files at once, whose replies are taken as slowly as a peer may for whose
    /// memory others wait.
    Hoarder { calls: u64 },
    /// The first part of a large WRITE.
    HalfSent { bytes: usize },
    /// Nothing but a connection.
    Idle,
    /// A place, and then a call.
    Newcomer,
}

/// A mix of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// NULL, GETATTR, LOOKUP, ACCESS.
    Small,
    /// READs and listings.
    Reads,
    /// READs of whole files.
    Whole,
    /// CREATE, REMOVE, RENAME, SETATTR, small WRITEs.
    Changes,
    /// WRITEs whose payload goes to its place.
    Large,
    /// Any of them.
    Any,
}

/// An address that the export admits.
pub(super) fn guest(number: u64) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 1, (number >> 8) as u8, number as u8))
}

/// Whether the export admits an address.
pub(super) fn is_guest(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.octets()[0] == 10)
}

/// An address that the export does not admit.
pub(super) fn stranger(number: u64) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 168, (number >> 8) as u8, number as u8))
}

impl Workload {
    /// The crowd of a seed.
    pub(super) fn draw(seed: u64, design: Design) -> Self {
        let mut prng = Prng::new(seed);
        let scene = match prng.below(14) {
            0..=3 => Scene::Flood,
            4 | 5 => Scene::Scarce,
            6 => Scene::Deaf,
            7 => Scene::Full(Occupants::BusyStrangers),
            8 => Scene::Full(Occupants::OneAddress),
            9 => Scene::Full(Occupants::QuietGuests),
            10 => Scene::Full(Occupants::Mixed),
            11 => Scene::Hoard,
            12 => Scene::Full(Occupants::Deaf),
            _ => Scene::Edge(match prng.below(5) {
                0 => Edge::Calls,
                1 => Edge::Turns,
                2 => Edge::Places,
                3 => Edge::Backlog,
                _ => Edge::Record,
            }),
        };
        Self::of_scene(seed, design, scene, &mut prng)
    }

    /// The crowd of a seed in a scene.
    #[cfg(test)]
    pub(super) fn in_scene(seed: u64, design: Design, scene: Scene) -> Self {
        Self::of_scene(seed, design, scene, &mut Prng::new(seed))
    }

    fn of_scene(seed: u64, design: Design, scene: Scene, prng: &mut Prng) -> Self {
        let count = prng.between(4, 20);
        let ample = Limits { request_memory: AMPLE, reply_memory: AMPLE, ..Limits::default() };
        let calls_per_connection = prng.between(2, 64) as usize;
        let enough = Bounds { connections: 4 * count + 8, calls_per_connection };
        let (limits, bounds, peers) = match scene {
            Scene::Flood => (ample, enough, flood(prng, count)),
            Scene::Scarce => (scarce(prng), enough, flood(prng, count)),
            Scene::Deaf => {
                let limits = Limits { request_memory: 4 * LONGEST, ..Limits::default() };
                let bounds = Bounds { calls_per_connection: 64, ..enough };
                (limits, bounds, deaf(prng))
            }
            Scene::Hoard => {
                let limits = Limits { request_memory: AMPLE, ..Limits::default() };
                let bounds = Bounds { calls_per_connection: 64, ..enough };
                (limits, bounds, hoard(prng))
            }
            Scene::Full(who) => {
                let connections = prng.between(2, 12);
                (ample, Bounds { connections, ..enough }, full(prng, who, connections))
            }
            Scene::Edge(Edge::Turns) => {
                let calls = if prng.chance(1, 8) { 4096 } else { prng.between(1, 64) as u32 };
                let connections = u64::from(calls);
                (Limits { calls, ..ample }, Bounds { connections, ..enough }, Vec::new())
            }
            Scene::Edge(Edge::Backlog) => {
                let connections = prng.between(1, 2 * MAX_AT_DOOR as u64 + 1);
                (ample, Bounds { connections, ..enough }, Vec::new())
            }
            Scene::Edge(_) => (ample, enough, Vec::new()),
        };
        Self { design, seed, scene, limits, bounds, peers }
    }
}

fn scarce(prng: &mut Prng) -> Limits {
    Limits {
        calls: prng.between(2, 64) as u32,
        request_memory: prng.between(2 * LONGEST, 4 * LONGEST),
        reply_memory: prng.between(LONGEST, 3 * LONGEST),
    }
}

fn peer(prng: &mut Prng, address: IpAddr, manner: Manner) -> Peer {
    let start = Duration::from_micros(if prng.chance(1, 2) { 0 } else { prng.below(3_000) });
    let room = [4 << 10, 64 << 10, 256 << 10][prng.index(3)];
    Peer { address, manner, start, room }
}

/// The quiet client comes first, then others of any manner.
fn flood(prng: &mut Prng, count: u64) -> Vec<Peer> {
    let quiet = |prng: &mut Prng| Manner::Quiet {
        calls: prng.between(20, 60),
        pause_us: if prng.chance(1, 2) { 0 } else { 200 },
    };
    let manner = quiet(prng);
    let mut peers = vec![peer(prng, guest(0), manner)];
    if prng.chance(1, 4) {
        // All ask for as much as they can, so that each of their turns is a full one.
        let calls = prng.between(1_000, 2_000);
        let manner = Manner::Quiet { calls: prng.between(20, 60), pause_us: 0 };
        let quiet = Peer { manner, start: Duration::ZERO, ..peers.remove(0) };
        let manner = Manner::Pipelined { calls, mix: Mix::Small, connections: 1 };
        peers.extend((1..count).map(|number| {
            let address = if prng.chance(1, 4) { stranger(number) } else { guest(number) };
            Peer { address, manner, start: Duration::ZERO, room: 256 << 10 }
        }));
        peers.insert(prng.index(count as usize), quiet);
        return peers;
    }
    for number in 1..count {
        let mix = any_mix(prng);
        let calls = prng.between(20, 400);
        let few = calls.min(60);
        let manner = match prng.below(10) {
            0..=4 => Manner::Pipelined { calls, mix, connections: prng.between(1, 3) },
            5 => Manner::Slow {
                calls: few,
                mix,
                step: prng.between(1, 4096) as usize,
                pause_us: prng.below(500),
            },
            6 | 7 => Manner::Deaf { calls, mix },
            8 => Manner::HalfSent { bytes: prng.between(1, 300 << 10) as usize },
            _ => Manner::Idle,
        };
        // Some share an address, and some are strangers.
        let address = match prng.below(4) {
            0 => stranger(prng.below(3)),
            1 => guest(1),
            _ => guest(number),
        };
        peers.push(peer(prng, address, manner));
    }
    peers
}

/// One client with many connections that take no replies to READs, and a quiet one that comes when
/// they have all the memory that they can get.
fn deaf(prng: &mut Prng) -> Vec<Peer> {
    let deaf = |number: u64| Peer {
        address: guest(1 + number % 2),
        manner: Manner::Deaf { calls: 70, mix: Mix::Whole },
        start: Duration::ZERO,
        room: 256 << 10,
    };
    let mut peers: Vec<Peer> = (0..prng.between(11, 16)).map(deaf).collect();
    let start = Duration::from_millis(prng.between(1, 4_000));
    let manner = Manner::Quiet { calls: 5, pause_us: 1_000_000 };
    peers.push(Peer { address: guest(0), manner, start, room: 64 << 10 });
    peers
}

/// One client with many connections that has all the memory that it can get, and a quiet one that
/// comes later.
fn hoard(prng: &mut Prng) -> Vec<Peer> {
    let hoarder = |_| Peer {
        address: guest(1),
        manner: Manner::Hoarder { calls: 60 },
        start: Duration::ZERO,
        room: 256 << 10,
    };
    let mut peers: Vec<Peer> = (0..prng.between(11, 16)).map(hoarder).collect();
    let start = Duration::from_millis(prng.between(1, 4_000));
    let manner = Manner::Quiet { calls: 20, pause_us: 1_000_000 };
    peers.push(Peer { address: guest(0), manner, start, room: 64 << 10 });
    peers
}

fn any_mix(prng: &mut Prng) -> Mix {
    [Mix::Small, Mix::Small, Mix::Reads, Mix::Changes, Mix::Large, Mix::Any][prng.index(6)]
}

/// Occupants for all places, and newcomers after these have them.
fn full(prng: &mut Prng, who: Occupants, places: u64) -> Vec<Peer> {
    let mut peers = Vec::new();
    for number in 0..places {
        let calls = prng.between(2_000, 4_000);
        let busy = Manner::Slow { calls, mix: Mix::Small, step: 1 << 10, pause_us: 2_000 };
        let (address, manner) = match who {
            Occupants::BusyStrangers => (stranger(number), busy),
            Occupants::OneAddress => (guest(1), busy),
            Occupants::QuietGuests => (guest(number + 1), Manner::Idle),
            Occupants::Deaf => (guest(1), Manner::Deaf { calls: 400, mix: Mix::Reads }),
            Occupants::Mixed => match prng.below(5) {
                0 => (stranger(number), busy),
                1 => (guest(1), busy),
                2 => (guest(1), Manner::Deaf { calls: 400, mix: Mix::Reads }),
                3 => (stranger(number), Manner::Deaf { calls: 4_000, mix: Mix::Small }),
                _ => (guest(number + 1), Manner::Idle),
            },
        };
        let room = 64 << 10;
        peers.push(Peer { address, manner, start: Duration::ZERO, room });
    }
    for number in 0..prng.between(1, 4) {
        let start = Duration::from_millis(prng.between(20, 900));
        let address = if prng.chance(1, 4) { stranger(900) } else { guest(500 + number) };
        peers.push(Peer { address, manner: Manner::Newcomer, start, room: 64 << 10 });
    }
    peers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_crowd_and_every_scene_is_drawn() {
        let scene = |seed| Workload::draw(seed, Design::SYNC).scene;
        let scenes: Vec<String> = (0..400).map(|seed| format!("{:?}", scene(seed))).collect();
        let again: Vec<String> = (0..400).map(|seed| format!("{:?}", scene(seed))).collect();
        assert_eq!(scenes, again);
        let different: std::collections::BTreeSet<&String> = scenes.iter().collect();
        assert_eq!(different.len(), 4 + 5 + 5);
        for seed in 0..400 {
            let Workload { limits, .. } = Workload::draw(seed, Design::SYNC);
            assert!(limits.request_memory >= 2 * LONGEST, "seed {seed}: a record must fit");
        }
    }
}
