//! `member-bench`: one measured run on disks, or on the set that they form.
//!
//! `cargo xtask raid-race` runs it for both, to compare a set with its bare disks under the same
//! reactor, the same requests and the same final flush. It prints one JSON object.
//!
//! Layers: `places` opens the devices as a server does: by io_uring, and past the page cache for
//! large transfers ([`block::file::DiskFile::large_past_cache`]). `runs` has the measurements; a
//! set is one place there, and plain disks are several. `failure` has the error messages.
//!
//! Contract: the disks' contents are lost, unless they are only read. Preparation (making or
//! opening a set) is not part of the measured time.
//!
//! Architecture invariant: no logic of a set is here, and no judgement of a figure. **Absent:**
//! repetition, medians and comparisons, which the caller does.

mod failure;
mod places;
mod runs;

use std::path::PathBuf;
use std::process::ExitCode;

use block::Retention;
use clap::{Parser, ValueEnum};
use failure::Failure;
use places::{Places, Takes};
use runs::{Amount, Measured};
use runtime::Runtime;
use serde_json::{Value, json};
use server::reactor;

/// Memory of large buffers that is retained, as in a server whose cache is not full: otherwise the
/// kernel zeroes memory that it gets back, before it hands it out again.
const RETAINED: usize = 256 << 20;

/// The same allocator as the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures disks, or the RAID-5 set that they make. What stood on them is lost.
#[derive(Debug, Parser)]
#[command(name = "member-bench", version)]
struct Arguments {
    /// What to measure
    run: Run,
    /// On the set that the disks make, instead of on the disks
    #[arg(long)]
    set: bool,
    /// MiB to move, of all disks together; of `remake`, those of one; of `overwrite`, those among
    /// which it draws
    #[arg(long, value_name = "MIB", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    mib: u64,
    /// KiB of a request [default: 1024; of `overwrite` 8]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(4..=1 << 14))]
    kib: Option<u64>,
    /// Requests that are under way at once, on all disks together
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: u32,
    /// For how long to overwrite
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Have every transfer go past the page cache, not only the large ones
    #[arg(long)]
    past_cache: bool,
    /// Block devices or files that are there
    #[arg(required = true)]
    disks: Vec<PathBuf>,
}

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Run {
    /// Writes one request after the other, and flushes. A set is made anew before
    Write,
    /// Reads one request after the other. A member of a set that is not named is out
    Read,
    /// Makes the last disk the missing member of the set of the others. Of plain disks: reads the
    /// others at once, and writes the last
    Remake,
    /// Overwrites at random places, durably each
    Overwrite,
}

impl Run {
    fn name(self) -> &'static str {
        match self {
            Run::Write => "write",
            Run::Read => "read",
            Run::Remake => "remake",
            Run::Overwrite => "overwrite",
        }
    }
}

/// Parses a plausible number of seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "it is a number of seconds, and no more than 3600".to_owned())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let retention = Retention::default();
    retention.set(RETAINED);
    let measured = reactor::block_on(|runtime| async { measure(&arguments, runtime).await });
    match measured.map_err(Failure::Reactor).and_then(|measured| measured) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("member-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(arguments: &Arguments, runtime: Runtime) -> Result<Value, Failure> {
    let Arguments { run, set: is_set, mib, kib, depth, seconds, past_cache, ref disks } =
        *arguments;
    let usual_kib = if run == Run::Overwrite { 8 } else { 1024 };
    let request = kib.unwrap_or(usual_kib) << 10;
    let amount = Amount { bytes: mib << 20, request, depth: depth as usize, seconds };
    let takes = if past_cache { Takes::All } else { Takes::Large };
    let (last, others) = disks.split_last().expect("one is required");
    let (places, measured) = match (run, is_set) {
        (Run::Remake, _) if others.is_empty() => {
            return Err(Failure::Usage("remake needs a disk, and others to make it of".to_owned()));
        }
        (Run::Remake, true) => {
            let places = Places::set(others, takes, false, &runtime).await?;
            let measured = runs::rebuild(&places, last, &runtime).await?;
            (places, measured)
        }
        _ => {
            let places = if is_set {
                Places::set(disks, takes, run == Run::Write, &runtime).await?
            } else {
                Places::disks(disks, takes)?
            };
            let devices = &places.devices;
            let measured = match run {
                Run::Write => runs::write(devices, &amount, &runtime).await,
                Run::Read => runs::read(devices, &amount, &runtime).await,
                Run::Remake => runs::copy(devices, &amount, &runtime).await,
                Run::Overwrite => runs::overwrite(devices, &amount, &runtime).await,
            };
            (places, measured?)
        }
    };
    let mut report = report(run, &measured);
    report["of"] = if is_set { places.told() } else { json!("disks") };
    places.close().await?;
    Ok(report)
}

fn report(run: Run, measured: &Measured) -> Value {
    let Measured { bytes, requests, seconds } = *measured;
    json!({
        "run": run.name(),
        "bytes": bytes,
        "requests": requests,
        "seconds": seconds,
        "mib_per_s": bytes as f64 / f64::from(1 << 20) / seconds,
        "requests_per_s": requests as f64 / seconds,
    })
}
