//! Runs `duramen fsck` as people do, on undamaged volumes; and tests its documentation page.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use fsck::{FINDINGS_KEPT, Invariant};

use crate::common::serving::Serving;
use crate::common::{Folder, duramen, on};

const PAGE: &str = include_str!("../../../../docs/fsck.md");

/// First cells of the rows of the page's table whose head starts with `head`.
fn first_cells(head: &str) -> BTreeSet<&'static str> {
    let rows = PAGE.split_once(&format!("| {head} |")).expect("the table is there").1.lines();
    let rows = rows.skip(2).take_while(|row| row.starts_with('|'));
    rows.map(|row| row.split(['|', '`', ' ']).find(|cell| !cell.is_empty()).expect("a cell"))
        .collect()
}

#[test]
fn the_page_has_the_table_of_the_invariants_as_they_are() {
    let mut table = String::from("| name | rule | a cut may leave it |\n|---|---|---|\n");
    for invariant in Invariant::ALL {
        let cut = if invariant.may_be_cut() { "yes" } else { "no" };
        let (name, rule) = (invariant.name(), invariant.rule());
        table.push_str(&format!("| `{name}` | {rule} | {cut} |\n"));
    }
    assert!(PAGE.contains(&format!("\n{table}\n")), "docs/fsck.md should have this:\n{table}");
    assert!(PAGE.contains(&format!("the first {FINDINGS_KEPT}, and every loss |")));
}

#[test]
fn the_help_has_the_exit_codes_of_the_page() {
    let help = duramen(&["fsck", "--help"]).good();
    let codes = help.split_once("Exit codes:").expect("they are there").1;
    for code in first_cells("code") {
        assert!(codes.contains(&format!(" {code} ")), "{code} is not in {codes:?}");
    }
}

#[test]
fn a_new_volume_is_well() {
    let folder = Folder::new();
    let (volume, image) = (folder.path("data"), folder.path("bare.img"));
    on("mkfs", &volume, &["--size", "64M"]).good();
    on("mkfs", &image, &["--size", "20M", "--bare", "--block-size", "8K"]).good();
    for path in [&volume, &image] {
        for more in [&[][..], &["--full"], &["--repair"]] {
            let said = on("fsck", path, more).good();
            assert!(said.ends_with("nothing is wrong\n"), "{said}");
        }
    }
}

#[test]
fn what_is_looked_at_does_not_change() {
    let folder = Folder::new();
    let image = folder.path("disk.img");
    on("mkfs", &image, &["--size", "16M", "--bare"]).good();
    let before = fs::read(&image).expect("it is there");
    on("fsck", &image, &["--full"]).good();
    assert!(fs::read(&image).expect("it is there") == before, "it has changed");
}

#[test]
fn programs_get_the_keys_of_the_page() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let said = on("fsck", &volume, &["--json"]).good();
    let object: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    let keys = object.as_object().expect("an object").keys().map(String::as_str);
    let mut documented = first_cells("key");
    assert!(documented.remove("error"), "it is said of a check that failed");
    assert_eq!(keys.collect::<BTreeSet<_>>(), documented);
    assert_eq!(object["result"], "clean");
    assert_eq!(object["exit_code"], 0);
    assert_eq!(object["volume"], volume.to_str().expect("a plain name"));
}

#[test]
fn programs_are_told_why_a_check_could_not_be_made() {
    let folder = Folder::new();
    let nothing = folder.path("nothing");
    let run = on("fsck", &nothing, &["--json"]);
    assert_eq!(run.code, 8);
    let object: serde_json::Value = serde_json::from_str(&run.output).expect("it is JSON");
    assert_eq!(object["result"], "failed");
    assert_eq!(object["exit_code"], 8);
    assert!(object["error"].as_str().expect("a sentence").contains("nothing is no volume"));
    assert!(run.errors.contains("nothing is no volume"), "{}", run.errors);
    let keys = object.as_object().expect("an object").keys().map(String::as_str);
    let documented = first_cells("key");
    assert!(keys.clone().all(|key| documented.contains(key)), "{}", run.output);
}

#[test]
fn what_is_no_volume_is_not_checked() {
    let folder = Folder::new();
    on("fsck", &folder.path("nothing"), &[]).failed(8, "nothing is no volume");
    on("fsck", &folder.path(""), &[]).failed(8, "volume.toml");
    fs::create_dir(folder.path("data")).expect("a new folder");
    fs::write(folder.path("data/volume.toml"), "policy = \"sync\"\n").expect("there is room");
    on("fsck", &folder.path("data"), &[]).failed(8, "disk.img");
    on("fsck", "/dev/null".as_ref(), &[]).failed(8, "/dev/null is neither");
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_16() {
    for arguments in [&["fsck"][..], &["fsck", "data", "--luck"], &["fsck", "data", "more"]] {
        let run = duramen(arguments);
        assert_eq!(run.code, 16, "{arguments:?}");
        assert!(run.errors.contains("Usage: duramen fsck"), "{}", run.errors);
    }
    // Exit code 16 is for the command fsck only: elsewhere `fsck` is an argument.
    assert_eq!(duramen(&["mkfs", "fsck", "--luck"]).code, 2);
    assert_eq!(duramen(&["--luck", "fsck"]).code, 2);
}

#[test]
fn a_volume_that_is_served_is_not_checked() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "16M"]);
    on("fsck", &volume, &[]).failed(8, "in use by another program");
    on("fsck", &volume, &["--repair"]).failed(8, "in use by another program");
    assert!(serving.stop().success());
    on("fsck", &volume, &[]).good();
}

#[test]
fn a_reader_that_has_had_enough_does_not_change_the_exit_code() {
    let folder = Folder::new();
    let nothing = folder.path("nothing");
    let mut process = Command::new(env!("CARGO_BIN_EXE_duramen"))
        .args(["fsck", "--json", nothing.to_str().expect("a plain name")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program was just built");
    drop(process.stdout.take());
    assert_eq!(process.wait().expect("it is our child").code(), Some(8));
}
