//! Paths for findings: from an inode up to the root.

use std::collections::{BTreeMap, BTreeSet};

use ufs2::layout::ROOT_INODE;

use super::directories::printable;
use super::{CheckError, Checker, chunk};

/// Findings that get a path: each keeps names in memory.
const NAMED: usize = 10_000;
/// The most parts of a path.
const DEEPEST: usize = 1024;

/// Names of files by their directory: `?` for one that was not found.
type Names = BTreeMap<u64, BTreeMap<u64, String>>;

impl Checker<'_> {
    /// Gives findings about inodes their paths, where there are any now. Each directory on any of
    /// the paths is read once.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn name_findings(&mut self) -> Result<(), CheckError> {
        let count = self.log.findings.list.len().min(NAMED);
        let inos: Vec<_> =
            self.log.findings.list[..count].iter().map(|one| one.place.ino).collect();
        let mut names = Names::new();
        for &ino in inos.iter().flatten() {
            self.want_names(ino, &mut names);
        }
        for (&directory, wanted) in &mut names {
            self.read_names(directory, wanted).await?;
        }
        for (index, ino) in inos.into_iter().enumerate() {
            let path = ino.and_then(|ino| self.path(ino, &names));
            self.log.findings.list[index].path = path;
        }
        Ok(())
    }

    /// The directory that holds a name of an inode; none for the root, and for an inode without a
    /// name.
    fn above(&self, ino: u64) -> Option<u64> {
        let parent = u64::from(self.table.get(ino).filter(|_| ino != ROOT_INODE)?.parent);
        (parent != 0).then_some(parent)
    }

    /// Notes the names that the path of an inode needs.
    fn want_names(&self, ino: u64, names: &mut Names) {
        let mut at = ino;
        while let Some(parent) = self.above(at) {
            let known = names.entry(parent).or_default().insert(at, "?".to_owned());
            if known.is_some() {
                return; // and so are all above it
            }
            at = parent;
        }
    }

    /// A path of an inode; none when it does not hang from the root.
    fn path(&self, ino: u64, names: &Names) -> Option<String> {
        let mut parts = Vec::new();
        let mut at = ino;
        while at != ROOT_INODE {
            let parent = self.above(at).filter(|_| parts.len() <= DEEPEST)?;
            parts.push(names.get(&parent)?.get(&at)?.as_str());
            at = parent;
        }
        parts.reverse();
        Some(format!("/{}", parts.join("/")))
    }

    /// Reads a directory until all wanted names were found.
    async fn read_names(
        &self,
        directory: u64,
        wanted: &mut BTreeMap<u64, String>,
    ) -> Result<(), CheckError> {
        let Some(known) = self.directories.get(&directory) else { return Ok(()) };
        let mut named = BTreeSet::new();
        for (lbn, &address) in (0..).zip(&known.blocks) {
            let run = ufs2::map::run_length(&self.geometry, known.size, lbn);
            let bytes = (run * self.geometry.fragment_size) as usize;
            let mut content = self.disk.read(self.geometry.byte_address(address), bytes).await?;
            self.geometry.turn_directory(&mut content);
            for bytes in content.chunks_exact(directory::entry::CHUNK_SIZE) {
                for entry in chunk::entries(bytes) {
                    let is_dot = entry.name == b"." || entry.name == b"..";
                    if let Some(name) = wanted.get_mut(&entry.ino).filter(|_| !is_dot)
                        && named.insert(entry.ino)
                    {
                        *name = printable(&entry.name);
                    }
                }
            }
            if named.len() == wanted.len() {
                break;
            }
        }
        Ok(())
    }
}
