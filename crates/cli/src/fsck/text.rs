//! Output for people: one line for each finding, the totals, and the next step.
//!
//! A disk with a million findings of one rule should not hide the only finding of another: each
//! rule shows only its first lines. Losses are always shown in full, because nothing else will ever
//! report them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use designs::{Finding, Findings, OpenError, Report, Severity};

use super::outcome::Outcome;
use super::{Done, Run};
use crate::calendar::show_time;
use crate::failure::spell_out;
use crate::size::show_size;

/// Maximum number of lines shown for a rule.
const LINES: u64 = 20;

pub(super) fn write(run: &Run<'_>, done: &Done, output: &mut dyn Write) -> io::Result<()> {
    let report = &done.report;
    let findings = &report.findings;
    if findings.total() > 0 {
        list(findings, report.repaired, output)?;
    }
    for loss in &done.known {
        writeln!(output, "known loss: {}", plain(&loss.to_string()))?;
    }
    if findings.total() > 0 || !done.known.is_empty() {
        writeln!(output)?;
    }
    let name = plain(&run.volume.display().to_string());
    writeln!(output, "{name}: {}", held(done))?;
    for line in nameless(report) {
        writeln!(output, "{line}")?;
    }
    if findings.total() > 0 {
        writeln!(output, "found: {}", by_severity(findings))?;
    }
    if let Some(line) = logged(done) {
        writeln!(output, "{line}")?;
    }
    writeln!(output, "{}", result(run, done))
}

/// Sentence about the possible contents of a log that was not used.
fn logged(done: &Done) -> Option<String> {
    let since = show_time(done.report.log_since_seconds?);
    let fate = match (&done.refused, done.report.repaired) {
        (Some(_), _) => "may stand in the log that is missing, and there alone",
        (None, true) => "may be lost with the log",
        (None, false) => "may be lost with the log, if it is given up",
    };
    Some(format!("changes that were acknowledged since {since} UTC {fate}"))
}

/// Lists the findings in their order, and counts the unlisted findings of each rule.
fn list(findings: &Findings, written: bool, output: &mut dyn Write) -> io::Result<()> {
    let mut shown: BTreeMap<&str, u64> = BTreeMap::new();
    // Losses do not count towards the limit: they would use it up.
    let mut limited: BTreeMap<&str, u64> = BTreeMap::new();
    for finding in &findings.list {
        let lines = limited.entry(finding.rule.name).or_default();
        let is_loss = finding.severity == Severity::Loss;
        if !is_loss && *lines >= LINES {
            continue;
        }
        *lines += u64::from(!is_loss);
        *shown.entry(finding.rule.name).or_default() += 1;
        writeln!(output, "{}; {}", plain(&finding.to_string()), fate(finding, written))?;
    }
    for (rule, count) in &findings.counts {
        let more = count - shown.get(rule.name).copied().unwrap_or(0);
        if more > 0 {
            writeln!(output, "... and {more} more of {}", rule.name)?;
        }
    }
    Ok(())
}

/// The actual or planned repair of a finding.
fn fate(finding: &Finding, written: bool) -> String {
    match finding.repair {
        Some(repair) if written => format!("repaired: {repair}"),
        Some(repair) => format!("would be repaired: {repair}"),
        None => "left".to_owned(),
    }
}

/// Counts of files and space of the volume.
fn held(done: &Done) -> String {
    let Report { files, directories, held_bytes, .. } = done.report;
    let space = show_size(held_bytes);
    format!("{}, {directories} of them directories, hold {space}", counted(files, "file"))
}

