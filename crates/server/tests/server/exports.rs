//! Reloads of the rules while a client is connected.

use std::path::PathBuf;
use std::process::Command;

use nfs3_types::nfs3::{GETATTR3args, MKDIR3args, Nfs3Result, nfsstat3, sattr3};
use server::{Config, ConfigError, Settings};

use crate::fixture::{Fixture, at, ephemeral, with_server};

/// A file of one test, removed on drop.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("duramen-{}-{name}", std::process::id()));
        let file = Self(path);
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("the temporary directory can be written");
    }

    fn settings(&self) -> Settings {
        let exports = Config::read(&self.0).expect("a good file").exports;
        Settings {
            config: Config { exports, ..ephemeral() },
            file: Some(self.0.clone()),
            ..Settings::default()
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn rules(access: &str, network: &str) -> String {
    format!(
        "[exports.data]\nclients = [{{ network = \"{network}\", access = \"{access}\", squash = \
         \"none\" }}]\n"
    )
}

#[test]
fn new_rules_hold_for_a_client_that_stays_connected() {
    let file = File::new("reload.toml", &rules("rw", "127.0.0.1"));
    with_server(file.settings(), async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let mkdir = |name| MKDIR3args { where_: at(&root, name), attributes: sattr3::default() };
        client.mkdir(&mkdir("one")).await.expect("a reply").unwrap();

        file.write(&rules("ro", "127.0.0.1"));
        fixture.handle.reload_exports().await.expect("a good file");
        let refused = client.mkdir(&mkdir("two")).await.expect("a reply");
        assert!(matches!(refused, Nfs3Result::Err((nfsstat3::NFS3ERR_ROFS, _))), "{refused:?}");

        file.write(&rules("rw", "10.0.0.0/8"));
        fixture.handle.reload_exports().await.expect("a good file");
        let refused = client.getattr(&GETATTR3args { object: root.clone() }).await;
        let refused = refused.expect("a reply");
        assert!(matches!(refused, Nfs3Result::Err((nfsstat3::NFS3ERR_ACCES, _))), "{refused:?}");

        file.write(&rules("rw", "127.0.0.0/8"));
        fixture.handle.reload_exports().await.expect("a good file");
        client.mkdir(&mkdir("two")).await.expect("a reply").unwrap();
    });
}

#[test]
fn a_bad_file_leaves_the_old_rules_in_force() {
    let file = File::new("bad.toml", &rules("rw", "127.0.0.1"));
    with_server(file.settings(), async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        file.write("[exports.data]\nclients = 5\n");
        let error = fixture.handle.reload_exports().await.expect_err("a bad file");
        assert!(matches!(error, ConfigError::Parse { .. }), "{error}");
        file.write(&rules("rw", "127.0.0.1").replace("data", "dta"));
        let error = fixture.handle.reload_exports().await.expect_err("no such volume");
        assert!(error.to_string().contains("expected one of: data"), "{error}");
        client.getattr(&GETATTR3args { object: root }).await.expect("a reply").unwrap();
    });
}

#[test]
fn a_file_in_which_the_rules_of_a_volume_are_gone_leaves_the_old_ones_in_force() {
    let file = File::new("gone.toml", &rules("ro", "127.0.0.1"));
    with_server(file.settings(), async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        // Emptied, as by an editor that was cut off; the section without its clients; other keys.
        for text in ["", "[exports.data]\n", "rpcbind = false\n"] {
            file.write(text);
            let error = fixture.handle.reload_exports().await.expect_err("no rules");
            assert!(matches!(error, ConfigError::RulesGone { .. }), "{error}");
            let words = error.to_string();
            assert!(words.contains("exports.data") && words.contains("clients = []"), "{words}");
            assert!(words.contains("access has changed"), "{words}");
            let args = MKDIR3args { where_: at(&root, "one"), attributes: sattr3::default() };
            let refused = client.mkdir(&args).await.expect("a reply");
            assert!(matches!(refused, Nfs3Result::Err((nfsstat3::NFS3ERR_ROFS, _))), "{text}");
        }
        file.write("[exports.data]\nclients = []\n");
        fixture.handle.reload_exports().await.expect("it withdraws access");
        let refused = client.getattr(&GETATTR3args { object: root }).await.expect("a reply");
        assert!(matches!(refused, Nfs3Result::Err((nfsstat3::NFS3ERR_ACCES, _))), "{refused:?}");
    });
}

#[test]
fn a_volume_that_never_had_rules_needs_none_in_a_file_that_is_read_anew() {
    let file = File::new("none.toml", "");
    with_server(file.settings(), async |fixture: Fixture| {
        fixture.handle.reload_exports().await.expect("as at the start");
        file.write(&rules("ro", "127.0.0.1"));
        fixture.handle.reload_exports().await.expect("rules from now on");
    });
}

#[test]
fn a_configuration_is_a_regular_file_of_a_bounded_length() {
    let file = File::new("kinds.toml", &rules("rw", "127.0.0.1"));
    with_server(file.settings(), async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let refused = async |said: &str| {
            let error = fixture.handle.reload_exports().await.expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        };
        // A FIFO without a writer: its reader would block for ever.
        let is_at_path = |kind| {
            std::fs::remove_file(&file.0).expect("it is there");
            let made = Command::new(kind).args([&file.0]).status().expect("coreutils");
            assert!(made.success());
        };
        is_at_path("mkfifo");
        refused("no regular file").await;
        is_at_path("touch");
        let long = |length: usize| rules("rw", "127.0.0.1") + &"#".repeat(length);
        file.write(&long(1 << 20));
        refused("more than 1048576 bytes").await;
        file.write(&long((1 << 20) - rules("rw", "127.0.0.1").len()));
        fixture.handle.reload_exports().await.expect("just as long as it may be");
        client.getattr(&GETATTR3args { object: root }).await.expect("a reply").unwrap();
    });
}

/// The file names a volume that this server does not serve under that name: its rules would hold
/// for nobody, and the volume that is meant would be open to all of this machine.
#[test]
fn rules_for_a_volume_of_the_file_are_refused_if_the_command_line_names_others() {
    let file = File::new("of-file.toml", &rules("rw", "127.0.0.1"));
    with_server(file.settings(), async |fixture: Fixture| {
        let others = "[volumes.archive]\npath = \"/archive\"\n[exports.archive]\nclients = []\n";
        file.write(others);
        let refused = fixture.handle.reload_exports().await.expect_err("it serves no archive");
        assert!(matches!(refused, ConfigError::NoVolume { .. }), "{refused}");
        file.write(&(others.to_owned() + &rules("ro", "127.0.0.1")));
        fixture.handle.reload_exports().await.expect("what it serves has rules of its own");
    });
}
