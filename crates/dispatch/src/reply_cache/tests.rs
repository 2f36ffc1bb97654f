use super::*;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use runtime::Timestamp;

#[derive(Default)]
struct Hand(Cell<u64>);

impl Clock for Hand {
    fn now(&self) -> Instant {
        Instant(self.0.get())
    }

    fn wall(&self) -> Timestamp {
        Timestamp::default()
    }

    fn sleep(&self, _: Duration) -> LocalBoxFuture<'static, ()> {
        futures::future::ready(()).boxed_local()
    }
}

fn key(client: u8, xid: u32) -> Key {
    Key {
        client: IpAddr::from([10, 0, 0, client]),
        caller: 0,
        xid,
        procedure: 12,
        length: 36,
        checksum: 99,
    }
}

fn small(calls: usize, client_calls: usize) -> Window {
    Window { calls, client_calls, ..Window::default() }
}

fn execute(cache: &Rc<ReplyCache<u32>>, key: Key) -> Slot<u32> {
    match cache.begin(key, || true) {
        Begin::Execute(slot) => slot,
        _ => panic!("the call is not new"),
    }
}

fn remembered(cache: &Rc<ReplyCache<u32>>, key: Key) -> Option<u32> {
    match cache.begin(key, || true) {
        Begin::Repeat(reply, _) => Some(reply),
        _ => None,
    }
}

#[test]
fn a_repeated_call_gets_the_same_answer() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), Window::default());
    execute(&cache, key(1, 5)).answer(77, 100);
    assert_eq!(remembered(&cache, key(1, 5)), Some(77));
    let expected = Counters { hits: 1, misses: 1, ..Counters::default() };
    assert_eq!(cache.counters(), expected);
}

#[test]
fn every_part_of_the_key_tells_calls_apart() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), Window::default());
    execute(&cache, key(1, 5)).answer(77, 100);
    for other in [
        key(2, 5),
        key(1, 6),
        Key { caller: 3, ..key(1, 5) },
        Key { procedure: 13, ..key(1, 5) },
        Key { length: 40, ..key(1, 5) },
        Key { checksum: 98, ..key(1, 5) },
    ] {
        assert_eq!(remembered(&cache, other), None, "{other:?}");
    }
}

#[test]
fn a_repetition_of_a_running_call_waits_for_its_answer() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), Window::default());
    let slot = execute(&cache, key(1, 5));
    let Begin::Wait(repetition) = cache.begin(key(1, 5), || true) else { panic!("it runs") };
    let mut waiting = Box::pin(repetition.wait());
    assert_eq!(waiting.as_mut().now_or_never(), None);
    slot.answer(77, 100);
    assert_eq!(waiting.as_mut().now_or_never(), Some(Some(77)));
    assert_eq!(cache.counters().in_progress_hits, 1);
}

#[test]
fn an_abandoned_call_may_be_tried_again() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), Window::default());
    let slot = execute(&cache, key(1, 5));
    let Begin::Wait(repetition) = cache.begin(key(1, 5), || true) else { panic!("it runs") };
    drop(slot);
    assert_eq!(repetition.wait().now_or_never(), Some(None));
    execute(&cache, key(1, 5)).answer(1, 1);
}

#[test]
fn the_oldest_answer_goes_first_and_a_running_call_never() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), small(2, 2));
    let running = execute(&cache, key(9, 0));
    for xid in 1..=3 {
        execute(&cache, key(1, xid)).answer(xid, 10);
    }
    assert_eq!(cache.held().0, 2);
    assert_eq!(remembered(&cache, key(1, 2)), Some(2));
    assert_eq!(remembered(&cache, key(1, 1)), None);
    assert!(matches!(cache.begin(key(9, 0), || true), Begin::Wait(_)));
    running.answer(0, 10);
    assert_eq!(remembered(&cache, key(9, 0)), Some(0));
}

#[test]
fn a_busy_client_pushes_out_its_own_answers_only() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), small(100, 3));
    execute(&cache, key(1, 0)).answer(42, 10);
    for xid in 0..50 {
        execute(&cache, key(2, xid)).answer(xid, 10);
    }
    assert_eq!(remembered(&cache, key(1, 0)), Some(42));
    assert_eq!(cache.held().0, 4);
}

