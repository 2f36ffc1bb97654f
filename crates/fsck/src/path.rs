//! Paths for findings: from an inode up to the root.

use std::collections::BTreeMap;

use ufs2::layout::ROOT_INODE;

use super::directories::printable;
use super::{CheckError, Checker, chunk};

/// So many findings get a path: each costs a look into directories.
const NAMED: usize = 10_000;
/// No path has more parts.
const DEEPEST: usize = 1024;

impl Checker<'_> {
    /// Gives findings at inodes the paths of those, where there are any now.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn name_findings(&mut self) -> Result<(), CheckError> {
        let mut names = BTreeMap::new();
        let count = self.log.findings.list.len().min(NAMED);
        for index in 0..count {
            let Some(ino) = self.log.findings.list[index].place.ino else { continue };
            let path = self.path(ino, &mut names).await?;
            self.log.findings.list[index].path = path;
        }
        Ok(())
    }

    /// One path of an inode; nothing when it does not hang from the root.
    async fn path(
        &self,
        ino: u64,
        names: &mut BTreeMap<(u64, u64), String>,
    ) -> Result<Option<String>, CheckError> {
        let mut parts = Vec::new();
        let mut at = ino;
        while at != ROOT_INODE {
            let Some(slot) = self.table.get(at) else { return Ok(None) };
            let parent = u64::from(slot.parent);
            if parent == 0 || parts.len() > DEEPEST {
                return Ok(None);
            }
            let name = match names.get(&(parent, at)) {
                Some(name) => name.clone(),
                None => self.name_in(parent, at).await?,
            };
            names.insert((parent, at), name.clone());
            parts.push(name);
            at = parent;
        }
        parts.reverse();
        Ok(Some(format!("/{}", parts.join("/"))))
    }

    async fn name_in(&self, directory: u64, ino: u64) -> Result<String, CheckError> {
        let Some(known) = self.directories.get(&directory) else { return Ok("?".into()) };
        for (lbn, &address) in (0..).zip(&known.blocks) {
            let run = ufs2::map::run_length(&self.geometry, known.size, lbn);
            let bytes = (run * self.geometry.fragment_size) as usize;
            let mut content = self.disk.read(self.geometry.byte_address(address), bytes).await?;
            self.geometry.turn_directory(&mut content);
            for bytes in content.chunks_exact(directory::entry::CHUNK_SIZE) {
                let entries = chunk::entries(bytes);
                let dot = |name: &[u8]| name == b"." || name == b"..";
                let found = entries.iter().find(|one| one.ino == ino && !dot(&one.name));
                if let Some(entry) = found {
                    return Ok(printable(&entry.name));
                }
            }
        }
        Ok("?".into())
    }
}
