//! Output for programs: one object with stable keys. `docs/fsck.md` describes them, and a test
//! compares.

use std::collections::BTreeMap;
use std::io::{self, Write};

use designs::Finding;
use serde::Serialize;

use super::{Done, Run};
use crate::losses::Loss;

/// Fields of every run.
#[derive(Serialize)]
struct Object<'a> {
    volume: String,
    result: &'static str,
    exit_code: u8,
    #[serde(flatten)]
    rest: Rest<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Rest<'a> {
    Done(Box<Told<'a>>),
    Failed { error: String },
}

/// Fields of a check that completed.
#[derive(Serialize)]
struct Told<'a> {
    files: u64,
    directories: u64,
    held_bytes: u64,
    freed: u64,
    reconnected: u64,
    findings: Vec<Item<'a>>,
    counts: BTreeMap<&'static str, u64>,
    known_losses: &'a [Loss],
    log_since: Option<i64>,
    lost_intents: Option<&'a str>,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Item<'a> {
    invariant: &'static str,
    rule: &'static str,
    severity: &'static str,
    group: Option<u64>,
    inode: Option<u64>,
    block: Option<u64>,
    fragment: Option<u64>,
    offset: Option<u64>,
    name: Option<&'a str>,
    path: Option<&'a str>,
    snapshot: Option<&'a str>,
    found: &'a str,
    expected: &'a str,
    repair: Option<&'static str>,
    repaired: bool,
}

pub(super) fn write(run: &Run<'_>, output: &mut dyn Write) -> io::Result<()> {
    let outcome = run.outcome();
    let rest = match &run.result {
        Ok(done) => Rest::Done(Box::new(told(done))),
        Err(unchecked) => Rest::Failed { error: unchecked.to_string() },
    };
    let object = Object {
        volume: run.volume.display().to_string(),
        result: outcome.name(),
        exit_code: outcome.code(),
        rest,
    };
    serde_json::to_writer_pretty(&mut *output, &object)?;
    writeln!(output)
}

fn told(done: &Done) -> Told<'_> {
    let report = &done.report;
    let findings = &report.findings;
    Told {
        files: report.files,
        directories: report.directories,
        held_bytes: done.report.held_bytes,
        freed: report.freed,
        reconnected: report.reconnected,
        findings: findings.list.iter().map(|finding| item(finding, report.repaired)).collect(),
        counts: findings.counts.iter().map(|(one, count)| (one.name, *count)).collect(),
        known_losses: &done.known,
        log_since: report.log_since_seconds,
        lost_intents: report.lost_intents.as_deref(),
        seconds: done.took.as_secs_f64(),
        error: report.unrepaired.as_deref(),
    }
}

fn item(finding: &Finding, written: bool) -> Item<'_> {
    let place = &finding.place;
    Item {
        invariant: finding.rule.name,
        rule: finding.rule.sentence,
        severity: finding.severity.name(),
        group: place.group,
        inode: place.ino,
        block: place.block,
        fragment: place.fragment,
        offset: place.offset,
        name: place.name.as_deref(),
        path: finding.path.as_deref(),
        snapshot: finding.snapshot.as_deref(),
        found: &finding.found,
        expected: &finding.expected,
        repair: finding.repair,
        repaired: written && finding.repair.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsck::{Finding, Findings, Invariant, Place, Report, Severity};
    use std::path::Path;
    use std::time::Duration;

    fn object(repaired: bool) -> serde_json::Value {
        let finding = Finding {
            invariant: Invariant::EntryTarget,
            severity: Severity::Loss,
            place: Place { ino: Some(7), name: Some("\n".to_owned()), ..Place::default() },
            path: None,
            found: "9".to_owned(),
            expected: "a file".to_owned(),
            repair: Some("the entry removed"),
        };
        let left = Finding { repair: None, severity: Severity::Note, ..finding.clone() };
        let findings = Findings {
            list: vec![finding, left],
            counts: [(Invariant::EntryTarget, 2)].into(),
            worst: Some(Severity::Loss),
            ..Findings::default()
        };
        let lost_intents = repaired.then(|| "a block of the ring is damaged".to_owned());
        let report =
            Report { findings, held_bytes: 12_288, repaired, lost_intents, ..Report::default() };
        let report = report.into();
        let done =
            Done { report, took: Duration::from_millis(1500), known: Vec::new(), refused: None };
        let (volume, words, without_log) = (Path::new("data"), String::new(), false);
        let run = Run { volume, words, repair: repaired, without_log, result: Ok(done) };
        let mut output = Vec::new();
        write(&run, &mut output).expect("memory takes everything");
        serde_json::from_slice(&output).expect("it is JSON")
    }

    #[test]
    fn a_finding_is_told_with_what_became_of_it() {
        let told = object(false);
        assert_eq!((&told["result"], &told["exit_code"]), (&"left".into(), &4.into()));
        assert_eq!(told["held_bytes"], 12288);
        assert_eq!(told["counts"], serde_json::json!({ "dir.target": 2 }));
        assert_eq!(told["seconds"], 1.5);
        let item = &told["findings"][0];
        assert_eq!((&item["invariant"], &item["severity"]), (&"dir.target".into(), &"loss".into()));
        assert_eq!((&item["inode"], &item["name"]), (&7.into(), &"\n".into()));
        assert_eq!((&item["group"], &item["path"]), (&().into(), &().into()));
        assert_eq!(item["repaired"], false);
        assert_eq!(told.get("lost_intents"), Some(&().into()));

        let told = object(true);
        assert_eq!((&told["result"], &told["exit_code"]), (&"repaired".into(), &1.into()));
        assert_eq!(told["findings"][0]["repaired"], true);
        assert_eq!(told["findings"][1]["repaired"], false, "nothing could be done");
        assert_eq!(told["lost_intents"], "a block of the ring is damaged");
    }

    #[test]
    fn the_keys_of_a_finding_are_those_of_the_page() {
        let page = include_str!("../../../../docs/fsck.md");
        let table = page.split_once("| key of a finding |").expect("the table is there").1;
        let rows = table.lines().skip(2).take_while(|row| row.starts_with("| `"));
        let documented: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        let told = object(false);
        let keys = told["findings"][0].as_object().expect("an object");
        assert!(documented.iter().all(|key| keys.contains_key(*key)), "{documented:?}: {keys:?}");
        assert_eq!(documented.len(), keys.len(), "{documented:?}: {keys:?}");
    }
}
