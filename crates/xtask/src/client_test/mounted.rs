//! A guest with a mount of our server.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::report::Transcript;
use crate::failure::While;
use crate::guest::{self, Guest, Mount};
use crate::servers::duramen::Server;
use crate::{Failure, Repository, Result};

/// Time limit of a scenario, for a busy machine; ten times that with `--full`.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// Runs a guest that requests actions with lines of one word, `most` times in all, and continues
/// when its shared folder has a file `done-N`. `answer` performs an action, and says whether the
/// line was such a word. Returns the script's status.
pub(super) fn run_asking(
    guest: &Guest,
    share: &Path,
    most: usize,
    transcript: &mut Transcript,
    mut answer: impl FnMut(&str) -> Result<bool>,
) -> Result<i32> {
    let mut running = guest::start(guest)?;
    let mut asked = 0;
    while let Some(line) = running.next_line()? {
        transcript.hear(&line);
        if !answer(&line)? {
            continue;
        }
        asked += 1;
        let done = share.join(format!("done-{asked}"));
        fs::write(&done, "").while_doing(done.display())?;
    }
    if asked != most {
        let sentence = format!("it has asked for something {asked} times, not {most}");
        return Err(Failure::new(sentence));
    }
    running.finish()
}

/// A guest with `server` mounted, about to run one of our scripts.
pub(super) fn guest(repository: &Repository, server: &Server, script: &str) -> Guest {
    Guest {
        script: repository.guest_scripts().join(script),
        arguments: Vec::new(),
        mount: Some(Mount {
            port: server.port(),
            export: "/volume".to_owned(),
            options: Vec::new(),
        }),
        disk: None,
        share: None,
        time_limit: TIME_LIMIT,
    }
}
