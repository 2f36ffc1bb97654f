//! Output of `duramen info` for people.

use std::path::Path;

use designs::{DESIGNS, Design, DiskRole};

use super::live::Reclaim;
use super::object::{Info, State};
use crate::calendar::show_time;
use crate::failure::spell_out;
use crate::front;
use crate::scrub::Scrub;
use crate::sets::Status;
use crate::size::show_size;
use crate::words::quoted;

/// Text about missing anchors.
const LOST: &str = "lost, all four or both copies of one; what follows is from superblocks that \
                    were found, and the next server, or 'duramen fsck --repair', writes anchors \
                    anew";

/// Whether a volume in a folder with this policy keeps replies without a log.
fn keeps_intents(info: &Info) -> bool {
    let Some(policy) = &info.policy else { return false };
    DESIGNS.find(Some(&info.engine), Some(policy)).is_ok_and(|design| design.keeps_intents)
}

/// Describes a volume in lines for people.
pub(super) fn describe(info: &Info) -> Vec<(&'static str, String)> {
    let state = match info.state {
        State::Served => "served".to_owned(),
        State::InUse => "in use; the counts below are those of when that began".to_owned(),
        State::Clean if info.needs_check => "clean, but due for a check".to_owned(),
        State::Clean => "clean".to_owned(),
        State::Unclean => "not cleanly stopped; the counts below may be stale".to_owned(),
        State::CutShort => {
            format!("cut short: the last {} are not on the disk", show_size(info.missing_bytes))
        }
    };
    let policy = match &info.policy {
        Some(policy) => policy.clone(),
        None => "the default: a bare disk says nothing of it".into(),
    };
    let (no_log, no_answers) = if has_unseen_log(info) {
        let why = "in the set; what it holds is told when no server has it";
        (why, "kept in that log")
    } else if keeps_intents(info) {
        ("none", "kept in a ring of intents")
    } else {
        ("none", "none that survive a crash")
    };
    let log = info.log.as_ref().map_or_else(
        || no_log.to_owned(),
        |log| {
            let (size, live) = (show_size(log.size_bytes), show_size(log.live_bytes));
            format!(
                "{size}, {live} live in {} entries, {:.1} a write",
                log.live_entries,
                log.batching()
            )
        },
    );
    let answers = info.log.as_ref().map_or_else(
        || no_answers.to_owned(),
        |log| {
            format!(
                "{} kept; {} repeated calls answered from memory, {} of them over a start",
                log.answers, log.repeated_calls, log.repeated_over_a_start
            )
        },
    );
    // Lines about features that no design of the engine has are left out.
    let has = |what: fn(&Design) -> bool| DESIGNS.of_engine(&info.engine).any(what);
    let (has_policies, may_log) =
        (has(|design| design.policy.is_some()), has(|design| design.has(DiskRole::Log)));
    let volume = quoted(Path::new(&info.volume));
    let lines = [
        ("volume", Some(info.volume.clone())),
        ("disk", Some(info.raid.as_ref().map_or_else(|| info.disk.clone(), Status::summary))),
        ("nvram", info.nvram.as_ref().map(front::Status::summary)),
        ("engine", Some(info.engine.clone())),
        ("policy", has_policies.then_some(policy)),
        ("log", may_log.then_some(log)),
        ("answers", may_log.then_some(answers)),
        ("state", Some(state)),
        ("anchors", (info.has_anchors == Some(false)).then(|| spell_out(LOST, &volume))),
    ];
    let mut lines = told(lines);
    lines.extend(info.raid.iter().flat_map(Status::findings));
    lines.extend(describe_serving(info));
    lines.extend(describe_shape(info));
    lines
}

/// Whether the volume has its log in a set of disks that a server is using, which is not inspected.
fn has_unseen_log(info: &Info) -> bool {
    let is_its = |design: &Design| design.policy == info.policy.as_deref();
    let may_log = |design: &Design| is_its(design) && design.has(DiskRole::Log);
    let is_served = info.state == State::Served && info.raid.is_some();
    is_served && info.log.is_none() && DESIGNS.of_engine(&info.engine).any(may_log)
}

/// Describes the format on the disk. Features that the format lacks are left out.
fn describe_shape(info: &Info) -> Vec<(&'static str, String)> {
    let list = |names: &[String]| if names.is_empty() { "none".into() } else { names.join(", ") };
    let or_none = |text: &str| if text.is_empty() { "none".into() } else { text.to_owned() };
    let hash = match info.superblock_hash_fits {
        Some(false) => " (the superblock does not fit its own)",
        Some(true) | None => "",
    };
    let byte_order = |order: &String| {
        let note = if order == "big-endian" { " (it can only be read)" } else { "" };
        format!("{order}{note}")
    };
    let reserved = match info.reserved_bytes {
        0 => String::new(),
        bytes => format!(", {} of it for root", show_size(bytes)),
    };
    let lines = [
        ("label", Some(or_none(&info.label))),
        ("id", Some(info.id.clone())),
        ("size", Some(show_size(info.size_bytes))),
        ("free", Some(show_size(info.free_bytes) + &reserved)),
        ("files", Some(format!("{}, {} of them directories", info.files, info.directories))),
        ("free inodes", Some(info.free_inodes.to_string())),
        ("blocks", Some(show_size(info.block_size_bytes))),
        ("fragments", info.fragment_size_bytes.map(show_size)),
        ("groups", info.groups.map(|groups| groups.to_string())),
        ("byte order", info.byte_order.as_ref().map(byte_order)),
        ("check hashes", info.check_hashes.as_deref().map(|it| format!("{}{hash}", list(it)))),
        ("flags", info.flags.as_deref().map(list)),
        ("last mounted at", info.last_mounted_at.as_deref().map(or_none)),
        ("last written", Some(format!("{} UTC", show_time(info.last_written)))),
    ];
    told(lines)
}

