//! A volume on a set of disks, with the real client: one disk after the other goes, and no call
//! fails.
//!
//! 1. A volume is made on RAID-5 of four files, and one on a mirror of two.
//! 2. In the guest `guest/raid.py` writes files, and asks for what is done to the disks: a member
//!    is taken out; another one is made while the set is used; the server is killed, and comes back
//!    without a disk, which is full of zeros; that is made again; a disk is away for a while, and
//!    catches up when it is back; bytes of a disk are flipped, everywhere, and mended by a scrub,
//!    and flipped once more.
//! 3. Then the set is clean, and the server stops well.
//! 4. The volume is written as one plain image. The program's checker and all judges find there
//!    what the mount showed.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::judges::Evidence;
use super::report::{Report, Transcript};
use super::{Plan, Site, mounted};
use crate::failure::While;
use crate::servers::duramen::Server;
use crate::{Failure, Repository, Result, clock};

/// The scenario's name.
pub(super) const NAME: &str = "raid";
/// What the guest runs.
const SCRIPT: &str = "raid.py";
/// Where a disk has nothing but data and checksums, in bytes, and of how many one changes.
const DATA: Range<u64> = 32 << 20..SIZE - (1 << 20);
const ONE_OF: usize = 64 << 10;
/// Bytes of a disk.
const SIZE: u64 = 256 << 20;
/// So long a disk that is back may take to catch up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A set, and what its server was told last.
struct Place {
    folder: PathBuf,
    disks: Vec<PathBuf>,
    server: Server,
}

/// Plays it on new volumes.
pub(super) fn test(site: Site<'_>, plan: &Plan, report: &mut Report) {
    let repository = site.repository;
    for (level, disks, policy) in [("raid5", 4, "log"), ("raid1", 2, "sync")] {
        let name = format!("{NAME}, {level}");
        let mut played = None;
        report.script(&name, |transcript| {
            let place = played.insert(Place::make(site, level, disks, policy)?);
            place.play(repository, plan, policy, transcript)
        });
        let Some(mut place) = played else { continue };
        let (image, share) = (place.folder.join("dump.img"), place.folder.join("share"));
        let evidence = Evidence { repository, image: &image, share: &share };
        report.step(&format!("{name}: manifest"), || evidence.list_mount(&place.server));
        report.step(&format!("{name}: stop"), || place.server.stop());
        report.step(&format!("{name}: duramen fsck"), || place.server.check());
        report.step(&format!("{name}: dump"), || {
            place.server.raid("dump", &[&image.to_string_lossy()])?;
            Ok("the volume is one plain image".to_owned())
        });
        evidence.show_to_checker(&format!("{name}: every invariant"), report);
        evidence.show_to_driver(&format!("{name}: the kernel's UFS driver"), report);
        evidence.show_to_dissect(&format!("{name}: dissect.ffs"), report);
        let every = if plan.full { 1 } else { 10 };
        evidence.show_to_sleuth_kit(&format!("{name}: the Sleuth Kit"), every, report);
    }
}

impl Place {
    fn make(site: Site<'_>, level: &str, disks: usize, policy: &str) -> Result<Place> {
        let folder = site.folder.join(format!("{NAME}-{level}"));
        fs::create_dir(&folder).while_doing(folder.display())?;
        let share = folder.join("share");
        fs::create_dir(&share).while_doing(share.display())?;
        let disks: Vec<PathBuf> =
            (0..disks).map(|number| folder.join(format!("disk-{number}"))).collect();
        let mut words = vec!["--sparse".to_owned(), "--policy".to_owned(), policy.to_owned()];
        words.push(format!("--{level}"));
        for disk in &disks {
            clear(disk)?;
            words.push(disk.to_string_lossy().into_owned());
        }
        let server = Server::create_on_set(site.binary, &folder.join("volume"), &words)?;
        Ok(Place { folder, disks, server })
    }

