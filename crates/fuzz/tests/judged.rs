//! Judges the disks after hostile scripts with a checker that we did not write; and plants bugs in
//! such disks, which our own judge must find.

use std::path::PathBuf;
use std::process::Command;

use fuzz::Target;
use fuzz::targets::server;
use sim::{Image, Prng};
use ufs2::layout::{Dinode, Geometry, ROOT_INODE, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM};

fn scripts(count: u64) -> impl Iterator<Item = Vec<u8>> {
    let target = Target::named("server").expect("there is one");
    (0..count).map(|seed| (target.generate)(&mut Prng::new(seed)))
}

/// The independent checker, in the folder `shared` beside the repository.
fn checker() -> Option<PathBuf> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/oracles/ufs2_verify.py");
    let python = Command::new("python3").arg("--version").output();
    let there = PathBuf::from(path).exists() && python.is_ok();
    if !there {
        eprintln!("SKIPPED, NOTHING TESTED: the checker or python3 is not there");
    }
    there.then(|| path.into())
}

#[test]
fn an_independent_checker_finds_nothing_on_the_disks_that_are_left() {
    let Some(checker) = checker() else { return };
    for (seed, script) in scripts(12).enumerate() {
        let image = std::env::temp_dir().join(format!("fuzz-{}-{seed}.img", std::process::id()));
        server::disk_after(&script).save(&image).expect("there is room");
        let run = Command::new("python3").arg(&checker).arg("--clean").arg(&image).output();
        let _ = std::fs::remove_file(&image);
        let output = run.expect("python3 runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("clean, 0 errors"), "{seed}: {text}");
    }
}

#[test]
fn scripts_change_the_disk() {
    let mut all: Vec<_> =
        scripts(20).map(|script| server::disk_after(&script).fingerprint()).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 20, "every script leaves another disk");
}

fn geometry(image: &Image) -> Geometry {
    let mut superblock = vec![0; SUPERBLOCK_ROOM as usize];
    image.read(SUPERBLOCK_ADDRESS, &mut superblock);
    Geometry::parse_any_order(&mut superblock).expect("our own disk")
}

/// Our judge's verdict on a disk that was damaged after the server had stopped.
fn verdict(damage: impl Fn(&mut Image, &Geometry)) -> Result<(), String> {
    let mut image = server::disk_after(&[]);
    let geometry = geometry(&image);
    damage(&mut image, &geometry);
    let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server::judge(image)));
    judged.map_err(|words| *words.downcast::<String>().expect("words"))
}

#[test]
fn a_wrong_link_count_is_found() {
    let verdict = verdict(|image, geometry| {
        let position = geometry.inode_position(ROOT_INODE);
        let address = geometry.byte_address(position.fragment) + position.offset as u64;
        let mut bytes = [0; 256];
        image.read(address, &mut bytes);
        let dinode = Dinode::at_mut(&mut bytes, 0);
        dinode.links.set(dinode.links.get() + 1);
        geometry.seal_inode(dinode);
        image.write(address, &bytes);
    });
    assert!(verdict.expect_err("a fault").contains("link"));
}

#[test]
fn a_lost_fragment_is_found() {
    let verdict = verdict(|image, geometry| {
        let address = geometry.byte_address(geometry.group_header_fragment(0));
        let mut block = vec![0; geometry.group_block_size as usize];
        image.read(address, &mut block);
        let last = geometry.group_size_fragments(0) - 1;
        ufs2::derive::bits::clear(geometry.maps.fragments_in_mut(&mut block), last);
        ufs2::derive::recompute_group(geometry, 0, &mut block);
        geometry.seal_group(&mut block);
        image.write(address, &block);
    });
    assert!(verdict.expect_err("a fault").contains("group 0"));
}

#[test]
fn a_disk_that_was_not_damaged_passes() {
    assert_eq!(verdict(|_, _| ()), Ok(()));
}
