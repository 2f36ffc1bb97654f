//! Bounds at their size, and one above.

use dispatch::{CALL_MEMORY, Exports, Limits};
use nfs3_types::nfs3::{MKDIR3args, MKDIR3res, NFS_PROGRAM, nfs_fh3, sattr3};

use crate::fixture::{Client, Fixture, Sent, at, local, refusal};

/// Begins MKDIRs on a disk that does not respond, each from another client.
fn begin(fixture: &mut Fixture, root: &nfs_fh3, numbers: std::ops::Range<u32>) -> Vec<Sent> {
    let calls = numbers.map(|number| {
        let [_, high, middle, low] = number.to_be_bytes();
        let client = Client::root(&format!("127.{high}.{middle}.{low}"));
        let name = format!("made-{number}");
        let args = MKDIR3args { where_: at(root, &name), attributes: sattr3::default() };
        fixture.send(&client, 7, NFS_PROGRAM::NFSPROC3_MKDIR, &args)
    });
    calls.collect()
}

/// The part of all turns or memory that one of two volumes may have.
fn of_a_volume(bound: u64) -> u64 {
    bound - 2 * (bound / 16) - bound / 4
}

#[test]
fn a_volume_has_all_its_turns_and_the_next_call_waits_for_one() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let turns = of_a_volume(Limits::default().calls.into());
    assert_eq!(turns, 2560, "of 4,096");
    fixture.data.gate().close();
    let mut running = begin(&mut fixture, &root, 0..turns as u32);
    assert_eq!(fixture.data.executed(), turns, "as many as there are turns");
    let mut next = begin(&mut fixture, &root, turns as u32..turns as u32 + 1);
    assert_eq!(fixture.data.executed(), turns, "one more waits");
    fixture.data.gate().open();
    for sent in running.iter_mut().chain(&mut next) {
        fixture.poll(sent);
        assert_eq!(refusal(sent.reply::<MKDIR3res>()), nfs3_types::nfs3::nfsstat3::NFS3_OK);
    }
    assert_eq!(fixture.data.executed(), turns + 1);
}

#[test]
fn as_many_calls_wait_as_their_memory_allows_and_the_next_one_is_not_taken() {
    const WAITING: u64 = 40;
    let length = 8; // bytes of a record, which count with the execution
    let bound = WAITING * (length + CALL_MEMORY) / 10 * 16; // ten sixteenths are a volume's
    assert_eq!(of_a_volume(bound), WAITING * (length + CALL_MEMORY));
    let limits = Limits { request_memory: bound, ..Limits::default() };
    let mut fixture = Fixture::with(Exports::default(), limits);
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let target = (nfs3_types::nfs3::PROGRAM, nfs3_types::nfs3::VERSION, 1);
    let record = local().record(1, target, &nfs3_types::nfs3::GETATTR3args { object: root });
    let session = fixture.dispatcher.connect(local().address);
    let party = session.party(&record);
    let take = || {
        let memory = session.request_memory(party, length as usize);
        futures::FutureExt::now_or_never(memory)
    };
    let mut taken: Vec<_> = (0..WAITING).map_while(|_| take()).collect();
    assert_eq!(taken.len() as u64, WAITING, "all of the memory");
    assert!(take().is_none(), "one more waits");
    taken.pop();
    assert!(take().is_some(), "for one that is answered");
}

#[test]
fn a_client_with_most_turns_leaves_one_for_another() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let turns = of_a_volume(Limits::default().calls.into()) as u32;
    fixture.data.gate().close();
    let mut mkdir = |client: &str, xid: u32| {
        let name = format!("made-{xid}");
        let args = MKDIR3args { where_: at(&root, &name), attributes: sattr3::default() };
        let sent = fixture.send(&Client::root(client), xid, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
        (sent, fixture.data.executed())
    };
    let mut sent: Vec<_> = (0..turns).map(|xid| mkdir("127.0.0.2", xid)).collect();
    let executed = sent.last().expect("many").1;
    assert_eq!(executed, u64::from(turns - turns / 8), "an eighth is for others");
    sent.push(mkdir("127.0.0.3", turns));
    assert_eq!(sent.last().expect("many").1, executed + 1, "it does not wait in line");
    fixture.data.gate().open();
    for (sent, _) in &mut sent {
        fixture.poll(sent);
        assert_eq!(refusal(sent.reply::<MKDIR3res>()), nfs3_types::nfs3::nfsstat3::NFS3_OK);
    }
}
