//! The campaign of repeated calls, and bugs that it must find.

use torture::campaign::Options;
use torture::campaign::retry::{Expectation, promised, retry};
use torture::explore::design::Design;

const OPTIONS: Options = Options::short(Design::SYNC, 2);

#[test]
fn a_repeated_call_is_answered_as_promised() {
    for design in Design::all() {
        let outcome = promised(&Options { design, ..OPTIONS });
        assert_eq!(outcome.violations, Vec::<String>::new());
        let counts = outcome.counts;
        assert!(counts.workloads > 25 && counts.images > 5 * counts.workloads, "{counts:?}");
        assert!(counts.states > 1_000, "{counts:?}");
    }
}

#[test]
fn a_cache_in_memory_does_not_give_the_original_answer_across_a_cut() {
    let outcome = retry(&OPTIONS, Expectation::Original);
    let fails = |name: &str| outcome.violations.iter().any(|line| line.contains(name));
    for name in ["CREATE GUARDED: ", "MKDIR: ", "SYMLINK: ", "MKNOD: ", "REMOVE: ", "RMDIR: "] {
        assert!(fails(name), "{name}{:?}", outcome.violations);
    }
    assert!(fails("RENAME: ") && fails("LINK: ") && fails("SETATTR with a guard: "));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn bugs_of_the_reply_cache_and_of_the_order_of_answers_are_found() {
    use dispatch::planted::Bug;
    use torture::campaign::retry::first;
    type Plant = fn(bool);
    let bugs: [(&str, Design, Plant); 5] = [
        ("a key with the connection", Design::SYNC, |is| {
            dispatch::planted::plant(is.then_some(Bug::ConnectionInKey));
        }),
        ("calls that run and are not known", Design::SYNC, |is| {
            dispatch::planted::plant(is.then_some(Bug::UnnotedRunning));
        }),
        ("a key without arguments", Design::SYNC, |is| {
            dispatch::planted::plant(is.then_some(Bug::XidAlone))
        }),
        ("answers before the disk has it", Design::SYNC, |is| {
            ffs::planted::plant(is.then_some(ffs::planted::Bug::EarlyReceipts));
        }),
        ("answers before the log has it", Design::LOG, |is| {
            journal::plant(is.then_some(journal::Bug::EarlyAnswers));
        }),
    ];
    let survivors: [(&str, Plant); 2] = [
        ("answers of calls that give something back are not kept", |is| {
            ffs::planted::plant(is.then_some(ffs::planted::Bug::UnkeptAnswers));
        }),
        ("answers that are kept in part", |is| {
            vnode::planted::plant(is.then_some(vnode::planted::Bug::HalfAnswers));
        }),
    ];
    for (name, plant) in survivors {
        let options = Options { design: Design::LOG, ..OPTIONS };
        let outcome = first(usize::MAX, &options, Expectation::Original, plant);
        println!("{name}: {:?}", outcome.violations.first());
        assert!(!outcome.violations.is_empty(), "not found: {name}");
    }
    for (name, design, plant) in bugs {
        let options = Options { design, ..OPTIONS };
        let outcome = first(3, &options, Expectation::Documented, plant);
        println!("{name}: {:?}", outcome.violations.first());
        assert!(!outcome.violations.is_empty(), "not found: {name}");
    }
}
