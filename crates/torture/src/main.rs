//! `duramen-torture`: for developers of an engine.
//!
//! Each word is a campaign, see `torture::campaign`. What is printed of a violation repeats it.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use torture::campaign::concurrent::seed::PartOf;
use torture::campaign::{
    Cuts, Options, Outcome, concurrent, conformance, contract, data, faults, nested, retry,
    sequences, space,
};
use torture::explore::Counts;
use torture::explore::case::Case;
use torture::explore::design::{DELAYED, Design, TRIED};
use torture::explore::device::Device;
use torture::explore::ways;

/// A word, what it does, and the function that does it.
type Campaign = (&'static str, &'static str, fn(&Options) -> Outcome);

/// Every campaign.
const CAMPAIGNS: &[Campaign] = &[
    ("seq1", "all workloads of one operation, cut at every write", sequences::singles),
    ("seq2", "all workloads of two operations, cut at every write", sequences::pairs),
    ("nested", "returns that are cut, and the returns after them", nested::nested),
    ("concurrent", "histories of four clients with cuts, explained", concurrent::concurrent),
    ("data", "what files hold, cut at any event, compared byte by byte", data::data),
    ("space", "four clients on a volume that is full, stopped, checked, cut", space::space),
    ("retry", "calls that must not run twice, cut and repeated", retry::promised),
    ("faults", "an error at every read, write and flush of a trace", faults::everywhere),
    #[cfg(feature = "planted-bugs")]
    ("planted", "which workload brings which planted bug to light", |options| {
        torture::campaign::planted::planted(options, None)
    }),
    ("contract", "pairs of writes to a device, any disk of it lost at any cut", contract::contract),
    ("conformance", "random operations, compared with a reference", conformance::random),
];

/// What can be tried of an engine that has no disks.
const WITHOUT_DISKS: [&str; 3] = ["concurrent", "conformance", "retry"];

/// What can be tried of a set of disks.
const OF_SETS: [&str; 5] = ["contract", "seq1", "seq2", "faults", "conformance"];

/// What is tried of designs alone whose answers outlive a cut.
const OF_MEMORABLE: &str = "space";

/// What can be tried of a volume that is declared delayed.
const OF_DELAYED: [&str; 3] = ["seq1", "seq2", "nested"];
/// The other word of its option.
const DURABLE: &str = "durable";

/// The word for all of them, one after the other.
const ALL: &str = "all";
/// The word for one history of `concurrent`, told in full: its number follows.
const SEED: &str = "seed";
/// The word for a violation that is shown again: the line that was printed with it follows.
const REPLAY: &str = "replay";

/// Breaks the disk, the power and the network under a server, and judges what comes of it.
#[derive(Debug, Parser)]
#[command(name = "duramen-torture", version, after_help = campaigns())]
struct Arguments {
    /// Which campaign; all of them without
    #[arg(default_value = ALL, value_parser = PossibleValuesParser::new(words()))]
    campaign: String,
    /// After 'seed', the number of a history; after 'replay', the line of a violation
    argument: Option<String>,
    #[arg(long, help = engines())]
    engine: Option<String>,
    #[arg(long, help = policies())]
    policy: Option<String>,
    /// Whether answers wait for the disk: durable, or delayed, which is for seq1, seq2 and nested
    #[arg(long, default_value = DURABLE, value_parser = [DURABLE, DELAYED])]
    durability: String,
    /// What the volume stands on: plain, raid1 or raid5; of sets there are contract, seq1 and seq2
    #[arg(long, default_value_t)]
    device: Device,
    #[command(flatten)]
    part: PartOf,
    /// End with one line of JSON
    #[arg(long)]
    json: bool,
    /// Everything, and not a sample
    #[arg(long)]
    full: bool,
    /// How many threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// From which random choices follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What one campaign did, and how long it took.
struct Run {
    word: &'static str,
    outcome: Outcome,
    seconds: f64,
}

fn words() -> Vec<&'static str> {
    CAMPAIGNS.iter().map(|(word, ..)| *word).chain([ALL, SEED, REPLAY]).collect()
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

/// The campaigns, for a user that asks for help.
fn campaigns() -> String {
    let lines = CAMPAIGNS.iter().map(|(word, about, _)| format!("  {word:<12} {about}\n"));
    format!(
        "Campaigns:\n{}\n  {SEED} N       one history of 'concurrent', told in full\n  \
         {REPLAY} CASE  a violation of 'seq1', 'seq2' or 'nested', shown again",
        lines.collect::<String>()
    )
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments {
        campaign,
        argument,
        engine,
        policy,
        durability,
        device,
        part,
        json,
        full,
        threads,
        seed,
    } = arguments;
    let design = match Design::find(engine.as_deref(), policy.as_deref()) {
        Ok(design) if durability == DELAYED => design.delayed(),
        Ok(design) => design,
        Err(unknown) => {
            eprintln!("duramen-torture: {unknown}");
            return ExitCode::from(2);
        }
    };
    let design = design.on(device);
    let options = Options { design, full, threads, seed };
    match &campaign[..] {
        SEED => return tell_seed(argument.as_deref(), design, &part),
        REPLAY => return replay(argument.as_deref()),
        _ => {}
    }
    let mut runs = Vec::new();
    let suits = |word: &&str| {
        (design.has_disks() || WITHOUT_DISKS.contains(word))
            && (!design.is_delayed() || OF_DELAYED.contains(word))
            && (device == Device::Plain || OF_SETS.contains(word))
            && (*word != OF_MEMORABLE || design.remembers())
    };
    for (word, _, function) in CAMPAIGNS.iter().filter(|(word, ..)| suits(word)) {
        if campaign == ALL || campaign == *word {
            runs.push(run(word, *function, &options));
        }
    }
    if runs.is_empty() {
        let (without, delayed) = (WITHOUT_DISKS.join(", "), OF_DELAYED.join(", "));
        let sets = OF_SETS.join(", ");
        eprintln!(
            "duramen-torture: without disks there are {without}; of a delayed volume, {delayed}; \
             of a set of disks, {sets}"
        );
        return ExitCode::from(2);
    }
    table(&runs);
    if json {
        println!("{}", as_json(&runs, design));
    }
    let violations: u64 = runs.iter().map(|run| run.outcome.counts.violations).sum();
    let found = violations > 0 || runs.iter().any(|run| !run.outcome.violations.is_empty());
    if found { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Shows a violation again.
fn replay(case: Option<&str>) -> ExitCode {
    let line = case.unwrap_or_default();
    if let Ok(ways) = line.parse::<ways::case::Case>() {
        return tell(&ways, ways.replay());
    }
    let case = match line.parse::<Case>() {
        Ok(case) => case,
        Err(error) => {
            eprintln!("duramen-torture: 'replay' wants the line of a violation: {error}");
            return ExitCode::from(2);
        }
    };
    tell(&case, case.replay())
}

fn tell(case: &dyn std::fmt::Display, found: Result<(), String>) -> ExitCode {
    match found {
        Ok(()) => {
            println!("{case}: nothing is wrong");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            println!("{case}: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Tells one history.
fn tell_seed(number: Option<&str>, design: Design, part: &PartOf) -> ExitCode {
    let Some(number) = number.and_then(|text| text.parse().ok()) else {
        eprintln!("duramen-torture: 'seed' wants the number of a history");
        return ExitCode::from(2);
    };
    let outcome = concurrent::seed::seed(number, design, part);
    for line in outcome.violations.iter().chain(&outcome.remarks) {
        println!("{line}");
    }
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
        // Of disks each cut takes and keeps something: they are not counted.
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