/// Sentences about files without a name.
fn nameless(report: &Report) -> Vec<String> {
    let Report { freed, reconnected, repaired, .. } = *report;
    let what = |count, done: &str, planned: &str| {
        let files = counted(count, "file");
        let fate = if repaired { done } else { planned };
        (count > 0).then(|| format!("{files} without a name: {fate}"))
    };
    [
        what(freed, "freed", "to be freed"),
        what(reconnected, "put into lost+found", "to be put into lost+found"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Number of findings of each severity, the worst first.
fn by_severity(findings: &Findings) -> String {
    let mut counts: BTreeMap<Severity, u64> = BTreeMap::new();
    for finding in &findings.list {
        *counts.entry(finding.severity).or_default() += 1;
    }
    let mut parts: Vec<String> = counts
        .iter()
        .rev()
        .map(|(severity, count)| match severity {
            Severity::Note => counted(*count, "note"),
            Severity::Repairable => format!("{count} repairable"),
            Severity::Loss => plural(*count, "loss", "losses"),
        })
        .collect();
    let unseen = findings.total() - findings.list.len() as u64;
    if unseen > 0 {
        parts.push(format!("{unseen} more that were only counted"));
    }
    parts.join(", ")
}

/// Summary of the check, and the next step.
fn result(run: &Run<'_>, done: &Done) -> String {
    let (report, words) = (&done.report, plain(&run.words));
    let findings = &report.findings;
    let without = if run.without_log { "--without-log " } else { "" };
    let repair = format!("'duramen fsck --repair {without}{words}'");
    if let Some(line) = known(done, &words) {
        return line;
    }
    match Outcome::of(report, &[]) {
        Outcome::Clean if !report.was_unclean => "nothing is wrong".to_owned(),
        // No damage. But some servers refuse a volume without the mark of a clean stop.
        Outcome::Clean if report.repaired => {
            "nothing is wrong, and the volume is marked as stopped cleanly".to_owned()
        }
        Outcome::Clean => format!(
            "nothing is wrong, but the volume was not stopped cleanly: {repair} marks it as if it \
             had been"
        ),
        Outcome::Repaired => {
            let lost = match findings.worst {
                Some(Severity::Loss) => "; what could not be kept is listed above as 'loss'",
                _ => "",
            };
            format!("all that was wrong is repaired{lost}; 'duramen serve {words}' serves it again")
        }
        Outcome::Left if report.repaired => {
            "what can be repaired is repaired; what is 'left' above is still wrong: copy what you \
             need to a new volume"
                .to_owned()
        }
        Outcome::Left if report.unrepaired.is_some() => {
            let why = plain(report.unrepaired.as_deref().unwrap_or_default());
            format!("nothing was repaired, and nothing was written: {why}")
        }
        Outcome::Left if run.repair => {
            "nothing was written, because what is 'left' above cannot be repaired: copy what you \
             need to a new volume"
                .to_owned()
        }
        Outcome::Left if done.refused.is_some() => refused(done, &words),
        Outcome::Left => {
            let is_left = |one: &Finding| one.repair.is_none() || one.severity == Severity::Note;
            if findings.list.iter().all(is_left) {
                return "something is damaged, and nothing of it can be repaired; nothing was \
                        written: copy what you need to a new volume"
                    .to_owned();
            }
            let cause = if findings.damaged {
                "something is damaged"
            } else {
                "nothing is damaged, but something is as a cut of the power leaves it"
            };
            let what = if findings.unrepairable { "what can be repaired" } else { "it" };
            format!("{cause}; nothing was written: {repair} repairs {what}")
        }
        Outcome::Failed => unreachable!("a report is that of a check that came to its end"),
    }
}

/// Advice on known losses if nothing else is wrong.
fn known(done: &Done, words: &str) -> Option<String> {
    let is_clean = Outcome::of(&done.report, &[]) != Outcome::Left;
    (is_clean && !done.known.is_empty()).then(|| {
        format!(
            "what scrubs have found lost is listed above as 'known loss', and nothing else is \
             wrong: restore or remove these files; 'duramen fsck --full {words}' looks at all data \
             again"
        )
    })
}

/// Sentence about a missing log: without it the volume is not repaired, and little can be said
/// about it.
fn refused(done: &Done, words: &str) -> String {
    let which = match &done.refused {
        Some(OpenError::LogForeign(_)) => {
            "the log at hand is not that with which it was used last, or another volume has used \
             it since, which it does only when nothing in it is needed any more"
        }
        Some(OpenError::LogMissing(_)) | None => "no log is at hand",
        Some(other) => return format!("nothing was written: {}", spell_out(other, words)),
    };
    format!(
        "the volume was not stopped cleanly, and what it did last stands in a log that is missing: \
         {which}; nothing was written: put that log in its place, or name it with '--log'; if it \
         is lost, 'duramen fsck --repair --without-log {words}' saves what the volume itself has"
    )
}

fn counted(count: u64, what: &str) -> String {
    plural(count, what, &format!("{what}s"))
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Escapes text so that it neither controls a terminal nor misleads a reader: names on a damaged
/// disk may hold any bytes. Bytes that are not UTF-8 were escaped before.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || turns_text_around(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Whether a letter makes the text behind it appear in front.
fn turns_text_around(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsck::{Finding, Findings, Invariant, Place, Report};
    use std::path::Path;
    use std::time::Duration;

    use crate::redo_log::LogError;

    fn finding(invariant: Invariant, severity: Severity, ino: u64) -> Finding {
        Finding {
            invariant,
            severity,
            place: Place { ino: Some(ino), ..Place::default() },
            path: Some("/a".to_owned()),
            found: "3".to_owned(),
            expected: "1".to_owned(),
            repair: Some("set"),
        }
    }

    fn report(list: Vec<Finding>) -> Report {
        let mut findings = Findings::default();
        for finding in list {
            *findings.counts.entry(finding.invariant).or_default() += 1;
            findings.worst = findings.worst.max(Some(finding.severity));
            findings.unrepairable |= finding.repair.is_none();
            findings.damaged |= !finding.invariant.may_be_cut();
            findings.list.push(finding);
        }
        Report { findings, files: 2, directories: 1, held_bytes: 12_288, ..Report::default() }
    }

    fn told(repair: bool, report: Report) -> String {
        let refused = report.findings.unrepairable.then_some(LogError::LogMissing.into());
        let refused = refused.filter(|_| report.log_since_seconds.is_some());
        let result =
            Ok(Done { report: report.into(), took: Duration::ZERO, known: Vec::new(), refused });
        let (volume, words) = (Path::new("data"), "data --log l".to_owned());
        let run = Run { volume, words, repair, without_log: false, result };
        let mut output = Vec::new();
        let done = run.result.as_ref().expect("it was checked");
        write(&run, done, &mut output).expect("memory takes everything");
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn what_only_a_log_has_is_told_with_its_time() {
        let lost = finding(Invariant::LogHome, Severity::Loss, 7);
        let missed = Report {
            log_since_seconds: Some(0),
            ..report(vec![Finding { repair: None, ..lost.clone() }])
        };
        let said = told(false, missed);
        assert!(said.contains("since 1970-01-01 00:00:00 UTC may stand in the log that"), "{said}");
        assert!(said.contains("'duramen fsck --repair --without-log data --log l'"), "{said}");
        let given_up = Report { log_since_seconds: Some(0), repaired: true, ..report(vec![lost]) };
        let said = told(true, given_up);
        assert!(
            said.contains("since 1970-01-01 00:00:00 UTC may be lost with the log\n"),
            "{said}"
        );
    }

    #[test]
    fn a_volume_that_is_well_takes_two_lines() {
        let expected = "data: 2 files, 1 of them directories, hold 12 KiB\nnothing is wrong\n";
        assert_eq!(told(false, report(Vec::new())), expected);
        assert_eq!(told(true, report(Vec::new())), expected);
    }

    #[test]
    fn a_finding_goes_on_with_what_becomes_of_it() {
        let found = finding(Invariant::LinkCount, Severity::Repairable, 7);
        let line = "repairable: inode.links: inode 7 (/a): found 3, expected 1; ";
        let said = told(false, report(vec![found.clone()]));
        assert!(said.starts_with(&format!("{line}would be repaired: set\n")), "{said}");
        assert!(said.contains("'duramen fsck --repair data --log l' repairs it"), "{said}");

        let repaired = Report { repaired: true, ..report(vec![found.clone()]) };
        let said = told(true, repaired);
        assert!(said.starts_with(&format!("{line}repaired: set\n")), "{said}");
        assert!(said.contains("'duramen serve data --log l'"), "{said}");

        let said = told(true, report(vec![Finding { repair: None, ..found }]));
        assert!(said.starts_with(&format!("{line}left\n")), "{said}");
        assert!(said.contains("nothing was written, because"), "{said}");
    }

    #[test]
    fn the_first_lines_of_an_invariant_are_shown_and_the_rest_is_counted() {
        let many = (0..1254)
            .map(|ino| finding(Invariant::EntryTarget, Severity::Repairable, ino))
            .chain([finding(Invariant::LinkCount, Severity::Repairable, 9999)]);
        let said = told(false, report(many.collect()));
        assert_eq!(said.lines().filter(|line| line.contains("dir.target: inode")).count(), 20);
        assert!(said.contains("\n... and 1234 more of dir.target\n"), "{said}");
        assert!(said.contains("inode.links: inode 9999"), "{said}");
        assert!(!said.contains("more of inode.links"), "{said}");
    }

    #[test]
    fn losses_are_shown_in_full_and_hide_nothing_else() {
        let losses = (0..300).map(|ino| finding(Invariant::EntryTarget, Severity::Loss, ino));
        let last = finding(Invariant::EntryTarget, Severity::Repairable, 9999);
        let said = told(false, report(losses.chain([last]).collect()));
        assert_eq!(said.lines().filter(|line| line.starts_with("loss: ")).count(), 300);
        assert!(said.contains("inode 9999") && !said.contains("more of"), "{said}");
        assert!(said.contains("found: 300 losses, 1 repairable\n"), "{said}");
    }

    #[test]
    fn findings_that_were_not_kept_are_counted() {
        let mut report = report(vec![finding(Invariant::LinkCount, Severity::Repairable, 7)]);
        report.findings.counts.insert(Invariant::LinkCount, 5);
        let said = told(false, report);
        assert!(said.contains("... and 4 more of inode.links"), "{said}");
        assert!(said.contains("found: 1 repairable, 4 more that were only counted"), "{said}");
    }

    #[test]
    fn what_became_of_nameless_files_depends_on_whether_it_was_written() {
        let report = Report { freed: 1, reconnected: 2, ..report(Vec::new()) };
        let said = told(false, report.clone());
        assert!(said.contains("1 file without a name: to be freed\n"), "{said}");
        assert!(said.contains("2 files without a name: to be put into lost+found"), "{said}");
        let said = told(true, Report { repaired: true, ..report });
        assert!(said.contains("1 file without a name: freed\n"), "{said}");
        assert!(said.contains("2 files without a name: put into lost+found\n"), "{said}");
    }

    #[test]
    fn a_volume_that_was_not_stopped_cleanly_is_not_simply_well() {
        let report = report(vec![finding(Invariant::State, Severity::Note, 7)]);
        let said = told(false, report.clone());
        assert!(said.contains("but the volume was not stopped cleanly: 'duramen fsck"), "{said}");
        let said = told(true, Report { repaired: true, ..report });
        assert!(said.ends_with("is marked as stopped cleanly\n"), "{said}");
    }

    #[test]
    fn what_a_cut_leaves_is_not_called_damage() {
        let cut = finding(Invariant::LinkCount, Severity::Repairable, 7);
        assert!(told(false, report(vec![cut.clone()])).contains("nothing is damaged"));
        let damage = finding(Invariant::EntryTarget, Severity::Repairable, 7);
        assert!(told(false, report(vec![cut, damage])).contains("something is damaged"));
    }

    #[test]
    fn names_cannot_play_with_the_terminal() {
        let mut found = finding(Invariant::LinkCount, Severity::Repairable, 7);
        found.path = Some("/\u{1b}[2J\n\u{202e}é".to_owned());
        let said = told(false, report(vec![found]));
        assert!(said.contains(r"(/\u{1b}[2J\n\u{202e}é)"), "{said}");
    }
}
