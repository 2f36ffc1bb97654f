//! Reports about a set to programs and people.

use std::io::Read;
use std::process::Stdio;

use super::*;

/// Exit code and output of a status.
fn status_of(volume: &Path) -> (i32, String) {
    let told = duramen(&["raid", "status", text(volume)]);
    (told.code, told.output)
}

#[test]
fn the_exit_code_of_a_status_is_that_of_the_set() {
    let place = Place::made("--raid5", 3, &[]);
    let code = || status_of(&place.volume).0;
    assert_eq!(code(), 0, "nobody serves it");
    let serving = Serving::start(&[&place.volume], &[]);
    place.raid(&["scrub"]).good();
    let status = place.status();
    assert_eq!((code(), &status["state"]), (0, &"clean".into()), "it was scrubbed");
    let none = serde_json::json!({ "reads": 0, "blocks": 0, "bytes": 0 });
    assert_eq!(status["losses"], none);
    assert_eq!(status["errors"], serde_json::json!({ "read": 0, "write": 0, "checksum": 0 }));
    let generation = status["generation"].clone();
    place.raid(&["fail", "1", "--force"]).good();
    let status = place.status();
    assert_eq!(code(), 1, "it is degraded");
    let since = |slot: usize| status["slots"][slot]["since"].clone();
    assert_eq!((since(0), since(1)), (Value::Null, generation.clone()));
    assert!(serving.stop().success());
    let status = place.status();
    assert_eq!((code(), &status["slots"][1]["since"]), (1, &generation), "labels have it");
    assert_eq!(status["losses"], Value::Null);
    assert_eq!(status["errors"], serde_json::json!({ "read": 0, "write": 0, "checksum": 0 }));
    let shown = status_of(&place.volume).1;
    assert!(shown.contains(&format!("offline since generation {generation}")), "{shown}");
    fs::remove_file(&place.disks[0]).expect("it is there");
    assert_eq!((code(), &place.status()["state"]), (2, &"failed".into()));
    let shown = status_of(&place.volume).1;
    assert!(shown.contains("connect its disk") && !shown.contains("raid remove"), "{shown}");
    fs::remove_file(&place.disks[2]).expect("it is there");
    assert_eq!(code(), 2, "no disk tells anything");
    assert_eq!(status_of(&place.folder.path("nothing")).0, 2);
}

#[test]
fn labels_do_not_tell_since_when_a_third_of_a_mirror_is_out() {
    let place = Place::made("--raid1", 3, &[]);
    place.raid(&["fail", "1", "--force"]).good();
    place.raid(&["fail", "2", "--force"]).good();
    let status = place.status();
    assert_eq!(status["state"], "degraded");
    assert_eq!(
        [1, 2].map(|slot| status["slots"][slot]["since"].clone()),
        [(); 2].map(|()| Value::Null)
    );
}

#[test]
fn a_server_that_starts_without_a_member_says_which_one_and_since_when() {
    let place = Place::made("--raid5", 3, &[]);
    let generation = place.status()["generation"].clone();
    fs::remove_file(&place.disks[1]).expect("it is there");
    // The second start finds that the first one has declared the member out.
    for _ in 0..2 {
        let mut serving = Serving::start_saying(&[&place.volume], &[], &[], Stdio::piped());
        let mut errors = serving.standard_error().expect("it was asked for");
        assert!(serving.stop().success());
        let mut told = String::new();
        errors.read_to_string(&mut told).expect("text");
        let line = format!("slot 1 is out; it was up to date until generation {generation}");
        assert!(told.contains(&line) && told.contains("its disk was not found"), "{told}");
        assert!(!told.contains("slot 0") && !told.contains("slot 2"), "{told}");
    }
}

#[test]
fn what_the_log_in_a_set_holds_is_told_though_a_member_is_missing() {
    for (level, disks) in [("--raid1", 2), ("--raid5", 3)] {
        let place = Place::made(level, disks, &["--policy", "log"]);
        let clean = place.info()["log"].clone();
        assert_eq!((&clean["live_entries"], &clean["answers"]), (&0.into(), &0.into()), "{clean}");
        let serving = Serving::start(&[&place.volume], &[]);
        put(&serving, "data", "one", &letter(1));
        let told = on("info", &place.volume, &[]).good();
        assert!(told.contains("in the set; what it holds is told when no server has it"), "{told}");
        serving.kill();
        fs::remove_file(&place.disks[1]).expect("it is there");
        let held = || place.disks.iter().map(|disk| fs::read(disk).ok()).collect::<Vec<_>>();
        let before = held();
        let log = place.info()["log"].clone();
        assert!(held() == before, "{level}: nothing is written");
        let count = |what: &str| log[what].as_u64().expect("a number");
        assert!(count("live_entries") > 0 && count("live_bytes") > 0, "{level}: {log}");
        assert_eq!(count("answers"), 1, "{level}: that of CREATE: {log}");
        let lines = on("info", &place.volume, &[]).good();
        let entries = format!("live in {} entries", count("live_entries"));
        assert!(lines.contains(&entries) && lines.contains("1 kept"), "{level}: {lines}");
        let serving = Serving::start(&[&place.volume], &[]);
        assert!(serving.stop().success());
    }
    let none = Place::made("--raid5", 3, &["--policy", "sync"]);
    assert_eq!(none.info()["log"], Value::Null);
    let serving = Serving::start(&[&none.volume], &[]);
    let told = on("info", &none.volume, &[]).good();
    assert!(!told.contains("in the set"), "{told}");
    assert!(serving.stop().success());
}

