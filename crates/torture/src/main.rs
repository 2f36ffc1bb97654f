//! `duramen-torture`: for developers of an engine.
//!
//! Each word is a campaign, see `torture::campaign`. A violation is printed with the line that
//! repeats it.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use torture::campaign::contract::two_faults;
use torture::campaign::{
    Cuts, Options, Outcome, case, concurrent, conformance, contract, crowd, data, faults, nested,
    retry, rot, sequences, space, ways,
};
use torture::explore::Counts;
use torture::explore::design::{DELAYED, Design, TRIED};
use torture::explore::device::Device;

/// A word, its description, and its function.
type Campaign = (&'static str, &'static str, fn(&Options) -> Outcome);

/// Every campaign.
const CAMPAIGNS: &[Campaign] = &[
    ("seq1", "all workloads of one operation, cut at every write", sequences::singles),
    ("seq2", "all workloads of two operations, cut at every write", sequences::pairs),
    ("nested", "returns that are cut, and the returns after them", nested::nested),
    ("ways", "every way in and out of a volume, cut and followed by another", ways::ways),
    ("concurrent", "histories of four clients with cuts, explained", concurrent::concurrent),
    ("data", "contents of files, cut at any event, compared byte by byte", data::data),
    ("space", "four clients on a volume that is full, stopped, checked, cut", space::space),
    ("retry", "calls that must not run twice, cut and repeated", retry::promised),
    ("faults", "an error at every read, write and flush of a trace", faults::everywhere),
    ("rot", "one damaged block anywhere, and then ordinary life and a repair", rot::rot),
    ("contract", "pairs of writes to a device, any disk of it lost at any cut", contract::contract),
    (TWO_FAULTS, "two faults of a set at once, repaired to the end", two_faults::two_faults),
    ("conformance", "random operations, compared with a reference", conformance::random),
    ("crowd", "many clients at once, what they hold and how long they wait", crowd::crowd),
    #[cfg(feature = "planted-bugs")]
    (
        PLANTED,
        "every planted bug, found by its row of the table",
        torture::campaign::planted::planted,
    ),
];

/// The campaign of sets of disks alone.
const TWO_FAULTS: &str = "two-faults";
/// The campaign that tests the others.
const PLANTED: &str = "planted";

/// The campaigns of an engine without disks.
const WITHOUT_DISKS: [&str; 4] = ["concurrent", "conformance", "crowd", "retry"];

/// The campaigns on a set of disks.
const OF_SETS: [&str; 7] = ["contract", TWO_FAULTS, "rot", "seq1", "seq2", "faults", "conformance"];

/// The campaigns with an NVRAM.
const OF_NVRAM: [&str; 4] = ["contract", "seq1", "seq2", "conformance"];

/// The campaign of only those designs whose answers survive.
const OF_MEMORABLE: &str = "space";

/// The campaigns of a delayed volume.
const OF_DELAYED: [&str; 3] = ["seq1", "seq2", "nested"];
/// The other value of its option.
const DURABLE: &str = "durable";

/// The word for all campaigns, one after the other.
const ALL: &str = "all";
/// The word that replays a violation: the line that was printed with it follows.
const REPLAY: &str = "replay";

