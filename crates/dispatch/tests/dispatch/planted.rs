//! Bugs of the identity of calls, and of the replies to WRITEs: each is found, and breaks nothing
//! but its own rule.

use dispatch::planted::{Bug, plant};
use nfs3_types::nfs3::{
    COMMIT3args, COMMIT3res, MKDIR3args, NFS_PROGRAM, WRITE3args, WRITE3res, nfs_fh3, sattr3,
    stable_how,
};
use nfs3_types::xdr_codec::Opaque;

use crate::changes::{Raw, Scene, bytes_of};
use crate::delayed::{stable_calls, withdrawn};
use crate::fixture::{Fixture, at, local};

/// The result of a scenario where one bug is planted, or none.
fn with<T>(bug: Option<Bug>, scenario: impl FnOnce() -> T) -> T {
    plant(bug);
    let outcome = scenario();
    plant(None);
    outcome
}

fn furnished() -> (Fixture, nfs_fh3, Scene) {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let scene = Scene::furnish(&mut fixture, &local(), &root);
    (fixture, root, scene)
}

fn mkdir(root: &nfs_fh3, name: &str) -> (NFS_PROGRAM, Raw) {
    let args = MKDIR3args { where_: at(root, name), attributes: sattr3::default() };
    (NFS_PROGRAM::NFSPROC3_MKDIR, Raw(bytes_of(&args)))
}

/// Number of executions of each of these calls, made one after the other.
fn executed(fixture: &mut Fixture, calls: &[(u32, &(NFS_PROGRAM, Raw))]) -> Vec<u64> {
    let one = |&(xid, (procedure, args)): &(u32, &(NFS_PROGRAM, Raw))| {
        let before = fixture.data.executed();
        assert!(fixture.send(&local(), xid, *procedure, args).is_answered());
        fixture.data.executed() - before
    };
    calls.iter().map(one).collect()
}

/// Calls with the same number: two of a procedure with names of the same length, one with a longer
/// name, and one of each other procedure.
fn of_one_number() -> Vec<u64> {
    let (mut fixture, root, scene) = furnished();
    let mut calls = vec![mkdir(&root, "one"), mkdir(&root, "two"), mkdir(&root, "a longer name")];
    let others = scene.changes().into_iter();
    calls.extend(others.filter(|(procedure, _)| *procedure != NFS_PROGRAM::NFSPROC3_MKDIR));
    executed(&mut fixture, &calls.iter().map(|call| (50, call)).collect::<Vec<_>>())
}

#[test]
fn calls_that_are_known_by_less_than_all_they_ask_for_are_found() {
    let others = [1; 9];
    assert_eq!(with(None, of_one_number), [&[1, 1, 1][..], &others].concat());
    let any_arguments = with(Some(Bug::AnyArguments), of_one_number);
    assert_eq!(any_arguments, [&[1, 0, 0][..], &others].concat());
    let xid_alone = with(Some(Bug::XidAlone), of_one_number);
    assert_eq!(xid_alone, [&[1, 0, 0][..], &[0; 9]].concat());
}

/// A change that succeeds and one that is refused, both sent twice.
fn refused_and_repeated() -> Vec<u64> {
    let (mut fixture, root, _) = furnished();
    let call = mkdir(&root, "made");
    executed(&mut fixture, &[1, 2, 1, 2].map(|xid| (xid, &call)))
}

#[test]
fn refusals_that_are_not_remembered_are_found() {
    assert_eq!(with(None, refused_and_repeated), [1, 1, 0, 0]);
    assert_eq!(with(Some(Bug::ForgottenRefusals), refused_and_repeated), [1, 1, 0, 1]);
}

/// Sends one call of each procedure twice; returns those that are executed the second time.
fn repeated() -> Vec<NFS_PROGRAM> {
    let (mut fixture, _, scene) = furnished();
    let changes = scene.changes();
    let calls = (1_000..).zip(&changes).collect::<Vec<_>>();
    executed(&mut fixture, &calls);
    let again = executed(&mut fixture, &calls);
    let twice = changes.iter().zip(again).filter(|(_, executed)| *executed > 0);
    twice.map(|((procedure, _), _)| *procedure).collect()
}