#[test]
fn whoever_has_most_bytes_loses_answers_when_there_are_too_many_bytes() {
    let window = Window { bytes: 10_000, ..Window::default() };
    let cache = ReplyCache::new(Rc::new(Hand::default()), window);
    for xid in 0..4 {
        execute(&cache, key(1, xid)).answer(xid, 10);
    }
    for xid in 0..20 {
        execute(&cache, key(2, xid)).answer(xid, 3_000);
    }
    assert!((0..4).all(|xid| remembered(&cache, key(1, xid)) == Some(xid)), "it has most answers");
    assert_eq!(remembered(&cache, key(2, 19)), Some(19));
    assert!(cache.held().1 <= 10_000);
}

#[test]
fn what_no_file_system_has_answered_is_passed_on_and_forgotten() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), Window::default());
    let slot = execute(&cache, key(1, 5));
    let Begin::Wait(repetition) = cache.begin(key(1, 5), || true) else { panic!("it runs") };
    slot.pass(77);
    assert_eq!(repetition.wait().now_or_never(), Some(Some(77)));
    assert_eq!(cache.held(), (0, 0));
    assert!(matches!(cache.begin(key(1, 5), || false), Begin::Refuse));
    execute(&cache, key(1, 5)).answer(78, 100);
}

#[test]
fn bytes_bound_the_cache_too_and_come_back_to_zero() {
    let window = Window { bytes: 10_000, ..Window::default() };
    let hand = Rc::new(Hand::default());
    let cache = ReplyCache::new(hand.clone(), window);
    for xid in 0..100 {
        execute(&cache, key(1, xid)).answer(xid, 3_000);
    }
    assert!(cache.held().1 <= 10_000);
    assert!(cache.held().0 >= 2);
    hand.0.set(3_600_000_000_000);
    execute(&cache, key(1, 1_000));
    assert_eq!(cache.held(), (0, 0));
}

#[test]
fn an_answer_is_forgotten_when_it_is_older_than_the_window() {
    let hand = Rc::new(Hand::default());
    let window = Window { age: Duration::from_secs(10), ..Window::default() };
    let cache = ReplyCache::new(hand.clone(), window);
    execute(&cache, key(1, 5)).answer(77, 100);
    hand.0.set(10_000_000_000);
    assert_eq!(remembered(&cache, key(1, 5)), Some(77));
    hand.0.set(10_000_000_001);
    assert_eq!(remembered(&cache, key(1, 5)), None);
}

#[test]
fn a_name_is_held_for_as_long_as_its_answer_is_remembered() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), small(2, 2));
    let mut slot = execute(&cache, key(1, 1));
    assert_eq!(Key::named(&slot.name().expect("answers survive")), Some(key(1, 1)));
    let name = Rc::downgrade(&slot.name().expect("answers survive"));
    slot.answer(77, 100);
    assert!(name.upgrade().is_some());
    execute(&cache, key(1, 2)).answer(78, 100);
    assert!(name.upgrade().is_some());
    execute(&cache, key(1, 3)).answer(79, 100);
    assert!(name.upgrade().is_none(), "it was the oldest of three");
    let window = Window { survives: false, ..Window::default() };
    let cache = ReplyCache::new(Rc::new(Hand::default()), window);
    assert_eq!(execute(&cache, key(1, 1)).name(), None);
}

#[test]
fn what_is_restored_is_as_old_as_it_was_and_goes_first() {
    let hand = Rc::new(Hand::default());
    let window = Window { age: Duration::from_secs(10), ..small(3, 3) };
    let cache = ReplyCache::new(hand.clone(), window);
    let restore = |xid, reply, age| {
        let (name, age) = (Rc::new(key(1, xid).name()), Duration::from_secs(age));
        cache.restore(name, key(1, xid), reply, 100, age);
    };
    restore(1, 71, 11); // older than the window
    restore(2, 72, 9);
    restore(3, 73, 4);
    assert_eq!(remembered(&cache, key(1, 1)), None);
    assert_eq!(remembered(&cache, key(1, 2)), Some(72));
    assert_eq!((cache.counters().restored, cache.counters().restored_hits), (2, 1));
    hand.0.set(2_000_000_000);
    assert_eq!(remembered(&cache, key(1, 2)), None, "nine seconds and two");
    assert_eq!(remembered(&cache, key(1, 3)), Some(73));
    for xid in 4..=6 {
        execute(&cache, key(1, xid)).answer(xid, 100);
    }
    assert_eq!(remembered(&cache, key(1, 3)), None, "three are newer");
}

