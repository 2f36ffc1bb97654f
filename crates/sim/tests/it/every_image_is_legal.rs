//! Random runs against an independent reading of the contract: after a cut, a sector holds the
//! value of its last durable write, or of a write that is neither durable nor followed, in the
//! order of effect, by a durable one. Every such value occurs.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability};
use futures::FutureExt;
use sim::{Choice, Disk, Event, Executor, Image, Prng, Trace};

const SECTORS: u64 = 8;

/// Four tasks that write, flush and read; returns the trace and the digest.
fn run(seed: u64) -> (Trace, u64) {
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, Image::zeroed(SECTORS * 512));
    disk.start_trace();
    for task in 0..4 {
        let (disk, runtime) = (disk.clone(), executor.runtime());
        executor.runtime().tasks.spawn(
            async move {
                for step in 0..6 {
                    let draw = runtime.random.next_u64();
                    act(&disk, draw, (task * 6 + step + 1) as u8).await;
                    runtime.clock.sleep(Duration::from_micros(draw >> 32 & 63)).await;
                }
            }
            .boxed_local(),
        );
    }
    while executor.step() {}
    (disk.trace(), executor.digest())
}

async fn act(disk: &Rc<Disk>, draw: u64, value: u8) {
    let start = (draw >> 8) % SECTORS;
    let count = 1 + (draw >> 16) % (SECTORS - start).min(3);
    let data = vec![vec![value; (count * 512) as usize].into()];
    match draw % 8 {
        0 => drop(disk.read(start * 512, Buffer::zeroed(512)).await),
        1 | 2 => disk.flush().await.expect("a flush"),
        3 => disk.write(start * 512, data, Durability::Through).await.expect("a write"),
        _ => disk.write(start * 512, data, Durability::Plain).await.expect("a write"),
    }
}

/// The values that the contract allows in each sector after the first `position` events.
fn allowed(trace: &Trace, position: usize) -> Vec<BTreeSet<u8>> {
    struct Seen {
        first: u64,
        count: u64,
        value: u8,
        through: bool,
        completed_at: Option<usize>,
    }
    let mut writes: BTreeMap<u64, Seen> = BTreeMap::new();
    let mut flushes = BTreeMap::new();
    let mut covered_until = 0;
    for (now, traced) in trace.events()[..position].iter().enumerate() {
        match &traced.event {
            Event::WriteIssued { write, offset, data, durability } => {
                let (first, count) = (offset / 512, data.len() as u64 / 512);
                let through = *durability == Durability::Through;
                let seen = Seen { first, count, value: data[0], through, completed_at: None };
                writes.insert(*write, seen);
            }
            Event::WriteCompleted { write } => {
                writes.get_mut(write).expect("issued").completed_at = Some(now);
            }
            Event::FlushIssued { flush } => drop(flushes.insert(*flush, now)),
            Event::FlushCompleted { flush } => covered_until = covered_until.max(flushes[flush]),
            event => panic!("{event:?} is not part of this run"),
        }
    }
    let mut order: Vec<&Seen> = writes.values().collect();
    order.sort_by_key(|seen| seen.completed_at.unwrap_or(usize::MAX)); // stable: then by issue
    (0..SECTORS)
        .map(|sector| {
            let mut values = BTreeSet::from([0]);
            for seen in &order {
                if !(seen.first..seen.first + seen.count).contains(&sector) {
                    continue;
                }
                let done = |at: usize| seen.through || at < covered_until;
                if seen.completed_at.is_some_and(done) {
                    values.clear();
                }
                values.insert(seen.value);
            }
            values
        })
        .collect()
}

#[test]
fn every_image_is_legal_and_every_legal_value_turns_up() {
    for seed in 0..20 {
        let (trace, _) = run(seed);
        let mut prng = Prng::new(seed);
        for (position, platter) in trace.cuts() {
            let allowed = allowed(&trace, position);
            let mut found = vec![BTreeSet::new(); SECTORS as usize];
            let mut choices = Choice::explore(&platter, &mut prng);
            choices.extend((0..20).map(|_| Choice::random(&platter, &mut prng)));
            for choice in choices {
                let bytes = platter.image(&choice).bytes();
                for (sector, content) in bytes.chunks(512).enumerate() {
                    assert!(content.iter().all(|&byte| byte == content[0]));
                    assert!(
                        allowed[sector].contains(&content[0]),
                        "seed {seed}, position {position}, choice {choice}, sector {sector} \
                         holds {} and not one of {:?}",
                        content[0],
                        allowed[sector],
                    );
                    found[sector].insert(content[0]);
                }
            }
            assert_eq!(found, allowed, "seed {seed}, position {position}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_twice() {
    let mut digests = BTreeSet::new();
    for seed in 0..300 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.1, second.1, "seed {seed}");
        assert_eq!(first.0.events(), second.0.events(), "seed {seed}");
        digests.insert(first.1);
    }
    assert_eq!(digests.len(), 300);
}
