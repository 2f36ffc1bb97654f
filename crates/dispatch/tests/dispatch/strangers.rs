//! A client that is not admitted takes nothing from one that is: no place in the reply cache, and
//! no reply.

use crate::changes::Scene;
use crate::fixture::{Client, Fixture, at, refusal};
#[cfg(feature = "planted-bugs")]
use dispatch::planted::Bug;
use dispatch::{Export, Exports, Limits, Rule, Squash, Window};
use nfs3_types::nfs3::{
    self, GETATTR3args, LINK3args, LINK3res, MKDIR3args, MKDIR3res, NFS_PROGRAM, RENAME3args,
    RENAME3res, nfs_fh3, nfsstat3, sattr3,
};

/// The client that is admitted.
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

fn fixture(networks: &[&str], window: Window) -> Fixture {
    Fixture::remembering(admitting(networks), Limits::default(), window)
}

fn mkdir<'a>(root: &nfs_fh3, name: &'a str) -> MKDIR3args<'a> {
    MKDIR3args { where_: at(root, name), attributes: sattr3::default() }
}

/// The status of a MKDIR with this number.
fn make(fixture: &mut Fixture, client: &Client, xid: u32, root: &nfs_fh3, name: &str) -> nfsstat3 {
    let sent = fixture.send(client, xid, NFS_PROGRAM::NFSPROC3_MKDIR, &mkdir(root, name));
    refusal(sent.reply::<MKDIR3res>())
}