/// The name of a call is counted, too: a volume keeps the reply once more.
#[test]
fn an_answer_weighs_its_bytes_and_twice_as_much_where_it_survives() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), Window::default());
    execute(&cache, key(1, 1)).answer(71, 100);
    assert_eq!(cache.held(), (1, 100 + OVERHEAD));
    let mut slot = execute(&cache, key(1, 2));
    slot.name().expect("answers survive");
    slot.answer(72, 30);
    assert_eq!(cache.held(), (2, 100 + OVERHEAD + 2 * (30 + OVERHEAD)));
    let key = key(2, 3);
    cache.restore(Rc::new(key.name()), key, 73, 500, Duration::ZERO);
    assert_eq!(cache.held(), (3, 100 + OVERHEAD + 2 * (530 + 2 * OVERHEAD)));
}

/// The calls of a client that are remembered, from number 0 on. The check forgets nothing.
fn left(cache: &Rc<ReplyCache<u32>>, client: u8, count: u32) -> Vec<u32> {
    (0..count).filter(|&xid| remembered(cache, key(client, xid)).is_some()).collect()
}

#[test]
fn a_client_keeps_exactly_the_bytes_that_are_its_own() {
    const WEIGHT: usize = 100 + OVERHEAD;
    for (client_bytes, expected) in
        [(2 * WEIGHT, &[8, 9][..]), (2 * WEIGHT - 1, &[9]), (3 * WEIGHT, &[7, 8, 9])]
    {
        let window = Window { client_bytes, ..Window::default() };
        let cache = ReplyCache::new(Rc::new(Hand::default()), window);
        for xid in 0..10 {
            execute(&cache, key(1, xid)).answer(xid, 100);
        }
        assert_eq!(left(&cache, 1, 10), expected);
        let kept = expected.len();
        assert_eq!(cache.held(), (kept, kept * WEIGHT));
        assert_eq!(cache.counters().evictions, 10 - kept as u64);
    }
}

#[test]
fn all_clients_together_keep_exactly_the_bytes_and_the_calls_of_the_window() {
    const WEIGHT: usize = 100 + OVERHEAD;
    let all = Window::default();
    for window in [Window { bytes: 3 * WEIGHT, ..all }, Window { calls: 3, ..all }] {
        let cache = ReplyCache::new(Rc::new(Hand::default()), window);
        for client in 1..=3 {
            execute(&cache, key(client, 0)).answer(0, 100);
        }
        assert_eq!((cache.held().0, cache.counters().evictions), (3, 0));
        for client in 4..=5 {
            execute(&cache, key(client, 0)).answer(0, 100);
        }
        assert_eq!((cache.held().0, cache.counters().evictions), (3, 2));
        let left = (1..=5).filter(|&client| !left(&cache, client, 1).is_empty());
        assert_eq!(left.collect::<Vec<_>>(), [3, 4, 5], "all have as much: the oldest go");
    }
}

#[test]
fn who_has_most_is_told_by_powers_of_two() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), small(12, 12));
    for (client, count) in [(1, 5), (2, 7)] {
        (0..count).for_each(|xid| execute(&cache, key(client, xid)).answer(xid, 10));
    }
    // 5 and 4 count as much as 7; 3 counts less, and 3 is no more than 3.
    let mut had = Vec::new();
    for client in 3..10 {
        execute(&cache, key(client, 0)).answer(0, 10);
        had.push([1, 2].map(|client| left(&cache, client, 7).len()));
    }
    assert_eq!(had, [[4, 7], [3, 7], [3, 6], [3, 5], [3, 4], [3, 3], [2, 3]]);
}

/// A client among many.
fn one_of_many(number: u16, xid: u32) -> Key {
    let [high, low] = number.to_be_bytes();
    Key { client: IpAddr::from([10, 1, high, low]), ..key(1, xid) }
}

