//! A damaged disk: it is refused, or opened and then used as far as possible.
//!
//! The first byte says how it is opened, and whether it is repaired before; the rest are patches of
//! a small disk with files of every kind. Each patch damages a chosen structure, and seals it if
//! the patch says so, as an attacker would. Every verb must end, with an answer or an error, and
//! none may take more memory than the disk can justify. The checker must find nothing on a disk
//! that it has repaired.

mod garden;
mod patch;
pub(super) mod walk;

use ffs::{Disks, OpenOptions, PolicyKind};
use fsck::{CheckOptions, Severity, check};
use namespace::Namespace;
use sim::{Disk, Executor, Prng};

use super::Target;
use crate::input::Input;

pub(super) const TARGET: Target =
    Target { name: "disk", check: use_it, generate, longest: 512, memory: 32 << 20 };

fn use_it(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let (read_only, is_unclean) = (choice & 1 == 1, choice & 2 == 2);
    let mut image = garden::with(|garden| garden.image.clone());
    if is_unclean {
        patch::make_unclean(&mut image);
    }
    while !input.is_empty() {
        garden::with(|garden| patch::apply(garden, &mut image, &mut input));
    }
    let executor = Executor::new(choice.into());
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        if choice & 4 == 4 {
            repair(&disk, &executor, choice & 8 == 8).await;
        }
        let options = OpenOptions { read_only, cache_bytes: 2 << 20, ..OpenOptions::default() };
        let disks = Disks::alone(disk);
        match ffs::open(PolicyKind::Sync, disks, executor.runtime(), &options, &mut |_| ()).await {
            Err(error) => assert!(error.to_string().len() > 10, "{error}"),
            Ok(opened) => walk::all(&Namespace::new(opened.files)).await,
        }
    });
}

/// Repairs the disk, if that can be done, and looks again.
async fn repair(disk: &Disk, executor: &Executor, full: bool) {
    let runtime = executor.runtime();
    let options = CheckOptions { repair: true, full, ..CheckOptions::default() };
    let Ok(report) = check(disk, &runtime, &options, &mut |_| ()).await else { return };
    if report.findings.unrepairable {
        return;
    }
    let options = CheckOptions { repair: false, ..options };
    let again = check(disk, &runtime, &options, &mut |_| ()).await;
    let again = again.unwrap_or_else(|error| panic!("a disk that was repaired: {error}"));
    let left = again.findings.list.iter().filter(|finding| finding.severity > Severity::Note);
    let left: Vec<_> = left.map(ToString::to_string).collect();
    assert!(left.is_empty(), "a disk that was repaired: {left:?}");
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let mut input = vec![prng.below(16) as u8];
    for _ in 0..1 + prng.below(4) {
        patch::generate(prng, &mut input);
    }
    input
}

#[cfg(test)]
mod tests {
    use ufs2::layout::{Dinode, INODE_SIZE};
    use vfs::FileKind;

    use super::*;

    /// A patch of kind 4, of a block in the list of the garden: the number that '..' names.
    fn with_parent(block: usize, ino: u64) -> Vec<u8> {
        let mut input = vec![0, 4, block as u8, 12, 0, 3];
        input.extend((ino as u32).to_le_bytes());
        input
    }

    fn directories() -> (usize, Vec<u64>) {
        garden::with(|garden| {
            let is_directory = |&ino: &u64| {
                let mut bytes = vec![0; INODE_SIZE as usize];
                garden.image.read(garden::inode_address(&garden.geometry, ino), &mut bytes);
                Dinode::at(&bytes, 0).kind() == Some(FileKind::Directory)
            };
            let directories = garden.inodes.iter().copied().filter(is_directory);
            (garden.blocks.len(), directories.collect())
        })
    }

    #[test]
    fn every_walk_ends_wherever_a_parent_leads() {
        let (blocks, directories) = directories();
        assert_eq!(directories.len(), 4);
        for block in 0..blocks {
            for &ino in directories.iter().chain(&[0, 5, 4_000_000_000]) {
                use_it(&with_parent(block, ino));
            }
        }
    }
}
