//! Access to volumes as people set it up: refusals in the log, and `duramen exports`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::common::serving::{Serving, put};
use crate::common::{Folder, Run, follow, on};

/// A volume and a configuration with this text.
fn with_configuration(text: &str) -> (Folder, PathBuf, PathBuf) {
    let folder = Folder::new();
    let (volume, config) = (folder.path("data"), folder.path("duramen.toml"));
    on("mkfs", &volume, &["--size", "16M"]).good();
    fs::write(&config, text).expect("there is room");
    (folder, volume, config)
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Runs `duramen exports VERB VOLUME MORE...`.
fn exports(verb: &str, volume: &Path, more: &[&str]) -> Run {
    crate::common::duramen(&[&["exports", verb, plain(volume)], more].concat())
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

#[test]
fn a_refused_client_is_admitted_by_the_line_of_the_log() {
    let stranger = "[exports.data]\nclients = [{ network = \"127.0.0.2\", access = \"ro\" }]\n";
    let (_folder, volume, config) = with_configuration(stranger);
    let more = ["--config", plain(&config)];
    let mut serving = Serving::start_saying(&[&volume], &more, &[], Stdio::piped());
    let mut log = BufReader::new(serving.standard_error().expect("it was asked for"));
    assert!(serving.refuses("data"));
    let mut line = String::new();
    while !line.contains("refused a mount") {
        line.clear();
        assert_ne!(log.read_line(&mut line).expect("text"), 0, "the server ended");
    }
    assert!(line.contains(" WARN ") && line.contains("127.0.0.1"), "{line}");
    let rule = &line[line.find("{ network").expect("a rule")..=line.find('}').expect("its end")];
    assert!(line.contains("[exports.data]"), "{line}");
    let pasted = stranger.replace("[{", &format!("[{rule}, {{"));
    fs::write(&config, pasted.replace("127.0.0.1\", access = \"ro", "127.0.0.1\", access = \"rw"))
        .expect("there is room");
    serving.signal("-HUP");
    while !line.contains("/data: ") {
        line.clear();
        assert_ne!(log.read_line(&mut line).expect("text"), 0, "the server ended");
    }
    assert!(line.contains("127.0.0.1 may mount it read-write, root squashed"), "{line}");
    serving.mount("data");
    assert!(serving.stop().success());
}

#[test]
fn a_start_says_who_may_mount_and_how() {
    let (_folder, volume, config) = with_configuration("");
    let ready = |more: &[&str]| {
        let serving = Serving::start(&[&volume], more);
        let told = serving.announcement();
        assert!(serving.stop().success());
        told
    };
    let told = ready(&[]);
    let share = "/data: 127.0.0.0/8 and ::1 may mount it read-write, no user squashed, root";
    assert!(told.contains(share) && told.contains("Linux: "), "{told}");
    fs::write(
        &config,
        "[exports.data]\nclients = [{ network = \"10.0.0.0/8\", access = \"rw\" }]\n",
    )
    .expect("there is room");
    let told = ready(&["--config", plain(&config)]);
    let share = "/data: 10.0.0.0/8 may mount it read-write, root squashed to 65534:65534, no user \
                 can write to the root directory";
    assert!(told.contains(share) && !told.contains("Linux: "), "{told}");
}

#[test]
fn clients_are_allowed_and_denied_while_a_volume_is_served() {
    let comment = "# our server\nlisten = \"127.0.0.1:0\" # any port\n";
    let (_folder, volume, config) = with_configuration(comment);
    fs::set_permissions(&config, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let serving = Serving::start(&[&volume], &["--config", plain(&config)]);
    put(&serving, "data", "letter", b"dear friend");
    // Without --config it is the file of the server.
    let told = exports("deny", &volume, &["--all"]).good();
    assert!(told.starts_with("no client may mount /data\n"), "{told}");
    assert!(follow(&told, "kill").code == 0, "{told}");
    serving.until(|| serving.refuses("data"));
    let squash = ["127.0.0.1", "10.0.0.0/8", "--access", "rw", "--squash", "none"];
    let told = exports("allow", &volume, &squash).good();
    assert!(told.contains("127.0.0.1   read and write, no user squashed"), "{told}");
    assert!(follow(&told, "kill").code == 0, "{told}");
    serving.until(|| !serving.refuses("data"));
    put(&serving, "data", "answer", b"dear you");
    assert!(read(&config).starts_with(comment), "{}", read(&config));
    assert_eq!(fs::metadata(&config).expect("it is there").mode() & 0o7777, 0o640);
    let told = exports("allow", &volume, &["10.0.0.0/8"]).good();
    assert!(told.contains("10.0.0.0/8  read only, no user squashed"), "{told}");
    assert!(serving.stop().success());
}

#[test]
fn a_check_says_what_an_address_may_do_and_where_that_is_said() {
    let text =
        "[exports.data]\nclients = [\n    { network = \"10.0.0.0/8\", access = \"ro\" },\n]\n";
    let (_folder, volume, config) = with_configuration(text);
    let with = ["--config", plain(&config)];
    let told = exports("check", &volume, &[&["10.1.2.3"], &with[..]].concat()).good();
    assert!(told.contains("10.1.2.3 may mount /data: read only, root squashed"), "{told}");
    assert!(told.contains("rule for 10.0.0.0/8") && told.contains("line 3"), "{told}");
    let refused = exports("check", &volume, &[&["11.1.2.3"], &with[..]].concat());
    assert_eq!((refused.code, refused.errors.as_str()), (1, ""), "{}", refused.output);
    assert!(refused.output.contains("11.1.2.3 may not mount /data"), "{}", refused.output);
    let json = exports("check", &volume, &[&["10.1.2.3", "--json"], &with[..]].concat()).good();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["rule"]["access"], &json["rule"]["line"]), (&"ro".into(), &3.into()));
    let list = exports("list", &volume, &[&["--json"], &with[..]].concat()).good();
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["clients"][0]["network"], "10.0.0.0/8");
}

