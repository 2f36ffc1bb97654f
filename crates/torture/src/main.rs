//! `duramen-torture`: for whoever changes an engine.
//!
//! Each word is a campaign, see `torture::campaign`. What is printed of a violation repeats it.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use torture::campaign::{Options, Outcome, sequences};
use torture::explore::Counts;

/// Cuts the power at every write, in every way, and judges what comes back.
#[derive(Debug, Parser)]
#[command(name = "duramen-torture", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    campaign: Campaign,
    /// End with one line of JSON
    #[arg(long, global = true)]
    json: bool,
    /// Everything, and not a sample
    #[arg(long, global = true)]
    full: bool,
    /// How many threads
    #[arg(long, global = true, default_value_t = 2)]
    threads: usize,
    /// From which random choices follow
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum Campaign {
    /// All workloads of one operation
    Seq1,
    /// All workloads of two operations, one after the other and both at once
    Seq2,
}

fn main() -> ExitCode {
    let Arguments { campaign, json, full, threads, seed } = Arguments::parse();
    let options = Options { full, threads, seed };
    #[expect(clippy::disallowed_methods, reason = "how long a person waited")]
    let start = Instant::now();
    let outcome = match campaign {
        Campaign::Seq1 => sequences::singles(&options),
        Campaign::Seq2 => sequences::pairs(&options),
    };
    report(&outcome, start.elapsed().as_secs_f64(), json);
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(outcome: &Outcome, seconds: f64, json: bool) {
    for line in outcome.violations.iter().chain(&outcome.remarks) {
        println!("{line}");
    }
    let Counts { workloads, states, images, violations } = outcome.counts;
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
