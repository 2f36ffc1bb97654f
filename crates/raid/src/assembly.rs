//! Judges on which members a set may be opened.
//!
//! A member that misses a write is *out* before that write is acknowledged: the labels of all
//! others say so, with a later generation, durably. The slots' states under one generation are a
//! *story*. A story that a cut interrupted is missing on labels of members that it calls up to
//! date: nothing was acknowledged under it, and it does not hold. Among the labels found, one story
//! holds; if two do, two parts of the set have gone on apart.
//!
//! The members found cannot show whether the others went on without them. The others could not have
//! if they are too few, or if the story calls them out: each would be refused alone. Otherwise a
//! *witness*, which is written outside of the set along with the labels and before anything is
//! acknowledged, has to name the same story; or a person has to say so.
//!
//! A person who opens part of a set against advice may not know what the rest went on to. So the
//! story is marked as forced from then on, until all members are up to date. A member that comes
//! back with a story of its own, in which a member is out that is in by the forced story, is not
//! rebuilt without a person's word.
//!
//! The label of a member that comes in is written before those of the others, so that the earlier
//! story is still on those if that is interrupted.
//!
//! While a member is replaced, both disks have every write, and the story names both. The new one
//! may have been called in, by its own label first, and not be found here: so it counts among those
//! that may have gone on. If its label says so and the members found do not contradict, the old one
//! is no longer a member. Nothing was acknowledged before the witness had that story: the new one
//! is as good as the old one if the witness still has the old one in.
//!
//! This module keeps invariant 2 of the crate. It holds as long as no part of the set was opened
//! against its advice.

use std::cmp::Reverse;

use crate::label::{Label, Replacement, Slot, Standing, have_in_sync};
use crate::planted::{Bug, is_planted};

/// The last story under which anything was, or may have been, acknowledged; kept outside the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Its generation.
    pub generation: u64,
    /// State of each slot in that story.
    pub slots: Vec<Slot>,
}

impl Witness {
    /// The witness of a label's story.
    pub fn of(label: &Label) -> Self {
        Self { generation: label.generation, slots: label.slots.clone() }
    }

    /// Whether a label is that of an older copy: the member had a later label, durably, when the
    /// witness called it up to date.
    pub fn is_before(&self, label: &Label) -> bool {
        have_in_sync(&self.slots, &label.member()) && label.generation < self.generation
    }
}

/// A set that may be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// The label in force: one with the latest generation.
    pub label: Label,
    /// For each slot, the index of its member's label among those given, if the member has seen
    /// every write.
    pub members: Vec<Option<usize>>,
    /// Members that were found, and must not be read before they have caught up: the slot, and the
    /// index of the label.
    pub stale: Vec<(usize, usize)>,
    /// Index of the label of an interrupted replacement's new disk.
    pub incoming: Option<usize>,
    /// The slot of a readmitted member: the labels call it out, and it lacks nothing.
    pub pardoned: Option<usize>,
    /// Whether only a person says that the missing members are not newer.
    pub is_against_advice: bool,
}

/// Reason why a set is not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There are no labels.
    #[error("none of the disks is a member of a set")]
    Nothing,
    /// A disk belongs to another set than the first.
    #[error("disk {0} is a member of another set")]
    OtherSet(usize),
    /// Labels contradict each other in a field that never changes, or two disks have the same id.
    #[error("disks {0} and {1} contradict each other: one may be a copy of the other")]
    Contradiction(usize, usize),
    /// Two parts of the set have gone on without each other.
    #[error(
        "disks {0} and {1} were used apart from each other, to generations {one} and \
         {other}, and each calls the other one old",
        one = .2[0],
        other = .2[1]
    )]
    Apart(usize, usize, [u64; 2]),
    /// Labels contradict each other in a way that no cut leaves.
    #[error("what the disks say of each other fits nowhere")]
    NoStory,
    /// Too few of the members that have seen every write are present.
    #[error("of {of} members {found} are there and up to date, and it takes {needed}")]
    TooFew {
        /// Members present.
        found: usize,
        /// Members needed.
        needed: usize,
        /// Members of the set.
        of: usize,
    },
    /// The missing members may have seen later writes.
    #[error("the members that are missing may be newer: generation {0} is the latest that is here")]
    MaybeOld(u64),
    /// All disks found have missed something, or are older copies.
    #[error(
        "all disks that were found are older than the set was: the latest is of generation \
         {found}, and it came to generation {known}"
    )]
    AllOld {
        /// The latest generation found.
        found: u64,
        /// The generation of the witness.
        known: u64,
    },
}

