//! Bounds make callers wait; a call that has begun runs to its end.

use crate::fixture::{Client, Fixture, at, local, refusal};
use dispatch::{CALL_MEMORY, Exports, Limits};
use futures::FutureExt;
use nfs::record::Record;
use nfs3_types::nfs3::{
    self, GETATTR3args, GETATTR3res, MKDIR3args, MKDIR3res, NFS_PROGRAM, READ3args, READ3res,
    nfs_fh3, nfsstat3, sattr3,
};

fn mkdir<'a>(root: &nfs_fh3, name: &'a str) -> MKDIR3args<'a> {
    MKDIR3args { where_: at(root, name), attributes: sattr3::default() }
}

fn one_at_a_time() -> (Fixture, nfs_fh3) {
    let limits = Limits { calls: 1, ..Limits::default() };
    let mut fixture = Fixture::with(Exports::default(), limits);
    let root = fixture.mount(&local(), "/data").expect("a mount");
    (fixture, root)
}

#[test]
fn a_change_that_has_begun_ends_although_nobody_waits() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.data.gate().close();
    drop(fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_MKDIR, &mkdir(&root, "made")));
    let dispatcher = fixture.dispatcher.clone();
    let mut quiet = dispatcher.quiesce().boxed_local();
    assert!(quiet.as_mut().now_or_never().is_none(), "the change still waits for the disk");
    fixture.data.gate().open();
    fixture.pool.run_until_stalled();
    drop(quiet.as_mut().now_or_never().expect("the change has ended"));
    let again = fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_MKDIR, &mkdir(&root, "made"));
    again.reply::<MKDIR3res>().unwrap();
    assert_eq!(fixture.data.executed(), 1);
}

#[test]
fn a_change_that_waits_for_its_turn_is_dropped_with_its_connection() {
    let (mut fixture, root) = one_at_a_time();
    fixture.data.gate().close();
    let mut first = fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_MKDIR, &mkdir(&root, "first"));
    drop(fixture.send(&local(), 10, NFS_PROGRAM::NFSPROC3_MKDIR, &mkdir(&root, "second")));
    fixture.data.gate().open();
    fixture.poll(&mut first);
    first.reply::<MKDIR3res>().unwrap();
    assert_eq!(fixture.data.executed(), 1);
}

#[test]
fn calls_over_the_bound_wait_and_are_answered_in_the_end() {
    let (mut fixture, root) = one_at_a_time();
    fixture.data.gate().close();
    let args = GETATTR3args { object: root };
    let mut sent: Vec<_> = (0..20)
        .map(|xid| fixture.send(&local(), xid, NFS_PROGRAM::NFSPROC3_GETATTR, &args))
        .collect();
    assert!(sent.iter().all(|sent| !sent.is_answered()));
    fixture.data.gate().open();
    for sent in &mut sent {
        fixture.poll(sent);
        sent.reply::<GETATTR3res>().unwrap();
    }
}

#[test]
fn data_that_was_read_holds_memory_until_its_reply_is_gone() {
    let limits = Limits { reply_memory: 1 << 20, ..Limits::default() };
    let mut fixture = Fixture::with(Exports::default(), limits);
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    let args = READ3args { file, offset: 0, count: 1 << 20 };
    let first = fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_READ, &args);
    let mut second = fixture.send(&local(), 10, NFS_PROGRAM::NFSPROC3_READ, &args);
    assert!(first.is_answered() && !second.is_answered());
    drop(first);
    fixture.poll(&mut second);
    second.reply::<READ3res<'_>>().unwrap();
}

/// A fixture in which replies may have a MiB, and a READ of almost all that one of the two volumes
/// may have of it, from an empty file.
fn a_mebibyte_for_replies(rules: Exports) -> (Fixture, READ3args) {
    let limits = Limits { reply_memory: 1 << 20, ..Limits::default() };
    let mut fixture = Fixture::with(rules, limits);
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    (fixture, READ3args { file, offset: 0, count: (640 << 10) - 1024 })
}

