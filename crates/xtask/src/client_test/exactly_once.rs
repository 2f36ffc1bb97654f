//! Calls that must not be executed twice, from a client whose server lives for one second at a
//! time.
//!
//! 1. In the guest, workers make, link, rename and remove names (`guest/exactly_once.py`), so that
//!    calls are under way at any moment. The client waits for each of its calls, and retransmits
//!    unanswered ones when there is a server again. A [`Relay`] makes it do so immediately.
//! 2. At the end of its second the server is killed, whatever is under way, and another is started
//!    at once; every third time it is stopped cleanly instead. Some of the calls were executed, and
//!    their answers died with the server.
//! 3. No call may fail, and the tree must be as expected. The server's log says how many calls were
//!    repeated, and how many of them an earlier server had answered.
//! 4. The same test with a server that forgets its answers in a crash must detect that: calls that
//!    are executed twice fail.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Plan;
use super::mounted;
use super::relay::Relay;
use super::report::{Report, Transcript};
use crate::failure::While;
use crate::guest::{self, Guest, Heard};
use crate::servers::duramen::Server;
use crate::{Failure, Repository, Result, clock};

/// Name of the scenario, and of the folder where it works.
pub(super) const NAME: &str = "exactly-once";
/// Script that the guest runs.
const SCRIPT: &str = "exactly_once.py";
/// Minimum number of objects, in short and in full.
const OBJECTS: [usize; 2] = [300, 5_000];
/// Minimum number of server deaths, in short and in full.
const DEATHS: [usize; 2] = [6, 30];
/// Factor on these numbers, if until then no call was repeated that an earlier server had answered.
const PATIENCE: usize = 5;
/// Number of workers, and so the maximum of calls under way.
const WORKERS: usize = 16;
/// Lifetime of a server.
const LIFE: Duration = Duration::from_secs(1);
/// Attempts for a forgetful server to be detected.
const ATTEMPTS: usize = 5;
/// Errors of a call that was executed twice.
const TWICE: [&str; 2] = ["EEXIST", "ENOENT"];
/// File that the host creates in the shared folder when it has seen enough.
const ENOUGH: &str = "enough";
/// Names of the counted calls, by procedure number.
const CALLS: [(u32, &str); 9] = [
    (2, "SETATTR"),
    (8, "CREATE"),
    (9, "MKDIR"),
    (10, "SYMLINK"),
    (11, "MKNOD"),
    (12, "REMOVE"),
    (13, "RMDIR"),
    (14, "RENAME"),
    (15, "LINK"),
];

/// Plays the scenario with `server`, which remembers, and with a forgetful one.
pub(super) fn test(repository: &Repository, server: &mut Server, plan: &Plan, report: &mut Report) {
    let size = usize::from(plan.full);
    report.script(NAME, |transcript| {
        let logged = server.log().len();
        let repeated = |server: &Server| Repeated::of(&server.log()[logged..]);
        let enough = |server: &Server, deaths| {
            deaths >= DEATHS[size] * PATIENCE
                || deaths >= DEATHS[size] && repeated(server).inherited() > 0
        };
        let play = Play { repository, name: NAME.to_owned(), size, how: die_in_both_ways, enough };
        let (status, deaths) = play.run(server, transcript)?;
        let repeated = repeated(server);
        transcript.hear(&format!("note: {deaths} deaths; {repeated}"));
        if repeated.inherited() == 0 {
            return Err(Failure::new("no server has answered a call for one before it"));
        }
        Ok(status)
    });
    report.step("exactly-once, by a server that forgets", || {
        let folder = server.folder().join("forgetful");
        fs::create_dir(&folder).while_doing(folder.display())?;
        must_fail(repository, &mut server.create_forgetful(&folder.join("volume"))?, size)
    });
}

/// Checks that calls fail when the server executes them twice.
fn must_fail(repository: &Repository, server: &mut Server, size: usize) -> Result<String> {
    for attempt in 1..=ATTEMPTS {
        let (name, how) = (format!("{NAME}-{attempt}"), |_| Death::Sudden);
        let enough = |_: &Server, deaths| deaths >= DEATHS[size];
        let mut transcript = Transcript::default();
        let play = Play { repository, name, size, how, enough };
        let (_, deaths) = play.run(server, &mut transcript)?;
        let failed = transcript.with("failed ");
        let failed = failed.filter(|failed| TWICE.iter().any(|error| failed.ends_with(error)));
        let failed = failed.collect::<Vec<_>>().join(", ");
        if !failed.is_empty() {
            return Ok(format!(
                "failed, as it must: {failed} (attempt {attempt}, {deaths} deaths)"
            ));
        }
    }
    Err(Failure::new(format!("no call failed in {ATTEMPTS} attempts: nothing would be noticed")))
}

/// The way in which a server dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Sudden,
    Asked,
}

