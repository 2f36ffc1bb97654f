//! Orders to a set, and what it does by itself: replacements and spares, with cuts in between.

use std::io::Read;
use std::process::{Command, Stdio};

use raid::label::Slot;
use server::control::client;

use super::*;

/// A set with parity of the first three disks, with the fourth as its spare.
fn with_spare() -> Place {
    let place = Place::new(4);
    let [one, two, three, spare] = [0, 1, 2, 3].map(|number| text(&place.disks[number]));
    let level = ["--raid5", one, two, three, "--spare", spare, "--sparse"];
    on("mkfs", &place.volume, &level).good();
    place
}

/// Edits the settings of the volume as a person would.
fn edit(place: &Place, from: &str, to: &str) {
    let path = place.volume.join("volume.toml");
    let before = fs::read_to_string(&path).expect("it is there");
    assert!(before.contains(from), "{before}");
    fs::write(path, before.replace(from, to)).expect("there is room");
}

#[test]
fn a_spare_is_found_under_another_name() {
    let place = with_spare();
    fs::rename(&place.disks[3], place.folder.path("renamed")).expect("it is there");
    assert_eq!(place.spares(), [place.folder.path("renamed")]);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    place.raid(&["fail", "1", "--force"]).good();
    place.wait(|place| place.status()["state"] == "clean");
    assert_eq!(place.spares().len(), 0);
    serving.kill();
    wipe(&place.disks[0]);
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
    place.assert_whole(&[("one", &letter(1))]);
}

#[test]
fn a_spare_that_is_not_there_for_a_moment_stays_one() {
    let place = with_spare();
    let away = place.folder.path("away");
    fs::create_dir(&away).expect("a new folder");
    let (spare, link) = (&place.disks[3], place.folder.path("link"));
    std::os::unix::fs::symlink(spare, &link).expect("there is room");
    edit(&place, text(spare), text(&link));
    let serving = Serving::start(&[&place.volume], &[]);
    place.raid(&["spare", text(spare)]).failed(1, "is a spare already");
    fs::rename(spare, away.join("disk")).expect("it is there");
    place.raid(&["fail", "1", "--force"]).good();
    let other = place.folder.path("other");
    wipe(&other);
    // The order writes the list; the spare that is present takes the place.
    place.raid(&["spare", text(&other)]).good();
    place.wait(|place| place.status()["state"] == "clean");
    let listed = fs::read_to_string(place.volume.join("volume.toml")).expect("it is there");
    assert!(listed.contains("link") && place.spares().len() == 1, "{listed}");
    fs::rename(away.join("disk"), spare).expect("it is there");
    place.raid(&["fail", "0", "--force"]).good();
    place.wait(|place| place.status()["state"] == "clean");
    assert_eq!(place.spares().len(), 0);
    assert!(serving.stop().success());
}

#[test]
fn a_spare_that_was_cut_off_while_it_took_a_place_goes_on() {
    // The number of the disk's two labels that are already those of the member that it was to
    // become.
    for labels in [None, Some(1), Some(2)] {
        let place = with_spare();
        let spare = &place.disks[3];
        let before = fs::read(spare).expect("it is ours");
        wipe(spare);
        if let Some(labels) = labels {
            fs::copy(&place.disks[1], spare).expect("there is room");
            relabel(spare, |label| {
                label.generation += 1;
                label.slots[1] = Slot { member: [9; 16], standing: Standing::Rebuilding };
            });
            let mut bytes = fs::read(spare).expect("it is ours");
            for at in places(SIZE).map(|at| at as usize).into_iter().skip(labels) {
                bytes[at..][..4096].copy_from_slice(&before[at..][..4096]);
            }
            fs::write(spare, bytes).expect("there is room");
        }
        let last = format!("\"{}\"", text(&place.disks[2]));
        edit(&place, &last, &format!("{last}, \"{}\"", text(spare)));
        fs::remove_file(&place.disks[1]).expect("it is there");
        place.set_spare_after(0);
        let serving = Serving::start(&[&place.volume], &[]);
        place.wait(|place| place.status()["state"] == "clean");
        assert_eq!(place.spares().len(), 0);
        assert!(serving.stop().success());
    }
}

