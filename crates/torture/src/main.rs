//! `duramen-torture`: for whoever changes an engine.
//!
//! `seq1` and `seq2` run every workload of one and of two operations and cut the power at every
//! event, in every way that is worth trying. What it prints of a violation repeats it: the
//! operations, the event, and what became of the pending writes.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::{Parser, Subcommand};
use torture::explore::op::{Op, operations};
use torture::explore::{Counts, Explorer, Style};

/// Cuts the power at every write, in every way, and judges what comes back.
#[derive(Debug, Parser)]
#[command(name = "duramen-torture", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    what: What,
    /// End with one line of JSON
    #[arg(long, global = true)]
    json: bool,
    /// How many threads
    #[arg(long, global = true, default_value_t = 2)]
    threads: usize,
}

#[derive(Debug, Subcommand)]
enum What {
    /// All workloads of one operation
    Seq1,
    /// All workloads of two operations, one after the other and both at once
    Seq2,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let workloads = match arguments.what {
        What::Seq1 => singles(),
        What::Seq2 => pairs(),
    };
    #[expect(clippy::disallowed_methods, reason = "how long a person waited")]
    let start = Instant::now();
    let (counts, violations) = explore(workloads, arguments.threads.max(1));
    let seconds = start.elapsed().as_secs_f64();
    for violation in &violations {
        println!("{violation}");
    }
    report(counts, seconds, arguments.json);
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn singles() -> Vec<Vec<Op>> {
    operations().into_iter().map(|op| vec![op]).collect()
}

fn pairs() -> Vec<Vec<Op>> {
    let list = operations();
    let pair = |one: &Op, two: &Op| vec![one.clone(), two.clone()];
    list.iter().flat_map(|one| list.iter().map(move |two| pair(one, two))).collect()
}

/// Explores workloads on some threads, each a world of its own. Neighbours stay together, because
/// they begin alike and share images.
fn explore(workloads: Vec<Vec<Op>>, threads: usize) -> (Counts, Vec<String>) {
    let share = workloads.len().div_ceil(threads);
    let workers = workloads.chunks(share).map(|part| {
        let part = part.to_vec();
        thread::spawn(move || {
            let mut explorer = Explorer::new();
            let mut first = None;
            for ops in part {
                if first.as_ref() != ops.first() {
                    first = ops.first().cloned();
                    explorer.forget();
                }
                explorer.explore(&ops, Style::OneByOne);
                explorer.explore(&ops, Style::Together);
            }
            let violations = explorer.violations.iter().map(ToString::to_string);
            (explorer.counts, violations.collect::<Vec<String>>())
        })
    });
    let workers: Vec<_> = workers.collect();
    let mut all = (Counts::default(), Vec::new());
    for worker in workers {
        let (counts, violations) = worker.join().expect("the explorer does not panic");
        all.0 = all.0.plus(counts);
        all.1.extend(violations);
    }
    all
}

fn report(counts: Counts, seconds: f64, json: bool) {
    let Counts { workloads, states, images, violations } = counts;
    let rate = states as f64 / seconds.max(0.001);
    if json {
        println!(
            "{{\"workloads\":{workloads},\"states\":{states},\"images\":{images},\
             \"violations\":{violations},\"states_per_s\":{rate:.0}}}"
        );
    } else {
        println!(
            "{workloads} workloads, {states} states, {images} images: {violations} violations, \
             {rate:.0} states/s"
        );
    }
}
