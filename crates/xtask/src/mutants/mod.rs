//! Sources that are broken on purpose, one small change at a time, and whether a test notices.
//!
//! 1. [`areas`] names the parts of the workspace that keep the promise, and the tests of each.
//! 2. [`finder`] knows what can be broken in a source, and [`rewrite`] puts it all in at once, each
//!    mutant behind a switch; [`choose`] takes a sample, a share.
//! 3. [`workshop`] has a copy of the sources, [`broken`] builds it with the mutants in it.
//! 4. [`trials`] finds out which tests reach which mutants, and switches them on, one at a time.
//! 5. [`report`] tells of it; [`accepted`] knows what no test can notice. A mutant that was missed
//!    and is not accepted fails the run, and so does an entry of the accepted that fits nothing, or
//!    a mutant that a test does notice.
//!
//! A build for each mutant would take most of the time: this way there is one for each program of
//! tests, and most mutants are noticed by a test of a few milliseconds.

mod accepted;
mod areas;
mod broken;
mod choose;
mod finder;
mod report;
mod rewrite;
mod trials;
mod values;
mod workshop;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use accepted::{Accepted, LIST};
use areas::{Area, Stage};
use broken::Broken;
pub use choose::Shard;
use choose::sample;
use finder::Mutant;
use report::Report;
use trials::{Fate, Test};
use workshop::Workshop;

use crate::failure::While;
use crate::{Repository, Result, clock, command};

/// Which mutants to try.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Only those in what has changed since this commit.
    pub diff: Option<String>,
    /// Only those of these parts.
    pub areas: Vec<String>,
    /// Number of mutants to draw from each area.
    pub sample: Option<usize>,
    /// Seed of the draw.
    pub seed: u64,
    /// Only this share of them.
    pub shard: Option<Shard>,
    /// Only with the quickest tests of each part.
    pub first: bool,
    /// Name them, and try none.
    pub list: bool,
}

/// A part, how many mutants it has, and where the chosen ones stand in the list of all.
struct Part {
    area: Area,
    of: usize,
    chosen: std::ops::Range<usize>,
}

/// The copy with the mutants in it, and the stages whose tests are built and known.
struct Bench<'a> {
    broken: Broken<'a>,
    tests: Vec<(Stage, Rc<[Test]>)>,
    times: Times,
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    building: Duration,
    measuring: Duration,
    trying: Duration,
}

impl Bench<'_> {
    fn new(broken: Broken<'_>) -> Bench<'_> {
        Bench { broken, tests: Vec::new(), times: Times::default() }
    }

    /// The tests of a stage. Parts share stages: each is built and measured once.
    fn tests(&mut self, stage: &Stage) -> Result<Rc<[Test]>> {
        if let Some((_, tests)) = self.tests.iter().find(|(known, _)| known == stage) {
            return Ok(Rc::clone(tests));
        }
        let programs = timed(&mut self.times.building, || self.broken.build(stage))?;
        println!("mutants: built; now each test alone, to see what it reaches");
        let tests = timed(&mut self.times.measuring, || trials::tests(&programs, stage.parts()))?;
        let tests = Rc::<[Test]>::from(tests);
        self.tests.push((*stage, Rc::clone(&tests)));
        Ok(tests)
    }
}

/// Does something, and adds how long that took.
fn timed<T>(sum: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = clock::now();
    let result = work();
    *sum += clock::now() - start;
    result
}

/// Carries out the plan. Says whether no mutant was missed.
pub fn run(repository: &Repository, plan: &Plan) -> Result<bool> {
    let list = repository.root().join(LIST);
    let accepted = Accepted::list(&fs::read_to_string(&list).while_doing(LIST)?)?;
    let areas = areas::chosen(&plan.areas)?;
    let difference = plan.diff.as_deref().map(|base| difference(repository, base)).transpose()?;
    let workshop = Workshop::open(repository)?;
    let mut report = Report::new(plan, &accepted);
    let (mut parts, mut mutants) = (Vec::new(), Vec::new());
    let is_touched = |area: &Area| {
        difference.as_ref().is_none_or(|files| files.keys().any(|file| area.has(file)))
    };
    for mut area in areas.into_iter().filter(is_touched) {
        if plan.first {
            area.stages = &area.stages[..1];
        }
        let mut all = workshop.mutants(&area)?;
        report.must_fit(&area, &all);
        let of = all.len();
        if let Some(difference) = &difference {
            all.retain(|mutant| touches(difference, mutant));
        }
        let start = mutants.len();
        mutants.extend(choose(plan, all));
        parts.push(Part { area, of, chosen: start..mutants.len() });
    }
    if plan.list {
        mutants.iter().for_each(|mutant| println!("{}", mutant.name));
        parts.iter().for_each(|part| report.add(&part.area, part.of, &[]));
    } else {
        let mut bench = Bench::new(Broken::new(&workshop, &mutants)?);
        for part in &parts {
            report.add(&part.area, part.of, &try_out(&mut bench, part, &mutants)?);
        }
        let Times { building, measuring, trying } = bench.times;
        let [building, measuring, trying] = [building, measuring, trying].map(|t| t.as_secs());
        println!("mutants: seconds: {building} building, {measuring} measuring, {trying} trying");
    }
    report.print();
    Ok(report.is_good())
}