impl Refused {
    /// Converts places among the labels into disks: `disks` has the disk of each place.
    pub(crate) fn of(self, disks: &[usize]) -> Self {
        match self {
            Self::OtherSet(place) => Self::OtherSet(disks[place]),
            Self::Contradiction(one, other) => Self::Contradiction(disks[one], disks[other]),
            Self::Apart(one, other, told) => Self::Apart(disks[one], disks[other], told),
            other => other,
        }
    }
}

/// Judges the labels as [`assemble`] does, without the overwritten disks at places `remains` if the
/// others are enough.
///
/// # Errors
/// [`Refused`].
pub fn assemble_without(
    remains: &[usize],
    labels: &[Label],
    witness: Option<&Witness>,
    is_meant: bool,
) -> Result<Assembly, Refused> {
    let rest: Vec<usize> = (0..labels.len()).filter(|place| !remains.contains(place)).collect();
    let latest = remains.iter().map(|&place| labels[place].generation).max();
    let of_rest: Vec<Label> = rest.iter().map(|&place| labels[place].clone()).collect();
    if let Some(latest) = latest
        && let Ok(assembly) = assemble(&of_rest, witness, is_meant)
        // An overwritten disk may know that the others are older.
        && latest <= assembly.label.generation
    {
        let Assembly { label, members, stale, incoming, pardoned, is_against_advice } = assembly;
        let members = members.into_iter().map(|place| place.map(|place| rest[place])).collect();
        let stale = stale.into_iter().map(|(slot, place)| (slot, rest[place])).collect();
        let incoming = incoming.map(|place| rest[place]);
        return Ok(Assembly { label, members, stale, incoming, pardoned, is_against_advice });
    }
    assemble(labels, witness, is_meant)
}

/// Judges the labels of the disks that were found. `witness` is the state known outside of the set,
/// if any; `is_meant` if a person says that the missing members are not newer. An older copy counts
/// as lost. If all disks found are older than the witness, a person may give up what came later:
/// then they are judged as if there were no witness.
///
/// # Errors
/// [`Refused`] gives the reason why the set is not opened, with disks by their places.
pub fn assemble(
    labels: &[Label],
    witness: Option<&Witness>,
    is_meant: bool,
) -> Result<Assembly, Refused> {
    let found = labels.iter().map(|label| label.generation).max().ok_or(Refused::Nothing)?;
    if let Some(witness) = witness.filter(|witness| found < witness.generation) {
        let known = witness.generation;
        let given_up = || {
            let assembly = assemble(labels, None, true)?;
            Ok(Assembly { is_against_advice: true, ..assembly })
        };
        return if is_meant { given_up() } else { Err(Refused::AllOld { found, known }) };
    }
    let (place, Seats { members, stale, incoming }) = Seats::by(labels, witness)?;
    let label = &labels[place];
    let of = members.len();
    let found = members.iter().flatten().count();
    let needed = label.layout.needed();
    if found < needed {
        return Err(Refused::TooFew { found, needed, of });
    }
    // A new disk that is not here may have been called in.
    let is_stray = |it: Replacement| label.slots[it.slot].standing == Standing::InSync;
    let strays = usize::from(label.incoming().is_some_and(is_stray) && incoming.is_none());
    let are_others_out = strays == 0
        && (0..of)
            .all(|slot| members[slot].is_some() || label.slots[slot].standing != Standing::InSync);
    let are_others_too_few = of - found + strays < needed;
    // A later story that only the disks found have may have been interrupted: then nothing was
    // acknowledged after the witness, and a member that was in by the witness has seen everything.
    // If the story calls another member in, that one has everything, too.
    let were_in = |witness: &Witness| {
        let found = (0..of).filter(|&slot| members[slot].is_some());
        let mut found = found.map(|slot| (slot, label.slots[slot].member));
        found.any(|(slot, member)| {
            let replaced = label.replacement.filter(|it| it.slot == slot && it.is_done);
            let is_in = |member| have_in_sync(&witness.slots, &member);
            is_in(member) || replaced.is_some_and(|it| is_in(it.other))
        })
    };
    let is_witnessed = witness.is_some_and(|witness| {
        let is_earlier = witness.generation < label.generation;
        let is_enough = || were_in(witness) || is_planted(Bug::OldWitnesses);
        *witness == Witness::of(label) || is_earlier && is_enough()
    });
    let is_known_old = witness.is_some_and(|witness| witness.generation > label.generation);
    let is_believed = is_meant || is_planted(Bug::BelievedHalves);
    let may_be_new = are_others_out || are_others_too_few || is_witnessed;
    let is_against_advice = is_known_old || !may_be_new;
    if !is_believed && is_against_advice {
        return Err(Refused::MaybeOld(label.generation));
    }
    let label = Label { is_incoming: false, ..label.clone() };
    Ok(Assembly { label, members, stale, incoming, pardoned: None, is_against_advice })
}

