//! These tests use virtual time: an hour costs nothing.

use std::cell::Cell;
use std::future::poll_fn;

use futures::future::{Either, select};
use runtime::pool::{Pool, Share, Tokens};
use sim::Executor;

use super::*;

const BEAT: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// Peers that share one pool of memory.
struct Fixture {
    executor: Executor,
    memory: Rc<Pool>,
}

/// Takes tokens of the pool.
async fn take(memory: &Rc<Pool>, bytes: u64) -> Tokens {
    memory.acquire(0, bytes).await
}

impl Fixture {
    fn with(memory: u64) -> Self {
        let share = Share { least: 0, may_exceed: true };
        Self { executor: Executor::new(7), memory: Pool::new(memory, &[share], u64::MAX) }
    }

    fn seconds(&self) -> u64 {
        self.executor.now().0 / 1_000_000_000
    }

    /// A peer that owes `length` bytes and sends `step` of them every `pause`, once it has memory
    /// for them. Returns the reason for which it was given up, if it was.
    fn peer(
        &self,
        length: u64,
        (step, pause): (u64, Duration),
    ) -> impl Future<Output = Option<GivenUp>> + 'static {
        let (clock, memory) = (self.executor.runtime().clock, self.memory.clone());
        async move {
            let held = take(&memory, length).await;
            let moved = Cell::new(0);
            let send = async {
                while moved.get() < length {
                    clock.sleep(pause).await;
                    moved.set(moved.get() + step);
                }
            };
            let mut patience = Patience::new(clock.clone(), BEAT);
            let watch = poll_fn(|context| {
                let obligation = Obligation {
                    moved: moved.get(),
                    lines: [held.line(), None],
                    is_place_wanted: false,
                };
                match patience.poll(context, Some(obligation)) {
                    Ok(()) => Poll::Pending,
                    Err(given_up) => Poll::Ready(given_up),
                }
            });
            match select(send.boxed_local(), watch.boxed_local()).await {
                Either::Left(_) => None,
                Either::Right((given_up, _)) => Some(given_up),
            }
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.executor.runtime().tasks.spawn(task.boxed_local());
    }
}

const NEVER: (u64, Duration) = (0, Duration::from_secs(3600));
const ONE_BYTE_A_SECOND: (u64, Duration) = (1, Duration::from_secs(1));

#[test]
fn a_peer_that_moves_nothing_is_given_up_after_a_minute() {
    let fixture = Fixture::with(MIB);
    let given_up = fixture.executor.block_on(fixture.peer(MIB, NEVER));
    assert_eq!((given_up, fixture.seconds()), (Some(GivenUp::Idle), PATIENCE.as_secs()));
}

#[test]
fn a_slow_peer_is_left_alone_while_nobody_waits() {
    let fixture = Fixture::with(MIB);
    assert_eq!(fixture.executor.block_on(fixture.peer(3_000, ONE_BYTE_A_SECOND)), None);
    assert_eq!(fixture.seconds(), 3_000);
}

#[test]
fn two_hundred_peers_that_stall_keep_another_for_a_few_beats() {
    let fixture = Fixture::with(48 * MIB);
    for _ in 0..200 {
        let peer = fixture.peer(MIB, ONE_BYTE_A_SECOND);
        fixture.spawn(async move { assert_eq!(peer.await, Some(GivenUp::Slow)) });
    }
    fixture.executor.run_for(Duration::from_millis(1));
    fixture.executor.block_on(take(&fixture.memory, MIB));
    // Two beats until a waiting request is noticed, and one for each 48 in front.
    assert!(fixture.seconds() <= 2 + 200 / 48, "{} s", fixture.seconds());
}

#[test]
fn a_peer_that_sends_as_much_as_must_be_is_waited_for() {
    let fixture = Fixture::with(MIB);
    let peer = fixture.peer(MIB, (LEAST / 4, BEAT / 4));
    fixture.spawn(async move { assert_eq!(peer.await, None) });
    fixture.executor.run_for(Duration::from_millis(1));
    fixture.executor.block_on(take(&fixture.memory, 1));
    assert_eq!(fixture.seconds(), MIB / LEAST);
}

#[test]
fn a_line_that_moves_on_is_no_reason_to_hurry_anybody() {
    let fixture = Fixture::with(MIB);
    let slow = fixture.peer(2_000, (1, Duration::from_millis(10)));
    let memory = fixture.memory.clone();
    // Always some request in line, and none for a whole beat.
    for number in 0..4 {
        let (memory, clock) = (memory.clone(), fixture.executor.runtime().clock);
        fixture.spawn(async move {
            clock.sleep(Duration::from_millis(number)).await;
            loop {
                let _held = take(&memory, MIB / 2).await;
                clock.sleep(Duration::from_millis(100)).await;
            }
        });
    }
    assert_eq!(fixture.executor.block_on(slow), None);
    assert!(fixture.seconds() >= 20);
}

#[test]
fn a_debt_that_holds_nothing_is_not_hurried() {
    let fixture = Fixture::with(MIB);
    let (clock, memory) = (fixture.executor.runtime().clock, fixture.memory.clone());
    let _held = fixture.executor.block_on(take(&memory, MIB));
    let waiting = memory.clone();
    fixture.spawn(async move { drop(take(&waiting, 1).await) });
    let mut patience = Patience::new(clock, BEAT);
    let given_up = fixture.executor.block_on(poll_fn(|context| {
        let obligation = Obligation { moved: 0, lines: [None, None], is_place_wanted: false };
        match patience.poll(context, Some(obligation)) {
            Ok(()) => Poll::Pending,
            Err(given_up) => Poll::Ready(given_up),
        }
    }));
    assert_eq!((given_up, fixture.seconds()), (GivenUp::Idle, PATIENCE.as_secs()));
}
