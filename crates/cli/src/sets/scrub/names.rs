//! Finds all names of some files by a walk through the directories of a volume.
//!
//! The volume is opened in memory, as far as it is readable, and nothing on it changes. If a server
//! changes it meanwhile, the walk may remain incomplete.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use block::BlockDevice;
use block::scratch::ScratchDevice;
use designs::{Disks, OpenOptions};
use runtime::Runtime;
use vfs::{Credentials, DirectoryEntry, FileKind, FileSystem, FsError, ObjectId};

use crate::shown::show_name;
use crate::volume::Volume;

/// Size of the cache, in bytes.
const CACHE_BYTES: usize = 32 << 20;

/// The sorted paths of files, by their inode numbers. Empty if they cannot be found.
pub(super) async fn all_of(
    volume: &Volume,
    disk: Rc<dyn BlockDevice>,
    log: Option<Rc<dyn BlockDevice>>,
    wanted: &BTreeSet<u64>,
    runtime: &Runtime,
) -> BTreeMap<u64, Vec<String>> {
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let in_memory = |device| -> Rc<dyn BlockDevice> { Rc::new(ScratchDevice::new(device)) };
    let disks = Disks { log: log.map(in_memory), ..Disks::alone(in_memory(disk)) };
    let options = OpenOptions { cache_bytes: CACHE_BYTES, ..OpenOptions::default() };
    let open = volume.design().work().open;
    let opened = open(disks, runtime.clone(), &options, &mut |_| ()).await;
    let Ok(opened) = opened else { return BTreeMap::new() };
    let found = walk(&*opened.files, wanted).await;
    let _ = opened.files.shutdown().await; // nothing was changed
    found
}

/// Walks through every readable directory.
async fn walk(files: &dyn FileSystem, wanted: &BTreeSet<u64>) -> BTreeMap<u64, Vec<String>> {
    let mut found: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let (root, mut seen) = (files.root(), BTreeSet::new());
    let mut ahead = vec![(root, String::new())];
    while let Some((directory, path)) = ahead.pop() {
        if !seen.insert(directory.ino) {
            continue; // a cycle
        }
        let Ok(entries) = entries(files, directory).await else { continue };
        for DirectoryEntry { id, name, attributes, .. } in entries {
            if matches!(&name[..], b"." | b"..") {
                continue;
            }
            let path = format!("{path}/{}", show_name(&name));
            if attributes.is_some_and(|its| its.kind == FileKind::Directory) {
                ahead.push((id, path));
            } else if wanted.contains(&id.ino.0) {
                found.entry(id.ino.0).or_default().push(path);
            }
        }
    }
    found.values_mut().for_each(|paths| paths.sort());
    found
}

/// Reads the entries of a directory.
async fn entries(
    files: &dyn FileSystem,
    directory: ObjectId,
) -> Result<Vec<DirectoryEntry>, FsError> {
    let (who, mut accept_all) = (Credentials::root(), |_: &DirectoryEntry| true);
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let sealed = files.readdir(&who, directory, cookie, true, &mut accept_all).await;
        let part = sealed.open().await?.into_inner().result?;
        let is_done = part.eof || part.entries.is_empty();
        cookie = part.entries.last().map_or(cookie, |last| last.cookie);
        all.extend(part.entries);
        if is_done {
            return Ok(all);
        }
    }
}
