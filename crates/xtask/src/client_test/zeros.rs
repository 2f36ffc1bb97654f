//! Acknowledged bytes, and recoveries that might bring others: under each policy, and on a volume
//! that is declared delayed, with the real client.
//!
//! 1. In the guest, `guest/zeros.py` writes files whose every byte is on stable storage: zeros of
//!    any length and bytes over them, large writes over small ones, files whose end moves. It
//!    requests a [`Death`], and compares when the volume is served again.
//! 2. The server is killed. In some deaths `duramen fsck --repair` runs before the next server, and
//!    is killed itself: soon after its start, or once it has replayed the log and before it has
//!    removed the mark.
//! 3. Bytes read equal the bytes written, however often the server dies.
//! 4. In the end the server stops cleanly, and the checker finds nothing.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use super::mounted;
use super::relay::Relay;
use super::report::{Report, Transcript};
use super::{Plan, Site};
use crate::failure::While;
use crate::guest;
use crate::servers::duramen::Server;
use crate::{Failure, Repository, Result, clock};

/// The scenario's name.
pub(super) const NAME: &str = "zeros";
/// Script that the guest runs.
const SCRIPT: &str = "zeros.py";
/// The policies to play, and whether the volume is declared delayed.
const PLAYED: [(&str, bool); 3] = [("log", false), ("sync", false), ("log", true)];
/// Number of rounds through all deaths, in short and in full.
const ROUNDS: [u32; 2] = [1, 10];
/// Output of `fsck` when it has replayed a log.
const REPLAYED: &str = "log entries were replayed first";
/// Time before a repair is cut off, if no log is replayed.
const HEAD_START: Duration = Duration::from_millis(5);

/// Plays the scenario on new volumes.
pub(super) fn test(site: Site<'_>, plan: &Plan, report: &mut Report) {
    let one = plan.drawn.map(|number| number as usize % PLAYED.len());
    for (policy, is_delayed) in one.map_or(&PLAYED[..], |one| &PLAYED[one..=one]).iter().copied() {
        let mut played = None;
        let name =
            if is_delayed { format!("{policy}, delayed") } else { format!("policy {policy}") };
        report.script(&format!("{NAME}, {name}"), |transcript| {
            let folder = site.folder.join(format!("{NAME}-{policy}-{is_delayed}"));
            fs::create_dir(&folder).while_doing(folder.display())?;
            let volume = folder.join("volume");
            let served = if is_delayed {
                Server::create_delayed(site.binary, &volume, policy)?
            } else {
                Server::create_with_policy(site.binary, &volume, policy)?
            };
            let (repository, server) = (site.repository, played.insert(served));
            let play = Play { repository, server, policy, is_delayed };
            play.run(plan, transcript)
        });
        let Some(mut server) = played else { continue };
        report.step(&format!("{NAME}, {name}: stop"), || server.stop());
        report.step(&format!("{NAME}, {name}: duramen fsck"), || server.check());
    }
}

/// Events between one server and the next. The guest requests one by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// Nothing else happens.
    Crash,
    /// A repair that is cut off.
    Repair,
    /// A repair that is cut off early, another that is cut off, and one that completes.
    RepairAgain,
}

impl Death {
    /// The death that a line of the guest requests.
    fn of(line: &str) -> Option<Result<Death>> {
        let name = line.strip_prefix("die ")?;
        let all = [Death::Crash, Death::Repair, Death::RepairAgain];
        let found = all.into_iter().find(|death| death.to_string() == name);
        Some(found.ok_or_else(|| Failure::new(format!("no death is called {name}"))))
    }
}

impl fmt::Display for Death {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Death::Crash => "crash",
            Death::Repair => "repair",
            Death::RepairAgain => "repair-again",
        })
    }
}

/// The work in a guest, with the deaths of its server meanwhile.
struct Play<'a> {
    repository: &'a Repository,
    server: &'a mut Server,
    policy: &'a str,
    is_delayed: bool,
}

impl Play<'_> {
    /// Returns the script's status.
    fn run(mut self, plan: &Plan, transcript: &mut Transcript) -> Result<i32> {
        let share = self.server.folder().join("share");
        fs::create_dir(&share).while_doing(share.display())?;
        let relay = Relay::to(self.server)?;
        let mut guest = mounted::guest(self.repository, self.server, SCRIPT);
        guest.arguments = vec![ROUNDS[usize::from(plan.full)].to_string()];
        guest.arguments.extend(self.is_delayed.then(|| "delayed".to_owned()));
        guest.share = Some(share.clone());
        guest.time_limit *= if plan.full { 10 } else { 1 };
        if let Some(mount) = &mut guest.mount {
            mount.port = relay.port();
        }
        let mut running = guest::start(&guest)?;
        let (mut deaths, mut cut) = (0, 0);
        while let Some(line) = running.next_line()? {
            transcript.hear(&line);
            let Some(death) = Death::of(&line) else { continue };
            cut += self.bring(death?)?;
            deaths += 1;
            let back = share.join(format!("back-{deaths}"));
            fs::write(&back, "").while_doing(back.display())?;
        }
        transcript.hear(&format!("note: {deaths} deaths, {cut} repairs were cut off"));
        if cut == 0 && self.policy == "log" {
            return Err(Failure::new("every repair was faster than what was to cut it off"));
        }
        running.finish()
    }

    /// Performs a death, and starts another server. Returns the number of repairs that were cut
    /// off.
    fn bring(&mut self, death: Death) -> Result<u32> {
        self.server.die()?;
        let mut cut = 0;
        if death == Death::RepairAgain {
            cut += u32::from(self.cut_a_repair(false)?);
        }
        if death != Death::Crash {
            cut += u32::from(self.cut_a_repair(self.policy == "log")?);
        }
        if death == Death::RepairAgain {
            let repair = self.server.repair().output().while_doing("duramen fsck --repair")?;
            if !matches!(repair.status.code(), Some(0 | 1)) {
                let told = [repair.stdout, repair.stderr].concat();
                let told = String::from_utf8_lossy(&told).into_owned();
                return Err(Failure::new(format!("a repair: {}\n{told}", repair.status)));
            }
        }
        self.server.come_back()?;
        Ok(cut)
    }

    /// Starts a repair and kills it, early or when it has replayed the log. Returns whether it was
    /// still running.
    fn cut_a_repair(&self, when_replayed: bool) -> Result<bool> {
        let mut repair = self.server.repair();
        let repair = repair.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut repair = repair.spawn().while_doing("duramen fsck --repair")?;
        let told = repair.stderr.take().expect("standard error was asked for");
        if when_replayed {
            let mut lines = BufReader::new(told).lines().map_while(std::io::Result::ok);
            lines.find(|line| line.contains(REPLAYED));
        } else {
            clock::sleep(HEAD_START);
        }
        repair.kill().while_doing("killing the repair")?;
        let status = repair.wait().while_doing("killing the repair")?;
        Ok(status.signal().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_guest_asks_for_a_death_by_its_name() {
        for death in [Death::Crash, Death::Repair, Death::RepairAgain] {
            assert_eq!(Death::of(&format!("die {death}")), Some(Ok(death)));
        }
        assert_eq!(Death::of("did: something"), None);
        assert!(matches!(Death::of("die of old age"), Some(Err(_))));
    }
}
