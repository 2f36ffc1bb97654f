//! Policy `sync`: ordered synchronous writes, as in the original FFS.
//!
//! The meaning of an item gives it a rank, which is its tag. A round writes, for every buffer, all
//! deltas whose rank is reached, and flushes; then the next ranks are reached. Updates in flight
//! share rounds: changes staged during a round go out with the next one, and no Update ever waits
//! for another to share its round.
//!
//! Ranks: 0 bits taken, payload, blocks that nothing points at yet; 1 inodes initialised, links
//! added; 2 names, chunks for them, and pointers in indirect blocks, appear; 3 sizes that cover
//! them; 4 names name another file; 5 '..' of a moved directory; 6 names go; 7 links go, files
//! become shorter; 8 pointers behind their end go; 9 bits given back. So a crash leaves the old
//! file or the new one of a write or a truncation, and perhaps pointers behind its end. A create
//! takes three flushes, as does the removal of a small file. Beyond that the disk keeps the
//! contract of soft updates at every moment: no pointer leads to an uninitialised object, and no
//! link count is too low.
//!
//! **Commit point**: an Update has happened when the flush that covers its last rank completes
//! (`Ranks::landed`). Before that, a crash may show any rank-ordered part of it.
//!
//! Invariants:
//! 1. A delta lands only when all items of its Update with lower ranks are durable.
//! 2. A delta that replaces or takes away (rank 4 and up) lands only when every earlier Update is
//!    *revealed*, all of it up to rank 5 durable. So a name never goes, and is never taken over,
//!    before the name that replaces it, even if that came with another Update, has appeared. And
//!    where '..' of a directory points, there is a path from the root: a check that believes
//!    '..' never makes a loop of directories that changed places one after the other. (So moves of
//!    directories need not rest on each other here: see promise 5 of [`vnode::Engine`].)
//! 3. Deltas on one field land in order (the buffer sees to it).
//! 4. Receipts come in the order of sequences.
//! 5. If an Update adds a link to something that existed before, or is about to exist, nothing of
//!    its ranks 2 and up lands before the ranks 0 and 1 of every earlier Update: the name must not
//!    lead to a new directory whose parent does not count it yet.
//! 6. Nothing of an Update lands before the Updates that it rests on are durable.
//!
//! Not asserted: 2 and 5, which are the condition itself; 3, which the buffer keeps; 4, which the
//! horizon asserts.
//!
//! A delta waits only for lower sequences or, in the same Update, lower ranks; so some delta can
//! land in every round until none is left. Waits for intents are for lower sequences, too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use runtime::Runtime;
use vfs::{Depends, Sequence};
use vnode::horizon::Horizon;

use super::in_place::{InPlace, Order, Pending};
use super::{StagedUpdate, is_constructive};
use crate::buffer::Delta;
use crate::home::Home;
use crate::intents::{FIRST_SEEN, Intents};
use crate::item::{Intent, Item};
use crate::planted::{Bug, is_planted};

const RANKS: usize = 10;
/// The first rank that makes something visible.
const REVEALING: usize = 2;
/// The first rank that replaces something: from it on, deltas wait for earlier Updates.
const REPLACING: usize = 4;
/// The first rank that removes something.
const DESTRUCTIVE: usize = 6;
/// The last rank that a reader may see: later ones are behind the end of files, or free.
const LAST_SEEN: u32 = 7;

/// An Update that is not fully durable: the number of remaining items of each rank.
struct Flight {
    remaining: [u32; RANKS],
    /// Whether payload still waits for a flush issued after it.
    payload: bool,
    /// Whether the Update adds a link.
    links: bool,
    /// Updates that have to be durable first.
    rests_on: Depends,
}

impl Flight {
    /// The lowest rank that is not durable.
    fn current(&self) -> usize {
        self.remaining.iter().position(|&count| count > 0).unwrap_or(RANKS)
    }

    fn is_revealed(&self) -> bool {
        self.remaining[..DESTRUCTIVE].iter().all(|&count| count == 0)
    }
}

/// See the module's prose.
pub type OrderedWrites = InPlace<Ranks>;

/// The order of the policy.
#[derive(Default)]
pub struct Ranks {
    horizon: Horizon,
    /// Updates in flight by sequence.
    flights: RefCell<BTreeMap<u64, Flight>>,
}

impl OrderedWrites {
    /// A policy that writes in place to `home`, and intents to a ring if there is one.
    pub(crate) fn new(home: Rc<Home>, runtime: Runtime, intents: Option<Rc<Intents>>) -> Rc<Self> {
        Self::with(Ranks::default(), home, runtime, intents)
    }
}

