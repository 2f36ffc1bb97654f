//! Bytes of log, instructions and time of a CREATE, with and without a surviving answer.
//!
//! Time is printed, never judged: `cargo test --release -p duramen-torture --test answers --
//! --nocapture`. The two kinds alternate in one run, so that the ratio means something on a shared
//! machine. Instructions are the same on every machine; `valgrind` counts those of this very
//! program, which then only creates files.

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use dispatch::Window;
use sim::Executor;
use torture::calls;

use crate::fixture::{Fixture, client};

/// CREATEs of one round.
const CREATES: u32 = if cfg!(debug_assertions) { 500 } else { 20_000 };
const ROUNDS: usize = if cfg!(debug_assertions) { 1 } else { 9 };

struct Cost {
    time: Duration,
    log_bytes: u64,
    batches: u64,
}

/// Creates files one after the other in a new directory.
fn creates(survives: bool, count: u32) -> Cost {
    let executor = Executor::new(3);
    executor.block_on(async {
        let window = Window { survives, ..Window::default() };
        // A log of the default size of a volume.
        let fixture = Fixture::new(&executor, 256 << 20, 257 << 20, window).await;
        let written = || fixture.engine.engine().log_statistics().expect("there is a log").writes;
        let before = written();
        #[expect(clippy::disallowed_methods, reason = "what is measured is the machine's time")]
        let start = Instant::now();
        for number in 0..count {
            let create = calls::create(&fixture.root, &format!("file-{number}"));
            fixture.call(client(1), number, &create).await.unwrap();
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
        let (without, with) = (creates(false, CREATES), creates(true, CREATES));
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
    // Batches of one entry each are padded to 4 KiB, where an answer often costs nothing.
    assert!(with <= without + 1024, "{without} and {with} bytes");
}

/// Orders for the counted program: how many files to create, and whether answers survive.
const COUNTED: &str = "DURAMEN_COUNTED";
/// A small number, and three times as many: one-time work cancels out.
const FEW: u32 = if cfg!(debug_assertions) { 100 } else { 1000 };

/// Instructions of this many CREATEs, and of a new volume; `None` without valgrind.
fn instructions(survives: bool, count: u32) -> Option<u64> {
    let program = env::current_exe().expect("this program");
    let counter = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["--exact", "costs::an_answer_that_survives_takes_few_instructions"])
        .env(COUNTED, format!("{count} {survives}"))
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&counter.stderr);
    assert!(counter.status.success(), "{said}");
    let total = said.lines().find_map(|line| line.split_once("Collected :")).expect("a total").1;
    Some(total.trim().parse().expect("a number"))
}

#[test]
fn an_answer_that_survives_takes_few_instructions() {
    if let Ok(counted) = env::var(COUNTED) {
        let (count, survives) = counted.split_once(' ').expect("two words");
        creates(survives == "true", count.parse().expect("a number"));
        return;
    }
    let each = |survives| {
        let (few, many) = (instructions(survives, FEW)?, instructions(survives, 3 * FEW)?);
        Some((many - few) as f64 / f64::from(2 * FEW))
    };
    let Some((without, with)) = each(false).zip(each(true)) else {
        eprintln!("SKIPPED: valgrind is not there to count instructions");
        return;
    };
    println!(
        "a CREATE takes {without:.0} instructions, and {with:.0} with its answer: {:.3} times",
        with / without,
    );
    assert!(with > without, "something is done for an answer");
    assert!(with <= 1.1 * without, "{without} and {with}: more than a tenth");
}
