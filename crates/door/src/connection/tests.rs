use super::*;
use std::cell::Cell;

use dispatch::{Dispatcher, Exports, Volumes, Window};
use runtime::sync::Signal;
use runtime::{Instant, Runtime, Timestamp};
use sim::Executor;

use crate::patience::PATIENCE;
use crate::pipe::Pipe;

/// Bytes that the kernels of a peer and of the server would buffer.
const ROOM: usize = 256 << 10;

/// A clock on which all sleeps end together, when the test rings it.
#[derive(Default)]
struct Alarm {
    rings: Rc<Signal>,
    sleepers: Cell<usize>,
}

impl Clock for Alarm {
    fn now(&self) -> Instant {
        Instant(0)
    }

    fn wall(&self) -> Timestamp {
        Timestamp::default()
    }

    fn sleep(&self, _: Duration) -> LocalBoxFuture<'static, ()> {
        self.sleepers.set(self.sleepers.get() + 1);
        let rings = self.rings.clone();
        async move { rings.wait().await }.boxed_local()
    }
}

/// Runs `test` with a connection that serves no volume, its peer, and its clock.
fn with_connection<F: Future<Output = ()>>(
    test: impl FnOnce(Connection<Pipe>, Pipe, Rc<Alarm>) -> F,
) {
    let executor = Executor::new(1);
    executor.block_on(async {
        let alarm = Rc::new(Alarm::default());
        let runtime = Runtime { clock: alarm.clone(), ..executor.runtime() };
        let volumes = Volumes::new(Vec::new()).expect("no volumes");
        let (window, limits) = (Window::default(), dispatch::Limits::default());
        let dispatcher = Dispatcher::new(runtime, volumes, Exports::default(), window, limits);
        let (peer, stream) = Pipe::pair(ROOM);
        let session = dispatcher.connect([127, 0, 0, 1].into());
        let never = std::future::pending().boxed_local();
        test(Connection::new(stream, session, alarm.clone(), 4, never), peer, alarm).await;
    });
}

