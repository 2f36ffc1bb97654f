//! Snapshots, with the real client: contents of `.snapshot` must not change.
//!
//! 1. A volume of an engine with snapshots is created and served.
//! 2. In the guest `guest/snapshots.py` makes a tree, reads it in snapshots, modifies it, and
//!    requests actions by the program's commands: snapshots are made, one of them amid changes; the
//!    server is killed while a snapshot is read; one that is also mounted by its path is deleted,
//!    and the server killed meanwhile; the volume is rolled back to a snapshot.
//! 3. In the end the server stops cleanly, and the checker finds nothing.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::mounted;
use super::report::{Report, Transcript};
use super::{Plan, Site};
use crate::failure::While;
use crate::servers::duramen::Server;
use crate::{Failure, Repository, Result, clock};

/// The scenario's name.
pub(super) const NAME: &str = "snapshots";
/// Script that the guest runs.
const SCRIPT: &str = "snapshots.py";
/// An engine with snapshots.
const ENGINE: &str = "shadow";
/// Number of actions that the guest requests.
const WORDS: usize = 6;
/// Time limit for a server to finish a deletion that another one began.
const PATIENCE: Duration = Duration::from_secs(120);

/// Plays the scenario on a new volume.
pub(super) fn test(site: Site<'_>, plan: &Plan, report: &mut Report) {
    let mut served = None;
    report.script(NAME, |transcript| {
        let volume = site.folder.join("volume");
        let server = served.insert(Server::create_of_engine(site.binary, &volume, ENGINE)?);
        play(site.repository, server, site.folder, plan, transcript)
    });
    let Some(mut server) = served else { return };
    report.step(&format!("{NAME}: stop"), || server.stop());
    report.step(&format!("{NAME}: duramen fsck"), || server.check());
}

/// Returns the script's status.
fn play(
    repository: &Repository,
    server: &mut Server,
    folder: &Path,
    plan: &Plan,
    transcript: &mut Transcript,
) -> Result<i32> {
    let share = folder.join("share");
    fs::create_dir(&share).while_doing(share.display())?;
    let mut guest = mounted::guest(repository, server, SCRIPT);
    guest.arguments = vec![if plan.full { "3000" } else { "300" }.to_owned()];
    guest.share = Some(share.clone());
    guest.time_limit *= if plan.full { 10 } else { 1 };
    mounted::run_asking(&guest, &share, WORDS, transcript, |word| change(server, word))
}

/// Performs the action of a word, if it is one.
fn change(server: &mut Server, word: &str) -> Result<bool> {
    match word {
        "one" | "two" | "three" => drop(server.snapshot("create", &[word])?),
        "die" => server.crash()?,
        "delete" => delete_and_die(server)?,
        "rollback" => {
            must_be_refused(server, "rollback", &["two"])?; // it is served
            server.stop()?;
            must_be_refused(server, "rollback", &["two"])?; // there is a newer one
            server.snapshot("rollback", &["two", "--delete-newer"])?;
            server.come_back()?;
            must_have(server, &["two"])?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Deletes a snapshot, and kills the server during the deletion, if it can be caught there.
fn delete_and_die(server: &mut Server) -> Result<()> {
    let mut deleting = server.begin_snapshot("delete", &["one"])?;
    while list(server)?.iter().any(|one| one["name"] == "one" && one["state"] == "ready") {
        clock::sleep(Duration::from_millis(1));
    }
    server.die()?;
    deleting.wait().while_doing("waiting for the command")?; // its server is gone
    server.come_back()?;
    let deadline = clock::now() + PATIENCE;
    while list(server)?.iter().any(|one| one["state"] != "ready") {
        if clock::now() > deadline {
            return Err(Failure::new("the deletion that was cut off does not come to an end"));
        }
        clock::sleep(Duration::from_millis(20));
    }
    must_have(server, &["two", "three"])
}

fn list(server: &Server) -> Result<Vec<Value>> {
    let told = server.snapshot("list", &["--json"])?;
    serde_json::from_str(&told).while_doing("reading the list of snapshots")
}

fn must_have(server: &Server, expected: &[&str]) -> Result<()> {
    let all = list(server)?;
    let names: Vec<_> = all.iter().filter_map(|one| one["name"].as_str()).collect();
    if names == expected {
        return Ok(());
    }
    Err(Failure::new(format!("there are snapshots {names:?}, and not {expected:?}")))
}

fn must_be_refused(server: &Server, word: &str, more: &[&str]) -> Result<()> {
    match server.snapshot(word, more) {
        Err(_) => Ok(()),
        Ok(told) => Err(Failure::new(format!("it was not refused: {told}"))),
    }
}
