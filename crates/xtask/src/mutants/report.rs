//! What people read in the end: a table, and the lines to look at.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Plan;
use super::accepted::{Accepted, LIST};
use super::areas::Area;
use super::finder::Mutant;
use super::trials::Fate;

/// All that was found.
#[derive(Debug)]
pub(super) struct Report<'a> {
    /// Which mutants of all those that there are.
    choice: String,
    accepted: &'a [Accepted],
    rows: Vec<Row>,
    /// What to look at: each fails the run.
    wrong: Vec<String>,
    /// What to know.
    notes: Vec<String>,
}

/// One part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    name: &'static str,
    /// How many mutants the part has, whatever was chosen.
    of: usize,
    caught: usize,
    missed: usize,
    accepted: usize,
    unviable: usize,
    timeout: usize,
}

/// What stands over the columns of the table: [`Row::words`].
const HEAD: [&str; 8] =
    ["part", "of", "tried", "caught", "timeout", "missed", "accepted", "unviable"];

impl Row {
    fn tried(&self) -> usize {
        self.caught + self.missed + self.accepted + self.unviable + self.timeout
    }

    fn words(&self) -> [String; 8] {
        let (of, tried) = (self.of, self.tried());
        let figures =
            [of, tried, self.caught, self.timeout, self.missed, self.accepted, self.unviable];
        let [a, b, c, d, e, f, g] = figures.map(|figure| figure.to_string());
        [self.name.to_owned(), a, b, c, d, e, f, g]
    }