/// Assembles the remains of a set with too few members: the latest story that holds among the disks
/// found, and the disks that have the slots by it. Nothing says that they have every write.
///
/// # Errors
/// [`Refused`].
pub(crate) fn assemble_remains(
    labels: &[Label],
    witness: Option<&Witness>,
) -> Result<Assembly, Refused> {
    let latest = labels.iter().map(|label| label.generation).max().ok_or(Refused::Nothing)?;
    let known = witness.filter(|witness| witness.generation <= latest);
    let (place, Seats { members, stale, incoming }) = Seats::by(labels, known)?;
    let label = Label { is_incoming: false, ..labels[place].clone() };
    // Without a witness of exactly this story, a later one may exist elsewhere.
    let is_against_advice = witness.is_none_or(|it| it.generation != labels[place].generation);
    Ok(Assembly { label, members, stale, incoming, pardoned: None, is_against_advice })
}

/// Assignment of disks to slots.
pub(crate) struct Seats {
    pub(crate) members: Vec<Option<usize>>,
    /// Slots with the disks of their members, which are out.
    pub(crate) stale: Vec<(usize, usize)>,
    incoming: Option<usize>,
}

impl Seats {
    /// Seats by the story that holds, with the index of a label that has it.
    pub(crate) fn by(
        labels: &[Label],
        witness: Option<&Witness>,
    ) -> Result<(usize, Self), Refused> {
        let first = labels.first().ok_or(Refused::Nothing)?;
        let is_copy = |label: &Label| witness.is_some_and(|it| it.is_before(label));
        let is_copy = |label| is_copy(label) && !is_planted(Bug::OldCopies);
        let copies: Vec<bool> = labels.iter().map(is_copy).collect();
        agree(labels, first, &copies)?;
        let place = story_that_holds(labels, &copies, witness)?;
        Ok((place, Self::of(labels, &copies, &labels[place])))
    }

    /// Seats by a label's story, with disks by their places.
    fn of(labels: &[Label], copies: &[bool], label: &Label) -> Self {
        let (members, stale, incoming) = (vec![None; label.slots.len()], Vec::new(), None);
        let mut seats = Self { members, stale, incoming };
        for (place, found) in labels.iter().enumerate().filter(|(place, _)| !copies[*place]) {
            let slot = label.slots.iter().position(|slot| slot.member == found.member());
            let Some(slot) = slot else {
                // Otherwise the disk was replaced.
                if label.incoming().is_some_and(|it| it.other == found.member()) {
                    seats.incoming = Some(place);
                }
                continue;
            };
            match label.slots[slot].standing {
                Standing::Stale if is_planted(Bug::ReadOutsiders) => {
                    seats.members[slot] = Some(place);
                }
                Standing::InSync => seats.members[slot] = Some(place),
                _ => seats.stale.push((slot, place)),
            }
        }
        seats
    }
}

/// Checks that the labels, without copies, are of different members of one set.
fn agree(labels: &[Label], first: &Label, copies: &[bool]) -> Result<(), Refused> {
    for (place, label) in labels.iter().enumerate() {
        if label.set != first.set {
            return Err(Refused::OtherSet(place));
        }
        if label.layout != first.layout || label.data_start != first.data_start {
            return Err(Refused::Contradiction(0, place));
        }
        let is_same = |&other: &usize| !copies[other] && labels[other].member() == label.member();
        if let Some(other) = (0..place).find(is_same).filter(|_| !copies[place]) {
            return Err(Refused::Contradiction(other, place));
        }
    }
    Ok(())
}