/// Drives the connection until `reached`, or until it ends.
async fn drive(
    connection: &mut Connection<Pipe>,
    reached: impl Fn(&Connection<Pipe>) -> bool,
) -> Option<Result<Pipe, ConnectionError>> {
    std::future::poll_fn(|context| match connection.poll_unpin(context) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if reached(connection) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// The start of a WRITE of 100,000 bytes.
fn write_header() -> Vec<u8> {
    let call = [1, 0, 2, 100_003, 3, 7, 0, 0, 0, 0, 0, 0, 0, 100_000, 2, 100_000];
    let mark = 1 << 31 | (call.len() * 4 + 100_000) as u32;
    [mark].iter().chain(&call).flat_map(|word: &u32| word.to_be_bytes()).collect()
}

/// NULL calls, one after the other.
fn null_calls(count: usize) -> Vec<u8> {
    let null = [1 << 31 | 40u32, 1, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    null.map(u32::to_be_bytes).concat().repeat(count)
}

/// The length of a reply to a NULL call.
const NULL_REPLY: u64 = 28;

/// Rings until the connection ends; returns the number of rings.
async fn ring_to_the_end(connection: &mut Connection<Pipe>, alarm: &Alarm) -> (usize, GivenUp) {
    for rings in 0.. {
        let before = alarm.sleepers.get();
        alarm.rings.notify();
        let asleep = |_: &Connection<Pipe>| alarm.sleepers.get() > before;
        match drive(connection, asleep).await {
            None => {}
            Some(Err(ConnectionError::GivenUp(why))) => return (rings + 1, why),
            Some(ended) => panic!("{ended:?}"),
        }
    }
    unreachable!("it has ended")
}

#[test]
fn a_peer_that_stops_within_a_large_record_is_disconnected_when_it_was_waited_for() {
    with_connection(async |mut connection, mut peer, alarm| {
        peer.write_all(&write_header()).await.expect("sent");
        drive(&mut connection, |_| alarm.sleepers.get() == 1).await;
        let before = connection.received;
        peer.write_all(&[0; 100]).await.expect("sent");
        drive(&mut connection, |connection| connection.received > before).await;
        alarm.rings.notify(); // it has moved meanwhile: one more period of patience
        assert!(drive(&mut connection, |_| alarm.sleepers.get() == 2).await.is_none());
        let ended = ring_to_the_end(&mut connection, &alarm).await;
        assert_eq!(ended, (PATIENCE.as_secs() as usize, GivenUp::Idle));
    });
}

#[test]
fn a_peer_that_stops_within_a_large_record_does_not_keep_others_waiting_for_so_long() {
    with_connection(async |mut connection, mut peer, alarm| {
        peer.write_all(&write_header()).await.expect("sent");
        drive(&mut connection, |_| alarm.sleepers.get() == 1).await;
        let other = connection.session.clone();
        let party = other.party(&[]);
        let there = other.request_memory(party, 2 << 20).now_or_never();
        assert!(there.is_some(), "memory for calls that are there does not run out");
        let mut waits = other.arriving_memory(party, 1 << 30).boxed_local(); // all it may have
        assert!(waits.as_mut().now_or_never().is_none());
        let ended = ring_to_the_end(&mut connection, &alarm).await;
        assert_eq!(ended, (2, GivenUp::Slow), "a beat in which it came, and a whole one");
        drop((connection, there));
        assert!(waits.now_or_never().is_some());
    });
}

#[test]
fn a_peer_that_takes_no_replies_is_not_read_from_and_in_the_end_disconnected() {
    with_connection(async |mut connection, peer, alarm| {
        // NULL calls whose replies the peer does not take, until the connection reads no more of
        // them.
        let calls = null_calls(1_000);
        let sent = Cell::new(0);
        let send = || {
            let from = sent.get() % calls.len();
            let length = peer.try_write(&calls[from..]);
            let length = length.expect("it is there");
            sent.set(sent.get() + length);
            length == 0
        };
        while connection.may_read() {
            let full = |connection: &Connection<Pipe>| send() || !connection.may_read();
            drive(&mut connection, full).await;
        }
        assert_eq!(connection.calls.len() + connection.outgoing.replies(), 4);
        let (rings, why) = ring_to_the_end(&mut connection, &alarm).await;
        assert_eq!(why, GivenUp::Idle);
        // The kernel may have taken some of the replies during the first beat.
        let beats = (PATIENCE.as_secs() / REPLY_BEAT.as_secs()) as usize;
        assert!((beats..=beats + 1).contains(&rings), "{rings}");
    });
}

#[test]
fn as_many_calls_are_read_as_may_be_unanswered_and_not_one_more() {
    with_connection(async |mut connection, mut peer, _| {
        // A volume that is not there, and replies of which the peer does not take the first.
        for unanswered in 1..=4 {
            connection.calls.push(std::future::pending().boxed_local());
            drive(&mut connection, |_| true).await;
            assert_eq!(connection.may_read(), unanswered < 4, "{unanswered} of 4");
        }
        peer.write_all(&null_calls(1)).await.expect("sent");
        drive(&mut connection, |_| true).await;
        assert_eq!((connection.received, connection.calls.len()), (0, 4), "the fifth stays away");
        connection.calls.clear();
        drive(&mut connection, |connection| connection.sent == NULL_REPLY).await;
    });
}

#[test]
fn a_peer_that_only_stays_is_left_alone() {
    with_connection(async |mut connection, peer, alarm| {
        drive(&mut connection, |_| true).await;
        assert_eq!(alarm.sleepers.get(), 0);
        drop(peer);
        let ended = drive(&mut connection, |_| false).await.expect("it has ended");
        assert!(ended.is_ok());
    });
}

#[test]
fn a_connection_gives_way_to_others_after_some_calls_that_are_answered_at_once() {
    with_connection(async |mut connection, mut peer, _| {
        peer.write_all(&null_calls(1_000)).await.expect("sent");
        let mut answered = Vec::new();
        while connection.sent < 500 * NULL_REPLY {
            let before = connection.sent;
            drive(&mut connection, |_| true).await;
            answered.push((connection.sent - before) / NULL_REPLY);
            runtime::sync::yield_now().await;
        }
        let most = answered.iter().max().expect("a poll");
        assert!(*most <= TURN_CALLS as u64, "calls of each poll: {answered:?}");
        // The rest is answered without an outside event: the task wakes itself.
        drive(&mut connection, |connection| connection.sent == 1_000 * NULL_REPLY).await;
    });
}

#[test]
fn a_peer_that_takes_no_replies_does_not_keep_others_from_memory_for_calls() {
    with_connection(async |mut connection, peer, alarm| {
        // A reply that is not taken, and behind it a call that waits for its memory.
        let full = vec![0; ROOM];
        while connection.stream.as_ref().expect(OPEN).try_write(&full).expect("it is there") > 0 {}
        peer.try_write(&null_calls(1)).expect("there is room");
        drive(&mut connection, |connection| connection.outgoing.replies() == 1).await;
        connection.calls.push(std::future::pending().boxed_local());
        drive(&mut connection, |_| true).await;
        let other = connection.session.clone();
        let party = other.party(&[]);
        let held = other.request_memory(party, 1 << 30).now_or_never();
        assert!(held.is_some(), "all that the party may have");
        let mut waits = other.request_memory(party, 1).boxed_local();
        assert!(waits.as_mut().now_or_never().is_none());
        let (_, why) = ring_to_the_end(&mut connection, &alarm).await;
        assert_eq!(why, GivenUp::Slow, "others wait for memory that its calls hold");
    });
}

#[test]
fn a_connection_that_reads_no_more_gives_back_the_memory_of_what_has_not_arrived() {
    with_connection(async |mut connection, mut peer, alarm| {
        peer.write_all(&write_header()).await.expect("sent");
        drive(&mut connection, |_| alarm.sleepers.get() == 1).await;
        let other = connection.session.clone();
        let party = other.party(&[]);
        let mut waits = other.arriving_memory(party, 1 << 30).boxed_local(); // all it may have
        assert!(waits.as_mut().now_or_never().is_none());
        // A call that is being executed keeps the connection.
        connection.calls.push(std::future::pending().boxed_local());
        connection.reading = Some(std::future::ready(()).boxed_local());
        drive(&mut connection, |_| true).await;
        assert!(waits.now_or_never().is_some());
    });
}

#[test]
fn an_occupant_that_is_asked_to_leave_is_hurried() {
    with_connection(async |connection, peer, alarm| {
        let places = crate::places::Places::new(alarm.clone(), 1, Rc::new(|_| false));
        let address = [127, 0, 0, 1].into();
        let place = places.enter(address).now_or_never().flatten().expect("it is free");
        let mut connection = connection.noted_by(place.occupant().clone());
        let full = vec![0; ROOM];
        while connection.stream.as_ref().expect(OPEN).try_write(&full).expect("it is there") > 0 {}
        peer.try_write(&null_calls(1)).expect("there is room");
        drive(&mut connection, |connection| connection.outgoing.replies() == 1).await;
        let before = alarm.sleepers.get();
        alarm.rings.notify();
        drive(&mut connection, |_| alarm.sleepers.get() > before).await;
        places.relieve();
        assert!(place.occupant().is_asked());
        let ended = ring_to_the_end(&mut connection, &alarm).await;
        assert_eq!(ended, (2, GivenUp::Slow), "a beat in which it was asked, and a whole one");
    });
}