/// The rank of a change; attributes have none of their own.
pub(super) fn rank_of(intent: Intent) -> Option<u32> {
    Some(match intent {
        Intent::PayloadWritten
        | Intent::MapTaken
        | Intent::InodeBlockInitialised
        | Intent::BlockInitialised => 0,
        Intent::InitialisedRaised | Intent::InodeInitialised | Intent::LinkAdded => 1,
        Intent::PointerSet | Intent::ChunkInitialised | Intent::EntryAdded => 2,
        Intent::SizeSet => 3,
        Intent::EntryRetargeted => 4,
        Intent::ParentRetargeted => 5,
        Intent::EntryDropped => 6,
        Intent::LinkDropped | Intent::SizeCleared => 7,
        Intent::PointerCleared => 8,
        Intent::MapGivenBack => 9,
        Intent::AttributesSet => return None, // takes the rank of another item, see `tags`
    })
}

/// Whether an Update rests on Updates that are in flight (invariant 6).
fn rests(flights: &BTreeMap<u64, Flight>, flight: &Flight) -> bool {
    let rests_on = &flight.rests_on;
    let first = flights.keys().next().copied().unwrap_or(u64::MAX);
    first <= rests_on.all_through().0
        || rests_on.each().iter().any(|before| flights.contains_key(&before.0))
}

/// The wrong rank that a planted bug gives an item.
fn planted_rank(intent: Intent) -> Option<u32> {
    let wrong: &[(Bug, Intent, u32)] = &[
        (Bug::EarlyNames, Intent::EntryAdded, 1),
        (Bug::LateBlocks, Intent::BlockInitialised, 3),
        (Bug::LateBlocks, Intent::ChunkInitialised, 4),
        (Bug::LateBits, Intent::MapTaken, 4),
        (Bug::LateLinks, Intent::LinkAdded, 4),
        (Bug::EarlyLinkDrops, Intent::LinkDropped, 6),
        (Bug::EarlySizes, Intent::SizeSet, 0),
        (Bug::SizesFirst, Intent::SizeSet, 2),
        (Bug::SizesFirst, Intent::PointerSet, 3),
        (Bug::EarlyInodeClears, Intent::SizeCleared, 6),
        (Bug::EarlyInodeClears, Intent::LinkDropped, 6),
        (Bug::EarlyBits, Intent::MapGivenBack, 6),
        (Bug::DropsFirst, Intent::EntryDropped, 1),
        (Bug::EarlyRetargets, Intent::EntryRetargeted, 1),
        (Bug::BlocksWithInodes, Intent::BlockInitialised, 1),
        (Bug::EarlyParents, Intent::ParentRetargeted, 1),
        (Bug::ParentsWithNames, Intent::ParentRetargeted, 4),
        (Bug::LateParents, Intent::ParentRetargeted, 7),
        (Bug::EarlyPointerClears, Intent::PointerCleared, 6),
        (Bug::LatePointerClears, Intent::PointerCleared, 9),
    ];
    let planted = |&&(bug, of, _): &&(Bug, Intent, u32)| of == intent && is_planted(bug);
    wrong.iter().find(planted).map(|&(_, _, rank)| rank)
}

impl Order for Ranks {
    fn horizon(&self) -> &Horizon {
        &self.horizon
    }

    fn tags(&self, items: &[Item], _lands_whole: bool) -> Vec<u32> {
        if is_planted(Bug::EqualRanks) {
            return vec![0; items.len()];
        }
        // Attributes need no order: they go with the last flush that is needed anyway, but not with
        // changes that no caller waits to see.
        let rank_of = |intent| planted_rank(intent).or_else(|| rank_of(intent));
        // On their own they have a visible rank: a call that sets them has an intent.
        let last = items.iter().filter_map(|item| rank_of(item.intent)).max();
        let free = last.unwrap_or(FIRST_SEEN).min(LAST_SEEN);
        let ranks = items.iter().map(|item| rank_of(item.intent).unwrap_or(free));
        let ranks: Vec<u32> = ranks.collect();
        debug_assert!(items.iter().zip(&ranks).all(|(item, &rank)| {
            item.intent == Intent::AttributesSet
                || planted_rank(item.intent).is_some()
                || is_constructive(item.intent) == ((rank as usize) < DESTRUCTIVE)
        }));
        ranks
    }

    fn stage(&self, sequence: Sequence, update: &StagedUpdate, _: &Pending) -> bool {
        let rests_on = update.manner.rests_on;
        let mut flight = Flight { remaining: [0; RANKS], payload: false, links: false, rests_on };
        for item in &update.items {
            flight.links |= item.intent == Intent::LinkAdded;
            if item.change.is_none() && is_planted(Bug::UnflushedPayload) {
                continue;
            }
            flight.remaining[item.tag as usize] += 1;
            flight.payload |= item.change.is_none();
        }
        self.flights.borrow_mut().insert(sequence.0, flight);
        false
    }