/// Returns a sudden death for two deaths out of three.
fn die_in_both_ways(deaths: usize) -> Death {
    if deaths % 3 == 2 { Death::Asked } else { Death::Sudden }
}

/// The work in a guest, with the deaths of its server meanwhile.
struct Play<'a, How, Enough> {
    repository: &'a Repository,
    /// Name of the guest's folder in the mount, and of the shared folder beside the volume.
    name: String,
    size: usize,
    /// The way in which the server dies, by the number of earlier deaths.
    how: How,
    /// Whether this number of deaths is enough.
    enough: Enough,
}

impl<How: Fn(usize) -> Death, Enough: Fn(&Server, usize) -> bool> Play<'_, How, Enough> {
    /// Returns the script's status and the number of deaths.
    fn run(&self, server: &mut Server, transcript: &mut Transcript) -> Result<(i32, usize)> {
        let share = server.folder().join(&self.name);
        fs::create_dir(&share).while_doing(share.display())?;
        let relay = Relay::to(server)?;
        let mut running = guest::start(&self.guest(server, &relay, &share))?;
        let (mut deaths, mut next) = (0, None);
        loop {
            // No server dies before the work or after it: only lines are awaited then.
            let heard = match next {
                None => running.next_line()?.map_or(Heard::End, Heard::Line),
                Some(moment) => running.next_line_before(moment)?,
            };
            match heard {
                Heard::End => return Ok((running.finish()?, deaths)),
                Heard::Silence => {
                    match (self.how)(deaths) {
                        Death::Sudden => server.crash()?,
                        Death::Asked => server.restart()?,
                    }
                    deaths += 1;
                    next = Some(clock::now() + LIFE);
                    if (self.enough)(server, deaths) {
                        fs::write(share.join(ENOUGH), "").while_doing(ENOUGH)?;
                    }
                }
                Heard::Line(line) => {
                    transcript.hear(&line);
                    match line.as_str() {
                        "progress 0" => next = Some(clock::now() + LIFE),
                        "progress 100" => next = None,
                        _ => {}
                    }
                }
            }
        }
    }

    fn guest(&self, server: &Server, relay: &Relay, share: &Path) -> Guest {
        let mut guest = mounted::guest(self.repository, server, SCRIPT);
        let figures = [OBJECTS[self.size], WORKERS].map(|figure| figure.to_string());
        guest.arguments = [self.name.clone()].into_iter().chain(figures).collect();
        guest.share = Some(share.to_owned());
        if let Some(mount) = &mut guest.mount {
            mount.port = relay.port();
        }
        guest
    }
}

/// Counts of calls that were repeated and not executed again, by procedure name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Repeated {
    /// An earlier server had answered them.
    before: BTreeMap<&'static str, usize>,
    /// The same server had answered them.
    same: BTreeMap<&'static str, usize>,
}

impl Repeated {
    /// Counts repeated calls in a server's log.
    fn of(log: &str) -> Repeated {
        let mut repeated = Repeated::default();
        for line in log.lines().filter(|line| line.contains("repeated, and not executed")) {
            let field = |name| line.split_whitespace().find_map(|word| word.strip_prefix(name));
            let number = field("procedure=").and_then(|number| number.parse::<u32>().ok());
            let call = CALLS.iter().find(|(procedure, _)| Some(*procedure) == number);
            let is_restored = field("is_restored=") == Some("true");
            let counts = if is_restored { &mut repeated.before } else { &mut repeated.same };
            *counts.entry(call.map_or("of another kind", |(_, name)| name)).or_default() += 1;
        }
        repeated
    }

    /// Number of calls that an earlier server had answered.
    fn inherited(&self) -> usize {
        self.before.values().sum()
    }
}

impl fmt::Display for Repeated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |counts: &BTreeMap<&str, usize>| {
            let each = counts.iter().map(|(call, count)| format!("{count} {call}"));
            let each = each.collect::<Vec<_>>().join(", ");
            if each.is_empty() { "none".to_owned() } else { each }
        };
        let (all, before, same) = (self.inherited(), told(&self.before), told(&self.same));
        write!(formatter, "{all} repeated calls had been answered by a server before: {before}")?;
        write!(formatter, "; by the same: {same}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_calls_are_counted_by_name_and_by_who_answered() {
        let log = "DEBUG dispatch::reply_cache: repeated, and not executed client=127.0.0.1 \
                   xid=7 procedure=9 is_restored=true\n\
                   DEBUG dispatch::reply_cache: repeated, and not executed client=127.0.0.1 \
                   xid=8 procedure=13 is_restored=false\n\
                   INFO server: something else procedure=9 is_restored=true\n";
        let repeated = Repeated::of(log);
        assert_eq!(repeated.before, BTreeMap::from([("MKDIR", 1)]));
        assert_eq!(repeated.same, BTreeMap::from([("RMDIR", 1)]));
    }
}