/// Index of a label with the story that holds: goes from the latest on, and skips stories that a
/// cut interrupted, and copies.
fn story_that_holds(
    labels: &[Label],
    copies: &[bool],
    witness: Option<&Witness>,
) -> Result<usize, Refused> {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|&place| Reverse(labels[place].generation));
    let tells = Label::tells_as;
    let is_witnessed =
        |place: usize| witness.is_some_and(|witness| *witness == Witness::of(&labels[place]));
    let mut interrupted = copies.to_vec();
    let mut holds: Option<usize> = None;
    for &place in &order {
        let story = &labels[place];
        if interrupted[place] || holds.is_some_and(|holds| tells(&labels[holds], story)) {
            continue;
        }
        // Whether a label is of the story's incoming disk, and calls that disk in.
        let has_come = |label: &Label| {
            story.incoming().is_some_and(|it| it.other == label.member())
                && label.generation > story.generation // else it was interrupted before
                && have_in_sync(&label.slots, &label.member())
        };
        // Labels of members that the story calls up to date, and that have another story.
        let others = labels.iter().enumerate().filter(|(other, label)| {
            (have_in_sync(&story.slots, &label.member()) || has_come(label))
                && !tells(label, story)
                && !interrupted[*other]
        });
        let others = others.filter(|_| !is_planted(Bug::BelievedBeginnings));
        match (others.map(|(_, label)| label.generation).max(), holds) {
            (None, None) => holds = Some(place),
            (None, Some(_)) if is_planted(Bug::TakenApart) => {}
            // One of the two was interrupted, and the witness says which one holds.
            (None, Some(found)) if is_witnessed(found) => {}
            (None, Some(_)) if is_witnessed(place) => holds = Some(place),
            (None, Some(holds)) => return Err(apart(labels, holds, place)),
            (Some(later), _) if later > story.generation => {} // they have gone on
            (Some(_), _) => {
                let same = (0..labels.len()).filter(|&other| tells(&labels[other], story));
                same.for_each(|other| interrupted[other] = true);
            }
        }
    }
    let holds = holds.ok_or(Refused::NoStory)?;
    let mut others = (0..labels.len()).filter(|&place| !interrupted[place]);
    match others.find(|&other| has_gone_on_without(&labels[other], &labels[holds])) {
        Some(other) if !is_planted(Bug::GivenUpUnasked) => Err(apart(labels, holds, other)),
        _ => Ok(holds),
    }
}

fn apart(labels: &[Label], one: usize, other: usize) -> Refused {
    Refused::Apart(one, other, [one, other].map(|place| labels[place].generation))
}

