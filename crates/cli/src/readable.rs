//! Warns if other users of this machine can read the files of a volume: they would see data that
//! the server denies them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::folder::{parent, real_place};
use crate::intents::INTENTS_NAME;
use crate::log::LOG_NAME;
use crate::volume::Volume;
use crate::words::{self, quoted};

/// Mode bits that let the group and everybody read a file, each with the bit that lets them reach
/// the contents of a folder.
const OTHERS: [(u32, u32); 2] = [(0o040, 0o010), (0o004, 0o001)];

/// Warns of each file of a volume that users other than its owner can read.
pub(crate) fn warn_of_readable(volume: &Volume) {
    for path in files_of(volume).iter().filter(|path| is_readable(path)) {
        words::say(format_args!(
            "other users of this machine can read {}: 'chmod 600 {}' keeps it for its owner",
            path.display(),
            quoted(path)
        ));
    }
}

/// Files that hold the data of a volume, as far as its settings name them.
fn files_of(volume: &Volume) -> Vec<PathBuf> {
    let disks = match &volume.settings.raid {
        Some(raid) => raid.members.iter().chain(&raid.spares).cloned().collect(),
        None => vec![volume.disk_path.clone()],
    };
    // A folder's own log may hold data of earlier starts, whatever log is used now.
    let beside = [LOG_NAME, INTENTS_NAME];
    let beside = volume.folder.iter().flat_map(|folder| beside.map(|name| folder.join(name)));
    let mut files: Vec<PathBuf> = disks.into_iter().chain(beside).collect();
    files.extend(volume.log_place().filter(|log| !files.contains(log)));
    files
}

/// Whether a plain file, and not a device, is readable by others. A file that cannot be inspected
/// is reported when it is opened.
fn is_readable(path: &Path) -> bool {
    let path = real_place(path);
    let (Ok(file), Ok(folder)) = (fs::metadata(&path), fs::metadata(parent(&path))) else {
        return false;
    };
    let (file_mode, folder_mode) = (file.mode(), folder.mode());
    let may = |&(read, reach): &(u32, u32)| file_mode & read != 0 && folder_mode & reach != 0;
    file.is_file() && OTHERS.iter().any(may)
}