/// The status of the first of `count` MKDIRs, repeated after ten others, at these addresses, have
/// sent ten MKDIRs each. Eight replies are remembered.
fn repeated_after_others(count: u32, networks: &[&str], other: fn(u8) -> String) -> nfsstat3 {
    let mut fixture = fixture(networks, Window { calls: 8, ..Window::default() });
    let guest = Client::root(GUEST);
    let root = fixture.mount(&guest, "/data").expect("a mount");
    for xid in (1..=count).rev() {
        assert_eq!(make(&mut fixture, &guest, xid, &root, &xid.to_string()), nfsstat3::NFS3_OK);
    }
    for number in 0..10 {
        let other = Client::root(&other(number));
        for xid in 0..10 {
            make(&mut fixture, &other, xid, &root, &format!("{number}-{xid}"));
        }
    }
    make(&mut fixture, &guest, count, &root, &count.to_string())
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

/// A MKDIR that was executed, or is being, is repeated when its client is not admitted any more.
fn repeated_when_not_admitted(is_running: bool) -> (nfsstat3, u64) {
    let mut fixture = fixture(&["10.0.0.0/8"], Window::default());
    let guest = Client::root(GUEST);
    let root = fixture.mount(&guest, "/data").expect("a mount");
    if is_running {
        fixture.data.gate().close();
    }
    let args = mkdir(&root, "made");
    let mut first = fixture.send(&guest, 1, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
    fixture.dispatcher.set_exports(admitting(&[]));
    let mut again = fixture.send(&guest, 1, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
    fixture.data.gate().open();
    fixture.poll(&mut first);
    fixture.poll(&mut again);
    assert_eq!(refusal(first.reply::<MKDIR3res>()), nfsstat3::NFS3_OK);
    (refusal(again.reply::<MKDIR3res>()), fixture.data.executed())
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
    let mut fixture = fixture(&["10.0.0.0/8"], Window::default());
    let guest = Client::root(GUEST);
    let root = fixture.mount(&guest, "/data").expect("a mount");
    fixture.dispatcher.set_exports(admitting(&[]));
    assert_eq!(make(&mut fixture, &guest, 1, &root, "made"), nfsstat3::NFS3ERR_ACCES);
    assert_eq!(fixture.dispatcher.remembered().0, 0);
    fixture.dispatcher.set_exports(admitting(&["10.0.0.0/8"]));
    assert_eq!(make(&mut fixture, &guest, 1, &root, "made"), nfsstat3::NFS3_OK);
}

/// The result of one call of each changing procedure under these rules: its reply, whether no file
/// system has given it, and how many calls were noted.
fn under(rules: Exports) -> Vec<(Vec<u8>, bool, u64)> {
    let mut fixture = fixture(&["10.0.0.0/8"], Window::default());
    let guest = Client::root(GUEST);
    let root = fixture.mount(&guest, "/data").expect("a mount");
    let scene = Scene::furnish(&mut fixture, &guest, &root);
    let executed = fixture.data.executed();
    fixture.dispatcher.set_exports(rules);
    let changes = (1_000..).zip(scene.changes());
    let outcomes = changes.map(|(xid, (procedure, args))| {
        let before = fixture.dispatcher.reply_cache_counters().misses;
        let sent = fixture.send(&guest, xid, procedure, &args);
        let noted = fixture.dispatcher.reply_cache_counters().misses - before;
        (sent.bytes()[24..28].to_vec(), sent.is_bare(), noted)
    });
    let outcomes: Vec<_> = outcomes.collect();
    let noted: u64 = outcomes.iter().map(|(.., noted)| noted).sum();
    assert_eq!(fixture.data.executed() - executed, noted);
    outcomes
}

#[test]
fn of_no_procedure_a_call_is_taken_note_of_that_the_rules_refuse() {
    let [access, read_only_status] = [13_u32, 30].map(|status| status.to_be_bytes().to_vec());
    assert_eq!(under(admitting(&[])), vec![(access, true, 0); 10]);
    let mut read_only = admitting(&["10.0.0.0/8"]);
    let rules = read_only.of("data").rules().iter();
    let rules = rules.map(|&rule| Rule { writable: false, ..rule }).collect();
    read_only.insert("data", Export::new(rules).expect("one network"));
    assert_eq!(under(read_only), vec![(read_only_status, true, 0); 10]);
    assert_eq!(under(admitting(&["10.0.0.0/8"])), vec![(vec![0; 4], false, 1); 10]);
}

#[test]
fn a_name_that_would_leave_its_volume_is_taken_no_note_of() {
    let mut fixture = Fixture::new();
    let client = Client::root("127.0.0.1");
    let [data, other] = ["/data", "/other"].map(|path| fixture.mount(&client, path).expect("both"));
    let file = fixture.create(&client, &data, "file");
    let before = fixture.dispatcher.reply_cache_counters();
    let rename = RENAME3args { from: at(&data, "file"), to: at(&other, "file") };
    let renamed: RENAME3res = fixture.call(&client, NFS_PROGRAM::NFSPROC3_RENAME, &rename);
    let link = LINK3args { file, link: at(&other, "file") };
    let linked: LINK3res = fixture.call(&client, NFS_PROGRAM::NFSPROC3_LINK, &link);
    assert_eq!([refusal(renamed), refusal(linked)], [nfsstat3::NFS3ERR_XDEV; 2]);
    assert_eq!(fixture.dispatcher.reply_cache_counters(), before);
}

#[test]
fn each_volume_and_what_is_about_none_has_a_share_of_its_own() {
    let mut fixture = Fixture::new();
    let client = Client::root("127.0.0.1");
    let target = (nfs3::PROGRAM, nfs3::VERSION, NFS_PROGRAM::NFSPROC3_GETATTR as u32);
    let records = ["/data", "/other"].map(|path| {
        let object = fixture.mount(&client, path).expect("both");
        client.record(1, target, &GETATTR3args { object })
    });
    let [known, stranger] = [client.address, [10, 0, 0, 1].into()];
    let session = fixture.dispatcher.connect(known);
    for _ in 0..2 {
        let parties = [&records[0][..], &records[1], &[]].map(|start| session.party(start));
        assert_eq!(parties, [2, 3, 1], "whatever the call before was about");
    }
    let session = fixture.dispatcher.connect(stranger);
    assert_eq!([&records[0][..], &[]].map(|start| session.party(start)), [0, 0]);
}

#[test]
fn a_connection_has_the_share_that_the_rules_give_it_now() {
    let mut fixture = fixture(&["10.0.0.0/8"], Window::default());
    let guest = Client::root(GUEST);
    let root = fixture.mount(&guest, "/data").expect("a mount");
    let target = (nfs3::PROGRAM, nfs3::VERSION, NFS_PROGRAM::NFSPROC3_GETATTR as u32);
    let getattr = guest.record(1, target, &GETATTR3args { object: root });
    let session = fixture.dispatcher.connect(guest.address);
    let admitted = session.party(&getattr);
    for (networks, is_admitted) in
        [(&["10.0.0.0/8"][..], true), (&[], false), (&["10.1.0.0/16"], true), (&[], false)]
    {
        fixture.dispatcher.set_exports(admitting(networks));
        let party = session.party(&getattr);
        assert_eq!(party == admitted, is_admitted, "{networks:?}");
        assert_eq!(party, fixture.dispatcher.connect(guest.address).party(&getattr));
    }
}

#[test]
fn what_the_file_system_refuses_is_remembered() {
    let mut fixture = fixture(&["10.0.0.0/8"], Window::default());
    let guest = Client::root(GUEST);
    let root = fixture.mount(&guest, "/data").expect("a mount");
    assert_eq!(make(&mut fixture, &guest, 1, &root, "made"), nfsstat3::NFS3_OK);
    assert_eq!(make(&mut fixture, &guest, 2, &root, "made"), nfsstat3::NFS3ERR_EXIST);
    assert_eq!(fixture.dispatcher.remembered().0, 2);
    let executed = fixture.data.executed();
    assert_eq!(make(&mut fixture, &guest, 2, &root, "made"), nfsstat3::NFS3ERR_EXIST);
    assert_eq!(fixture.data.executed(), executed);
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

/// A bug about clients that are not admitted does not affect admitted ones.
#[cfg(feature = "planted-bugs")]
#[test]
fn a_repetition_that_is_admitted_is_not_carried_out_where_repetitions_are_asked() {
    dispatch::planted::plant(Some(Bug::AdmittedRepetitions));
    let mut fixture = fixture(&["10.0.0.0/8"], Window::default());
    let guest = Client::root(GUEST);
    let root = fixture.mount(&guest, "/data").expect("a mount");
    let told = [(); 2].map(|()| make(&mut fixture, &guest, 1, &root, "made"));
    dispatch::planted::plant(None);
    assert_eq!((told, fixture.data.executed()), ([nfsstat3::NFS3_OK; 2], 1));
}
