//! The checker of histories on hand-made histories: those that no order explains are refused, and
//! the others are not.

use nfs3_types::nfs3::nfsstat3::{self, *};
use torture::campaign::concurrent::model::State;
use torture::campaign::concurrent::search::{Execution, History, Rules, check};
use torture::campaign::concurrent::words::{CELL, File, How, Op, Place, Told};

const ROOT: File = File(2, 1);
const ONE: File = File(3, 1);
const TWO: File = File(4, 1);

/// Builder of a history. Each call gets its times: from `begin` to `end`.
#[derive(Default)]
struct Hand(History);

impl Hand {
    fn did(mut self, (begin, end): (u64, u64), op: Op, told: Told) -> Self {
        self.push(begin, Some(end), op, Some(told));
        self
    }

    /// Adds an unanswered call.
    fn began(mut self, begin: u64, op: Op) -> Self {
        self.push(begin, None, op, None);
        self
    }

    fn cut(mut self, at: u64) -> Self {
        self.0.cuts.push(at);
        self
    }

    /// Adds the last call again, sent to another boot.
    fn again(mut self) -> Self {
        let count = self.0.executions.len();
        self.0.executions[count - 1].call = self.0.executions[count - 2].call;
        self
    }

    /// Adds a call that the next boot may have answered like this, from memory or not.
    fn perhaps(mut self, begin: u64, op: Op, told: Told) -> Self {
        self.push(begin, None, op, Some(told));
        self
    }

    /// Selects policy `log`.
    fn with_log(mut self) -> Self {
        self.0.rules = Rules { survives: true, is_whole: true };
        self
    }

    fn push(&mut self, begin: u64, end: Option<u64>, op: Op, told: Option<Told>) {
        let boot = self.0.cuts.len() as u64 + 1;
        let (call, client) = (self.0.executions.len(), 1);
        self.0.executions.push(Execution { call, client, boot, begin, end, op, told });
    }

    fn is_explained(&self) -> bool {
        check(&self.0, &State::new(ROOT)).1.is_ok()
    }
}

/// Adds several calls, each after the one before.
fn in_turn(mut hand: Hand, calls: Vec<(Op, Told)>) -> Hand {
    for (op, told) in calls {
        let begun = hand.0.executions.iter().map(|one| one.end.unwrap_or(one.begin));
        let begin = begun.chain(hand.0.cuts.iter().copied()).max().unwrap_or(0) + 1;
        hand = hand.did((begin, begin + 1), op, told);
    }
    hand
}

fn place(name: &str) -> Place {
    (ROOT, name.to_owned())
}

fn create(name: &str) -> Op {
    Op::Create(place(name), How::Guarded, 0o644)
}

fn lookup(name: &str) -> Op {
    Op::Lookup(place(name))
}

fn remove(name: &str) -> Op {
    Op::Remove(place(name))
}

fn rename(from: &str, to: &str) -> Op {
    Op::Rename(place(from), place(to))
}

fn write(value: u8, stable: bool) -> Op {
    Op::Write { file: ONE, at: 0, count: 1, value, stable }
}

fn found(file: File) -> Told {
    Told { object: Some(file), ..Told::ok() }
}

fn status(status: nfsstat3) -> Told {
    Told::bare(status)
}

fn data(value: u8) -> Told {
    Told { data: Some(vec![value; CELL as usize]), ..Told::ok() }
}

fn nothing() -> Told {
    Told { data: Some(Vec::new()), ..Told::ok() }
}

/// The answer to a WRITE or a COMMIT.
fn told(is_stable: bool, verifier: u8) -> Told {
    Told { is_stable, verifier: Some([verifier; 8]), ..Told::ok() }
}

#[test]
fn a_create_that_was_answered_is_not_lost() {
    let made = || in_turn(Hand::default(), vec![(create("x"), found(ONE))]).cut(10);
    assert!(in_turn(made(), vec![(lookup("x"), found(ONE))]).is_explained());
    assert!(!in_turn(made(), vec![(lookup("x"), status(NFS3ERR_NOENT))]).is_explained());
    assert!(!in_turn(made(), vec![(lookup("x"), found(TWO))]).is_explained());
}

