//! A host whose file system is full, under a disk that could still grow: under each policy, with
//! the real client.
//!
//! 1. The volume's folder is on a small file system of its own, in memory. Its disk may become much
//!    larger.
//! 2. In the guest, `guest/full_host.py` fills it, first with data and then with small changes, and
//!    prints the results. It asks for space, and later for a death: then the server is killed while
//!    the host is full, and another is started when there is space.
//! 3. Acknowledged data is there all the time, and work continues once there is space.
//! 4. In the end the server stops cleanly, and the checker finds nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mounted;
use super::report::{Report, Transcript};
use super::{Plan, Site};
use crate::failure::While;
use crate::servers::duramen::Server;
use crate::{Repository, Result, command};

/// The scenario's name.
pub(super) const NAME: &str = "full-host";
/// Script that the guest runs.
const SCRIPT: &str = "full_host.py";
/// Space of the host at first, and the increment each time, in MiB.
const ROOM: u32 = 48;

/// A file system in memory, which is removed on drop.
struct Host {
    place: PathBuf,
    room: u32,
}

impl Host {
    fn mount(place: PathBuf) -> Result<Host> {
        fs::create_dir(&place).while_doing(place.display())?;
        let mut mount = Command::new("mount");
        let size = format!("size={ROOM}M");
        command::run(mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(&place))?;
        Ok(Host { place, room: ROOM })
    }

    fn grow(&mut self) -> Result<()> {
        self.room += ROOM;
        let size = format!("remount,size={}M", self.room);
        command::run(Command::new("mount").args(["-o", &size]).arg(&self.place))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Keep the server's log beside it, for anyone who asks why the test failed.
        let _ = fs::copy(self.place.join("volume.log"), self.place.with_extension("log"));
        // The server has ended, unless the test itself failed.
        let _ = command::run(Command::new("umount").arg(&self.place));
    }
}

/// Plays the scenario on new volumes.
pub(super) fn test(site: Site<'_>, plan: &Plan, report: &mut Report) {
    for policy in ["log", "sync"] {
        let mut played = None;
        report.script(&format!("{NAME}, policy {policy}"), |transcript| {
            let place = site.folder.join(format!("{NAME}-{policy}"));
            let host = Host::mount(place)?;
            let served = Server::create_small(site.binary, &host.place.join("volume"), policy)?;
            let (host, server) = played.insert((host, served));
            play(site.repository, host, server, policy, plan, transcript)
        });
        let Some((_host, mut server)) = played else { continue };
        report.step(&format!("{NAME}, policy {policy}: stop"), || server.stop());
        report.step(&format!("{NAME}, policy {policy}: duramen fsck"), || server.check());
    }
}

/// Returns the script's status.
fn play(
    repository: &Repository,
    host: &mut Host,
    server: &mut Server,
    policy: &str,
    plan: &Plan,
    transcript: &mut Transcript,
) -> Result<i32> {
    let share = share_beside(&host.place)?;
    let mut guest = mounted::guest(repository, server, SCRIPT);
    guest.arguments = vec![policy.to_owned()];
    guest.share = Some(share.clone());
    guest.time_limit *= if plan.full { 10 } else { 1 };
    mounted::run_asking(&guest, &share, 2, transcript, |word| {
        match word {
            "room" => host.grow()?,
            "die" => {
                server.die()?;
                host.grow()?;
                server.come_back()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })
}

/// A shared folder for the guest, which has space.
fn share_beside(place: &Path) -> Result<PathBuf> {
    let share = place.with_extension("share");
    fs::create_dir(&share).while_doing(share.display())?;
    Ok(share)
}