/// Breaks the disk, the power and the network under a server, and judges what comes of it.
#[derive(Debug, Parser)]
#[command(name = "duramen-torture", version, after_help = campaigns())]
struct Arguments {
    /// Which campaign; all of them without
    #[arg(default_value = ALL, value_parser = PossibleValuesParser::new(words()))]
    campaign: String,
    /// After 'replay', the line of a violation; after 'planted', a bug to look for a workload of
    argument: Option<String>,
    #[arg(long, help = engines())]
    engine: Option<String>,
    #[arg(long, help = policies())]
    policy: Option<String>,
    /// Whether answers wait for the disk: durable, or delayed, which is for seq1, seq2 and nested
    #[arg(long, default_value = DURABLE, value_parser = [DURABLE, DELAYED])]
    durability: String,
    /// Keep intents in a ring beside the volume, under the policies that do
    #[arg(long)]
    intents: bool,
    /// Disks of the volume: plain, raid1, raid5, nvram or raid5+nvram
    #[arg(long, default_value_t)]
    device: Device,
    /// End with one line of JSON
    #[arg(long)]
    json: bool,
    /// Play everything, not a sample
    #[arg(long, conflicts_with = "seconds")]
    full: bool,
    /// Draw workloads by the seed until this time is spent
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Number of threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The result of one campaign, and its duration.
struct Run {
    word: &'static str,
    outcome: Outcome,
    seconds: f64,
}

fn words() -> Vec<&'static str> {
    CAMPAIGNS.iter().map(|(word, ..)| *word).chain([ALL, REPLAY]).collect()
}

/// The engines, for the help.
fn engines() -> String {
    let default = Design::default().engine();
    format!(
        "One of {}; without disks there are {} [default: {default}]",
        TRIED.engines().join(", "),
        WITHOUT_DISKS.join(", ")
    )
}

/// The policies, for the help.
fn policies() -> String {
    let told = TRIED.engines().into_iter().filter_map(|engine| {
        let mut of_it = TRIED.of_engine(engine).filter_map(|design| design.policy);
        let default = of_it.next()?;
        let others: String = of_it.map(|policy| format!(", {policy}")).collect();
        Some(format!("of {engine} one of {default}{others} [default: {default}]"))
    });
    format!("How an engine keeps its promises: {}", told.collect::<Vec<_>>().join("; "))
}

