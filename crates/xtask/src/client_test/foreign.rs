//! A disk that another system made: served as it is, changed, and still a good disk.
//!
//! The disk was written by a FreeBSD kernel and is reference material, which a stranger's clone
//! does not have.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use super::judges::Evidence;
use super::report::Report;
use super::scenarios;
use super::server::Server;
use crate::failure::While;
use crate::{Failure, Repository, Result, guest};

const PACKED: &str = "images/freebsd14-little-endian.img.xz";

/// Serves a copy of the disk from `folder`.
pub(super) fn test(repository: &Repository, binary: &Path, folder: &Path, report: &mut Report) {
    let packed = repository.shared().map(|shared| shared.join(PACKED));
    let Some(packed) = packed.filter(|packed| packed.is_file()) else {
        println!("client test: foreign disk: SKIPPED, the image {PACKED} is not here");
        return;
    };
    let image = folder.join("volume.img");
    let share = folder.join("foreign");
    let mut served = None;
    report.step("foreign disk as it was", || {
        unpack(&packed, &image)?;
        fs::create_dir(&share).while_doing(share.display())?;
        let evidence = Evidence { repository, image: &image, share: &share };
        evidence.list_disk()?;
        let server = served.insert(Server::open(binary, &image)?);
        evidence.list_mount(server)?;
        evidence.compare_with_driver()
    });
    let Some(mut server) = served else { return };
    report.script("foreign disk in use", |transcript| {
        let mut running = guest::start(&scenarios::guest(repository, &server, "few_changes.py"))?;
        while let Some(line) = running.next_line()? {
            transcript.hear(&line);
        }
        running.finish()
    });
    let evidence = Evidence { repository, image: &image, share: &share };
    report.step("foreign disk: manifest", || evidence.list_mount(&server));
    report.step("foreign disk: stop", || server.stop());
    evidence.show_to_checker("foreign disk: every invariant", report);
    evidence.show_to_driver("foreign disk: the kernel's UFS driver", report);
    evidence.show_to_dissect("foreign disk: dissect.ffs", report);
}

fn unpack(packed: &Path, image: &Path) -> Result<()> {
    let image = File::create(image).while_doing(image.display())?;
    let status = Command::new("xz").arg("-dc").arg(packed).stdout(image).status();
    match status.while_doing("xz")? {
        status if status.success() => Ok(()),
        status => Err(Failure::new(format!("xz: {status}"))),
    }
}