/// Keeps only the lines that have a value.
fn told<const N: usize>(lines: [(&'static str, Option<String>); N]) -> Vec<(&'static str, String)> {
    lines.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Describes the statistics that only a server has.
fn describe_serving(info: &Info) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    match info.durability.as_deref() {
        Some("delayed") => {
            let text =
                "delayed: an answer does not wait for the disk, and a crash may take it back";
            lines.push(("durability", text.to_owned()));
        }
        Some(word) => lines.push(("durability", word.to_owned())),
        None => {}
    }
    if let Some(softdep) = &info.softdep {
        lines.push((
            "pending",
            format!(
                "{} Updates ({}), the oldest for {:.1} s",
                softdep.pending,
                show_size(softdep.pending_bytes),
                softdep.oldest_ms as f64 / 1000.0
            ),
        ));
        lines.push((
            "writes",
            format!(
                "{} that somebody waited for, {} others, {} flushes; {} of them with changes \
                 undone; {} changes cancelled; {} replies waited",
                softdep.sync_writes,
                softdep.async_writes,
                softdep.flushes,
                softdep.rollbacks,
                softdep.cancelled,
                softdep.waits
            ),
        ));
    }
    lines.extend(info.scrub.iter().flat_map(Scrub::findings));
    if let Some(reclaim) = &info.reclaim {
        let Reclaim { state, scanned, total, fragments, inodes, links } = reclaim;
        let text = format!(
            "{state}: {scanned} of {total} looked at; {fragments} fragments, {inodes} inodes and \
             {links} links given back"
        );
        lines.push(("reclaim", text));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The lines of a served volume with these results of scrubs.
    fn lines_with(scrub: &serde_json::Value, raid: &serde_json::Value) -> Vec<String> {
        let info = json!({
            "volume": "data", "engine": "shadow", "policy": null, "size_bytes": 1 << 20,
            "free_bytes": 0, "state": "served", "durability": null, "softdep": null,
            "shadow": null, "reclaim": null, "scrub": scrub, "raid": raid, "disk": "data/disk.img",
            "label": "", "id": "7", "missing_bytes": 0, "reserved_bytes": 0,
            "block_size_bytes": 4096, "fragment_size_bytes": null, "byte_order": null,
            "groups": null, "files": 1, "directories": 1, "free_inodes": 1, "needs_check": false,
            "has_anchors": null, "superblock_hash_fits": null, "check_hashes": null, "flags": null,
            "last_mounted_at": null, "last_written": 0, "log": null,
        });
        let info: Info = serde_json::from_value(info).expect("all keys of a description");
        describe(&info).into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn the_last_scrub_and_the_losses_are_shown_as_programs_get_them() {
        let lost = json!([
            { "path": "/a\nb", "snapshot": null, "offset": 4096 },
            { "path": null, "snapshot": "now", "offset": 7 },
        ]);
        let scrub = json!({ "done_bytes": 4096, "total_bytes": 8192, "mended": 1, "lost": lost,
            "error": "the disk is gone" });
        let raid = json!({ "uuid": "1", "level": "raid5", "state": "clean", "generation": 1,
            "stripe_unit_bytes": 65536, "slots": [], "spares": [], "absent": [], "rebuild": null,
            "scrub": null, "io": { "reads": 0, "writes": 0, "log_writes": 0, "full_stripes": 0,
            "partial_stripes": 0 }, "errors": null,
            "losses": { "reads": 3, "blocks": 0, "bytes": null } });
        let lines = lines_with(&scrub, &raid);
        for line in [
            "scrub: 4 KiB of 8 KiB, 1 mended, 2 lost; it ended early: the disk is gone",
            "lost: /a\\nb: from byte 4096 on",
            "lost: no file, on the volume in snapshot now: from byte 7 on",
            "losses: 3 reads failed for lost data; 'duramen raid scrub' names the files",
        ] {
            assert!(lines.iter().any(|one| one == line), "{line}: {lines:#?}");
        }
        let lines = lines_with(&json!(null), &json!(null));
        assert!(!lines.iter().any(|one| one.starts_with("scrub") || one.starts_with("los")));
    }
}
