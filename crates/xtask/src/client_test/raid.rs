//! A volume on a set of disks, with the real client: one disk after the other fails, and no call
//! does.
//!
//! 1. A volume is made on RAID-5 of four files, or on a mirror of two.
//! 2. In the guest `guest/raid.py` writes files, and requests actions on the disks: a member is
//!    taken out; another one is rebuilt while the set is in use; the server is killed, and comes
//!    back without a disk, which is full of zeros; that is rebuilt; a disk is away for a while, and
//!    catches up when it is back; bytes of a disk are flipped, everywhere, and a scrub repairs
//!    them, and they are flipped again. Then two faults coincide: a disk returns, and a good one is
//!    replaced, while a block of another one is rotten; a disk is late at a start, and there is a
//!    spare. In each of these the server is killed.
//! 3. Then the set is clean, and the server stops cleanly.
//! 4. The volume is exported as one plain image. The program's checker and all judges find the
//!    mount's contents there.

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

/// Name of the scenario, and of its variant on a mirror.
pub(super) const NAME: &str = "raid";
pub(super) const MIRROR_NAME: &str = "mirror";
/// Script that the guest runs.
const SCRIPT: &str = "raid.py";
/// Byte range of a disk with only data and checksums; one byte out of `ONE_OF` is changed.
const DATA: Range<u64> = 32 << 20..SIZE - (1 << 20);
const ONE_OF: usize = 64 << 10;
/// Begin of the quiet file's blocks, and their size in bytes.
const QUIET: &[u8] = b"a quiet block of a set of disks ";
const BLOCK: usize = 4096;
/// Bytes of a disk.
const SIZE: u64 = 256 << 20;
/// Time limit for a returning disk to catch up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A set, with its server.
struct Place {
    folder: PathBuf,
    disks: Vec<PathBuf>,
    server: Server,
}

/// Plays the scenario on a new volume with parity.
pub(super) fn test(site: Site<'_>, plan: &Plan, report: &mut Report) {
    test_level(site, plan, ("raid5", 4, "log"), report);
}

/// Plays the scenario on a new volume on a mirror.
pub(super) fn test_mirror(site: Site<'_>, plan: &Plan, report: &mut Report) {
    test_level(site, plan, ("raid1", 2, "sync"), report);
}

