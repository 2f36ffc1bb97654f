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