    fn is_busy(&self) -> bool {
        !self.flights.borrow().is_empty()
    }

    fn awaits_flush(&self) -> bool {
        self.flights.borrow().values().any(|flight| flight.payload)
    }

    fn choose(&self, pending: &Pending) -> Pending {
        pending.clone()
    }

    /// For each Update in flight the rank that it has reached, as a predicate for deltas.
    fn conditions(&self) -> impl Fn(&Delta) -> bool + use<> {
        let flights = self.flights.borrow();
        let (mut all_revealed, mut all_prepared) = (true, true);
        let mut reached = BTreeMap::new();
        for (&sequence, flight) in flights.iter() {
            all_revealed |= is_planted(Bug::EarlyDrops);
            if rests(&flights, flight) && !is_planted(Bug::LooseUpdates) {
                (all_revealed, all_prepared) = (false, false);
                continue; // invariant 6
            }
            let limit = match () {
                () if flight.links && !all_prepared => REVEALING - 1, // invariant 5
                () if !all_revealed => REPLACING - 1,                 // invariant 2
                () => RANKS,
            };
            let early = usize::from(is_planted(Bug::RankTooEarly));
            reached.insert(sequence, (flight.current() + early).min(limit));
            all_revealed &= flight.is_revealed();
            all_prepared &= flight.current() >= REVEALING || is_planted(Bug::EarlyLinks);
        }
        move |delta| {
            // A delta of an Update that is no longer in flight would be a durable one: impossible.
            reached.get(&delta.sequence.0).is_some_and(|&rank| delta.tag as usize <= rank)
        }
    }