fn test_level(
    site: Site<'_>,
    plan: &Plan,
    (level, disks, policy): (&str, usize, &str),
    report: &mut Report,
) {
    let repository = site.repository;
    let name = format!("{NAME}, {level}");
    let mut played = None;
    report.script(&name, |transcript| {
        let place = played.insert(Place::make(site, level, disks, policy)?);
        place.play(repository, plan, policy, transcript)
    });
    let Some(mut place) = played else { return };
    let (image, share) = (place.folder.join("dump.img"), place.folder.join("share"));
    let evidence = Evidence { repository, image: &image, share: &share };
    evidence.end_set(&name, &mut place.server, report);
    evidence.show_to_dissect(&format!("{name}: dissect.ffs"), report);
    let every = if plan.full { 1 } else { 10 };
    evidence.show_to_sleuth_kit(&format!("{name}: the Sleuth Kit"), every, report);
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

    /// Returns the script's status.
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
        let status = mounted::run_asking(&guest, &share, 10, transcript, |word| self.change(word))?;
        self.must_be("clean")?;
        Ok(status)
    }

    /// Performs the action of a word, if it is one.
    fn change(&mut self, word: &str) -> Result<bool> {
        let (new, away) = (self.folder.join("disk-new"), self.folder.join("away"));
        match word {
            "fail" => {
                self.server.raid("fail", &["1", "--force"])?;
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
                self.scrub()?;
                // These are left for readers to repair.
                flip(&self.disks[0], 0x40)?;
            }
            "rotten-return" => self.return_beside_rot()?,
            "rotten-swap" => self.swap_beside_rot()?,
            "late" => self.start_without_a_late_disk()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Path of a slot's disk.
    fn disk_of(&self, slot: usize) -> Result<PathBuf> {
        let info = self.server.info()?;
        let path = info["raid"]["slots"][slot]["path"].as_str();
        path.map(PathBuf::from).ok_or_else(|| Failure::new(format!("slot {slot} has no disk")))
    }

    /// Runs a scrub: it must repair something, and nothing may be lost.
    fn scrub(&self) -> Result<()> {
        let scrub = self.json("scrub")?;
        match (scrub["mended"].as_u64(), scrub["lost"].as_array()) {
            (Some(1..), Some(lost)) if lost.is_empty() => Ok(()),
            _ => {
                Err(Failure::new(format!("a scrub mends nothing, or has lost something: {scrub}")))
            }
        }
    }

    /// Path of a hidden disk, in its own folder.
    fn hiding_place(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(format!("away-{name}"));
        fs::create_dir(&folder).while_doing(folder.display())?;
        Ok(folder.join("disk"))
    }

    /// Kills the server in the middle of its work, and starts it again.
    fn fall(&mut self) -> Result<()> {
        clock::sleep(Duration::from_millis(150));
        self.server.die()?;
        self.server.come_back()
    }

    /// Flips a bit of a block of the quiet file, on the first disk that has one, except that of
    /// this slot.
    fn rot_quietly(&self, slot: usize) -> Result<()> {
        for other in (0..self.disks.len()).filter(|other| *other != slot) {
            if flip_quiet_block(&self.disk_of(other)?)? {
                return Ok(());
            }
        }
        Err(Failure::new("no disk has a block of the quiet file"))
    }

    /// A disk is away, a block of another one rots, and the first one returns. A kill interrupts
    /// its catch-up.
    fn return_beside_rot(&mut self) -> Result<()> {
        self.scrub()?; // repairs all earlier rot
        let (disk, away) = (self.disk_of(1)?, self.hiding_place("beside-rot")?);
        self.server.die()?;
        fs::rename(&disk, &away).while_doing(disk.display())?;
        self.server.come_back()?;
        self.must_be("degraded")?;
        self.rot_quietly(1)?;
        clock::sleep(Duration::from_millis(500)); // for the client to write data meanwhile
        self.server.die()?;
        fs::rename(&away, &disk).while_doing(disk.display())?;
        self.server.come_back()?;
        self.fall()?;
        self.must_become_clean()
    }

    /// A good disk is replaced while a block of another one is rotten. A kill interrupts the
    /// replacement.
    fn swap_beside_rot(&mut self) -> Result<()> {
        self.rot_quietly(1)?;
        let new = self.folder.join("disk-swapped");
        clear(&new)?;
        let path = new.to_string_lossy();
        self.server.raid("replace", &["1", &path, "--force", "--background"])?;
        self.fall()?;
        self.must_become_clean()?;
        self.must_have(1, &new)
    }

    /// A disk is late at a start, and there is a spare: the spare must stay one.
    fn start_without_a_late_disk(&mut self) -> Result<()> {
        let (disk, away) = (self.disk_of(1)?, self.hiding_place("and-late")?);
        let spare = self.folder.join("disk-spare");
        clear(&spare)?;
        self.server.raid("spare", &[&spare.to_string_lossy()])?;
        self.server.die()?;
        fs::rename(&disk, &away).while_doing(disk.display())?;
        self.server.come_back()?;
        clock::sleep(Duration::from_millis(300));
        fs::rename(&away, &disk).while_doing(disk.display())?;
        self.fall()?;
        self.must_become_clean()?;
        self.must_have(1, &disk)
    }

    fn must_have(&self, slot: usize, disk: &Path) -> Result<()> {
        match self.disk_of(slot)? {
            path if path == disk => Ok(()),
            path => Err(Failure::new(format!("slot {slot} has {}", path.display()))),
        }
    }

    fn replace(&self, slot: &str, disk: &Path) -> Result<()> {
        self.server.raid("replace", &[slot, &disk.to_string_lossy()])?;
        self.must_be("clean")
    }

    /// JSON output of a command.
    fn json(&self, command: &str) -> Result<Value> {
        let told = self.server.raid(command, &["--json"])?;
        serde_json::from_str(&told).while_doing(format_args!("reading what {command} tells"))
    }

    fn state(&self) -> Result<String> {
        // 'raid status' exits with a code other than 0 while the set is not clean.
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
        self.wait("the set does not become clean", |place| Ok(place.state()? == "clean"))
    }

    /// Waits until a condition holds, or fails with this sentence.
    fn wait(&self, otherwise: &str, is_so: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let deadline = clock::now() + PATIENCE;
        while !is_so(self)? {
            if clock::now() > deadline {
                return Err(Failure::new(otherwise));
            }
            clock::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// Creates a disk full of zeros.
fn clear(disk: &Path) -> Result<()> {
    let file = File::create(disk).while_doing(disk.display())?;
    file.set_len(SIZE).while_doing(disk.display())
}

/// Flips a bit in one block out of several of a disk in use.
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

/// Flips a bit of the first block of the quiet file on a disk, if it has one.
fn flip_quiet_block(disk: &Path) -> Result<bool> {
    let bytes = fs::read(disk).while_doing(disk.display())?;
    let mut blocks = (0..bytes.len()).step_by(BLOCK);
    let Some(at) = blocks.find(|&at| bytes[at..].starts_with(QUIET)) else { return Ok(false) };
    let file = File::options().write(true).open(disk).while_doing(disk.display())?;
    file.write_all_at(&[bytes[at] ^ 1], at as u64).while_doing(disk.display())?;
    Ok(true)
}
