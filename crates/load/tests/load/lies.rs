//! A server that answers wrongly: every wrong answer is an error in the figures, by its message,
//! and none is among the successful calls.

use std::cell::Cell;
use std::time::Duration;

use load::run::Measured;
use load::stage::{Plan, Trouble};
use load::workload::Workload;
use nfs::nfs3::{Procedure, Status};
use nfs::rpc::Refusal;
use sim::Executor;

use crate::double::{Double, Lie, WRITTEN, one_by_one};

/// 100 GETATTRs, every tenth of which gets a lie.
fn measure(lie: Lie) -> Measured {
    let executor = Executor::new(1);
    let asked = Cell::new(0_u64);
    let double = Double::new(&executor, move |procedure, _| {
        let number = asked.get() + u64::from(procedure == Procedure::Getattr);
        let is_next = number != asked.replace(number) && number.is_multiple_of(10);
        is_next.then(|| lie.clone())
    });
    let plan = Plan { count: 100, ..one_by_one(Duration::from_secs(1000)) };
    executor.block_on(async {
        let stage = double.stage(plan).await.expect("it answers");
        let getattr = Workload::named("getattr").expect("it is in the table");
        getattr.play(&stage).await.expect("what it needs can be made").phases.remove(0)
    })
}

/// Checks the number of errors, and that their message contains these words.
#[track_caller]
fn assert_errors(lie: Lie, count: u64, succeeded: u64, words: &str) {
    let tally = measure(lie.clone()).tally;
    let errors: Vec<_> = tally.errors.iter().collect();
    let [((procedure, what), counted)] = errors[..] else { panic!("{lie:?}: {errors:?}") };
    assert_eq!((*procedure, *counted), ("GETATTR", count), "{lie:?}");
    assert!(what.contains(words), "{lie:?}: {what}");
    assert_eq!(tally.headline().count(), succeeded, "{lie:?}");
    assert_eq!(tally.failed(), count, "{lie:?}");
}

#[test]
fn refusals_are_counted_and_the_rest_goes_on() {
    assert_errors(Lie::Status(Status::Io), 10, 90, "NFS3ERR_IO");
    assert_errors(Lie::Status(Status::Jukebox), 10, 90, "NFS3ERR_JUKEBOX");
    assert_errors(Lie::Refusal(Refusal::SystemError), 10, 90, "SystemError");
}

#[test]
fn results_that_cannot_be_read_are_counted() {
    assert_errors(Lie::Garbage, 10, 90, "cannot be read");
}

#[test]
fn results_that_cannot_be_right_are_counted() {
    // The answer decodes, so the call counts as a call, and also as an error.
    let tally = measure(Lie::Directory).tally;
    assert_eq!((tally.of(Procedure::Getattr), tally.failed()), (100, 10));
    let (_, what) = tally.errors.keys().next().expect("an error");
    assert!(what.contains("a file is something else"), "{what}");
}

#[test]
fn a_connection_that_is_of_no_further_use_ends_its_workers_and_is_told() {
    assert_errors(Lie::OtherCall, 1, 9, "a call that was not made");
    assert_errors(Lie::HangUp, 1, 9, "closed the connection");
}

#[test]
fn a_call_that_is_never_answered_is_given_up() {
    let measured = measure(Lie::Silence);
    assert_eq!(measured.tally.failed(), 1);
    let (_, what) = measured.tally.errors.keys().next().expect("an error");
    assert!(what.contains("did not answer for 60 s"), "{what}");
    assert!(measured.elapsed < Duration::from_secs(62), "{:?}", measured.elapsed);
}

#[test]
fn a_directory_that_cannot_be_removed_is_named() {
    let executor = Executor::new(1);
    let double = Double::new(&executor, |procedure, _| {
        (procedure == Procedure::Rmdir).then_some(Lie::Status(Status::Access))
    });
    let plan = Plan { count: 10, ..one_by_one(Duration::from_secs(1)) };
    executor.block_on(async {
        let stage = double.stage(plan).await.expect("it answers");
        let name = stage.home_name.clone();
        let left = stage.strike().await.expect_err("it cannot be removed").to_string();
        assert!(left.contains(&name) && left.contains("NFS3ERR_ACCES"), "{left}");
    });
}

#[test]
fn a_workload_that_cannot_be_prepared_says_why() {
    let executor = Executor::new(1);
    let double = Double::new(&executor, |procedure, _| {
        (procedure == Procedure::Create).then_some(Lie::Status(Status::NoSpace))
    });
    let plan = Plan { count: 10, ..one_by_one(Duration::from_secs(1)) };
    executor.block_on(async {
        let stage = double.stage(plan).await.expect("it answers");
        let remove = Workload::named("remove").expect("it is in the table");
        let trouble = remove.play(&stage).await.expect_err("nothing can be made");
        let Trouble::Prepare { procedure, why, .. } = &trouble else { panic!("{trouble}") };
        assert_eq!((*procedure, why.as_str()), ("CREATE", "NFS3ERR_NOSPC"));
    });
}

/// Writes a file that is committed after each 256 WRITEs; some COMMITs are refused.
fn commits(refused: impl Fn(u64) -> bool + 'static) -> Measured {
    let executor = Executor::new(1);
    let asked = Cell::new(0);
    let double = Double::new(&executor, move |procedure, _| {
        asked.set(asked.get() + u64::from(procedure == Procedure::Commit));
        let is_it = procedure == Procedure::Commit && refused(asked.get());
        is_it.then_some(Lie::Status(Status::NoSpace))
    });
    let plan = Plan { count: 1000, ..one_by_one(Duration::from_secs(1000)) };
    executor.block_on(async {
        let stage = double.stage(plan).await.expect("it answers");
        let write = Workload::named("write-64k").expect("it is in the table");
        write.play(&stage).await.expect("what it needs can be made").phases.remove(0)
    })
}

#[test]
fn what_no_commit_has_made_durable_does_not_count_and_is_told() {
    let all = commits(|_| false).tally;
    assert_eq!((all.bytes, all.failed()), (1000 * u64::from(WRITTEN), 0));
    // The second COMMIT, or the last one, for the writes after the others.
    for (refused, lost) in [(2, 256), (4, 1000 - 3 * 256)] {
        let tally = commits(move |number| number == refused).tally;
        assert_eq!(tally.bytes, (1000 - lost) * u64::from(WRITTEN), "without COMMIT {refused}");
        let errors: Vec<_> = tally.errors.iter().collect();
        let [((commit, why), 1), ((write, what), writes)] = errors[..] else {
            panic!("{errors:?}")
        };
        assert_eq!((*commit, why.as_str()), ("COMMIT", "NFS3ERR_NOSPC"));
        assert_eq!((*write, *writes), ("WRITE", lost));
        assert!(what.contains("not durable"), "{what}");
    }
}
