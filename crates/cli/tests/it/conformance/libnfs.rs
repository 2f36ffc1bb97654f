//! The command-line tools of libnfs, another independent client, if they are installed.

use std::path::Path;
use std::process::Output;

use tokio::task::spawn_blocking;

use crate::conformance::fixture::{Fixture, with_volume};
use crate::conformance::user::mode;

/// Runs a tool in a thread of its own, because the server runs in this one. `None`, with a loud
/// skip, if the tool is missing.
async fn run(tool: &'static str, arguments: Vec<String>) -> Option<Output> {
    let spawned = spawn_blocking(move || std::process::Command::new(tool).args(arguments).output());
    match spawned.await.expect("it does not panic") {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("SKIPPED, NOTHING TESTED: {tool} cannot be run: {error}");
            None
        }
    }
}

#[track_caller]
fn good(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn url(fixture: &Fixture, path: &str) -> String {
    let port = fixture.port();
    format!("nfs://127.0.0.1/data{path}?nfsport={port}&mountport={port}&uid=0&gid=0")
}

#[test]
fn the_tools_of_libnfs_copy_list_and_show() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let directory = user.mkdir(&top, "directory", 0o755).await.unwrap();
        user.setattr(&directory, mode(0o755)).await.unwrap();
        let content: Vec<u8> = (0..700_000u32).map(|i| b'a' + (i % 23) as u8).collect();
        let local = std::env::temp_dir().join(format!("duramen-libnfs-{}", std::process::id()));
        std::fs::write(&local, &content).expect("there is room");
        let source = local.to_str().expect("a plain name").to_owned();
        let copied = run("nfs-cp", vec![source, url(&fixture, "/directory/copy")]).await;
        std::fs::remove_file(Path::new(&local)).expect("it was made here");
        let Some(copied) = copied else { return };
        good(&copied);

        let copy = user.lookup(&directory, "copy").await.expect("it was copied");
        let (found, eof) = user.read(&copy, 0, 1 << 20).await.unwrap();
        assert!(found == content && eof);
        let Some(shown) = run("nfs-cat", vec![url(&fixture, "/directory/copy")]).await else {
            return;
        };
        assert!(good(&shown).as_bytes() == content);
        let Some(listed) = run("nfs-ls", vec![url(&fixture, "/directory")]).await else { return };
        let listed = good(&listed);
        assert!(listed.lines().any(|line| line.ends_with("copy") && line.contains("700000")));
    });
}