#[test]
fn a_disk_that_has_become_a_member_is_no_spare_though_a_cut_left_it_on_the_list() {
    let place = with_spare();
    let serving = Serving::start(&[&place.volume], &[]);
    place.raid(&["fail", "1", "--force"]).good();
    place.wait(|place| place.status()["state"] == "clean");
    assert!(serving.stop().success());
    let list = format!("[raid]\nspares = [\"{}\"]", text(&place.disks[3]));
    edit(&place, "[raid]", &list);
    assert_eq!(place.spares(), <[PathBuf; 0]>::default(), "without a server");
    let serving = Serving::start(&[&place.volume], &[]);
    assert_eq!(place.spares(), <[PathBuf; 0]>::default(), "served");
    // The next list that is written lacks it.
    place.raid(&["fail", "0", "--force"]).good();
    assert!(serving.stop().success());
    let listed = fs::read_to_string(place.volume.join("volume.toml")).expect("it is there");
    assert!(!listed.contains("spares"), "{listed}");
}

#[test]
fn a_disk_that_is_listed_and_no_spare_can_be_made_one() {
    let place = with_spare();
    wipe(&place.disks[3]);
    let serving = Serving::start(&[&place.volume], &[]);
    place.raid(&["spare", text(&place.disks[3])]).good();
    place.raid(&["spare", text(&place.disks[3])]).failed(1, "is a spare already");
    assert_eq!(place.spares().len(), 1);
    place.raid(&["fail", "1", "--force"]).good();
    place.wait(|place| place.status()["state"] == "clean");
    assert!(serving.stop().success());
}

#[test]
fn a_spare_that_is_named_for_a_slot_is_none_any_more() {
    let place = with_spare();
    fs::remove_file(&place.disks[1]).expect("it is there");
    let told = place.raid(&["replace", "1", text(&place.disks[3]), "--force"]);
    assert_eq!(told.code, 0, "{}", told.errors);
    let status = place.status();
    assert_eq!((&status["state"], place.spares().len()), (&"clean".into(), 0), "{status}");
}

#[test]
fn an_order_that_cannot_be_noted_changes_nothing_that_is_needed() {
    let place = Place::made("--raid5", 3, &[]);
    let new = place.folder.path("new");
    wipe(&new);
    let before = fs::read(&new).expect("it is ours");
    for is_served in [true, false] {
        let serving = is_served.then(|| Serving::start(&[&place.volume], &[]));
        let obstacle = place.volume.join(".volume.toml.new");
        fs::create_dir(&obstacle).expect("there is room");
        place.raid(&["replace", "1", text(&new), "--force"]).failed(1, "cannot write");
        assert_eq!(place.status()["state"], "clean");
        place.raid(&["spare", text(&new)]).failed(1, "cannot write");
        assert!(place.spares().is_empty() && fs::read(&new).expect("it is ours") == before);
        // This order changes no list.
        let told = place.raid(&["fail", "1", "--force"]);
        assert_eq!((told.code, told.errors.contains("volume.toml")), (0, false), "{}", told.errors);
        assert_eq!(place.state_of(1), "offline");
        fs::remove_dir(&obstacle).expect("it is empty");
        place.raid(&["replace", "1", text(&place.disks[1]), "--force"]).good();
        assert_eq!(place.status()["state"], "clean");
        serving.into_iter().for_each(|serving| assert!(serving.stop().success()));
    }
}

