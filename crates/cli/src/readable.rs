//! Warns if other users of this machine can read the files of a volume: they would see data that
//! the server denies them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use duramen_settings::NvramSettings;

use crate::folder::{parent, real_place};
use crate::intents::INTENTS_NAME;
use crate::log::LOG_NAME;
use crate::saved::all_saved;
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
    let nvrams = volume.settings.nvram.iter();
    let nvrams = nvrams.flat_map(NvramSettings::paths);
    let mut files: Vec<PathBuf> = disks.into_iter().chain(beside).chain(nvrams).collect();
    let named = volume.log_place().filter(|log| !files.contains(log));
    let folders_log = volume.folder.as_ref().map(|folder| folder.join(LOG_NAME));
    files.extend(folders_log.iter().chain(&named).flat_map(|log| all_saved(log)));
    files.extend(named);
    files.sort();
    files.dedup();
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

#[cfg(test)]
mod tests {
    use duramen_settings::RaidSettings;

    use super::*;
    use crate::saved::saved_path;

    #[test]
    fn all_files_with_data_are_looked_at() {
        let folder = std::env::temp_dir().join(format!("duramen-readable-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("there is room");
        fs::write(folder.join("volume.toml"), "policy = \"log\"\n").expect("there is room");
        let log = folder.join(LOG_NAME);
        let saved = [saved_path(&log, 7), saved_path(&log, u64::MAX)];
        for path in saved.iter().chain([&folder.join("log.img.bak")]) {
            fs::write(path, "").expect("there is room");
        }
        let mut volume = Volume::find(&folder).expect("it is a volume");
        let names = |volume: &Volume| -> Vec<String> {
            let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into());
            files_of(volume).iter().filter_map(name).collect()
        };
        let [one, other] = ["log.img.0000000000000007", "log.img.ffffffffffffffff"];
        assert_eq!(names(&volume), ["disk.img", "intents.img", "log.img", one, other]);
        let members = vec!["/x/a".into()];
        volume.settings.raid = Some(RaidSettings { members, ..RaidSettings::default() });
        volume.settings.nvram = NvramSettings::of(["/x/n0", "/x/n1"].map(Into::into), false);
        let all = ["a", "n0", "n1"].map(|name| names(&volume).iter().any(|one| one == name));
        assert_eq!(all, [true; 3]);
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