/// The lines of a file that a change has left behind, as ranges of numbers.
type Lines = Vec<std::ops::RangeInclusive<usize>>;

/// What has changed since `base` and this branch went apart, up to the files as they are now: the
/// files that have other text, and which lines. Where lines have gone, both neighbours are meant.
fn difference(repository: &Repository, base: &str) -> Result<BTreeMap<String, Lines>> {
    let mut git = Command::new("git");
    git.args(["diff", "--no-color", "--no-ext-diff", "--unified=0", "--merge-base", base]);
    let text = command::capture(git.args(["--", "crates"]).current_dir(repository.root()))?;
    Ok(changed(&text))
}

fn changed(difference: &str) -> BTreeMap<String, Lines> {
    let mut files = BTreeMap::<String, Lines>::new();
    let mut file = None;
    for line in difference.lines() {
        if let Some(name) = line.strip_prefix("+++ ") {
            file = name.strip_prefix("b/").map(|name| files.entry(name.to_owned()).or_default());
        } else if let Some(place) =
            line.strip_prefix("@@ -").and_then(|line| line.split('+').nth(1))
            && let Some(file) = &mut file
        {
            let place = place.split(' ').next().unwrap_or_default();
            let (start, count) = place.split_once(',').unwrap_or((place, "1"));
            if let (Ok(start), Ok(count)) = (start.parse::<usize>(), count.parse::<usize>()) {
                file.push(start..=if count == 0 { start + 1 } else { start + count - 1 });
            }
        }
    }
    files
}

/// Whether a mutant is about something that has changed.
fn touches(difference: &BTreeMap<String, Lines>, mutant: &Mutant) -> bool {
    let lines = difference.get(&mutant.file).into_iter().flatten();
    lines
        .into_iter()
        .any(|lines| lines.start() <= mutant.lines.end() && mutant.lines.start() <= lines.end())
}

fn choose(plan: &Plan, all: Vec<Mutant>) -> Vec<Mutant> {
    let drawn = match plan.sample {
        None => all,
        Some(size) => sample(all, size, plan.seed),
    };
    plan.shard.map_or(drawn.clone(), |shard| shard.of(drawn))
}