#[test]
fn a_server_takes_whole_paths_alone() {
    let place = Place::made("--raid5", 3, &[]);
    let _serving = Serving::start(&[&place.volume], &[]);
    for (order, said) in [
        ("spare", r#"{"path": "disk-0", "force": true}"#),
        ("replace", r#"{"slot": 1, "path": "disk-0", "force": true}"#),
    ] {
        let socket = place.volume.join("control.sock");
        let answer = client::post(&socket, &format!("/v1/raid/{order}"), said.to_owned());
        let answer = answer.expect("it is served");
        let why = answer.error().expect("a sentence");
        assert!(answer.status == 400 && why.contains("a whole one"), "{why}");
    }
}

#[test]
fn a_run_that_finds_a_pipe_in_its_way_is_refused_and_leaves_nothing_behind() {
    let place = Place::new(2);
    fs::create_dir(&place.volume).expect("a new folder");
    let pipe = place.volume.join(".set.state.new");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("it is there").success());
    let (old, new) = (&place.disks[0], place.folder.path("new"));
    let before = fs::read(old).expect("it is there");
    let words = ["--raid1", text(old), text(&new), "--size", "24M"];
    on("mkfs", &place.volume, &words).failed(1, "is no regular file");
    assert!(!new.exists(), "what it created is gone");
    assert!(fs::read(old).expect("it is there") == before);
    assert!(pipe.exists(), "it is not ours");
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is_written() {
    let place = Place::new(3);
    let small = place.folder.path("small");
    File::create(&small).and_then(|file| file.set_len(SIZE / 2)).expect("it is sparse");
    let nowhere = Path::new("/dev/null/data");
    let held = || place.disks.iter().map(|disk| fs::read(disk).expect("it is ours"));
    let refused = |volume: &Path, more: &[&str], why: &str| {
        let before: Vec<Vec<u8>> = held().collect();
        let disks: Vec<&str> = place.disks.iter().map(|disk| text(disk)).collect();
        let told = on("mkfs", volume, &[&["--raid5"], &disks[..], &["--sparse"], more].concat());
        assert!(told.code != 0 && told.errors.contains(why), "{}", told.errors);
        assert!(held().eq(before), "nothing is written: {why}");
    };
    refused(&place.volume, &["--spare", text(&small)], "stripes");
    refused(&place.volume, &["--log-size", "1G"], "no room for a log");
    refused(&place.volume, &["--fragment-size", "8K", "--block-size", "4K"], "fragment");
    refused(nowhere, &[], "cannot create");
    assert!(!place.volume.exists());
    place.mkfs("--raid5", &[]).good();
    let state = || fs::read(place.volume.join("set.state")).expect("it is there");
    let before = state();
    refused(&place.volume, &["--force", "--log-size", "1G"], "no room for a log");
    assert_eq!(state(), before);
    let obstacle = place.volume.join(".set.state.new");
    fs::create_dir(&obstacle).expect("there is room");
    refused(&place.volume, &["--force"], ".set.state.new");
    fs::remove_dir(&obstacle).expect("it is empty");
    assert!(Serving::start(&[&place.volume], &[]).stop().success());
}

/// The text of `volume.toml`.
fn listed(place: &Place) -> String {
    fs::read_to_string(place.volume.join("volume.toml")).expect("it is there")
}

/// The messages of a server about disks at its start.
fn told_at_a_start(place: &Place) -> String {
    let mut serving = Serving::start_saying(&[&place.volume], &[], &[], Stdio::piped());
    let mut errors = serving.standard_error().expect("it was asked for");
    assert!(serving.stop().success());
    let mut told = String::new();
    errors.read_to_string(&mut told).expect("text");
    told
}

#[test]
fn a_disk_that_is_gone_for_good_is_forgotten() {
    let place = with_spare();
    let new = place.folder.path("new");
    wipe(&new);
    // A start without the disk does not know where it was.
    fs::remove_file(&place.disks[1]).expect("it is there");
    let told = place.raid(&["replace", "1", text(&new)]);
    assert_eq!(told.code, 0, "{}", told.errors);
    assert_eq!(place.status()["absent"], serde_json::json!([text(&place.disks[1])]));
    let complaint = format!("{}: it is no member of the set", text(&place.disks[1]));
    assert!(told_at_a_start(&place).contains(&complaint));
    for is_served in [false, true] {
        let serving = is_served.then(|| Serving::start(&[&place.volume], &[]));
        let before = listed(&place);
        let refused = |disk: &str, code: i32, why: &str| {
            let told = place.raid(&["remove", disk]);
            assert!(told.code == code && told.errors.contains(why), "{}", told.errors);
        };
        refused("1", 1, "slot 1 has a good member");
        refused("3", 2, "a spare is named by its path");
        refused(text(&new), 1, "is the member of slot 1");
        refused(text(&place.folder.path("nowhere")), 1, "is on no list of the set");
        assert_eq!(listed(&place), before);
        serving.into_iter().for_each(|serving| assert!(serving.stop().success()));
    }
    let told = place.raid(&["remove", text(&place.disks[1])]);
    assert_eq!(told.code, 0, "{}", told.errors);
    assert!(!listed(&place).contains("disk-1"), "{}", listed(&place));
    assert_eq!(place.status()["absent"], serde_json::json!([]));
    assert!(!told_at_a_start(&place).contains("no member"));
}

#[test]
fn a_spare_that_is_removed_is_a_disk_like_any_other() {
    for is_served in [false, true] {
        let place = with_spare();
        let serving = is_served.then(|| Serving::start(&[&place.volume], &[]));
        place.raid(&["remove", text(&place.disks[3])]).good();
        assert!(place.spares().is_empty() && !listed(&place).contains("disk-3"));
        serving.into_iter().for_each(|serving| assert!(serving.stop().success()));
        let bytes = fs::read(&place.disks[3]).expect("it is ours");
        assert!(bytes.iter().all(|&byte| byte == 0), "no set takes it for its spare");
        assert_eq!(place.status()["state"], "clean");
    }
}

#[test]
fn the_disk_of_a_slot_that_is_out_is_forgotten_by_the_number_of_the_slot() {
    let place = Place::made("--raid5", 3, &[]);
    let away = place.folder.path("drawer");
    fs::create_dir(&away).expect("a new folder");
    let away = away.join("disk");
    fs::rename(&place.disks[1], &away).expect("it is there");
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    place.raid(&["remove", "1"]).failed(1, "name its path");
    assert!(serving.stop().success());
    // A returned disk without a rebuild is identified by its label.
    fs::rename(&away, &place.disks[1]).expect("it is there");
    place.raid(&["remove", "1"]).good();
    assert!(!listed(&place).contains("disk-1"), "{}", listed(&place));
}

#[test]
fn what_somebody_adds_to_the_lists_meanwhile_stays() {
    let place = with_spare();
    let serving = Serving::start(&[&place.volume], &[]);
    let last = format!("\"{}\"", text(&place.disks[2]));
    edit(&place, &last, &format!("{last}, \"/dev/later\""));
    let spare = format!("\"{}\"", text(&place.disks[3]));
    edit(&place, &spare, &format!("{spare}, \"/dev/another\""));
    edit(&place, "[raid]", "[raid]\nspare_after_s = 7");
    let has_added = |what: &str| {
        let text = listed(&place);
        let all = ["/dev/later", "/dev/another", "spare_after_s = 7"];
        assert!(all.iter().all(|added| text.contains(added)), "{what}: {text}");
    };
    place.raid(&["remove", text(&place.disks[3])]).good();
    has_added("remove");
    assert!(!listed(&place).contains("disk-3"), "and what was removed is not there");
    let new = place.folder.path("new");
    wipe(&new);
    place.raid(&["replace", "2", text(&new), "--force"]).good();
    has_added("replace");
    assert!(!listed(&place).contains("disk-2") && listed(&place).contains("new"));
    place.raid(&["spare", text(&place.disks[3])]).good();
    has_added("spare");
    assert!(listed(&place).contains("disk-3"));
    place.raid(&["fail", "1", "--force"]).good();
    has_added("fail");
    assert!(serving.stop().success());
}

/// Blocks a run before its first write, by a pipe without a reader.
#[test]
fn a_replacement_and_a_scrub_are_paused_and_cancelled() {
    let place = Place::new(4);
    let disks: Vec<&str> = place.disks[..3].iter().map(|disk| text(disk)).collect();
    on("mkfs", &place.volume, &[&["--raid5"], &disks[..], &["--sparse"]].concat()).good();
    for order in ["cancel", "pause", "resume"] {
        place.raid(&[order]).failed(1, "nobody serves it");
    }
    let serving = Serving::start(&[&place.volume], &[]);
    let data = vec![9; 1 << 20];
    put(&serving, "data", "one", &data);
    place.raid(&["cancel"]).failed(1, "neither a rebuild nor a scrub is under way");
    place.raid(&["resume"]).failed(1, "it is not paused");
    place.raid(&["pause"]).good();
    place.raid(&["pause"]).failed(1, "it is paused already");
    let (old, new) = (text(&place.disks[1]), text(&place.disks[3]));
    place.raid(&["replace", "1", new, "--force", "--background"]).good();
    place.wait(|place| place.status()["state"] == "rebuilding");
    pause(10 * TRY);
    let status = place.status();
    assert_eq!((&status["state"], &status["paused"]), (&"rebuilding".into(), &true.into()));
    place.raid(&["cancel", "scrub"]).failed(1, "no scrub is under way");
    place.raid(&["cancel"]).good();
    place.wait(|place| place.status()["state"] == "clean");
    assert_eq!(place.status()["slots"][1]["path"], old, "the old disk stays");
    place.raid(&["resume"]).good();
    place.wait(|place| place.raid(&["replace", "1", new, "--force"]).code == 0);
    assert_eq!(place.status()["slots"][1]["path"], new);
    place.raid(&["scrub"]).good();
    assert!(serving.stop().success());
    place.assert_whole(&[("one", &data)]);
}

#[test]
fn a_folder_that_is_renamed_while_it_is_served_is_written_and_no_other() {
    let place = Place::made("--raid1", 2, &[]);
    let path = place.volume.join("volume.toml");
    let noted = fs::read_to_string(&path).expect("text") + "# bought in May\n";
    fs::write(&path, noted).expect("there is room");
    let serving = Serving::start(&[&place.volume], &[]);
    let moved = place.folder.path("moved");
    fs::rename(&place.volume, &moved).expect("it is ours");
    let disks = ["one", "two", "spare"].map(|name| {
        let path = place.folder.path(name);
        File::create(&path).and_then(|file| file.set_len(SIZE)).expect("it is sparse");
        path
    });
    let [one, two, spare] = [0, 1, 2].map(|number| text(&disks[number]));
    on("mkfs", &place.volume, &["--raid1", one, two, "--sparse"]).good();
    let held = |folder: &Path| {
        ["volume.toml", "set.state"].map(|name| fs::read_to_string(folder.join(name)).expect(name))
    };
    let other = held(&place.volume);
    let order =
        |words: &[&str]| duramen(&[&["raid", words[0], text(&moved)], &words[1..]].concat());
    order(&["fail", "1", "--force"]).good();
    put(&serving, "data", "file", b"it is written, and no call waits");
    order(&["spare", spare]).good();
    let [settings, state] = held(&moved);
    assert!(state.contains("offline") && settings.contains(spare), "{state}{settings}");
    assert!(settings.contains("# bought in May"), "a comment stays: {settings}");
    assert_eq!(held(&place.volume), other, "the new volume is another one");
    assert!(serving.stop().success());
}