#[test]
fn a_create_that_was_not_answered_may_be_there_or_not() {
    let made = || Hand::default().began(1, create("x")).cut(10);
    assert!(in_turn(made(), vec![(lookup("x"), found(ONE))]).is_explained());
    assert!(in_turn(made(), vec![(lookup("x"), status(NFS3ERR_NOENT))]).is_explained());
    let both = vec![(lookup("x"), status(NFS3ERR_NOENT)), (lookup("x"), found(ONE))];
    assert!(!in_turn(made(), both).is_explained(), "it comes before the cut");
}

#[test]
fn what_somebody_has_seen_is_not_taken_back() {
    let seen = Hand::default().began(1, create("x")).did((2, 5), lookup("x"), found(ONE));
    assert!(in_turn(seen.cut(10), vec![(lookup("x"), found(ONE))]).is_explained());
    let seen = Hand::default().began(1, create("x")).did((2, 5), lookup("x"), found(ONE));
    let lost = in_turn(seen.cut(10), vec![(lookup("x"), status(NFS3ERR_NOENT))]);
    assert!(!lost.is_explained());
}

#[test]
fn a_read_after_a_write_shows_it() {
    let file = || in_turn(Hand::default(), vec![(create("x"), found(ONE))]);
    let written = |value| (write(value, true), told(true, 1));
    assert!(in_turn(file(), vec![written(1), (Op::Read(ONE), data(1))]).is_explained());
    let stale = vec![written(1), written(2), (Op::Read(ONE), data(1))];
    assert!(!in_turn(file(), stale).is_explained());
    // During the write a READ may show either value, and then not the old one again.
    let during = |first, second| {
        let hand = in_turn(file(), vec![written(1)]).did((20, 40), write(2, true), told(true, 1));
        hand.did((21, 25), Op::Read(ONE), data(first)).did((26, 30), Op::Read(ONE), data(second))
    };
    assert!(during(1, 2).is_explained() && during(1, 1).is_explained());
    assert!(!during(2, 1).is_explained());
}

#[test]
fn one_file_is_removed_once() {
    let file = || in_turn(Hand::default(), vec![(create("x"), found(ONE))]);
    let twice =
        file().did((10, 20), remove("x"), Told::ok()).did((10, 20), remove("x"), Told::ok());
    assert!(!twice.is_explained());
    let once = file().did((10, 20), remove("x"), status(NFS3ERR_NOENT));
    assert!(once.did((10, 20), remove("x"), Told::ok()).is_explained(), "in either order");
}

#[test]
fn a_call_is_carried_out_once_in_a_boot_and_may_be_again_in_the_next() {
    let exists = || status(NFS3ERR_EXIST);
    assert!(!Hand::default().did((1, 5), create("x"), exists()).is_explained());
    let over_a_cut = Hand::default().began(1, create("x")).cut(10);
    assert!(over_a_cut.did((11, 15), create("x"), exists()).is_explained());
    // It may also remove a file that another client has made in between.
    let again = Hand::default().began(1, remove("x")).cut(10);
    let again = in_turn(again, vec![(create("x"), found(ONE)), (remove("x"), Told::ok())]);
    assert!(in_turn(again, vec![(lookup("x"), status(NFS3ERR_NOENT))]).is_explained());
}

/// A call that is sent to two boots and answered by the second; other calls run during the first.
fn over_a_cut(op: &Op, answer: &Told, between: impl FnOnce(Hand) -> Hand) -> Hand {
    let sent = match answer.status {
        NFS3_OK => Hand::default().with_log().perhaps(1, op.clone(), answer.clone()),
        _ => Hand::default().with_log(),
    };
    let first = sent.0.executions.len();
    let mut hand = between(sent).cut(20).did((21, 40), op.clone(), answer.clone());
    if first > 0 {
        hand.0.executions.last_mut().expect("it was pushed").call = 0;
    }
    hand
}