    fn landed(&self, landed: Vec<(Sequence, u32)>, covered: u64, next: u64) {
        let mut flights = self.flights.borrow_mut();
        for (sequence, rank) in landed {
            debug_assert!(
                flights[&sequence.0].current() >= rank as usize || is_planted(Bug::RankTooEarly),
                "invariant 1: lower ranks are durable"
            );
            debug_assert!(
                !rests(&flights, &flights[&sequence.0]) || is_planted(Bug::LooseUpdates),
                "invariant 6: what it rests on is durable"
            );
            let flight = flights.get_mut(&sequence.0).expect("a delta belongs to a flight");
            flight.remaining[rank as usize] -= 1;
        }
        for (_, flight) in flights.range_mut(..covered) {
            if std::mem::take(&mut flight.payload) {
                flight.remaining[0] -= 1;
            }
        }
        flights.retain(|_, flight| flight.current() < RANKS);
        let first_open = flights.keys().next().copied().unwrap_or(next);
        drop(flights);
        self.horizon.advance(first_open - 1);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use sim::Executor;
    use vnode::Manner;

    use super::super::Policy;
    use super::*;
    use crate::buffer::{Buffer, Role};
    use crate::edit::Edit;
    use crate::item::Carried;
    use crate::policy::Staged;
    use crate::recovery::{OpenOptions, Recovered};
    use crate::update::Update;

    async fn policy_on(executor: &Executor) -> Rc<OrderedWrites> {
        let recovered = Recovered::just_made(executor, &OpenOptions::default()).await;
        OrderedWrites::new(recovered.home.clone(), executor.runtime(), None)
    }

    /// Stages an Update of one byte in a block of its own, which rests on others.
    fn stage(policy: &OrderedWrites, address: u64, rests_on: Depends) -> Rc<Buffer> {
        let buffer = Buffer::new(address, Role::Directory, block::Buffer::zeroed(4096));
        policy.home.install(&buffer);
        change(policy, &buffer, 0, rests_on);
        buffer
    }

    /// Stages an Update of one byte in a block, which rests on others.
    fn change(policy: &OrderedWrites, buffer: &Rc<Buffer>, offset: usize, rests_on: Depends) {
        change_ranks(policy, buffer, offset, &[0], rests_on);
    }

    /// Stages an Update with one byte of a block for each of these ranks.
    fn change_ranks(
        policy: &OrderedWrites,
        buffer: &Rc<Buffer>,
        offset: usize,
        ranks: &[u32],
        rests_on: Depends,
    ) {
        let sequence = policy.next_sequence();
        let items = ranks.iter().enumerate().map(|(index, &tag)| {
            let edit = Edit::Bytes { offset: offset + index, new: [1].into() };
            let change = Some((buffer.clone(), edit.extent()));
            buffer.apply(sequence, tag, edit);
            Staged::unnamed(Intent::BlockInitialised, change, tag)
        });
        let (items, payload, freed) = (items.collect(), Vec::new(), Vec::new());
        let (carried, manner) = (Carried::default(), Manner { rests_on, ..Manner::default() });
        let (moved, evidence, answered, room) = (Vec::new(), Default::default(), None, 0);
        let update = StagedUpdate {
            items,
            payload,
            carried,
            freed,
            moved,
            manner,
            evidence,
            answered,
            room,
        };
        policy.stage(sequence, update);
    }

    #[test]
    fn what_takes_away_waits_until_earlier_updates_are_revealed_and_no_longer() {
        let executor = Executor::new(1);
        executor.block_on(async {
            let policy = policy_on(&executor).await;
            policy.running.set(true); // the test runs the rounds
            let buffer = stage(&policy, 2000, Depends::NOTHING);
            policy.round().await.expect("the disk is good");
            change_ranks(&policy, &buffer, 10, &[2, 7, 9], Depends::NOTHING);
            change_ranks(&policy, &buffer, 20, &[6], Depends::NOTHING);
            let mut left = Vec::new();
            for _ in 0..3 {
                policy.round().await.expect("the disk is good");
                left.push(policy.order.flights.borrow().len());
            }
            assert_eq!(left, [2, 1, 0], "the second one lands with what the first takes away");
        });
    }

    /// The number of Updates that are planned and staged while no round ends; and whether a task
    /// that then waits for its turn goes on after one.
    fn staged_without_a_round() -> (usize, bool) {
        let executor = Executor::new(1);
        executor.block_on(async {
            let options = OpenOptions { cache_bytes: 1 << 20, ..OpenOptions::default() };
            let recovered = Recovered::just_made(&executor, &options).await;
            let policy = OrderedWrites::new(recovered.home.clone(), executor.runtime(), None);
            policy.running.set(true); // the test runs the rounds
            let buffer = stage(&policy, 2000, Depends::NOTHING);
            let mut staged = 1;
            let mut next = Update::new(vnode::Space::Superuser);
            while staged < 20_000 {
                let mut update = Update::new(vnode::Space::Superuser);
                if policy.plan(&mut update).now_or_never().is_none() {
                    break;
                }
                change(&policy, &buffer, staged % 4096, Depends::NOTHING);
                staged += 1;
            }
            let waiting = policy.plan(&mut next);
            policy.round().await.expect("the disk is good");
            policy.tried.notify();
            (staged, waiting.now_or_never() == Some(Ok(0)))
        })
    }

    #[test]
    fn an_update_waits_while_what_undoes_the_others_takes_much_of_the_memory() {
        let (staged, goes_on) = staged_without_a_round();
        assert!((500..10_000).contains(&staged) && goes_on, "{staged}, {goes_on}");
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn changes_that_may_take_any_amount_of_memory_are_seen() {
        crate::planted::plant(Some(Bug::EndlessDeltas));
        let (staged, _) = staged_without_a_round();
        crate::planted::plant(None);
        assert_eq!(staged, 20_000);
    }

    /// The rounds in which four Updates land, the last of which rests on `rests_on`.
    fn rounds(rests_on: Depends) -> [usize; 4] {
        let executor = Executor::new(1);
        executor.block_on(async {
            let policy = policy_on(&executor).await;
            policy.running.set(true); // the test runs the rounds
            let mut buffers = vec![stage(&policy, 4000, Depends::NOTHING)];
            buffers.push(stage(&policy, 4008, Depends::on(Sequence(1))));
            buffers.push(stage(&policy, 4016, Depends::NOTHING));
            buffers.push(stage(&policy, 4024, rests_on));
            let mut landed = [0; 4];
            for round in 1..=4 {
                policy.round().await.expect("the disk is good");
                for (buffer, landed) in buffers.iter().zip(&mut landed) {
                    if *landed == 0 && !buffer.is_pending() {
                        *landed = round;
                    }
                }
            }
            landed
        })
    }

    #[test]
    fn an_update_lands_in_the_round_after_all_on_which_it_rests() {
        let on = |sequence| Depends::on(Sequence(sequence));
        assert_eq!(rounds(Depends::NOTHING), [1, 2, 1, 1]);
        assert_eq!(rounds(on(1)), [1, 2, 1, 2]);
        assert_eq!(rounds(on(2)), [1, 2, 1, 3]);
        assert_eq!(rounds(on(3)), [1, 2, 1, 2]);
        assert_eq!(rounds(Depends::through(Sequence(1))), [1, 2, 1, 2]);
        assert_eq!(rounds(Depends::through(Sequence(3))), [1, 2, 1, 3]);
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn an_update_that_lands_before_what_it_rests_on_is_seen() {
        crate::planted::plant(Some(Bug::LooseUpdates));
        let loose = rounds(Depends::on(Sequence(2)));
        crate::planted::plant(None);
        assert_eq!(loose, [1, 1, 1, 1]);
    }
}
