//! Paths to the files with violations, in the tree that is being checked.

use std::collections::BTreeMap;

use cow::{CHUNKS, Head, INODES, ROOT, Stem, Which};
use directory::chunk;
use directory::entry::CHUNK_SIZE;
use vfs::FileKind;

use super::Look;

/// Files whose names are searched, with the directory and the name once found.
type Named = BTreeMap<u64, Option<(u64, String)>>;

impl Look<'_> {
    /// Finds paths for the violations from this one on.
    pub(super) async fn paths(&mut self, first: usize) {
        let named = self.findings.wrong[first..].iter().filter_map(|wrong| wrong.ino);
        let mut named: Named = named.map(|ino| (ino, None)).collect();
        while !named.is_empty() {
            self.find_names(&mut named).await;
            let holders: Vec<u64> = named.values().flatten().map(|(holder, _)| *holder).collect();
            let known = named.len();
            for mut ino in holders {
                while ino != ROOT && !named.contains_key(&ino) {
                    named.insert(ino, None);
                    ino = self.says.holders.get(&ino).copied().unwrap_or(ROOT);
                }
            }
            if named.len() == known {
                break;
            }
        }
        for wrong in &mut self.findings.wrong[first..] {
            wrong.path = wrong.ino.and_then(|ino| path_of(ino, &named));
        }
    }

    /// Searches the names of these files.
    async fn find_names(&self, named: &mut Named) {
        let files = self.says.files.iter();
        let directories = files.filter(|(_, known)| known.kind == FileKind::Directory);
        for (&ino, _) in directories {
            let (block, slot) = (ino / INODES, ino % INODES);
            let Ok(Some(home)) = self.nodes.get(&self.tree.inodes, 0, block).await else {
                continue;
            };
            let stem = Stem::File(ino, home, slot);
            let mut next = 0;
            while let Some(leaf) = self.nodes.leaf_from(&stem, None, next, Which::First).await {
                next = leaf + 1;
                if let Ok(Some(node)) = self.nodes.get(&stem, 0, leaf).await {
                    node.read(|bytes| note_names(ino, &bytes[size_of::<Head>()..], named));
                }
            }
        }
    }
}

/// Looks for names in the chunks of a directory.
fn note_names(ino: u64, chunks: &[u8], named: &mut Named) {
    let chunks = chunks.chunks_exact(CHUNK_SIZE).take(CHUNKS as usize);
    for entry in chunks.flat_map(chunk::entries).filter_map(Result::ok) {
        if !matches!(entry.name, b"." | b"..")
            && let Some(name) = named.get_mut(&u64::from(entry.ino))
        {
            *name = Some((ino, entry.name.escape_ascii().to_string()));
        }
    }
}

/// The path to a file, if all names up to the root are known.
fn path_of(mut ino: u64, named: &Named) -> Option<String> {
    let mut path = String::new();
    for _ in 0..=named.len() {
        if ino == ROOT {
            return Some(if path.is_empty() { "/".to_owned() } else { path });
        }
        let (holder, name) = named.get(&ino)?.as_ref()?;
        path = format!("/{name}{path}");
        ino = *holder;
    }
    None // a circle
}
