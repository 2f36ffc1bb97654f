//! Under virtual time: an hour costs nothing.

use std::cell::Cell;
use std::future::poll_fn;

use futures::future::{Either, select};
use runtime::pool::{Pool, Share, Tokens};
use sim::Executor;

use super::*;

const BEAT: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// Peers whose memory comes from one pot.
struct House {
    executor: Executor,
    memory: Rc<Pool>,
}

/// Takes some of it.
async fn take(memory: &Rc<Pool>, bytes: u64) -> Tokens {
    memory.acquire(0, bytes).await
}

impl House {
    fn with(memory: u64) -> Self {
        let share = Share { least: 0, may_exceed: true };
        Self { executor: Executor::new(7), memory: Pool::new(memory, &[share]) }
    }

    fn seconds(&self) -> u64 {
        self.executor.now().0 / 1_000_000_000
    }

    /// A peer that owes `length` bytes and sends `step` of them every `pause`, from when it has
    /// memory for them. Says why it was given up, if it was.
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
                let debt = Debt { moved: moved.get(), line: held.line() };
                match patience.poll(context, Some(debt)) {
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
    let house = House::with(MIB);
    let given_up = house.executor.block_on(house.peer(MIB, NEVER));
    assert_eq!((given_up, house.seconds()), (Some(GivenUp::Idle), PATIENCE.as_secs()));
}

#[test]
fn a_slow_peer_is_left_alone_while_nobody_waits() {
    let house = House::with(MIB);
    assert_eq!(house.executor.block_on(house.peer(3_000, ONE_BYTE_A_SECOND)), None);
    assert_eq!(house.seconds(), 3_000);
}

#[test]
fn two_hundred_peers_that_stall_keep_another_for_a_few_beats() {
    let house = House::with(48 * MIB);
    for _ in 0..200 {
        let peer = house.peer(MIB, ONE_BYTE_A_SECOND);
        house.spawn(async move { assert_eq!(peer.await, Some(GivenUp::Slow)) });
    }
    house.executor.run_for(Duration::from_millis(1));
    house.executor.block_on(take(&house.memory, MIB));
    // Two beats until it is clear that somebody waits, and one for each 48 in front.
    assert!(house.seconds() <= 2 + 200 / 48, "{} s", house.seconds());
}

#[test]
fn a_peer_that_sends_as_much_as_must_be_is_waited_for() {
    let house = House::with(MIB);
    let peer = house.peer(MIB, (LEAST / 4, BEAT / 4));
    house.spawn(async move { assert_eq!(peer.await, None) });
    house.executor.run_for(Duration::from_millis(1));
    house.executor.block_on(take(&house.memory, 1));
    assert_eq!(house.seconds(), MIB / LEAST);
}

#[test]
fn a_line_that_moves_on_is_no_reason_to_hurry_anybody() {
    let house = House::with(MIB);
    let slow = house.peer(2_000, (1, Duration::from_millis(10)));
    let memory = house.memory.clone();
    // Always somebody in line, and nobody for as long as a beat.
    for number in 0..4 {
        let (memory, clock) = (memory.clone(), house.executor.runtime().clock);
        house.spawn(async move {
            clock.sleep(Duration::from_millis(number)).await;
            loop {
                let _held = take(&memory, MIB / 2).await;
                clock.sleep(Duration::from_millis(100)).await;
            }
        });
    }
    assert_eq!(house.executor.block_on(slow), None);
    assert!(house.seconds() >= 20);
}

#[test]
fn a_debt_that_holds_nothing_is_not_hurried() {
    let house = House::with(MIB);
    let (clock, memory) = (house.executor.runtime().clock, house.memory.clone());
    let _held = house.executor.block_on(take(&memory, MIB));
    let waiting = memory.clone();
    house.spawn(async move { drop(take(&waiting, 1).await) });
    let mut patience = Patience::new(clock, BEAT);
    let given_up = house.executor.block_on(poll_fn(|context| {
        let debt = Debt { moved: 0, line: None };
        match patience.poll(context, Some(debt)) {
            Ok(()) => Poll::Pending,
            Err(given_up) => Poll::Ready(given_up),
        }
    }));
    assert_eq!((given_up, house.seconds()), (GivenUp::Idle, PATIENCE.as_secs()));
}
