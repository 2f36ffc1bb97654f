//! A volume behind an NVRAM, with the real client: the NVRAM changes, and no call fails.
//!
//! 1. A volume is made on a disk behind an NVRAM, with a file that says how its battery is.
//! 2. In the guest `guest/nvram.py` writes files, and requests changes: the battery is low and good
//!    again; the NVRAM goes down and up; the server is killed while only the NVRAM has the newest
//!    data; the battery does not answer; the server is killed and comes back with a low battery.
//!    Once more it is killed, and is refused while the NVRAM is away.
//! 3. The server stops cleanly, and its checker finds nothing. The volume is exported as a plain
//!    image, and judges find the mount's contents there.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::judges::Evidence;
use super::report::{Report, Transcript};
use super::{Plan, Site, mounted};
use crate::failure::While;
use crate::servers::duramen::Server;
use crate::{Failure, Repository, Result, clock, command};

/// The scenario's name.
pub(super) const NAME: &str = "nvram";
/// Script that the guest runs.
const SCRIPT: &str = "nvram.py";
/// Number of changes that the guest requests.
const WORDS: usize = 9;
/// Time limit for a change to show.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Refusal of a volume whose NVRAM is away.
const REFUSAL: &str = "it is missing, and it has data that the disks lack";

/// A volume, with its server.
struct Place {
    folder: PathBuf,
    nvram: PathBuf,
    battery: PathBuf,
    server: Server,
}

/// Plays the scenario on a new volume.
pub(super) fn test(site: Site<'_>, plan: &Plan, report: &mut Report) {
    let mut played = None;
    report.script(NAME, |transcript| {
        let place = played.insert(Place::make(site)?);
        place.play(site.repository, plan, transcript)
    });
    let Some(mut place) = played else { return };
    let (image, share) = (place.folder.join("dump.img"), place.folder.join("share"));
    let evidence = Evidence { repository: site.repository, image: &image, share: &share };
    evidence.end_set(NAME, &mut place.server, report);
}

impl Place {
    fn make(site: Site<'_>) -> Result<Place> {
        let folder = site.folder.to_owned();
        let [share, nvram, battery] = ["share", "n0", "battery"].map(|name| folder.join(name));
        fs::create_dir(&share).while_doing(share.display())?;
        fs::write(&battery, "ok\n").while_doing(battery.display())?;
        let words = ["--size", "256M", "--policy", "log", "--upper", "4M", "--nvram"];
        let mut words: Vec<String> = words.map(str::to_owned).to_vec();
        words.push(nvram.to_string_lossy().into_owned());
        let mut server = Server::create_on_set(site.binary, &folder.join("volume"), &words)?;
        server.stop()?;
        server.tune(&["--nvram-health", &battery.to_string_lossy()])?;
        server.come_back()?;
        Ok(Place { folder, nvram, battery, server })
    }

    /// Returns the script's status.
    fn play(
        &mut self,
        repository: &Repository,
        plan: &Plan,
        transcript: &mut Transcript,
    ) -> Result<i32> {
        let share = self.folder.join("share");
        let mut guest = mounted::guest(repository, &self.server, SCRIPT);
        guest.arguments = vec![if plan.full { "2000" } else { "100" }.to_owned()];
        guest.share = Some(share.clone());
        guest.time_limit *= if plan.full { 10 } else { 1 };
        self.must_become("up", "ok")?;
        mounted::run_asking(&guest, &share, WORDS, transcript, |word| self.change(word))
    }

    /// Performs the change of a word, if it is one.
    fn change(&mut self, word: &str) -> Result<bool> {
        match word {
            "low" => self.battery_becomes("low", "error")?,
            "ok" => self.battery_becomes("ok", "up")?,
            "down" => {
                self.server.nvram("down")?;
                self.must_become("down", "ok")?;
            }
            "up" => {
                self.server.nvram("up")?;
                self.must_become("up", "ok")?;
            }
            "die" => {
                self.die_dirty()?;
                self.server.come_back()?;
                self.must_become("up", "ok")?;
            }
            "silent" => {
                fs::remove_file(&self.battery).while_doing(self.battery.display())?;
                command::run(Command::new("mkfifo").arg(&self.battery))?;
                self.must_become("error", "unknown")?;
            }
            "die-low" => {
                self.server.die()?;
                fs::remove_file(&self.battery).while_doing(self.battery.display())?;
                fs::write(&self.battery, "low").while_doing(self.battery.display())?;
                self.server.come_back()?;
                self.must_become("error", "low")?;
            }
            "away" => self.start_without()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn battery_becomes(&self, word: &str, state: &str) -> Result<()> {
        fs::write(&self.battery, word).while_doing(self.battery.display())?;
        self.must_become(state, word)
    }

    /// Kills the server while only the NVRAM has the newest data.
    fn die_dirty(&mut self) -> Result<()> {
        self.wait("nothing is dirty", |nvram| nvram["dirty_bytes"].as_u64() > Some(0))?;
        self.server.die()
    }

    /// A server that needs its NVRAM, which is away, is refused. When it is back, so is the server.
    fn start_without(&mut self) -> Result<()> {
        self.die_dirty()?;
        let away = self.folder.join("away");
        fs::rename(&self.nvram, &away).while_doing(self.nvram.display())?;
        match self.server.come_back() {
            Err(refused) if refused.to_string().contains(REFUSAL) => {}
            Err(failure) => return Err(failure),
            Ok(()) => return Err(Failure::new("the volume is served without what it needs")),
        }
        fs::rename(&away, &self.nvram).while_doing(self.nvram.display())?;
        self.server.come_back()
    }

    fn must_become(&self, state: &str, battery: &str) -> Result<()> {
        self.wait(&format!("it is not {state}, with a battery that is {battery}"), |nvram| {
            nvram["state"] == state && nvram["battery"] == battery
        })
    }

    /// Waits until the NVRAM is so, or fails with this sentence.
    fn wait(&self, otherwise: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
        let deadline = clock::now() + TIMEOUT;
        loop {
            let nvram = self.server.info()?["nvram"].take();
            if is_so(&nvram) {
                return Ok(());
            }
            if clock::now() > deadline {
                return Err(Failure::new(format!("{otherwise}: {nvram}")));
            }
            clock::sleep(Duration::from_millis(50));
        }
    }
}