/// Tries mutants with one stage of tests after the other. What one has missed is for the next.
fn try_out<'a>(
    bench: &mut Bench<'_>,
    part: &Part,
    mutants: &'a [Mutant],
) -> Result<Vec<(&'a Mutant, Fate)>> {
    let mut fates = BTreeMap::new();
    for stage in part.area.stages {
        let is_left = |number: &usize| {
            matches!(fates.get(number), None | Some(Fate::Missed | Fate::Unreached))
        };
        if !part.chosen.clone().any(|number| is_left(&number)) {
            break;
        }
        let (name, package) = (part.area.name, stage.package);
        println!("mutants: {name}, tests of {package} {}", stage.which.join(" "));
        let tests = bench.tests(stage)?;
        let left = part.chosen.clone().filter(|number| bench.broken.is_viable(*number));
        let left = left.filter(is_left).collect::<Vec<_>>();
        println!("mutants: {} of {name}, {} tests", left.len(), tests.len());
        let tests = &tests[..];
        let try_one = |number: &usize| {
            let (fate, test) = trials::fate(tests, *number)?;
            println!("mutants: {fate:?} {}: {test}", mutants[*number].name);
            Ok((*number, fate))
        };
        let tried = timed(&mut bench.times.trying, || trials::together(left, try_one));
        for (number, fate) in tried.into_iter().collect::<Result<Vec<_>>>()? {
            let before = fates.insert(number, fate);
            if fate == Fate::Unreached && before == Some(Fate::Missed) {
                fates.insert(number, Fate::Missed);
            }
        }
    }
    let fate = |number: usize| {
        let fate = fates.get(&number).filter(|_| bench.broken.is_viable(number));
        (&mutants[number], fate.copied().unwrap_or(Fate::Unviable))
    };
    Ok(part.chosen.clone().map(fate).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    #[test]
    fn a_difference_touches_the_lines_that_it_changes() {
        let difference = "--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@ fn f() {\n-old\n+new\n\
                          @@ -9,2 +8,0 @@\n\
                          @@ -20,0 +21,3 @@\n--- a/gone.rs\n+++ /dev/null\n@@ -1,7 +0,0 @@\n";
        let changed = changed(difference);
        assert_eq!(changed, BTreeMap::from([("a.rs".to_owned(), vec![1..=1, 8..=9, 21..=23])]));
        let text = "fn f() -> A {\n    a +\n        b\n}\n".repeat(6);
        let found = finder::find("a.rs", &text).expect("it is Rust").mutants;
        let touched = found.iter().filter(|mutant| touches(&changed, mutant));
        assert_eq!(touched.map(|mutant| mutant.line).collect::<Vec<_>>(), [22]);
    }

    #[test]
    fn a_shard_is_a_share_of_the_sample() {
        let text = "fn f() -> A {\n    a + b\n}\n".repeat(100);
        let all = finder::find("a.rs", &text).expect("it is Rust").mutants;
        let plan = |shard: &str| Plan {
            sample: Some(10),
            seed: 7,
            shard: Some(shard.parse().expect("a shard")),
            ..Plan::default()
        };
        let [first, second] = ["1/2", "2/2"].map(|shard| choose(&plan(shard), all.clone()));
        assert_eq!((first.len(), second.len()), (5, 5));
        assert!(first.iter().all(|mutant| !second.contains(mutant)));
    }

    const TINY: &str = r#"
pub fn is_small(number: u8) -> bool {
    number < 3
}

pub fn longer(text: &str) -> String {
    text.to_owned() + "b"
}

pub fn seven() -> u8 {
    7
}

pub fn nothing(number: u8) {
    assert!(number > 1);
}

#[test]
fn small_numbers_are_small() {
    assert!(is_small(1) && !is_small(5));
    assert_eq!(longer("a"), "ab");
    nothing(3);
}
"#;

    #[test]
    fn mutants_of_a_tiny_crate_have_their_fates() {
        let folder = TemporaryFolder::new("mutants").expect("there is room");
        let root = folder.path().join("tree");
        fs::create_dir_all(root.join("crates/tiny/src")).expect("there is room");
        let manifest = "[package]\nname = \"tiny\"\nedition = \"2024\"\n[lints.rust]\n\
                        unused_parens = \"deny\"\n";
        fs::write(root.join("crates/tiny/Cargo.toml"), manifest).expect("there is room");
        fs::write(root.join("crates/tiny/src/lib.rs"), TINY).expect("there is room");
        let top = "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n";
        fs::write(root.join("Cargo.toml"), top).expect("there is room");
        command::capture(Command::new("git").args(["init", "--quiet"]).current_dir(&root))
            .expect("git is there");
        let workshop = Workshop::within(root, folder.path().join("mutants")).expect("it is ours");
        let stages = &[Stage { package: "tiny", which: &["--lib"] }];
        let area = Area { name: "tiny", files: &["crates/tiny/src/**/*.rs"], stages };
        let mutants = workshop.mutants(&area).expect("it is Rust");
        let part = Part { area, of: mutants.len(), chosen: 0..mutants.len() };
        let broken = Broken::new(&workshop, &mutants).expect("there is room");
        let fates = try_out(&mut Bench::new(broken), &part, &mutants).expect("it can be built");
        let fates = fates.iter().map(|(mutant, fate)| (&mutant.what[..], *fate));
        let fates = fates.collect::<Vec<_>>();
        let expected = [
            ("replace is_small -> bool with true", Fate::Caught),
            ("replace is_small -> bool with false", Fate::Caught),
            ("replace < with <= in is_small", Fate::Missed),
            ("replace 3 with 2 in is_small", Fate::Missed),
            ("replace + with - in longer", Fate::Unviable),
            ("replace seven -> u8 with 0", Fate::Unreached),
            ("replace seven -> u8 with 1", Fate::Unreached),
            ("replace nothing with ()", Fate::Missed),
        ];
        assert_eq!(fates, expected);
    }
}
