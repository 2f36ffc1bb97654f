//! `duramen config`: a configuration that is judged without a server.

use std::fs;

use serde_json::Value;

use crate::common::{Folder, on};

#[test]
fn a_file_is_judged_as_a_server_judges_it() {
    let folder = Folder::new();
    let (file, volume) = (folder.path("duramen.toml"), folder.path("data"));
    on("mkfs", &volume, &["--size", "16M"]).good();
    for (text, expected) in [
        ("[limits]\n\nconections = 5\n", "line 3"),
        ("[limits]\ncalls = 0\n", "limits.calls is 0; expected: at least 1"),
        ("listen = []\n", "listen is empty"),
        ("listen = \n", "line 1"),
    ] {
        fs::write(&file, text).expect("there is room");
        let judged = on("config", &file, &["--check"]);
        assert!(judged.code == 1 && judged.errors.contains(expected), "{judged:?}");
        let config = ["--config", file.to_str().expect("plain")];
        let served = on("serve", &volume, &config);
        assert_eq!((judged.code, judged.errors), (served.code, served.errors), "one judge");
        let said = on("config", &file, &["--json"]);
        let object: Value = serde_json::from_str(&said.output).expect("it is JSON");
        assert_eq!((said.code, said.errors.as_str()), (1, ""));
        assert!(object["error"].as_str().is_some_and(|why| why.contains(expected)), "{object}");
    }
    let missing = folder.path("missing.toml");
    on("config", &missing, &[]).failed(1, "cannot read the configuration");
}

#[test]
fn a_good_file_has_its_settings_with_their_lines() {
    let folder = Folder::new();
    let file = folder.path("duramen.toml");
    fs::write(&file, "rpcbind = true\n\n[limits]\ncalls = 9\n").expect("there is room");
    let said = on("config", &file, &["--check"]).good();
    assert_eq!(said, format!("{}: no errors\n", file.display()));
    let said = on("config", &file, &[]).good();
    assert!(said.contains("rpcbind = true  # line 1\n"), "{said}");
    assert!(said.contains("limits.calls = 9  # line 4\n"), "{said}");
    assert!(said.contains("reply_cache.seconds = 600  # default\n"), "{said}");
    let object: Value =
        serde_json::from_str(&on("config", &file, &["--json"]).good()).expect("it is JSON");
    let settings = object["settings"].as_array().expect("a list");
    let calls = settings.iter().find(|it| it["key"] == "limits.calls").expect("it is there");
    assert_eq!((&calls["value"], &calls["line"]), (&9.into(), &4.into()));
}