    fn add(&mut self, other: &Row) {
        self.of += other.of;
        self.caught += other.caught;
        self.missed += other.missed;
        self.accepted += other.accepted;
        self.unviable += other.unviable;
        self.timeout += other.timeout;
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(plan: &Plan, accepted: &'a [Accepted]) -> Report<'a> {
        let choice = choice(plan);
        Report { choice, accepted, rows: Vec::new(), wrong: Vec::new(), notes: Vec::new() }
    }

    /// Tells of entries of the accepted that fit none of `all` mutants of a part any more.
    pub(super) fn must_fit(&mut self, area: &Area, all: &[Mutant]) {
        let mut of_file = BTreeMap::<&str, Vec<&Mutant>>::new();
        for mutant in all {
            of_file.entry(&mutant.file).or_default().push(mutant);
        }
        for entry in self.accepted.iter().filter(|entry| area.has(&entry.file)) {
            let mutants = of_file.get(entry.file.as_str()).into_iter().flatten();
            if !mutants.clone().any(|mutant| entry.fits(mutant)) {
                self.wrong.push(format!("fits no mutant, remove it from {LIST}: {entry}"));
            }
        }
    }

    /// Adds what became of the chosen mutants of a part that has `of`.
    pub(super) fn add(&mut self, area: &Area, of: usize, fates: &[(&Mutant, Fate)]) {
        let mut row = Row { name: area.name, of, ..Row::default() };
        for (mutant, fate) in fates {
            let entry = self.accepted.iter().find(|entry| entry.fits(mutant));
            let told = format!("{}\n      {}", mutant.name, mutant.source);
            match (fate, entry) {
                (Fate::Missed | Fate::Unreached, Some(entry)) => {
                    row.accepted += 1;
                    self.notes.push(format!("accepted: {}: {}", mutant.name, entry.reason));
                }
                (Fate::Missed, None) => {
                    row.missed += 1;
                    self.wrong.push(format!("missed: {told}"));
                }
                (Fate::Unreached, None) => {
                    row.missed += 1;
                    self.wrong.push(format!("missed, none of its tests reaches it: {told}"));
                }
                (Fate::Unviable, _) => row.unviable += 1,
                (Fate::Caught, _) => row.caught += 1,
                (Fate::Timeout, _) => {
                    row.timeout += 1;
                    self.notes.push(format!("timeout: {told}"));
                }
            }
            if let Some(entry) = entry.filter(|_| *fate == Fate::Caught) {
                self.wrong.push(format!("is noticed, remove it from {LIST}: {entry}"));
            }
        }
        self.rows.push(row);
    }

    /// Whether there is nothing to mend.
    pub(super) fn is_good(&self) -> bool {
        self.wrong.is_empty()
    }

    pub(super) fn print(&self) {
        self.notes.iter().chain(&self.wrong).for_each(|line| println!("mutants: {line}"));
        print!("{}", self.table());
    }

    /// One row for each part, and what they come to.
    fn table(&self) -> String {
        let mut table = String::new();
        let mut row = |words: &[String; 8]| {
            let [first, rest @ ..] = words;
            let rest = rest.each_ref().map(|word| format!("{word:>9}")).concat();
            writeln!(table, "mutants: {first:<12}{rest}").expect("a string takes everything");
        };
        row(&HEAD.map(str::to_owned));
        let mut sum = Row { name: "all", ..Row::default() };
        for one in &self.rows {
            row(&one.words());
            sum.add(one);
        }
        row(&sum.words());
        let (noticed, viable) = (sum.caught + sum.timeout, sum.tried() - sum.unviable);
        let share = if viable == 0 { 100.0 } else { noticed as f64 * 100.0 / viable as f64 };
        let choice = &self.choice;
        writeln!(
            table,
            "mutants: {choice}: {noticed} of {viable} viable were noticed, {share:.1} %"
        )
        .expect("a string takes everything");
        table
    }
}

/// The choice in words.
fn choice(plan: &Plan) -> String {
    let mut words = match &plan.diff {
        Some(base) => format!("what has changed since {base}"),
        None => "everything".to_owned(),
    };
    if let Some(size) = plan.sample {
        let seed = plan.seed;
        words.push_str(&format!(", a sample of {size} of each part by seed {seed}"));
    }
    if let Some(shard) = plan.shard {
        words.push_str(&format!(", shard {shard}"));
    }
    if plan.first {
        words.push_str(", the quickest tests alone");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::areas;
    use super::super::finder::find;
    use super::*;

    const FILE: &str = "crates/journal/src/writer.rs";

    fn mutant(line: usize) -> Mutant {
        let mutant = find(FILE, "fn f() -> A { a < b }").expect("it is Rust").mutants.remove(0);
        let name = format!("{FILE}:{line}:1: {}", mutant.what);
        Mutant { name, line, source: format!("line {line}"), ..mutant }
    }

    fn accepted() -> Vec<Accepted> {
        let text = format!("{FILE}: replace < with <= in f\n  | line 1\n  = Never the same.\n");
        Accepted::list(&text).expect("it is whole")
    }

    fn report<'a>(accepted: &'a [Accepted], fates: &[Fate]) -> Report<'a> {
        let area = areas::chosen(&["journal".to_owned()]).expect("there is one")[0];
        let plan = Plan { sample: Some(4), seed: 7, ..Plan::default() };
        let mut report = Report::new(&plan, accepted);
        let all = (0..9).map(mutant).collect::<Vec<_>>();
        report.must_fit(&area, &all);
        let fates = all.iter().zip(fates.iter().copied()).collect::<Vec<_>>();
        report.add(&area, all.len(), &fates);
        report
    }

    #[test]
    fn a_mutant_that_was_missed_fails_the_run_unless_it_is_accepted() {
        let accepted = accepted();
        assert!(report(&accepted, &[Fate::Caught, Fate::Missed, Fate::Timeout]).is_good());
        let report = report(&accepted, &[Fate::Missed, Fate::Missed, Fate::Unviable]);
        assert_eq!(report.wrong, [format!("missed: {}\n      line 0", mutant(0).name)]);
        assert_eq!(report.notes.len(), 1);
    }

    #[test]
    fn a_mutant_that_no_test_reaches_is_missed() {
        let accepted = accepted();
        let report = report(&accepted, &[Fate::Unreached, Fate::Unreached]);
        assert!(
            report.wrong[0].starts_with("missed, none of its tests reaches it: "),
            "{:?}",
            report.wrong
        );
        assert_eq!((report.rows[0].missed, report.rows[0].accepted), (1, 1));
    }

    #[test]
    fn an_entry_of_the_accepted_that_is_noticed_or_fits_nothing_fails_the_run() {
        let mut accepted = accepted();
        let noticed = report(&accepted, &[Fate::Caught, Fate::Caught]);
        assert!(noticed.wrong[0].starts_with("is noticed, remove it"), "{:?}", noticed.wrong);
        accepted[0].source = "line of another time".to_owned();
        let gone = report(&accepted, &[]);
        assert!(gone.wrong[0].starts_with("fits no mutant, remove it"), "{:?}", gone.wrong);
    }

    #[test]
    fn the_table_says_what_was_tried_of_what_there_is() {
        let accepted = accepted();
        let fates = [Fate::Caught, Fate::Missed, Fate::Unviable, Fate::Missed, Fate::Timeout];
        let table = report(&accepted, &fates).table();
        let row = table.lines().nth(1).expect("there is a part");
        let words = row.split_whitespace().collect::<Vec<_>>();
        assert_eq!(words, ["mutants:", "journal", "9", "5", "1", "1", "1", "1", "1"]);
        assert!(table.contains("a sample of 4 of each part by seed 7: 2 of 4 viable"), "{table}");
    }
}