fn what_is_not_used_comes_back() -> bool {
    let (mut fixture, args) = a_mebibyte_for_replies(Exports::default());
    let first = fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_READ, &args);
    let second = fixture.send(&local(), 10, NFS_PROGRAM::NFSPROC3_READ, &args);
    assert!(first.is_answered());
    second.is_answered()
}

#[test]
fn a_reply_gives_back_at_once_what_it_does_not_use() {
    assert!(what_is_not_used_comes_back());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_reply_that_holds_more_than_it_is_long_is_found() {
    dispatch::planted::plant(Some(dispatch::planted::Bug::WholeReservations));
    assert!(!what_is_not_used_comes_back());
    dispatch::planted::plant(None);
}

#[test]
fn a_short_reply_counts_until_it_is_gone_and_waits_for_nobody() {
    let (mut fixture, args) = a_mebibyte_for_replies(Exports::default());
    let getattr = GETATTR3args { object: args.file.clone() };
    let short: Vec<_> = (0..100)
        .map(|xid| fixture.send(&local(), xid, NFS_PROGRAM::NFSPROC3_GETATTR, &getattr))
        .collect();
    assert!(short.iter().all(|sent| sent.is_answered()));
    let mut read = fixture.send(&local(), 1_000, NFS_PROGRAM::NFSPROC3_READ, &args);
    assert!(!read.is_answered(), "they hold more than 1 KiB");
    let more = fixture.send(&local(), 1_001, NFS_PROGRAM::NFSPROC3_GETATTR, &getattr);
    assert!(more.is_answered(), "what is short is counted and not asked for");
    drop((short, more));
    fixture.poll(&mut read);
    read.reply::<READ3res<'_>>().unwrap();
}

#[test]
fn who_is_not_admitted_waits_for_no_memory_and_reserves_none() {
    let stranger = Client::root("10.0.0.1"); // without rules only this machine is admitted
    let (mut fixture, args) = a_mebibyte_for_replies(Exports::default());
    fixture.data.gate().close();
    let mut read = fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_READ, &args);
    assert!(!read.is_answered());
    let refused = fixture.send(&stranger, 10, NFS_PROGRAM::NFSPROC3_READ, &args);
    assert_eq!(refusal(refused.reply::<READ3res<'_>>()), nfsstat3::NFS3ERR_ACCES);
    fixture.data.gate().open();
    fixture.poll(&mut read);
    read.reply::<READ3res<'_>>().unwrap();
}

/// Size of a unit in these tests, in bytes; the memory of an execution is a part of it.
const UNIT: u64 = 64 << 10;

/// Length of a record that counts for this many units, with its execution.
fn units(count: u64) -> usize {
    (count * UNIT - CALL_MEMORY) as usize
}

/// A fixture in which the calls of one of the two volumes may have 1000 units, and that volume.
fn a_thousand_for_a_volume() -> (Fixture, usize) {
    let limits = Limits { request_memory: 1_600 * UNIT, ..Limits::default() };
    let mut fixture = Fixture::with(Exports::default(), limits);
    let object = fixture.mount(&local(), "/data").expect("a mount");
    let target = (nfs3::PROGRAM, nfs3::VERSION, NFS_PROGRAM::NFSPROC3_GETATTR as u32);
    let record = local().record(1, target, &GETATTR3args { object });
    let party = fixture.dispatcher.connect([127, 0, 0, 1].into()).party(&record);
    (fixture, party)
}

#[test]
fn a_call_that_is_there_never_waits_for_calls_that_arrive() {
    let (fixture, data) = a_thousand_for_a_volume();
    let [one, other] = [1, 2].map(|last| fixture.dispatcher.connect([127, 0, 0, last].into()));
    let arriving = one.arriving_memory(data, units(750)).now_or_never().expect("it is free");
    let mut next = one.arriving_memory(data, units(1)).boxed_local();
    assert!(next.as_mut().now_or_never().is_none(), "a quarter is not for those that arrive");
    let there = other.request_memory(data, units(250)).now_or_never();
    let there = there.expect("it is for those that are there");
    drop(there);
    let arrived = arriving.arrived();
    assert!(next.as_mut().now_or_never().is_some(), "what has arrived is counted with those");
    assert!(
        other.request_memory(data, units(251)).now_or_never().is_none(),
        "and holds its memory"
    );
    drop(arrived);
    assert!(other.request_memory(data, units(251)).now_or_never().is_some());
}

#[test]
fn what_is_under_way_is_told_to_the_byte_and_is_nothing_when_all_has_ended() {
    let (mut fixture, args) = a_mebibyte_for_replies(Exports::default());
    let session = fixture.dispatcher.connect([127, 0, 0, 1].into());
    assert_eq!(fixture.dispatcher.under_way(), (0, 0));
    let request = session.request_memory(session.party(&[]), 900).now_or_never();
    let request = request.expect("it is free");
    let calls_before = 900 + CALL_MEMORY;
    assert_eq!(fixture.dispatcher.under_way(), (calls_before, 0));
    let sent = fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_READ, &args);
    assert!(sent.is_answered());
    let (calls, replies) = fixture.dispatcher.under_way();
    assert!(
        calls == calls_before && replies > 1,
        "{calls} and {replies} bytes while a reply waits"
    );
    drop((request, sent));
    assert_eq!(fixture.dispatcher.under_way(), (0, 0));
}

#[test]
fn memory_for_requests_is_given_in_the_order_of_asking() {
    let (fixture, data) = a_thousand_for_a_volume();
    let [one, other] = [1, 2].map(|last| fixture.dispatcher.connect([127, 0, 0, last].into()));
    let first = one.request_memory(data, units(900)).now_or_never().expect("it is free");
    let mut large = other.request_memory(data, units(500)).boxed_local();
    assert!(large.as_mut().now_or_never().is_none());
    let mut small = one.request_memory(data, units(10)).boxed_local();
    assert!(small.as_mut().now_or_never().is_none(), "it does not overtake");
    drop(first);
    assert!(large.as_mut().now_or_never().is_some());
    assert!(small.as_mut().now_or_never().is_some());
}

#[test]
fn a_client_that_takes_all_memory_leaves_the_next_that_is_free_to_others() {
    let (fixture, data) = a_thousand_for_a_volume();
    let connect = |last| fixture.dispatcher.connect([127, 0, 0, last].into());
    let (many, other) = ([1; 5].map(connect), connect(2));
    let first = many[0].request_memory(data, units(500)).now_or_never().expect("it is free");
    let second = many[1].request_memory(data, units(375)).now_or_never().expect("it is free");
    let mut greedy =
        many.each_ref().map(|session| session.request_memory(data, units(400)).boxed_local());
    assert!(greedy.iter_mut().all(|waits| waits.as_mut().now_or_never().is_none()));
    let mut late = other.request_memory(data, units(400)).boxed_local();
    assert!(late.as_mut().now_or_never().is_none());
    drop(first);
    assert!(greedy.iter_mut().all(|waits| waits.as_mut().now_or_never().is_none()));
    assert!(late.as_mut().now_or_never().is_some(), "it holds less than the one before it");
    drop(second);
}

#[test]
fn a_call_that_waits_keeps_little_more_than_its_record_and_all_of_it_is_counted() {
    let limits = Limits { calls: 1, ..Limits::default() };
    let mut fixture = Fixture::with(Exports::default(), limits);
    let object = fixture.mount(&local(), "/data").expect("a mount");
    fixture.data.gate().close();
    let target = (nfs3::PROGRAM, nfs3::VERSION, NFS_PROGRAM::NFSPROC3_GETATTR as u32);
    let session = fixture.dispatcher.connect(local().address);
    let begin = |xid| {
        let record = local().record(xid, target, &GETATTR3args { object: object.clone() });
        let (party, length) = (session.party(&record), record.len());
        let (before, _) = fixture.dispatcher.under_way();
        let memory = session.request_memory(party, length).now_or_never().expect("it is free");
        let mut call = session.call(Record::whole(record), memory);
        assert!(call.as_mut().now_or_never().is_none(), "the first has the disk, others the door");
        let (after, _) = fixture.dispatcher.under_way();
        assert_eq!(after - before, length as u64 + CALL_MEMORY);
        (std::mem::size_of_val(&*call) as u64, call)
    };
    let (executed, first) = begin(1);
    assert!((1_000..=CALL_MEMORY).contains(&executed), "an execution takes {executed} bytes");
    let (waiting, second) = begin(2);
    assert!(waiting < 600, "one that waits takes {waiting} bytes");
    drop((first, second));
}

/// Calls of one kind to a volume that does not respond, more than may be under way.
fn stuck(
    fixture: &mut Fixture,
    procedure: NFS_PROGRAM,
    args: &impl nfs3_types::xdr_codec::Pack,
) -> Vec<crate::fixture::Sent> {
    fixture.data.gate().close();
    (0..100).map(|xid| fixture.send(&local(), xid, procedure, args)).collect()
}

#[test]
fn a_volume_that_is_stuck_leaves_another_its_turns_and_its_memory() {
    let limits = Limits { calls: 64, request_memory: 1 << 20, reply_memory: 4 << 20 };
    let mut fixture = Fixture::with(Exports::default(), limits);
    let [data, other] =
        ["/data", "/other"].map(|path| fixture.mount(&local(), path).expect("both"));
    let file = fixture.create(&local(), &data, "file");
    let read = READ3args { file, offset: 0, count: 1 << 20 };
    let stuck = [
        stuck(&mut fixture, NFS_PROGRAM::NFSPROC3_GETATTR, &GETATTR3args { object: data.clone() }),
        stuck(&mut fixture, NFS_PROGRAM::NFSPROC3_MKDIR, &mkdir(&data, "made")),
        stuck(&mut fixture, NFS_PROGRAM::NFSPROC3_READ, &read),
    ];
    assert!(stuck.iter().flatten().all(|sent| !sent.is_answered()));
    for number in 0..200 {
        let name = format!("made-{number}");
        let made = mkdir(&other, &name);
        let sent = fixture.send(&local(), 1_000 + number, NFS_PROGRAM::NFSPROC3_MKDIR, &made);
        sent.reply::<MKDIR3res>().unwrap();
    }
    let listing = nfs3::READDIR3args {
        dir: other,
        cookie: 0,
        cookieverf: nfs3::cookieverf3::default(),
        count: 64 << 10,
    };
    let listed = fixture.send(&local(), 2_000, NFS_PROGRAM::NFSPROC3_READDIR, &listing);
    listed.reply::<nfs3::READDIR3res<'_>>().unwrap();
}

#[test]
fn strangers_have_their_share_and_no_more() {
    let fixture = Fixture::with(Exports::default(), Limits::default());
    let stranger = fixture.dispatcher.connect([10, 0, 0, 1].into());
    let known = fixture.dispatcher.connect([127, 0, 0, 1].into());
    let [theirs, ours] = [&stranger, &known].map(|session| session.party(&[]));
    let arriving = (0..100).map(|_| stranger.arriving_memory(theirs, units(16)).boxed_local());
    let mut arriving: Vec<_> = arriving.collect();
    let held = arriving.iter_mut().filter_map(|wait| wait.as_mut().now_or_never());
    assert_eq!(held.collect::<Vec<_>>().len(), 3, "a sixteenth of 48 MiB");
    let many = (0..18).map(|_| known.arriving_memory(ours, units(16)).now_or_never());
    assert!(many.collect::<Vec<_>>().iter().all(Option::is_some));
}
