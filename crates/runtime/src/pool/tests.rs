use super::*;
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::LocalBoxFuture;

const STRANGERS: usize = 0;
const ONE: usize = 1;
const OTHER: usize = 2;
/// A request too large for the part that is kept from a single client.
const ANY: u64 = u64::MAX;

fn pool() -> Rc<Pool> {
    let share = |least, may_exceed| Share { least, may_exceed };
    Pool::new(100, &[share(10, false), share(20, true), share(20, true)], ANY)
}

fn wait(pool: &Rc<Pool>, party: usize, amount: u64) -> LocalBoxFuture<'static, Tokens> {
    let pool = pool.clone();
    let mut waits = async move { pool.acquire(party, amount).await }.boxed_local();
    assert!(waits.as_mut().now_or_never().is_none(), "there is not as much for it");
    waits
}

#[test]
fn of_the_clients_of_a_party_the_one_that_holds_least_is_granted_next() {
    let share = Share { least: 0, may_exceed: true };
    let pool = Pool::new(100, &[share], ANY);
    let [greedy, modest] = [(); 2].map(|()| Account::new(1, 1));
    let ask = |account: &Account, amount| {
        let (pool, account) = (pool.clone(), account.clone());
        async move { pool.acquire_for(0, &account, amount).await }.boxed_local()
    };
    let mut held: Vec<Tokens> = (0..10).map(|_| block_on(ask(&greedy, 10))).collect();
    assert_eq!(greedy.held(0), 100);
    let mut more: Vec<_> = (0..5).map(|_| ask(&greedy, 10)).collect();
    assert!(more.iter_mut().all(|more| more.as_mut().now_or_never().is_none()));
    let mut late: Vec<_> = (0..3).map(|_| ask(&modest, 10)).collect();
    assert!(late.iter_mut().all(|late| late.as_mut().now_or_never().is_none()));
    // A granted request that is dropped, and one that is resized, are counted as well.
    held.truncate(7);
    let granted: Vec<_> = late.iter_mut().map(|late| late.as_mut().now_or_never()).collect();
    let are_granted: Vec<bool> = granted.iter().map(Option::is_some).collect();
    assert_eq!(are_granted, [true; 3], "before five requests that came earlier");
    assert!(more.iter_mut().all(|more| more.as_mut().now_or_never().is_none()));
    held[0].resize(4);
    drop(held);
    drop((more, late, granted));
    assert_eq!((greedy.held(0), modest.held(0), pool.held()), (0, 0, 0));
}

#[test]
fn an_eighth_is_kept_from_a_client_that_holds_all_the_rest() {
    let share = Share { least: 0, may_exceed: true };
    let pool = Pool::new(80, &[share], 10);
    let [greedy, modest] = [(); 2].map(|()| Account::new(1, 1));
    let held: Vec<Tokens> = std::iter::from_fn(|| pool.try_acquire_for(0, &greedy, 10)).collect();
    assert_eq!((held.len(), greedy.held(0)), (7, 70));
    let mut more = {
        let (pool, greedy) = (pool.clone(), greedy.clone());
        async move { pool.acquire_for(0, &greedy, 10).await }.boxed_local()
    };
    assert!(more.as_mut().now_or_never().is_none());
    let mark = pool.line(0, None).mark();
    let first = pool.acquire_for(0, &modest, 10).now_or_never().expect("it waits for nobody");
    let waits = |account: &Account| pool.line(0, Some(account.clone())).keeps_waiting_since(mark);
    assert_eq!([waits(&greedy), waits(&modest)], [true, false], "its own tokens would help");
    drop(held);
    assert!(more.now_or_never().is_some());
    let large = pool.acquire_for(0, &greedy, 80).now_or_never();
    assert!(large.is_none(), "another holds some");
    drop(first);
    let large = pool.acquire_for(0, &greedy, 80).now_or_never();
    assert_eq!(large.map(|large| large.amount()), Some(80), "it holds nothing else");
    let small = Pool::new(79, &[share], 10);
    assert!(small.try_acquire_for(0, &modest, 10).is_some());
    assert!(small.try_acquire_for(0, &modest, 69).is_some(), "an eighth would hold no request");
}

#[test]
fn one_that_gives_nothing_back_leaves_the_others_their_shares() {
    let pool = pool();
    let stuck: Vec<Tokens> = (0..7).map(|_| block_on(pool.acquire(ONE, 10))).collect();
    let waits = wait(&pool, ONE, 1);
    let others = [(STRANGERS, 10), (OTHER, 20)];
    let others = others.map(|(party, amount)| block_on(pool.acquire(party, amount)));
    assert_eq!(pool.available(), 0);
    let more = wait(&pool, OTHER, 1);
    drop(others);
    assert!(more.now_or_never().is_some(), "of its own share, though another came first");
    drop(stuck);
    assert!(waits.now_or_never().is_some());
    assert_eq!(pool.available(), 100);
}