#[test]
fn a_procedure_that_is_not_remembered_is_found() {
    assert_eq!(with(None, repeated), []);
    assert_eq!(with(Some(Bug::ForgottenLinks), repeated), [NFS_PROGRAM::NFSPROC3_LINK]);
}

/// Number of executions of a call that is sent on many connections, twice on each.
fn on_many_connections() -> u64 {
    let (mut fixture, root, _) = furnished();
    let (procedure, args) = mkdir(&root, "made");
    let target = (nfs3_types::nfs3::PROGRAM, nfs3_types::nfs3::VERSION, procedure as u32);
    let record = local().record(50, target, &args);
    let before = fixture.data.executed();
    for _ in 0..64 {
        let session = fixture.dispatcher.connect(local().address);
        for _ in 0..2 {
            assert!(fixture.call_on(&session, record.clone()).is_some());
        }
    }
    fixture.data.executed() - before
}

#[test]
fn calls_that_are_known_on_their_connection_only_are_found() {
    assert_eq!(with(None, on_many_connections), 1);
    for bug in [Bug::ConnectionInKey, Bug::ForgottenConnections] {
        assert_eq!(with(Some(bug), on_many_connections), 64, "{bug:?}");
    }
}

/// Number of executions of a call that is repeated while it runs, and once more later.
fn repeated_while_it_runs() -> [u64; 2] {
    let (mut fixture, root, _) = furnished();
    let before = fixture.data.executed();
    fixture.data.gate().close();
    let (procedure, args) = mkdir(&root, "made");
    let mut sent = [(); 2].map(|()| fixture.send(&local(), 50, procedure, &args));
    fixture.data.gate().open();
    sent.iter_mut().for_each(|sent| fixture.poll(sent));
    let running = fixture.data.executed() - before;
    fixture.send(&local(), 50, procedure, &args);
    [running, fixture.data.executed() - before - running]
}

#[test]
fn calls_that_are_not_known_while_they_run_are_found() {
    assert_eq!(with(None, repeated_while_it_runs), [1, 0]);
    assert_eq!(with(Some(Bug::UnnotedRunning), repeated_while_it_runs), [2, 0]);
}

/// The stability that WRITEs report, and the verifiers of one and of a COMMIT.
fn writes() -> (Vec<stable_how>, [[u8; 8]; 2]) {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    let mut verifier = [0; 8];
    let how = [stable_how::UNSTABLE, stable_how::DATA_SYNC, stable_how::FILE_SYNC];
    let committed = how.map(|stable| {
        let data = Opaque::borrowed(b"data");
        let args = WRITE3args { file: file.clone(), offset: 0, count: 4, stable, data };
        let written: WRITE3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_WRITE, &args);
        let written = written.unwrap();
        verifier = written.verf.0;
        written.committed
    });
    let args = COMMIT3args { file, offset: 0, count: 0 };
    let made_sure: COMMIT3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_COMMIT, &args);
    (committed.into(), [verifier, made_sure.unwrap().verf.0])
}

#[test]
fn what_is_said_of_a_write_that_is_not_so_is_found() {
    let how = vec![stable_how::UNSTABLE, stable_how::DATA_SYNC, stable_how::FILE_SYNC];
    let verifiers = [0x1122_3344_5566_7788_u64.to_be_bytes(); 2];
    assert_eq!(with(None, writes), (how.clone(), verifiers));
    let overstated = vec![stable_how::FILE_SYNC; 3];
    assert_eq!(with(Some(Bug::OverstatedStability), writes), (overstated, verifiers));
    assert_eq!(with(Some(Bug::UnsetVerifier), writes), (how, [[0; 8]; 2]));
}

#[test]
fn a_delayed_volume_whose_stable_calls_do_not_wait_is_found() {
    assert_eq!(with(Some(Bug::AcceptedCommits), stable_calls), [false; 3]);
}

#[test]
fn a_withdrawn_declaration_that_settles_nothing_is_found() {
    assert!(!with(Some(Bug::UnsettledReturn), withdrawn));
}