#[test]
fn a_configuration_is_made_for_its_owner_alone() {
    let folder = Folder::new();
    let (volume, config) = (folder.path("data"), folder.path("new.toml"));
    on("mkfs", &volume, &["--size", "16M"]).good();
    let with = ["10.0.0.5", "--config", plain(&config)];
    let told = exports("allow", &volume, &with).good();
    for network in ["127.0.0.0/8", "::1", "10.0.0.5"] {
        assert!(told.contains(network), "{told}");
    }
    assert_eq!(fs::metadata(&config).expect("it is there").mode() & 0o7777, 0o600);
    assert!(Serving::start(&[&volume], &["--config", plain(&config)]).stop().success());
}

#[test]
fn what_cannot_be_edited_is_named_and_stays() {
    let text = "[exports.data]\nclients = [{ network = \"10.0.0.0/8\", access = \"ro\" }]\n";
    let (folder, volume, config) = with_configuration(text);
    let with = |more: &[&str]| -> Vec<String> {
        [more, &["--config", plain(&config)]].concat().iter().map(|&word| word.to_owned()).collect()
    };
    let run = |verb: &str, volume: &Path, more: &[&str]| {
        let more = with(more);
        exports(verb, volume, &more.iter().map(String::as_str).collect::<Vec<_>>())
    };
    exports("list", &volume, &[]).failed(2, "--config");
    assert_eq!(run("allow", &volume, &["nonsense"]).code, 2);
    assert_eq!(run("deny", &volume, &[]).code, 2);
    run("list", &folder.path("dtaa"), &[]).failed(1, "which has data");
    let still = run("deny", &volume, &["10.0.0.5"]);
    assert!(still.code == 1 && still.errors.contains("by the rule for 10.0.0.0/8"), "{still:?}");
    assert_eq!(read(&config), text);
    fs::write(&config, "[exports.data\n").expect("there is room");
    assert_eq!(run("allow", &volume, &["10.0.0.5"]).code, 1);
    assert_eq!(read(&config), "[exports.data\n");
    // A volume that is served without a configuration has none to edit.
    let serving = Serving::start(&[&volume], &[]);
    exports("allow", &volume, &["10.0.0.5"]).failed(1, "--config FILE");
    assert!(serving.stop().success());
}

/// Runs `duramen exports allow` and `deny` on a served volume, and returns the configuration.
fn allowed_and_denied(path: &Path, name: &str, config: &Path) -> String {
    exports("allow", path, &["10.0.0.5"]).good();
    let allowed = read(config);
    assert!(allowed.contains(&format!("[exports.{name}]")), "{allowed}");
    exports("deny", path, &["--all"]).good();
    read(config)
}

#[test]
fn rules_are_those_of_the_name_under_which_a_server_has_the_volume() {
    let folder = Folder::new();
    let (volume, config) = (folder.path("data"), folder.path("duramen.toml"));
    on("mkfs", &volume, &["--size", "16M"]).good();
    // The command line's volume has the name of its path, whatever the file calls it.
    fs::write(&config, "[volumes.other]\npath = 'data'\n").expect("there is room");
    let with = ["--config", plain(&config)];
    let serving = Serving::start(&[&volume], &with);
    let text = allowed_and_denied(&volume, "data", &config);
    assert!(text.contains("[exports.data]\nclients = []\n"), "{text}");
    serving.signal("-HUP");
    serving.until(|| serving.refuses("data"));
    assert!(serving.stop().success());
    // A volume of the file has the name of its section, by whatever path it is called.
    fs::write(&config, "[volumes.other]\npath = 'data'\n").expect("there is room");
    let disk = volume.join("disk.img");
    exports("allow", &disk, &[&["10.0.0.5"], &with[..]].concat()).good();
    assert!(read(&config).contains("[exports.other]"), "{}", read(&config));
    let serving = Serving::start(&[], &with);
    let text = allowed_and_denied(&disk, "other", &config);
    assert!(text.contains("[exports.other]\nclients = []\n"), "{text}");
    assert!(serving.stop().success());
}
