//! Disks made by another system: served unchanged, modified, and still valid disks.
//!
//! FreeBSD kernels wrote them, one of each byte order. They are reference material, which a
//! stranger's clone does not have. The disk of the other byte order is read-only.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use super::Site;
use super::judges::Evidence;
use super::mounted;
use super::report::Report;
use crate::failure::While;
use crate::servers::duramen::Server;
use crate::{Failure, Result, guest};

const OUR_ORDER: &str = "images/freebsd14-little-endian.img.xz";
const OTHER_ORDER: &str = "images/freebsd14-big-endian.img.xz";

/// Name of this part of the test.
pub(super) const NAME: &str = "foreign";

/// Serves copies of the disks.
pub(super) fn test(site: Site<'_>, report: &mut Report) {
    for (packed, test) in [(OUR_ORDER, use_it as Test), (OTHER_ORDER, read_it as Test)] {
        let found = site.repository.shared().map(|shared| shared.join(packed));
        match found.filter(|found| found.is_file()) {
            Some(found) => test(site, &found, report),
            None => println!("client test: foreign disk: SKIPPED, {packed} is not here"),
        }
    }
}

type Test = fn(Site<'_>, &Path, &mut Report);

/// Reads the disk; not a byte of it may change.
fn read_it(site: Site<'_>, packed: &Path, report: &mut Report) {
    let Site { repository, binary, folder } = site;
    let folder = folder.join("other-order");
    let image = folder.join("volume.img");
    report.step("foreign disk of the other byte order", || {
        fs::create_dir(&folder).while_doing(folder.display())?;
        unpack(packed, &image)?;
        let before = fs::read(&image).while_doing(image.display())?;
        let evidence = Evidence { repository, image: &image, share: &folder };
        evidence.list_disk()?;
        let mut server = Server::open(binary, &image)?;
        evidence.list_mount(&server)?;
        server.stop()?;
        if fs::read(&image).while_doing(image.display())? != before {
            return Err(Failure::new("reading it has changed it"));
        }
        evidence.compare_with_driver()
    });
}

/// Reads the disk, changes it, and shows it to the judges.
fn use_it(site: Site<'_>, packed: &Path, report: &mut Report) {
    let Site { repository, binary, folder } = site;
    let image = folder.join("volume.img");
    let share = folder.join("foreign");
    let mut served = None;
    report.step("foreign disk as it was", || {
        unpack(packed, &image)?;
        fs::create_dir(&share).while_doing(share.display())?;
        let evidence = Evidence { repository, image: &image, share: &share };
        evidence.list_disk()?;
        let server = served.insert(Server::open(binary, &image)?);
        evidence.list_mount(server)?;
        evidence.compare_with_driver()
    });
    let Some(mut server) = served else { return };
    report.script("foreign disk in use", |transcript| {
        let mut running = guest::start(&mounted::guest(repository, &server, "few_changes.py"))?;
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
