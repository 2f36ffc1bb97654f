//! A changed tree is read from the stopped disk by third-party programs: the Sleuth Kit and the
//! library dissect.ffs find every name, every byte and every target, in several geometries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ufs2::mkfs::MkfsOptions;
use vfs::{FileSystem, ObjectId, SetAttributes, Stability};

use crate::common::volume::{Actor, Volume, fresh, name};
use crate::common::{Seeded, World, skip, temporary};

/// Every path with its content: data, the target of a link, nothing for a directory.
type Tree = BTreeMap<String, Vec<u8>>;

/// Makes a tree with files of all sizes, links of both sorts, and holes.
async fn grow(volume: &Volume, options: &MkfsOptions) -> Tree {
    let root = volume.files.root();
    let mut tree = Tree::new();
    let outer = volume.mkdir(root, "outer").await.expect("new");
    tree.insert("outer".into(), Vec::new());
    for (parent, path) in [(root, "actor"), (outer, "outer/actor")] {
        let directory = volume.mkdir(parent, "actor").await.expect("new");
        tree.insert(path.into(), Vec::new());
        let chance = Seeded::new(options.block_size + path.len() as u64);
        let mut actor = Actor { volume, directory, chance, files: BTreeMap::new(), stable: false };
        for _ in 0..60 {
            actor.step(20 * options.block_size).await;
        }
        tree.extend(actor.files.into_iter().map(|(text, data)| (format!("{path}/{text}"), data)));
    }
    for target in ["short".to_owned(), "x".repeat(119), "y".repeat(120)] {
        let path = format!("outer/link{}", target.len());
        link(volume, outer, &path["outer/".len()..], target.as_bytes()).await;
        tree.insert(path, target.into_bytes());
    }
    // Behind 12 blocks; with the smallest blocks, behind the first indirect tree too.
    let holes = (options.block_size * (12 + options.block_size / 8 + 2)).min(2_200_000);
    let sparse = volume.create(root, "sparse").await.expect("new");
    volume.write(sparse, holes, b"end".to_vec(), Stability::FileSync).await.expect("room");
    let mut content = vec![0; holes as usize];
    content.extend(b"end");
    tree.insert("sparse".into(), content);
    tree
}

async fn link(volume: &Volume, directory: ObjectId, text: &str, target: &[u8]) {
    let (who, how) = (&volume.root, SetAttributes::default());
    let sealed = volume.files.symlink(who, directory, &name(text), target, how).await;
    sealed.open().await.expect("running").into_inner().result.expect("new");
}

/// A disk in a file that is deleted with this value.
struct Image(PathBuf);

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // best effort
    }
}

/// Makes a tree on a new volume, stops it, and shows the disk to a reader.
fn show(label: &str, block_size: u64, fragment_size: u64, read: impl FnOnce(&Path) -> Tree) {
    let world = World::new(6);
    let options = MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() };
    let (disk, expected) = world.run(async {
        let (disk, volume) = fresh(&world, 64 << 20, &options).await;
        let tree = grow(&volume, &options).await;
        volume.files.shutdown().await.expect("a clean stop");
        (disk, tree)
    });
    let image = Image(temporary(label));
    disk.save(&image.0);
    let found = read(&image.0);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (path, content) in &expected {
        let other = &found[path];
        assert!(other == content, "{path}: {} and {} bytes", other.len(), content.len());
    }
}

const GEOMETRIES: [(u64, u64); 5] =
    [(32_768, 4096), (4096, 512), (8192, 8192), (16_384, 8192), (65_536, 16_384)];

fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("it can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn the_sleuth_kit_reads_every_file() {
    if Command::new("fls").arg("-V").output().is_err() {
        skip::<()>("the Sleuth Kit is not here (Debian's package sleuthkit)");
        return;
    }
    for (block_size, fragment_size) in GEOMETRIES {
        show("sleuthkit", block_size, fragment_size, sleuth);
    }
}

fn sleuth(image: &Path) -> Tree {
    let tool = |tool: &str| {
        let mut command = Command::new(tool);
        command.args(["-f", "ufs2"]);
        command
    };
    output(tool("fsstat").arg(image));
    let listing = output(tool("fls").args(["-r", "-p", "-u", "-m", ""]).arg(image));
    let listing = String::from_utf8(listing).expect("our names are ASCII");
    let mut tree = Tree::new();
    for line in listing.lines() {
        // hash | path -> target | inode | mode | ...
        let fields: Vec<&str> = line.split('|').collect();
        let (path, target) = fields[1].split_once(" -> ").unwrap_or((fields[1], ""));
        let content = match &fields[3][..1] {
            "r" => output(tool("icat").arg(image).arg(fields[2])),
            _ => target.as_bytes().to_vec(),
        };
        if !path.contains("$OrphanFiles") {
            tree.insert(path.trim_start_matches('/').to_owned(), content);
        }
    }
    tree
}

#[test]
fn dissect_reads_every_file() {
    let Some(python) = python() else { return };
    for (block_size, fragment_size) in GEOMETRIES {
        show("dissect", block_size, fragment_size, |image| dissect(&python, image));
    }
}

/// A Python that has the library: the one that `cargo xtask` installs beside our build, or any.
fn python() -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a test is a program");
    let beside = test.ancestors().nth(3).map(|target| target.join("venv/bin/python"));
    let imports = |python: &PathBuf| {
        let run = Command::new(python).args(["-c", "import dissect.ffs"]).output();
        run.is_ok_and(|output| output.status.success())
    };
    let found = beside.into_iter().chain([PathBuf::from("python3")]).find(imports);
    found.or_else(|| skip("no Python here has dissect.ffs"))
}

/// Prints every path and its content, each with its length in front.
const DISSECT: &str = r#"
import os, stat, sys
from dissect.ffs import ffs

def put(path, content):
    head = b"%d %d\n" % (len(path), len(content))
    sys.stdout.buffer.write(head + path + content)

def walk(folder, prefix):
    for node in folder.iterdir():
        if not node.inum or node.name in (".", ".."):
            continue
        path, kind = prefix + os.fsencode(node.name), stat.S_IFMT(node.inode.di_mode)
        if kind == stat.S_IFDIR:
            put(path, b"")
            walk(node, path + b"/")
        elif kind == stat.S_IFLNK:
            put(path, os.fsencode(node.link))
        else:
            put(path, node.open().read(node.size))

with open(sys.argv[1], "rb") as image:
    walk(ffs.FFS(image).root, b"")
"#;

fn dissect(python: &Path, image: &Path) -> Tree {
    let printed = output(Command::new(python).args(["-c", DISSECT]).arg(image));
    let mut rest = &printed[..];
    let mut tree = Tree::new();
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let head = std::str::from_utf8(&rest[..end]).expect("two numbers");
        let (path, content) = head.split_once(' ').expect("two numbers");
        let (path, content): (usize, usize) = (path.parse().unwrap(), content.parse().unwrap());
        rest = &rest[end + 1..];
        let text = String::from_utf8(rest[..path].to_vec()).expect("our names are ASCII");
        tree.insert(text, rest[path..path + content].to_vec());
        rest = &rest[path + content..];
    }
    tree
}