/// Whether a client with one small reply, the oldest, keeps it when a thousand others have more
/// each, and all together too much.
fn keeps_the_oldest(window: Window, sizes: &[usize]) -> bool {
    let cache = ReplyCache::new(Rc::new(Hand::default()), window);
    execute(&cache, key(1, 0)).answer(0, 0);
    for number in 0..1024 {
        for (xid, &size) in (0..).zip(sizes) {
            execute(&cache, one_of_many(number, xid)).answer(0, size);
        }
    }
    assert!(cache.counters().evictions > 0);
    remembered(&cache, key(1, 0)).is_some()
}

#[test]
fn below_a_thousandth_of_all_nobody_has_more_than_another() {
    let all = Window::default();
    // The share of the others is a 1,024th in the first case of each, and more in the second.
    assert!(!keeps_the_oldest(Window { calls: 2_048, ..all }, &[0, 0]));
    assert!(keeps_the_oldest(Window { calls: 2_047, ..all }, &[0, 0]));
    let (bytes, size) = (1_024 * 1_024, 1_024 - OVERHEAD);
    assert!(!keeps_the_oldest(Window { bytes, ..all }, &[size]));
    assert!(keeps_the_oldest(Window { bytes: bytes - 1, ..all }, &[size]));
}

#[test]
fn what_is_forgotten_by_age_is_counted() {
    let hand = Rc::new(Hand::default());
    let window = Window { age: Duration::from_secs(10), ..Window::default() };
    let cache = ReplyCache::new(hand.clone(), window);
    for (time, xid) in [(0, 1), (0, 2), (5, 3)] {
        hand.0.set(time * 1_000_000_000);
        execute(&cache, key(1, xid)).answer(xid, 100);
    }
    hand.0.set(10_000_000_001);
    assert_eq!(remembered(&cache, key(1, 3)), Some(3));
    assert_eq!((cache.held().0, cache.counters().evictions), (1, 2));
}

#[test]
fn each_kind_of_call_is_counted_as_what_it_was() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), Window::default());
    let slots = [1, 2, 3].map(|xid| execute(&cache, key(1, xid)));
    for _ in 0..2 {
        assert!(matches!(cache.begin(key(1, 3), || panic!("it runs")), Begin::Wait(_)));
    }
    slots.into_iter().for_each(|slot| slot.answer(7, 10));
    cache.restore(Rc::new(key(2, 1).name()), key(2, 1), 8, 10, Duration::ZERO);
    for (client, times) in [(1, 4), (2, 2)] {
        for _ in 0..times {
            let again = cache.begin(key(client, 1), || panic!("it was answered"));
            assert!(
                matches!(again, Begin::Repeat(_, over_a_start) if over_a_start == (client == 2))
            );
        }
    }
    assert!(matches!(cache.begin(key(3, 1), || false), Begin::Refuse));
    let expected = Counters {
        hits: 6,
        in_progress_hits: 2,
        misses: 3,
        evictions: 0,
        restored: 1,
        restored_hits: 2,
    };
    assert_eq!(cache.counters(), expected);
}

#[test]
fn what_is_known_is_not_restored_once_more() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), Window::default());
    for reply in [71, 72] {
        cache.restore(Rc::new(key(1, 1).name()), key(1, 1), reply, 10, Duration::ZERO);
    }
    assert_eq!((cache.held().0, cache.counters().restored), (1, 1));
    assert_eq!(remembered(&cache, key(1, 1)), Some(71));
}

#[test]
fn a_call_has_one_name_however_often_it_is_asked_for() {
    let cache = ReplyCache::new(Rc::new(Hand::default()), Window::default());
    let mut slot = execute(&cache, key(1, 1));
    let [one, other] = [(); 2].map(|()| slot.name().expect("answers survive"));
    assert!(Rc::ptr_eq(&one, &other));
}

#[test]
fn in_the_bounds_a_network_of_64_bits_is_one_client() {
    let counted = |text: &str| in_bounds(text.parse().expect("an address")).to_string();
    assert_eq!(counted("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    assert_eq!(counted("2001:db8:1:3:3:4:5:6"), "2001:db8:1:3::");
    assert_eq!(counted("10.1.2.3"), "10.1.2.3");
    assert_eq!(counted("::ffff:10.1.2.3"), "10.1.2.3");
}