    /// Gives the script's status.
    fn play(
        &mut self,
        repository: &Repository,
        plan: &Plan,
        policy: &str,
        transcript: &mut Transcript,
    ) -> Result<i32> {
        let share = self.folder.join("share");
        let mut guest = mounted::guest(repository, &self.server, SCRIPT);
        let files = if plan.full { "2000" } else { "200" };
        let repeats = if policy == "log" { "once" } else { "again" };
        guest.arguments = vec![files.to_owned(), repeats.to_owned()];
        guest.share = Some(share.clone());
        guest.time_limit *= if plan.full { 10 } else { 1 };
        let status = mounted::run_asking(&guest, &share, 7, transcript, |word| self.change(word))?;
        self.must_be("clean")?;
        Ok(status)
    }

    /// Does to the disks what a word asks for, if it is one.
    fn change(&mut self, word: &str) -> Result<bool> {
        let (new, away) = (self.folder.join("disk-new"), self.folder.join("away"));
        match word {
            "fail" => {
                self.server.raid("fail", &["1"])?;
                self.must_be("degraded")?;
            }
            "replace" => {
                clear(&new)?;
                self.replace("1", &new)?;
            }
            "die" => {
                self.server.die()?;
                clear(&self.disks[0])?;
                self.server.come_back()?;
                self.must_be("degraded")?;
            }
            "make" => self.replace("0", &self.disks[0].clone())?,
            "leave" => {
                self.server.die()?;
                fs::create_dir(&away).while_doing(away.display())?;
                fs::rename(&new, away.join("disk")).while_doing(new.display())?;
                self.server.come_back()?;
                self.must_be("degraded")?;
            }
            "return" => {
                self.server.die()?;
                fs::rename(away.join("disk"), &new).while_doing(new.display())?;
                self.server.come_back()?;
                self.must_become_clean()?;
            }
            "rot" => {
                flip(&self.disks[0], 0x20)?;
                let scrub = self.json("scrub")?;
                if scrub["mended"].as_u64().is_none_or(|mended| mended == 0) {
                    return Err(Failure::new(format!("a scrub has mended nothing: {scrub}")));
                }
                // These are left for whoever reads them.
                flip(&self.disks[0], 0x40)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn replace(&self, slot: &str, disk: &Path) -> Result<()> {
        self.server.raid("replace", &[slot, &disk.to_string_lossy()])?;
        self.must_be("clean")
    }

    /// What a command tells programs.
    fn json(&self, command: &str) -> Result<Value> {
        let told = self.server.raid(command, &["--json"])?;
        serde_json::from_str(&told).while_doing(format_args!("reading what {command} tells"))
    }

    fn state(&self) -> Result<String> {
        // 'raid status' ends with another code than 0 while the set is not clean.
        let info = self.server.info()?;
        Ok(info["raid"]["state"].as_str().unwrap_or_default().to_owned())
    }

    fn must_be(&self, expected: &str) -> Result<()> {
        match self.state()? {
            state if state == expected => Ok(()),
            state => Err(Failure::new(format!("the set is {state}, and not {expected}"))),
        }
    }

    fn must_become_clean(&self) -> Result<()> {
        let deadline = clock::now() + PATIENCE;
        while self.state()? != "clean" {
            if clock::now() > deadline {
                return Err(Failure::new("the disk that is back has not caught up"));
            }
            clock::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// Makes a disk that is full of zeros.
fn clear(disk: &Path) -> Result<()> {
    let file = File::create(disk).while_doing(disk.display())?;
    file.set_len(SIZE).while_doing(disk.display())
}

/// Flips a bit in every few blocks of a disk that is in use.
fn flip(disk: &Path, bit: u8) -> Result<()> {
    let file = File::options().read(true).write(true).open(disk).while_doing(disk.display())?;
    for (number, at) in (0..).zip(DATA.step_by(ONE_OF)) {
        let at = at + number * 4099 % ONE_OF as u64;
        let mut byte = [0];
        let flipped = file.read_exact_at(&mut byte, at);
        let flipped = flipped.and_then(|()| file.write_all_at(&[byte[0] ^ bit], at));
        flipped.while_doing(disk.display())?;
    }
    Ok(())
}