/// Whether a label's member may have acknowledged writes that are missing in a story which was
/// opened against advice: it had enough members, and one was out that is in by the story. So its
/// own story is no ancestor of the forced one.
///
/// A label from after the same opening that also has a member of the story in is exempt: that
/// member has whatever was acknowledged under it. Its own member was interrupted as it came in.
pub fn has_gone_on_without(label: &Label, story: &Label) -> bool {
    let in_sync = |label: &Label| -> Vec<Slot> {
        label.slots.iter().filter(|slot| slot.standing == Standing::InSync).copied().collect()
    };
    let in_story = in_sync(story);
    let is_in_label = |slot: &Slot| have_in_sync(&label.slots, &slot.member);
    let is_shared = label.forced == story.forced && in_story.iter().any(is_in_label);
    story.forced > 0
        && have_in_sync(&label.slots, &label.member())
        && !have_in_sync(&story.slots, &label.member())
        && in_sync(label).len() >= label.layout.needed()
        && !is_shared
        && !in_story.iter().all(is_in_label)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::label::tests::label;
    use crate::layout::Level;

    /// An event in the life of a set.
    #[derive(Clone, Debug)]
    enum Event {
        /// These members are found, and the set is opened if it may be. At most this many of the
        /// labels that call the missing members out are written before the next cut.
        Open(BTreeSet<usize>, usize),
        /// A write reaches this many members; if these are all, it is acknowledged.
        Write(usize),
        /// A member fails; at most this many labels say so before the next cut.
        Lose(usize, usize),
        /// An out member has caught up; at most this many labels say so before the next cut.
        CatchUp(usize, usize),
        Cut,
    }

    /// A set, and the true history of its members.
    struct History {
        labels: Vec<Label>,
        /// Number of writes that each member has seen, and number of acknowledged writes.
        seen: Vec<u32>,
        acknowledged: u32,
        /// Members in use, while the set is open.
        running: Option<Vec<usize>>,
        witness: Option<Witness>,
    }

    impl History {
        fn new(level: Level, members: usize, has_witness: bool) -> Self {
            let labels: Vec<Label> = (0..members).map(|slot| label(level, members, slot)).collect();
            Self {
                witness: has_witness.then(|| Witness::of(&labels[0])),
                labels,
                seen: vec![0; members],
                acknowledged: 0,
                running: None,
            }
        }

        /// Writes the slots' states to the labels of the members in use; a cut may come in between.
        /// If all are written, the witness gets the story before anything is acknowledged.
        fn tell(&mut self, slots: Vec<Slot>, written: usize) {
            let running = self.running.clone().expect("it is open");
            let latest = running.iter().map(|&member| self.labels[member].generation).max();
            let generation = latest.expect("it has members") + 1;
            for (count, &member) in running.iter().enumerate() {
                if count >= written {
                    self.running = None;
                    return;
                }
                let number = self.labels[member].number + 1;
                let before = self.labels[member].clone();
                let slots = slots.clone();
                self.labels[member] = Label { generation, number, slots, ..before };
            }
            self.witness = self.witness.take().map(|_| Witness { generation, slots });
        }

        fn happen(&mut self, event: &Event) -> Result<(), String> {
            match event {
                Event::Open(found, written) if self.running.is_none() => {
                    self.open(found, *written)?
                }
                Event::Write(reached) => {
                    let Some(running) = &self.running else { return Ok(()) };
                    running.iter().take(*reached).for_each(|&m| self.seen[m] += 1);
                    if *reached >= running.len() {
                        self.acknowledged += 1;
                    } else {
                        self.running = None; // power cut
                    }
                }
                Event::Lose(member, written) => {
                    let Some(running) = &mut self.running else { return Ok(()) };
                    let layout = self.labels[0].layout;
                    if !running.contains(member) || running.len() <= layout.needed() {
                        self.running = None; // the set fails as a whole
                        return Ok(());
                    }
                    running.retain(|one| one != member);
                    let mut slots = self.labels[running[0]].slots.clone();
                    // By itself, or because a person says so.
                    slots[*member].standing = [Standing::Stale, Standing::Offline][*member % 2];
                    self.tell(slots, *written);
                }
                Event::CatchUp(member, written) => {
                    let Some(running) = &mut self.running else { return Ok(()) };
                    if running.contains(member) {
                        return Ok(());
                    }
                    let mut slots = self.labels[running[0]].slots.clone();
                    slots[*member].standing = Standing::InSync;
                    running.insert(0, *member); // its label is written first
                    self.seen[*member] = self.seen[running[1]];
                    self.tell(slots, *written);
                }
                Event::Open(..) | Event::Cut => self.running = None,
            }
            Ok(())
        }

        fn open(&mut self, found: &BTreeSet<usize>, written: usize) -> Result<(), String> {
            let places: Vec<usize> = found.iter().copied().collect();
            let labels: Vec<Label> = places.iter().map(|&m| self.labels[m].clone()).collect();
            let assembled = match assemble(&labels, self.witness.as_ref(), false) {
                Ok(assembled) => assembled,
                Err(refused) if found.len() == self.labels.len() => {
                    return Err(format!("all are there, and: {refused}"));
                }
                Err(_) => return Ok(()),
            };
            let used: Vec<usize> =
                assembled.members.iter().flatten().map(|&at| places[at]).collect();
            if let Some(old) = used.iter().find(|&&member| self.seen[member] < self.acknowledged) {
                return Err(format!("member {old} is read, and has missed what was acknowledged"));
            }
            let newest =
                used.iter().map(|&member| self.seen[member]).max().expect("there are some");
            used.iter().for_each(|&member| self.seen[member] = newest);
            let mut slots = assembled.label.slots.clone();
            let is_missing = |slot: usize| assembled.members[slot].is_none();
            let out: Vec<usize> = (0..slots.len()).filter(|&slot| is_missing(slot)).collect();
            let was_in = out.iter().any(|&slot| slots[slot].standing == Standing::InSync);
            out.iter().for_each(|&slot| slots[slot].standing = Standing::Stale);
            // An interrupted story ends when the set goes on.
            let differs =
                used.iter().any(|&m| self.labels[m].generation != assembled.label.generation);
            self.running = Some(used);
            if was_in || differs {
                self.tell(slots, written);
            }
            Ok(())
        }
    }

    fn events(members: usize) -> impl Strategy<Value = Vec<Event>> {
        let some = prop::collection::btree_set(0..members, 1..=members);
        let all: BTreeSet<usize> = (0..members).collect();
        let count = || prop_oneof![3 => Just(usize::MAX), 1 => 0..members];
        let event = prop_oneof![
            4 => (some, count()).prop_map(|(found, written)| Event::Open(found, written)),
            2 => count().prop_map(move |written| Event::Open(all.clone(), written)),
            4 => count().prop_map(Event::Write),
            3 => (0..members, count()).prop_map(|(member, written)| Event::Lose(member, written)),
            3 => (0..members, count()).prop_map(|(m, written)| Event::CatchUp(m, written)),
            2 => Just(Event::Cut),
        ];
        prop::collection::vec(event, 1..40)
    }

    fn first_wrong(
        level: Level,
        members: usize,
        witness: bool,
        events: &[Event],
    ) -> Option<String> {
        let mut history = History::new(level, members, witness);
        events.iter().find_map(|event| history.happen(event).err())
    }

    /// The first of `count` histories in which something is wrong: the same ones each time.
    fn first_wrong_of(count: usize) -> Option<String> {
        let mut runner = TestRunner::deterministic();
        let histories = (prop::sample::select(Level::ALL.to_vec()), 2..6_usize, any::<bool>())
            .prop_flat_map(|(level, members, has_witness)| {
                let members = members.max(level.fewest());
                (Just(level), Just(members), Just(has_witness), events(members))
            });
        (0..count).find_map(|_| {
            let history = histories.new_tree(&mut runner).expect("there is one").current();
            let (level, members, has_witness, events) = history;
            let wrong = first_wrong(level, members, has_witness, &events);
            wrong.map(|wrong| format!("{wrong}: {level}, {members}, {has_witness}, {events:?}"))
        })
    }

    /// Invariant 2 of the crate. `DURAMEN_RUNS` sets the number of histories.
    #[test]
    fn no_member_is_read_that_has_missed_what_was_acknowledged() {
        let count = std::env::var("DURAMEN_RUNS").ok();
        let count = count.and_then(|count| count.parse().ok()).unwrap_or(20_000);
        assert_eq!(first_wrong_of(count), None);
    }

    fn opened(labels: &[&Label], witness: Option<&Witness>) -> Result<Vec<bool>, Refused> {
        let labels: Vec<Label> = labels.iter().map(|&label| label.clone()).collect();
        let assembled = assemble(&labels, witness, false)?;
        Ok(assembled.members.iter().map(Option::is_some).collect())
    }

    #[test]
    fn of_raid_5_one_member_may_be_missing_and_no_more() {
        let all: Vec<Label> = (0..4).map(|slot| label(Level::Parity, 4, slot)).collect();
        let [a, b, c, d] = [&all[0], &all[1], &all[2], &all[3]];
        assert_eq!(opened(&[d, b, a, c], None), Ok(vec![true; 4]));
        assert_eq!(opened(&[a, b, d], None), Ok(vec![true, true, false, true]));
        assert_eq!(opened(&[a, b], None), Err(Refused::TooFew { found: 2, needed: 3, of: 4 }));
        assert_eq!(opened(&[], None), Err(Refused::Nothing));
    }

    #[test]
    fn half_a_mirror_is_believed_where_it_is_known_to_be_the_newer() {
        let (one, other) = (label(Level::Mirrored, 2, 0), label(Level::Mirrored, 2, 1));
        assert_eq!(opened(&[&one], None), Err(Refused::MaybeOld(3)));
        let witness = Witness::of(&other);
        assert_eq!(opened(&[&one], Some(&witness)), Ok(vec![true, false]));
        let later = Witness { generation: 4, ..witness.clone() };
        let is_copy = Err(Refused::AllOld { found: 3, known: 4 });
        assert_eq!(opened(&[&one], Some(&later)), is_copy);
        assert!(assemble(std::slice::from_ref(&one), Some(&later), true).is_ok(), "it is meant");
        let begun = Label { generation: 4, ..one.clone() };
        let is_begun = opened(&[&begun], Some(&witness));
        assert_eq!(is_begun, Ok(vec![true, false]), "interrupted: nothing came after the witness");
        let mut out = witness.clone();
        out.slots[0].standing = Standing::Stale;
        assert_eq!(opened(&[&begun], Some(&out)), Err(Refused::MaybeOld(4)), "it was out");
        let mut alone = one.clone();
        alone.generation = 4;
        alone.slots[1].standing = Standing::Stale;
        assert_eq!(opened(&[&alone], None), Ok(vec![true, false]), "the other one is out");
        assert_eq!(opened(&[&alone, &other], None), Ok(vec![true, false]), "it has to catch up");
        let mut apart = other.clone();
        apart.generation = 5;
        apart.slots[0].standing = Standing::Stale;
        assert_eq!(opened(&[&alone, &apart], None), Err(Refused::Apart(1, 0, [5, 4])));
        let labels = [one];
        assert!(assemble(&labels, None, true).is_ok(), "a person says that it is so");
    }

    #[test]
    fn one_that_was_interrupted_as_it_came_in_is_not_apart_from_a_forced_story() {
        let story = |slot: usize, generation: u64, standing: [Standing; 3], forced: u64| {
            let mut label = Label { generation, forced, ..label(Level::Mirrored, 3, slot) };
            label.slots.iter_mut().zip(standing).for_each(|(slot, it)| slot.standing = it);
            label
        };
        let (is_in, is_out) = (Standing::InSync, Standing::Stale);
        let begun = story(1, 5, [is_in, is_in, is_out], 3);
        let held = [0, 2].map(|slot| story(slot, 6, [is_in, is_out, is_in], 3));
        let caught = opened(&[&held[0], &begun, &held[1]], None);
        assert_eq!(caught, Ok(vec![true, false, true]), "it has to catch up");
        let forced_apart = story(1, 5, [is_out, is_in, is_out], 3);
        let is_apart = opened(&[&held[0], &forced_apart, &held[1]], None);
        assert_eq!(is_apart, Err(Refused::Apart(0, 1, [6, 5])), "it was opened alone");
        let unforced = story(1, 5, [is_in, is_in, is_out], 0);
        let is_apart = opened(&[&held[0], &unforced, &held[1]], None);
        assert_eq!(is_apart, Err(Refused::Apart(0, 1, [6, 5])), "the rest was taken back since");
    }

    #[test]
    fn a_copy_of_before_is_as_if_it_were_not_there() {
        let all: Vec<Label> = (0..3).map(|slot| label(Level::Parity, 3, slot)).collect();
        let later = |label: &Label| Label { generation: 4, ..label.clone() };
        let witness = Witness::of(&later(&all[0]));
        let labels = [all[0].clone(), later(&all[0]), later(&all[2])];
        let assembled = assemble(&labels, Some(&witness), false).expect("two are enough");
        assert_eq!(assembled.members, [Some(1), None, Some(2)], "the later one is the member");
        let labels = [all[0].clone(), all[1].clone(), later(&all[2])];
        let too_few = Err(Refused::TooFew { found: 1, needed: 2, of: 3 });
        assert_eq!(assemble(&labels, Some(&witness), false), too_few);
        assert_eq!(assemble(&labels, Some(&witness), true), too_few, "two ages are not mixed");
        let old = assemble(&all, Some(&witness), false);
        assert_eq!(old, Err(Refused::AllOld { found: 3, known: 4 }));
        let meant = assemble(&all, Some(&witness), true).expect("a person says so");
        assert_eq!(meant.members, [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn disks_that_do_not_belong_together_are_refused() {
        let (one, other) = (label(Level::Parity, 3, 0), label(Level::Parity, 3, 1));
        let strange = Label { set: [8; 16], ..other.clone() };
        assert_eq!(opened(&[&one, &strange], None), Err(Refused::OtherSet(1)));
        assert_eq!(opened(&[&one, &other, &one], None), Err(Refused::Contradiction(0, 2)));
        let mut cut = other.clone();
        cut.layout.unit *= 2;
        assert_eq!(opened(&[&one, &cut], None), Err(Refused::Contradiction(0, 1)));
    }

    #[test]
    fn a_story_that_a_cut_has_interrupted_does_not_hold() {
        let all: Vec<Label> = (0..4).map(|slot| label(Level::Parity, 4, slot)).collect();
        let mut begun = all[1].clone();
        begun.generation = 4;
        begun.slots[0].standing = Standing::Stale;
        let found = [&all[0], &begun, &all[2], &all[3]];
        assert_eq!(opened(&found, None), Ok(vec![true; 4]), "nothing was acknowledged under it");
        let mut others = [all[2].clone(), all[3].clone()];
        for other in &mut others {
            other.generation = 4;
            other.slots[0].standing = Standing::Stale;
        }
        let found = [&all[0], &begun, &others[0], &others[1]];
        assert_eq!(opened(&found, None), Ok(vec![false, true, true, true]));
    }

    /// The labels of a set whose last member is being replaced by a new disk, and the label of the
    /// new disk when it is called in.
    fn replaced(level: Level, members: usize) -> (Vec<Label>, Label) {
        let (last, new) = (members - 1, [77; 16]);
        let all = (0..members).map(|slot| Label {
            replacement: Some(Replacement { slot: last, other: new, is_done: false }),
            ..label(level, members, slot)
        });
        let all: Vec<Label> = all.collect();
        let mut called_in = Label { generation: 4, ..all[last].clone() };
        let old = called_in.slots[last].member;
        called_in.slots[last].member = new;
        called_in.replacement = Some(Replacement { slot: last, other: old, is_done: true });
        (all, called_in)
    }

    #[test]
    fn a_cut_in_a_replacement_leaves_one_of_two_disks_in() {
        let (all, new) = replaced(Level::Parity, 3);
        let incoming = Label { is_incoming: true, ..all[2].clone() };
        let [a, b, old] = [&all[0], &all[1], &all[2]];
        let assembled = |labels: &[&Label], witness: Option<&Witness>| {
            let labels: Vec<Label> = labels.iter().map(|&label| label.clone()).collect();
            let assembled = assemble(&labels, witness, false)?;
            Ok::<_, Refused>((assembled.members, assembled.incoming))
        };
        let all_in = vec![Some(0), Some(1), Some(2)];
        assert_eq!(assembled(&[a, b, old], None), Ok((all_in.clone(), None)));
        assert_eq!(assembled(&[a, b, old, &incoming], None), Ok((all_in.clone(), Some(3))));
        let begun = assembled(&[a, b, old, &new], None);
        assert_eq!(begun, Ok((all_in.clone(), Some(3))), "its own label alone says that it is in");
        let told = |one: &Label| Label { slot: one.slot, is_incoming: false, ..new.clone() };
        let begun = assembled(&[a, &told(b), old, &new], None);
        assert_eq!(begun, Ok((all_in, Some(3))), "it was interrupted");
        let done = assembled(&[&told(a), &told(b), old, &new], None);
        assert_eq!(done, Ok((vec![Some(0), Some(1), Some(3)], None)));
        let done = assembled(&[&told(b), old, &new], None);
        assert_eq!(done, Ok((vec![None, Some(0), Some(2)], None)), "the other one may have gone");
        let old_alone = assembled(&[a, b, &incoming], None);
        assert_eq!(old_alone, Ok((vec![Some(0), Some(1), None], Some(2))), "it is not in");
    }

    #[test]
    fn a_new_disk_that_is_not_there_may_have_gone_on() {
        let (all, _) = replaced(Level::Parity, 3);
        let found = [&all[0], &all[2]];
        assert_eq!(opened(&found, None), Err(Refused::MaybeOld(3)), "with the other member");
        let witness = Witness::of(&all[0]);
        assert_eq!(opened(&found, Some(&witness)), Ok(vec![true, false, true]));
        let (mut all, mut new) = replaced(Level::Mirrored, 2);
        assert_eq!(opened(&[&all[0], &all[1]], None), Err(Refused::MaybeOld(3)));
        for label in all.iter_mut().chain([&mut new]) {
            label.slots[0].standing = Standing::Stale;
        }
        let old = &all[1];
        assert_eq!(opened(&[old], None), Err(Refused::MaybeOld(3)), "or alone");
        assert_eq!(opened(&[old, &new], None), Ok(vec![false, true]), "it is the later one");
        let apart = Label { generation: 5, replacement: None, ..old.clone() };
        let is_apart = opened(&[&apart, &new], None);
        assert_eq!(is_apart, Err(Refused::Apart(0, 1, [5, 4])), "both may have gone on");
        let witness = Witness::of(&apart);
        let labels = [apart, new];
        let assembled = assemble(&labels, Some(&witness), false).expect("it is known which");
        assert_eq!(assembled.members, [None, Some(0)]);
    }

    /// One disk may be lost at the moment of a cut.
    #[test]
    fn a_new_disk_stands_for_the_old_one_before_the_witness() {
        let (all, new) = replaced(Level::Mirrored, 2);
        let witness = Witness::of(&all[1]);
        assert_eq!(opened(&[&all[1], &new], Some(&witness)), Ok(vec![false, true]));
        assert_eq!(opened(&[&new], Some(&witness)), Ok(vec![false, true]));
        assert_eq!(opened(&[&new], None), Err(Refused::MaybeOld(4)));
        assert_eq!(opened(&[&all[0], &new], Some(&witness)), Ok(vec![true, false]));
        assert_eq!(opened(&[&all[0], &all[1]], Some(&witness)), Ok(vec![true, true]));
        let strange = Label { replacement: None, ..new };
        assert_eq!(opened(&[&strange], Some(&witness)), Err(Refused::MaybeOld(4)));
    }

    /// The histories, or one of the cases above, detect each broken law of this module.
    #[cfg(feature = "planted-bugs")]
    #[test]
    fn laws_that_are_broken_are_seen() {
        use crate::planted::plant;

        let laws =
            [Bug::BelievedBeginnings, Bug::BelievedHalves, Bug::OldWitnesses, Bug::ReadOutsiders];
        for law in laws {
            plant(Some(law));
            let found = first_wrong_of(20_000);
            plant(None);
            println!("{law:?}: {}", found.expect("it is seen"));
        }
        let (mut one, mut other) = (label(Level::Mirrored, 2, 0), label(Level::Mirrored, 2, 1));
        (one.slots[1].standing, other.slots[0].standing) = (Standing::Stale, Standing::Stale);
        plant(Some(Bug::TakenApart));
        let taken = opened(&[&one, &other], None);
        plant(None);
        assert!(taken.is_ok() && opened(&[&one, &other], None).is_err());
    }
}