/// The campaigns, for the help.
fn campaigns() -> String {
    let lines = CAMPAIGNS.iter().map(|(word, about, _)| format!("  {word:<12} {about}\n"));
    format!("Campaigns:\n{}\n  {REPLAY} CASE  a violation, shown again", lines.collect::<String>())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { campaign, argument, json, full, seconds, threads, seed, .. } = &arguments;
    let design = match arguments.design() {
        Ok(design) => design,
        Err(reason) => return refuse(&reason),
    };
    let (full, seconds, threads, seed) = (*full, *seconds, *threads, *seed);
    let options = Options { design, full, seconds, stops_at_first: false, threads, seed };
    match (&campaign[..], argument) {
        (REPLAY, line) => return replay(line.as_deref().unwrap_or_default()),
        #[cfg(feature = "planted-bugs")]
        (PLANTED, Some(bug)) => return search(&options, bug),
        (_, Some(word)) => return refuse(&format!("'{word}' follows no campaign")),
        (_, None) => {}
    }
    let mut runs = Vec::new();
    for (word, _, function) in CAMPAIGNS.iter().filter(|(word, ..)| suits(design, word)) {
        if campaign == ALL && *word != PLANTED || campaign == *word {
            runs.push(run(word, *function, &options));
        }
    }
    if runs.is_empty() {
        let (without, delayed) = (WITHOUT_DISKS.join(", "), OF_DELAYED.join(", "));
        let (sets, nvram) = (OF_SETS.join(", "), OF_NVRAM.join(", "));
        return refuse(&format!(
            "without disks there are {without}; of a delayed volume, {delayed}; of a set of disks, \
             {sets}; with an NVRAM, {nvram}"
        ));
    }
    table(&runs);
    if *json {
        println!("{}", as_json(&runs, design));
    }
    let violations: u64 = runs.iter().map(|run| run.outcome.counts.violations).sum();
    let found = violations > 0 || runs.iter().any(|run| !run.outcome.violations.is_empty());
    if found { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

impl Arguments {
    fn design(&self) -> Result<Design, String> {
        let found = Design::find(self.engine.as_deref(), self.policy.as_deref());
        let design = found.map_err(|unknown| unknown.to_string())?;
        let design = if self.durability == DELAYED { design.delayed() } else { design };
        let design = if self.intents { design.with_ring() } else { design };
        Ok(design.on(self.device))
    }
}

/// Whether a campaign can test a design.
fn suits(design: Design, word: &str) -> bool {
    (design.has_disks() || WITHOUT_DISKS.contains(&word))
        && (!design.is_delayed() || OF_DELAYED.contains(&word))
        && match design.device() {
            Device::Plain => true,
            Device::Nvram | Device::Raid5Nvram => OF_NVRAM.contains(&word),
            Device::Raid1 | Device::Raid5 => OF_SETS.contains(&word),
        }
        && (word != OF_MEMORABLE || design.remembers())
        && (word != TWO_FAULTS || design.device() != Device::Plain)
}

fn refuse(reason: &str) -> ExitCode {
    eprintln!("duramen-torture: {reason}");
    ExitCode::from(2)
}

/// Replays a violation.
fn replay(line: &str) -> ExitCode {
    let outcome = match case::replay(line) {
        Ok(outcome) => outcome,
        Err(reason) => return refuse(&reason),
    };
    for line in outcome.remarks.iter().chain(&outcome.violations) {
        println!("{line}");
    }
    if outcome.violations.is_empty() {
        println!("{line}: nothing is wrong");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Searches for a workload that exposes a bug.
#[cfg(feature = "planted-bugs")]
fn search(options: &Options, bug: &str) -> ExitCode {
    match bug.parse() {
        Ok(bug) => {
            let outcome = torture::campaign::planted::search(options, bug);
            outcome.remarks.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(reason) => refuse(&reason),
    }
}

fn run(word: &'static str, function: fn(&Options) -> Outcome, options: &Options) -> Run {
    #[expect(clippy::disallowed_methods, reason = "how long a person waited")]
    let start = Instant::now();
    let outcome = function(options);
    let seconds = start.elapsed().as_secs_f64();
    for line in outcome.violations.iter().chain(&outcome.remarks) {
        println!("{word}: {line}");
    }
    Run { word, outcome, seconds }
}

impl Run {
    fn states_per_second(&self) -> f64 {
        self.outcome.counts.states as f64 / self.seconds.max(0.001)
    }
}

fn table(runs: &[Run]) {
    println!(
        "{:<12} {:>10} {:>12} {:>12} {:>10} {:>10} {:>8}",
        "campaign", "workloads", "states", "images", "violations", "states/s", "seconds"
    );
    for run in runs {
        let Counts { workloads, states, images, violations } = run.outcome.counts;
        println!(
            "{:<12} {workloads:>10} {states:>12} {images:>12} {violations:>10} {:>10.0} {:>8.0}",
            run.word,
            run.states_per_second(),
            run.seconds
        );
    }
}

/// One object for each campaign, in a list if there are several.
fn as_json(runs: &[Run], design: Design) -> String {
    let policy = design.policy().map_or("null".to_owned(), |policy| format!("\"{policy}\""));
    let objects = runs.iter().map(|run| {
        let Counts { workloads, states, images, violations } = run.outcome.counts;
        // On disks every cut takes and keeps something: such cuts are not counted.
        let Cuts { taking, keeping } = run.outcome.cuts;
        let is_counted = !design.has_disks();
        let told = |count: u64| if is_counted { count.to_string() } else { "null".to_owned() };
        let [taking, keeping] = [taking, keeping].map(told);
        format!(
            "{{\"campaign\":\"{}\",\"engine\":\"{}\",\"policy\":{},\"durability\":\"{}\",\
             \"device\":\"{}\",\
             \"workloads\":{workloads},\"states\":{states},\"images\":{images},\
             \"violations\":{violations},\"cuts_taking\":{taking},\"cuts_keeping\":{keeping},\
             \"states_per_s\":{:.0},\"seconds\":{:.1}}}",
            run.word,
            design.engine(),
            policy,
            if design.is_delayed() { DELAYED } else { DURABLE },
            design.device(),
            run.states_per_second(),
            run.seconds
        )
    });
    let objects: Vec<String> = objects.collect();
    match &objects[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(",")),
    }
}