#[test]
fn a_call_whose_answer_survives_is_carried_out_once_in_all_boots() {
    let made = |between: fn(Hand) -> Hand| over_a_cut(&create("x"), &found(ONE), between);
    let (nothing, gone) = (|hand| hand, || status(NFS3ERR_NOENT));
    let seen = |hand: Hand| hand.did((2, 5), lookup("x"), found(ONE));
    // In either boot, but in the first one if another client has seen it there.
    assert!(made(nothing).is_explained() && made(seen).is_explained());
    assert!(made(nothing).did((22, 23), lookup("x"), gone()).is_explained(), "by the second");
    assert!(!made(seen).did((22, 23), lookup("x"), gone()).is_explained(), "it has happened");
    // An effect of the first boot is not carried out again by the second.
    let removed = || made(seen).did((22, 23), remove("x"), Told::ok());
    assert!(removed().did((41, 42), lookup("x"), gone()).is_explained());
    assert!(!removed().did((41, 42), lookup("x"), found(TWO)).is_explained());
    // Nor is the call refused because of the first.
    let exists = || over_a_cut(&create("x"), &status(NFS3ERR_EXIST), |hand| hand);
    assert!(!exists().is_explained());
    let other = |hand: Hand| hand.did((2, 5), create("x"), found(ONE));
    assert!(over_a_cut(&create("x"), &status(NFS3ERR_EXIST), other).is_explained());
    let twice = over_a_cut(&remove("x"), &status(NFS3ERR_NOENT), other);
    assert!(!twice.is_explained(), "it was there, and nobody else has removed it");
}

#[test]
fn a_call_that_nobody_answered_is_carried_out_in_one_of_its_boots() {
    let sent = || Hand::default().with_log().began(1, create("x"));
    let both = || sent().cut(10).began(11, create("x")).again();
    let removed = |at| (at, at + 1);
    let once =
        || both().did((12, 13), lookup("x"), found(ONE)).did(removed(14), remove("x"), Told::ok());
    assert!(once().is_explained());
    assert!(!once().did((16, 17), lookup("x"), found(TWO)).is_explained());
    // A refused call may be carried out by a later boot: a refusal is not remembered.
    let full = in_turn(Hand::default().with_log(), vec![(create("x"), found(ONE))]);
    let refused = full.did((5, 30), create("x"), status(NFS3ERR_EXIST)).cut(10);
    let later = refused.began(11, create("x"));
    let mut later = later.did((12, 13), remove("x"), Told::ok());
    later.0.executions[2].call = later.0.executions[1].call;
    assert!(later.did((14, 15), lookup("x"), found(TWO)).is_explained());
}

#[test]
fn with_a_log_a_rename_that_was_cut_is_whole() {
    let start = || in_turn(Hand::default().with_log(), vec![(create("x"), found(ONE))]);
    let after = |x, y| {
        let cut = start().began(5, rename("x", "y")).cut(10);
        in_turn(cut, vec![(lookup("x"), x), (lookup("y"), y)]).is_explained()
    };
    let gone = || status(NFS3ERR_NOENT);
    assert!(after(found(ONE), gone()) && after(gone(), found(ONE)));
    assert!(!after(found(ONE), found(ONE)) && !after(gone(), gone()));
}

#[test]
fn an_answer_that_came_late_is_that_of_its_boot() {
    // Answered by the first boot, received during the second: still permanent.
    let late = || {
        let mut hand = Hand::default().did((1, 30), create("x"), found(ONE));
        hand.0.cuts.push(10);
        hand
    };
    assert!(late().did((40, 41), lookup("x"), found(ONE)).is_explained());
    assert!(!late().did((15, 16), lookup("x"), status(NFS3ERR_NOENT)).is_explained());
    // A call that was also sent to the second boot is carried out there, late or never.
    let repeated = || in_turn(Hand::default(), vec![(create("x"), found(ONE))]).cut(10);
    let repeated = repeated().began(11, remove("x")).did((12, 13), lookup("x"), found(ONE));
    let gone = status(NFS3ERR_NOENT);
    assert!(repeated.did((14, 15), lookup("x"), gone).is_explained());
}

#[test]
fn unstable_data_may_be_lost_with_another_verifier_and_what_was_committed_may_not() {
    let start = || {
        let made = in_turn(Hand::default(), vec![(create("x"), found(ONE))]);
        in_turn(made, vec![(write(5, false), told(false, 1))])
    };
    let after = |hand: Hand, verifier, read| {
        let hand = hand.cut(50);
        let again = (write(6, false), told(false, verifier));
        in_turn(hand, vec![(Op::Read(ONE), read), again]).is_explained()
    };
    assert!(after(start(), 2, nothing()) && after(start(), 2, data(5)));
    assert!(!after(start(), 2, data(4)), "bytes that nobody wrote");
    assert!(!after(start(), 1, nothing()), "nobody is told that they are lost");
    let committed = || in_turn(start(), vec![(Op::Commit(ONE), told(false, 1))]);
    assert!(after(committed(), 2, data(5)));
    assert!(!after(committed(), 2, nothing()));
    let lost_while_it_runs = in_turn(start(), vec![(Op::Read(ONE), nothing())]);
    assert!(!lost_while_it_runs.is_explained());
    let unstable = in_turn(start(), vec![(write(6, true), told(false, 1))]);
    assert!(!unstable.is_explained(), "less than was asked for");
}