#[test]
fn a_single_disk_says_to_which_set_it_belongs() {
    let place = Place::new(4);
    let [one, two, three, spare] = [0, 1, 2, 3].map(|number| text(&place.disks[number]));
    let level = ["--raid5", one, two, three, "--spare", spare, "--sparse"];
    on("mkfs", &place.volume, &level).good();
    place.raid(&["fail", "1", "--force"]).good();
    let status = place.status();
    let set = status["uuid"].as_str().expect("digits");
    let member = format!("the member of slot 2 of set {set} (raid5 of 3 disks): in_sync in");
    for command in ["info", "fsck"] {
        let told = on(command, &place.disks[2], &[]);
        assert_ne!(told.code, 0);
        assert!(told.errors.contains(&member), "{command}: {}", told.errors);
        assert!(told.errors.contains("whose volume.toml has this set"), "{}", told.errors);
        let told = on(command, &place.disks[3], &[]);
        assert!(told.errors.contains(&format!("a spare of set {set}")), "{}", told.errors);
    }
    let plain = place.folder.path("plain");
    wipe(&plain);
    let found = duramen(&["raid", "find", two, three, spare, text(&plain)]).good();
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[1].starts_with(three) && lines[1].contains(&member), "{found}");
    assert!(lines[2].contains("a spare of set") && lines[3].ends_with("of no set"), "{found}");
    let found = duramen(&["raid", "find", three, text(&plain), "--json"]).good();
    let found: Value = serde_json::from_str(&found).expect("it is JSON");
    let member = &found[0]["disk"];
    assert_eq!((&found[0]["path"], &found[1]["disk"]), (&three.into(), &Value::Null));
    assert_eq!((&member["kind"], &member["slot"]), (&"member".into(), &2.into()));
    assert_eq!((&member["set"], &member["state"]), (&set.into(), &"in_sync".into()));
    assert_eq!(member["generation"], status["generation"]);
    duramen(&["raid", "find", text(&place.folder.path("nothing"))]).failed(1, "nothing");
}

/// The file of a member is truncated: every block behind some of its data is unreadable until it is
/// written again.
#[test]
fn a_member_that_cannot_be_read_is_named_and_a_spare_takes_its_place() {
    for level in ["--raid5", "--raid1"] {
        let place = Place::new(4);
        let disks: Vec<&str> = place.disks[..3].iter().map(|disk| text(disk)).collect();
        on("mkfs", &place.volume, &[&[level], &disks[..], &["--sparse"]].concat()).good();
        place.set("read_errors_per_hour", 15);
        let mut serving = Serving::start_saying(&[&place.volume], &[], &[], Stdio::piped());
        let mut errors = serving.standard_error().expect("it was asked for");
        let data = vec![7; 1 << 20];
        put(&serving, "data", "one", &data);
        assert_eq!(place.status()["state"], "clean");
        let start = raid_start(&place.disks[1]);
        let file = File::options().write(true).open(&place.disks[1]).expect("it is ours");
        file.set_len(start + (64 << 10)).expect("it is a file");
        place.raid(&["scrub"]).good();
        let status = place.status();
        assert_eq!(
            (&status["state"], &status["slots"][1]["failing"]),
            (&"failing".into(), &true.into())
        );
        assert_eq!(status["slots"][1]["state"], "in_sync", "it stays in");
        assert_eq!(status["losses"]["bytes"], 0);
        let (code, shown) = status_of(&place.volume);
        assert!(code == 1 && shown.contains("in_sync, failing"), "{shown}");
        place.raid(&["spare", text(&place.disks[3])]).good();
        place.wait(|place| place.status()["state"] == "clean");
        let status = place.status();
        assert_eq!(status["slots"][1]["path"], text(&place.disks[3]), "{level}");
        assert_eq!(status["slots"][1]["read_errors"], 0, "it is another disk");
        assert!(serving.stop().success());
        let mut told = String::new();
        errors.read_to_string(&mut told).expect("text");
        assert!(told.contains("the member of slot 1 is failing"), "{told}");
        assert!(!told.contains("is out;"), "it was replaced while it was in: {told}");
        place.assert_whole(&[("one", &data)]);
    }
}

/// Offset of a member's data.
fn raid_start(disk: &Path) -> u64 {
    let mut start = 0;
    relabel(disk, |label| start = label.data_start);
    start
}

#[test]
fn errors_of_a_member_outlive_a_start() {
    let place = Place::made("--raid1", 2, &[]);
    let serving = Serving::start(&[&place.volume], &[]);
    let data = vec![5; 1 << 20];
    put(&serving, "data", "one", &data);
    let file = File::options().write(true).open(&place.disks[1]).expect("it is ours");
    file.set_len(raid_start(&place.disks[1])).expect("it is a file");
    place.raid(&["scrub"]).good();
    let reads = |status: &Value| status["slots"][1]["read_errors"].as_u64().expect("a number");
    let status = place.status();
    let found = reads(&status);
    assert!(found > 20, "{status}");
    let kept = place.volume.join("set.errors");
    let is_kept = |text: String| text.contains(&format!("read = {found}\n"));
    place.wait(|_| fs::read_to_string(&kept).is_ok_and(is_kept));
    serving.kill();
    let status = place.status();
    assert_eq!(
        (reads(&status), &status["errors"]["read"]),
        (found, &found.into()),
        "nobody serves"
    );
    let serving = Serving::start(&[&place.volume], &[]);
    let status = place.status();
    assert_eq!(reads(&status), found);
    assert_eq!(status["slots"][0]["read_errors"], 0);
    assert!(serving.stop().success());
}
