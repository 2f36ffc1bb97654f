//! Sizes of one call, and of the replies that may wait for one connection's peer.

use std::rc::Rc;

use bytes::Bytes;
use dispatch::{CALL_MEMORY, Exports, Limits, MAX_TRANSFER, Session};
use futures::FutureExt;
use nfs::record::Record;
use nfs3_types::nfs3::{
    self, NFS_PROGRAM, READ3args, READ3res, WRITE3args, WRITE3res, nfs_fh3, nfsstat3, stable_how,
};
use nfs3_types::xdr_codec::Opaque;

use crate::fixture::{Fixture, local, refusal};

fn file_of(size: usize) -> (Fixture, nfs_fh3, u32) {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    let data: Vec<u8> = (0..size).map(|place| (place % 251) as u8).collect();
    let args = WRITE3args {
        file: file.clone(),
        offset: 0,
        count: size as u32,
        stable: stable_how::FILE_SYNC,
        data: Opaque::owned(data),
    };
    let written: WRITE3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_WRITE, &args);
    (fixture, file, written.unwrap().count)
}

fn size(fixture: &mut Fixture, file: &nfs_fh3) -> u64 {
    fixture.getattr(&local(), file).unwrap().obj_attributes.size
}

#[test]
fn a_write_of_more_than_the_most_is_carried_out_as_far_as_that_goes() {
    for (size_of_write, expected) in
        [(MAX_TRANSFER - 1, MAX_TRANSFER - 1), (MAX_TRANSFER + 5, MAX_TRANSFER)]
    {
        let (mut fixture, file, count) = file_of(size_of_write as usize);
        assert_eq!((count, size(&mut fixture, &file)), (expected, expected.into()));
        let args = READ3args { file, offset: u64::from(expected) - 3, count: 10 };
        let read: READ3res<'_> = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_READ, &args);
        let last = [3, 2, 1].map(|back| ((expected - back) % 251) as u8);
        assert_eq!(*read.unwrap().data, last);
    }
}

/// The pieces are those in which a record arrives.
#[test]
fn a_write_in_pieces_is_cut_where_the_most_ends() {
    let (mut fixture, file, _) = file_of(0);
    let session = fixture.dispatcher.connect(local().address);
    let args = WRITE3args {
        file: file.clone(),
        offset: 0,
        count: MAX_TRANSFER + 100,
        stable: stable_how::FILE_SYNC,
        data: Opaque::owned(vec![7; MAX_TRANSFER as usize + 100]),
    };
    let target = (nfs3::PROGRAM, nfs3::VERSION, NFS_PROGRAM::NFSPROC3_WRITE as u32);
    let whole = local().record(9, target, &args);
    let start = whole.len() - (MAX_TRANSFER as usize + 100);
    let middle = start + MAX_TRANSFER as usize / 2;
    let end = whole.len() - 50;
    let pieces = [start..middle, middle..end, end..whole.len()].map(|place| whole.slice(place));
    let record = Record {
        head: whole.slice(..start),
        payload: pieces.into(),
        ..Record::whole(Bytes::new())
    };
    let party = session.party(&record.head);
    let reply = fixture.pool.run_until(async {
        let memory = session.request_memory(party, record.memory()).await;
        session.call(record, memory).await
    });
    assert!(reply.is_some());
    assert_eq!(size(&mut fixture, &file), MAX_TRANSFER.into());
}

#[test]
fn a_write_whose_count_is_not_the_length_of_its_data_is_refused() {
    let (mut fixture, file, _) = file_of(10);
    for count in [3, 5] {
        let args = WRITE3args {
            file: file.clone(),
            offset: 10,
            count,
            stable: stable_how::UNSTABLE,
            data: Opaque::borrowed(b"data"),
        };
        let result: WRITE3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_WRITE, &args);
        assert_eq!(refusal(result), nfsstat3::NFS3ERR_INVAL, "{count}");
    }
    assert_eq!(size(&mut fixture, &file), 10);
}

/// A READ of the whole file on a connection; none if it has to wait.
fn read(session: &Rc<Session>, xid: u32, file: &nfs_fh3) -> Option<dispatch::Reply> {
    let args = READ3args { file: file.clone(), offset: 0, count: MAX_TRANSFER + 1 };
    let target = (nfs3::PROGRAM, nfs3::VERSION, NFS_PROGRAM::NFSPROC3_READ as u32);
    let record = local().record(xid, target, &args);
    let party = session.party(&record);
    let memory = session.request_memory(party, record.len()).now_or_never()?;
    session.call(Record::whole(record), memory).now_or_never()?
}

/// 5 of the 8 MiB of a connection are for one of two volumes.
#[test]
fn a_peer_that_takes_no_data_holds_its_own_memory_and_nobody_elses() {
    let (fixture, file, _) = file_of(MAX_TRANSFER as usize);
    let slow = fixture.dispatcher.connect(local().address);
    let mut waiting: Vec<_> = (0..8).filter_map(|xid| read(&slow, xid, &file)).collect();
    assert_eq!(waiting.len(), 4, "with its header a reply is more than a MiB");
    let other = fixture.dispatcher.connect(local().address);
    assert!(read(&other, 100, &file).is_some());
    waiting.pop();
    assert!(read(&slow, 101, &file).is_some(), "there is room again");
}

#[test]
fn who_waits_for_the_memory_of_a_reply_is_seen_from_it() {
    let limits = Limits { reply_memory: 1 << 20, ..Limits::default() };
    let mut fixture = Fixture::with(Exports::default(), limits);
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    fixture.data.gate().close();
    let args = READ3args { file: file.clone(), offset: 0, count: MAX_TRANSFER };
    let mut first = fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_READ, &args);
    let second = fixture.send(&local(), 10, NFS_PROGRAM::NFSPROC3_READ, &args);
    assert!(!first.is_answered() && !second.is_answered());
    fixture.data.gate().open();
    fixture.poll(&mut first);
    drop(second);
    let reply = first.take_reply();
    let (segments, memory) = reply.into_parts();
    assert_eq!(segments.concat()[4..8], 9_u32.to_be_bytes());
    let memory = memory.expect("data is counted");
    let line = memory.line().expect("it is of one party");
    assert!(!line.keeps_waiting_since(line.mark()), "nobody is left in line");
    let third = fixture.send(&local(), 11, NFS_PROGRAM::NFSPROC3_READ, &args);
    assert!(!third.is_answered());
    assert!(line.keeps_waiting_since(line.mark()));
}

#[test]
fn who_waits_for_the_memory_of_a_call_that_arrives_is_seen_from_it() {
    // Each of the two counts for more than half of the memory for arriving calls.
    let limits = Limits { request_memory: 16 * CALL_MEMORY, ..Limits::default() };
    let fixture = Fixture::with(Exports::default(), limits);
    let session = fixture.dispatcher.connect(local().address);
    let party = session.party(&[]);
    let arriving = session
        .arriving_memory(party, 3 * CALL_MEMORY as usize)
        .now_or_never()
        .expect("it is free");
    let line = arriving.line().expect("it is of one party");
    assert!(!line.keeps_waiting_since(line.mark()));
    let mut other = session.arriving_memory(party, 3 * CALL_MEMORY as usize).boxed_local();
    assert!(other.as_mut().now_or_never().is_none());
    assert!(line.keeps_waiting_since(line.mark()));
}