#[test]
fn who_may_not_exceed_has_its_share_and_no_more() {
    let pool = pool();
    let share = block_on(pool.acquire(STRANGERS, 50));
    assert_eq!((share.amount(), pool.available()), (10, 90), "all that it can have");
    let more = wait(&pool, STRANGERS, 1);
    drop(block_on(pool.acquire(ONE, 70)));
    drop(share);
    assert!(more.now_or_never().is_some());
}

#[test]
fn who_wants_more_than_its_share_and_holds_nothing_has_its_share_at_least() {
    let pool = pool();
    let stuck = block_on(pool.acquire(ONE, 70));
    let _waits = wait(&pool, ONE, 1);
    let large = pool.acquire(OTHER, 60).now_or_never().expect("its share");
    assert_eq!(large.amount(), 20);
    let more = wait(&pool, OTHER, 60);
    drop(large);
    assert_eq!(more.now_or_never().expect("its share again").amount(), 20);
    drop(stuck);
}

#[test]
fn what_is_common_is_handed_out_in_the_order_of_asking() {
    let pool = pool();
    let held = block_on(pool.acquire(ONE, 60));
    let mut large = wait(&pool, ONE, 40);
    let own = block_on(pool.acquire(OTHER, 20));
    let mut small = wait(&pool, OTHER, 1);
    drop(held);
    let large = large.as_mut().now_or_never().expect("it came first");
    let small = small.as_mut().now_or_never().expect("there is more");
    assert_eq!((large.amount(), small.amount(), pool.available()), (40, 1, 39));
    drop(own);
}

#[test]
fn who_wants_all_is_overtaken_by_nobody() {
    let pool = pool();
    let one = block_on(pool.acquire(ONE, 1));
    let mut all = pool.acquire_all().boxed_local();
    assert!(all.as_mut().now_or_never().is_none());
    let waits = wait(&pool, OTHER, 1);
    drop(one);
    let all = all.now_or_never().expect("nobody holds any");
    assert_eq!((all.amount(), pool.available()), (100, 0));
    drop(all);
    assert!(waits.now_or_never().is_some());
}

#[test]
fn what_is_dropped_comes_back_granted_or_not() {
    let pool = pool();
    let held = block_on(pool.acquire(ONE, 70));
    let first = wait(&pool, ONE, 70);
    let second = wait(&pool, ONE, 5);
    drop(first);
    drop(held);
    drop(second); // it has been granted
    assert_eq!(pool.available(), 100);
}

#[test]
fn those_who_go_are_forgotten_though_nobody_comes_to_the_front() {
    let pool = pool();
    let _held = block_on(pool.acquire(ONE, 70));
    let _first = wait(&pool, ONE, 1);
    (0..1000).for_each(|_| drop(wait(&pool, ONE, 1)));
    assert!(pool.parties[ONE].queue.borrow().len() < 30);
}

#[test]
fn what_is_taken_at_once_is_owed() {
    let pool = pool();
    let mut large = pool.take_now(ONE, 150);
    assert_eq!(pool.available(), 0);
    let waits = wait(&pool, OTHER, 20);
    large.resize(80);
    assert!(waits.now_or_never().is_some(), "its share is there");
    large.resize(90);
    assert_eq!((large.amount(), large.party(), pool.available()), (90, Some(ONE), 10));
    drop(large);
    assert_eq!(pool.available(), 100);
}

#[test]
fn who_waits_is_told_to_those_whose_tokens_are_of_use() {
    let pool = pool();
    let tokens = [(STRANGERS, 10), (ONE, 70)];
    let _held = tokens.map(|(party, amount)| block_on(pool.acquire(party, amount)));
    let since = |mark| {
        [STRANGERS, ONE, OTHER].map(|party| pool.line(party, None).keeps_waiting_since(mark))
    };
    let now = || pool.line(ONE, None).mark();
    let stranger = wait(&pool, STRANGERS, 1);
    assert_eq!(since(0), [false; 3], "nobody waited then");
    assert_eq!(since(now()), [true, false, false]);
    drop(stranger);
    assert_eq!(since(now()), [false; 3]);
    let _one = wait(&pool, ONE, 1);
    assert_eq!(since(now()), [false, true, false], "the other holds nothing that it could have");
    let large = pool.take_now(OTHER, 21);
    assert_eq!(since(now()), [false, true, true]);
    drop(large);
}
