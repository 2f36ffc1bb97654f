//! Whoever is not admitted takes nothing from whoever is: no place among the answers that are
//! remembered, and no answer.

use crate::house::{Client, House, at, refusal};
#[cfg(feature = "planted-bugs")]
use dispatch::planted::Bug;
use dispatch::{Export, Exports, Limits, Rule, Squash, Window};
use nfs3_types::nfs3::{MKDIR3args, MKDIR3res, NFS_PROGRAM, nfs_fh3, nfsstat3, sattr3};

/// Who is admitted.
const GUEST: &str = "10.1.1.1";

fn admitting(networks: &[&str]) -> Exports {
    let rule = |network: &&str| Rule {
        network: network.parse().expect("a network"),
        writable: true,
        squash: Squash::None,
        anonymous: Default::default(),
    };
    let mut exports = Exports::default();
    exports.insert("data", Export::new(networks.iter().map(rule).collect()).expect("rules"));
    exports
}

fn house(networks: &[&str], window: Window) -> House {
    House::remembering(admitting(networks), Limits::default(), window)
}

fn mkdir<'a>(root: &nfs_fh3, name: &'a str) -> MKDIR3args<'a> {
    MKDIR3args { where_: at(root, name), attributes: sattr3::default() }
}

/// The status of a MKDIR with this number.
fn make(house: &mut House, client: &Client, xid: u32, root: &nfs_fh3, name: &str) -> nfsstat3 {
    let sent = house.send(client, xid, NFS_PROGRAM::NFSPROC3_MKDIR, &mkdir(root, name));
    refusal(sent.reply::<MKDIR3res>())
}

/// What the first of `count` MKDIRs is told that is repeated after ten others, at these addresses,
/// have sent ten MKDIRs each. Eight answers are remembered.
fn repeated_after_others(count: u32, networks: &[&str], other: fn(u8) -> String) -> nfsstat3 {
    let mut house = house(networks, Window { calls: 8, ..Window::default() });
    let guest = Client::root(GUEST);
    let root = house.mount(&guest, "/data").expect("a mount");
    for xid in (1..=count).rev() {
        assert_eq!(make(&mut house, &guest, xid, &root, &xid.to_string()), nfsstat3::NFS3_OK);
    }
    for number in 0..10 {
        let other = Client::root(&other(number));
        for xid in 0..10 {
            make(&mut house, &other, xid, &root, &format!("{number}-{xid}"));
        }
    }
    make(&mut house, &guest, count, &root, &count.to_string())
}

fn after_strangers() -> bool {
    let stranger = |number| format!("11.0.0.{number}");
    repeated_after_others(7, &["10.0.0.0/8"], stranger) == nfsstat3::NFS3_OK
}

fn after_a_busy_client() -> bool {
    repeated_after_others(1, &["10.0.0.0/8"], |_| "10.2.2.2".to_owned()) == nfsstat3::NFS3_OK
}

fn after_a_network_of_version_6() -> bool {
    let other = |number| format!("2001:db8::{number}");
    repeated_after_others(2, &["10.0.0.0/8", "2001:db8::/32"], other) == nfsstat3::NFS3_OK
}

#[test]
fn the_refused_calls_of_strangers_push_no_answer_out() {
    assert!(after_strangers());
}

#[test]
fn a_client_with_many_answers_pushes_out_its_own() {
    assert!(after_a_busy_client());
}

#[test]
fn the_addresses_of_an_ipv6_network_push_out_each_others_answers() {
    assert!(after_a_network_of_version_6());
}

/// A MKDIR that was carried out, or is being, is repeated when its client is not admitted any more.
fn repeated_when_not_admitted(is_running: bool) -> (nfsstat3, u64) {
    let mut house = house(&["10.0.0.0/8"], Window::default());
    let guest = Client::root(GUEST);
    let root = house.mount(&guest, "/data").expect("a mount");
    if is_running {
        house.data.gate().close();
    }
    let args = mkdir(&root, "made");
    let mut first = house.send(&guest, 1, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
    house.dispatcher.set_exports(admitting(&[]));
    let mut again = house.send(&guest, 1, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
    house.data.gate().open();
    house.poll(&mut first);
    house.poll(&mut again);
    assert_eq!(refusal(first.reply::<MKDIR3res>()), nfsstat3::NFS3_OK);
    (refusal(again.reply::<MKDIR3res>()), house.data.executed())
}

#[test]
fn a_call_that_was_carried_out_gets_its_answer_whoever_is_admitted_by_now() {
    assert_eq!(repeated_when_not_admitted(false), (nfsstat3::NFS3_OK, 1));
}

#[test]
fn a_call_that_runs_gets_its_answer_whoever_is_admitted_by_now() {
    assert_eq!(repeated_when_not_admitted(true), (nfsstat3::NFS3_OK, 1));
}

#[test]
fn a_call_that_was_refused_at_the_door_is_a_new_one_when_its_client_is_admitted() {
    let mut house = house(&["10.0.0.0/8"], Window::default());
    let guest = Client::root(GUEST);
    let root = house.mount(&guest, "/data").expect("a mount");
    house.dispatcher.set_exports(admitting(&[]));
    assert_eq!(make(&mut house, &guest, 1, &root, "made"), nfsstat3::NFS3ERR_ACCES);
    assert_eq!(house.dispatcher.remembered().0, 0);
    house.dispatcher.set_exports(admitting(&["10.0.0.0/8"]));
    assert_eq!(make(&mut house, &guest, 1, &root, "made"), nfsstat3::NFS3_OK);
}

#[test]
fn what_the_file_system_refuses_is_remembered() {
    let mut house = house(&["10.0.0.0/8"], Window::default());
    let guest = Client::root(GUEST);
    let root = house.mount(&guest, "/data").expect("a mount");
    assert_eq!(make(&mut house, &guest, 1, &root, "made"), nfsstat3::NFS3_OK);
    assert_eq!(make(&mut house, &guest, 2, &root, "made"), nfsstat3::NFS3ERR_EXIST);
    assert_eq!(house.dispatcher.remembered().0, 2);
    let executed = house.data.executed();
    assert_eq!(make(&mut house, &guest, 2, &root, "made"), nfsstat3::NFS3ERR_EXIST);
    assert_eq!(house.data.executed(), executed);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn each_bug_that_lets_strangers_in_is_found() {
    let still_there = || repeated_when_not_admitted(false).0 == nfsstat3::NFS3_OK;
    let scenarios: [(Bug, fn() -> bool); 4] = [
        (Bug::RememberedStrangers, after_strangers),
        (Bug::AdmittedRepetitions, still_there),
        (Bug::OldestOfAll, after_a_busy_client),
        (Bug::EveryAddress, after_a_network_of_version_6),
    ];
    for (bug, is_right) in scenarios {
        assert!(is_right(), "without {bug:?}");
        dispatch::planted::plant(Some(bug));
        assert!(!is_right(), "{bug:?} was not found");
        dispatch::planted::plant(None);
    }
}
