//! Bytes of log and time of a CREATE, with and without an answer that survives.
//!
//! Time is printed, never judged: `cargo test --release -p duramen-torture --test answers --
//! --nocapture`. The two kinds alternate in one run, so that the ratio means something on a machine
//! that is shared.

use std::time::{Duration, Instant};

use dispatch::Window;
use sim::Executor;
use torture::calls;

use crate::house::{House, client};

/// CREATEs of one round.
const CREATES: u32 = if cfg!(debug_assertions) { 500 } else { 20_000 };
const ROUNDS: usize = if cfg!(debug_assertions) { 1 } else { 9 };

struct Cost {
    time: Duration,
    log_bytes: u64,
    batches: u64,
}

/// Creates files, one after the other, in a directory that is new.
fn creates(survives: bool) -> Cost {
    let executor = Executor::new(3);
    executor.block_on(async {
        let window = Window { survives, ..Window::default() };
        // As large a log as a volume has by default.
        let house = House::new(&executor, 256 << 20, 257 << 20, window).await;
        let written = || house.engine.log_statistics().expect("there is a log").writes;
        let before = written();
        #[expect(clippy::disallowed_methods, reason = "what is measured is the machine's time")]
        let start = Instant::now();
        for number in 0..CREATES {
            let create = calls::create(&house.root, &format!("file-{number}"));
            house.call(client(1), number, &create).await.unwrap();
        }
        let time = start.elapsed();
        let after = written();
        let (log_bytes, batches) = (after.bytes - before.bytes, after.batches - before.batches);
        Cost { time, log_bytes, batches }
    })
}

#[test]
fn an_answer_that_survives_costs_a_part_of_its_call() {
    let mut ratios = Vec::new();
    let mut bytes = [0; 2];
    for _ in 0..ROUNDS {
        let (without, with) = (creates(false), creates(true));
        assert_eq!(without.batches, with.batches, "nothing is written for answers alone");
        ratios.push(with.time.as_secs_f64() / without.time.as_secs_f64());
        bytes = [without.log_bytes, with.log_bytes].map(|bytes| bytes / u64::from(CREATES));
    }
    ratios.sort_by(f64::total_cmp);
    let [without, with] = bytes;
    println!(
        "a CREATE takes {without} bytes of log, and {with} with its answer; {:.3} times the time \
         (median of {ROUNDS}; {:.3} to {:.3})",
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1],
    );
    // Batches of one entry each are padded to 4 KiB: there an answer is often free.
    assert!(with <= without + 1024, "{without} and {with} bytes");
}
