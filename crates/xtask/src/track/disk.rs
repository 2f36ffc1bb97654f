//! Loop devices over files, the same kind for every contestant.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::janitor::{Janitor, quoted};
use crate::failure::While;
use crate::{Failure, Result, command};

/// A loop device.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    path: PathBuf,
}

impl Disk {
    /// Makes a file of this many MiB in the folder and a device on it, past the cache below if
    /// possible.
    ///
    /// Every byte is written once, so that the file system underneath has nothing to allocate
    /// later, like a real disk.
    pub(crate) fn make(
        janitor: &mut Janitor,
        folder: &Path,
        name: &str,
        mib: u64,
        is_direct: bool,
    ) -> Result<Disk> {
        let file = folder.join(name);
        fill(&file, mib).while_doing(file.display())?;
        let mut losetup = Command::new("losetup");
        if is_direct {
            losetup.arg("--direct-io=on");
        }
        let path = command::capture(losetup.args(["--show", "-f"]).arg(&file))?;
        let path = PathBuf::from(path.trim());
        janitor.promise(&format!("losetup -d {}", quoted(&path)))?;
        let disk = Disk { path };
        let found = disk.read("loop/dio")?;
        if (found.trim() == "1") == is_direct {
            Ok(disk)
        } else {
            Err(Failure::new(format!("{}: direct is {found}", disk.path.display())))
        }
    }

    /// Path of its device node.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self, what: &str) -> Result<String> {
        let name = self.path.file_name().unwrap_or_default();
        let path = Path::new("/sys/block").join(name).join(what);
        fs::read_to_string(&path).while_doing(path.display())
    }

    /// Bytes read so far.
    pub(crate) fn read_bytes(&self) -> Result<u64> {
        let text = self.read("stat")?;
        read_bytes(&text).ok_or_else(|| Failure::new(format!("{}: {text}", self.path.display())))
    }
}

/// Whether devices can bypass the cache of the file system with this folder.
pub(crate) fn can_be_direct(folder: &Path) -> bool {
    let Ok(mut janitor) = Janitor::start() else { return false };
    let made = Disk::make(&mut janitor, folder, "probe", 1, true);
    drop(janitor);
    let _ = fs::remove_file(folder.join("probe"));
    made.is_ok()
}

/// Makes a file of this many MiB of zeros, all of which are written.
pub(crate) fn fill(path: &Path, mib: u64) -> std::io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut file = File::create_new(path)?;
    (0..mib).try_for_each(|_| file.write_all(&zeros))?;
    file.sync_all()
}

/// Bytes read according to a block device's `stat`; its sectors have 512 bytes, whatever the
/// device's sector size.
fn read_bytes(text: &str) -> Option<u64> {
    let sectors: u64 = text.split_whitespace().nth(2)?.parse().ok()?;
    Some(sectors * 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figure_is_read() {
        let text = " 1805 0 4096 5046 4001 254000 8192 23951 0 5468 30558 0 0 0 0 1001 1560\n";
        assert_eq!(read_bytes(text), Some(2 << 20));
        assert_eq!(read_bytes("1 2"), None);
    }
}