#[test]
fn a_rename_that_was_cut_may_leave_both_names_and_never_none() {
    let start = || in_turn(Hand::default(), vec![(create("x"), found(ONE))]);
    let gone = || status(NFS3ERR_NOENT);
    let after = |hand: Hand, x, y| {
        in_turn(hand.cut(10), vec![(lookup("x"), x), (lookup("y"), y)]).is_explained()
    };
    let cut = || start().began(5, rename("x", "y"));
    assert!(after(cut(), found(ONE), found(ONE)), "both");
    assert!(after(cut(), found(ONE), gone()) && after(cut(), gone(), found(ONE)), "one");
    assert!(!after(cut(), gone(), gone()), "none");
    let answered = || start().did((5, 6), rename("x", "y"), Told::ok());
    assert!(after(answered(), gone(), found(ONE)));
    assert!(!after(answered(), found(ONE), found(ONE)));
    // Both names may be seen after the cut, and not before.
    let before = cut().did((6, 7), lookup("y"), found(ONE)).did((8, 9), lookup("x"), found(ONE));
    assert!(!before.cut(10).is_explained());
    // The repetition renames between two names of one file, which has no effect.
    let repeated = cut().cut(10).did((11, 12), rename("x", "y"), Told::ok());
    assert!(in_turn(repeated, vec![(lookup("x"), found(ONE))]).is_explained());
}

#[test]
fn a_write_that_was_cut_leaves_old_and_new_sectors() {
    let wide = |value| Op::Write { file: ONE, at: 0, count: 2, value, stable: true };
    let read = |values: [u8; 2]| {
        let bytes = values.iter().flat_map(|&value| vec![value; CELL as usize]).collect();
        let made = in_turn(Hand::default(), vec![(create("x"), found(ONE))]);
        let old = in_turn(made, vec![(wide(1), told(true, 1))]);
        let told = Told { data: Some(bytes), ..Told::ok() };
        in_turn(old.began(10, wide(2)).cut(20), vec![(Op::Read(ONE), told)]).is_explained()
    };
    assert!(read([1, 1]) && read([1, 2]) && read([2, 1]) && read([2, 2]));
    assert!(!read([0, 2]) && !read([1, 3]));
}

#[test]
fn a_handle_is_that_of_one_file_for_ever() {
    let calls = |second| {
        vec![(create("x"), found(ONE)), (remove("x"), Told::ok()), (create("x"), found(second))]
    };
    assert!(in_turn(Hand::default(), calls(TWO)).is_explained());
    assert!(!in_turn(Hand::default(), calls(ONE)).is_explained());
    let two = vec![(create("x"), found(ONE)), (create("y"), found(ONE))];
    assert!(!in_turn(Hand::default(), two).is_explained());
}

#[test]
fn calls_that_overlap_have_one_order_for_all_who_look() {
    let start = || {
        let made = Hand::default().did((1, 50), create("x"), found(ONE));
        made.did((1, 50), create("y"), found(TWO))
    };
    let gone = || status(NFS3ERR_NOENT);
    let one_way = |hand: Hand, first: &str, file, second: &str, at| {
        let hand = hand.did((at, at + 1), lookup(first), found(file));
        hand.did((at + 2, at + 3), lookup(second), gone())
    };
    assert!(one_way(start(), "x", ONE, "y", 10).is_explained());
    let both = one_way(one_way(start(), "x", ONE, "y", 10), "y", TWO, "x", 10);
    assert!(!both.is_explained(), "each came before the other");
}

#[test]
fn a_refusal_names_the_call_that_nothing_explains() {
    let made = in_turn(Hand::default(), vec![(create("x"), found(ONE))]).cut(10);
    let lost = in_turn(made, vec![(lookup("x"), status(NFS3ERR_NOENT))]);
    let refusal = check(&lost.0, &State::new(ROOT)).1.expect_err("it is lost");
    assert_eq!((refusal.row, refusal.next), (vec![Some(0), None], vec![1]));
}
