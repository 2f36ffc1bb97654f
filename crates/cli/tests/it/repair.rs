//! Runs `duramen fsck` as people do, on damaged volumes.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ufs2::layout::{Geometry, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM};

use crate::common::serving::{Serving, put};
use crate::common::{Folder, Run, assert_clean, on, skip};

const LETTER: &[u8] = b"dear friend";
const ANSWER: &[u8] = b"dear you";

/// Addresses in the superblock: the last mount point, and the flag of a clean stop.
const LAST_MOUNT: u64 = SUPERBLOCK_ADDRESS + 212;
const CLEAN: u64 = SUPERBLOCK_ADDRESS + 209;
const MARK: &[u8] = b"duramen:fsck:";

/// A bare volume with two files, stopped cleanly.
struct Volume {
    path: PathBuf,
    disk: File,
    geometry: Geometry,
}

impl Volume {
    fn new(folder: &Folder, options: &[&str]) -> Self {
        let path = folder.path("data.img");
        on("mkfs", &path, &[&["--bare"], options].concat()).good();
        let serving = Serving::start(&[&path], &[]);
        put(&serving, "data", "letter", LETTER);
        put(&serving, "data", "answer", ANSWER);
        assert!(serving.stop().success());
        Self::open(path)
    }

    fn small(folder: &Folder) -> Self {
        Self::new(folder, &["--size", "64M", "--block-size", "8K"])
    }

    fn open(path: PathBuf) -> Self {
        let disk = File::options().read(true).write(true).open(&path).expect("it is there");
        let mut superblock = vec![0; SUPERBLOCK_ROOM as usize];
        disk.read_exact_at(&mut superblock, SUPERBLOCK_ADDRESS).expect("it is that long");
        let geometry = Geometry::parse_any_order(&mut superblock).expect("it was just made");
        Self { path, disk, geometry }
    }

    /// Disk address of the header block of a group.
    fn group_block(&self, group: u64) -> u64 {
        self.geometry.byte_address(self.geometry.group_header_fragment(group))
    }

    fn flip(&self, address: u64, bit: u8) {
        let mut byte = [0];
        self.disk.read_exact_at(&mut byte, address).expect("it is that long");
        self.disk.write_all_at(&[byte[0] ^ (1 << bit)], address).expect("there is room");
    }

    fn zero(&self, address: u64, length: usize) {
        self.disk.write_all_at(&vec![0; length], address).expect("there is room");
    }

    fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.disk.read_exact_at(&mut bytes, address).expect("it is that long");
        bytes
    }

    fn fsck(&self, more: &[&str]) -> Run {
        on("fsck", &self.path, more)
    }

    /// Asserts that the damage is found and repaired, and that the volume is then undamaged, with
    /// both files.
    #[track_caller]
    fn assert_repairs(&self) {
        let before = fs::read(&self.path).expect("it is there");
        let said = self.fsck(&[]).ended(4);
        assert!(said.contains("'duramen fsck --repair "), "{said}");
        assert!(fs::read(&self.path).expect("it is there") == before, "it has changed: {said}");
        let said = self.fsck(&["--repair"]).ended(1);
        assert!(said.contains("; repaired: "), "{said}");
        self.assert_well();
    }

    #[track_caller]
    fn assert_well(&self) {
        let said = self.fsck(&["--full"]).ended(0);
        assert!(said.ends_with("nothing is wrong\n"), "{said}");
        assert_clean(&self.path);
        assert_eq!(on("cat", &self.path, &["letter"]).good().as_bytes(), LETTER);
        assert_eq!(on("cat", &self.path, &["answer"]).good().as_bytes(), ANSWER);
    }
}

trait Ended {
    fn ended(self, code: i32) -> String;
}

impl Ended for Run {
    /// Asserts that the check completed with this code, and returns its output.
    #[track_caller]
    fn ended(self, code: i32) -> String {
        assert_eq!((self.code, self.errors.as_str()), (code, ""), "{}", self.output);
        self.output
    }
}

#[test]
fn a_flipped_bit_in_a_group_is_found_and_repaired() {
    let folder = Folder::new();
    let volume = Volume::small(&folder);
    let group = volume.group_block(1);
    // The hash; a count; a bit of the inode map; a byte behind all maps.
    let last = volume.geometry.group_block_size - 1;
    for (byte, bit) in [(132, 0), (24, 3), (168, 1), (last, 7)] {
        eprintln!("bit {bit} of byte {byte}");
        volume.flip(group + byte, bit);
        volume.assert_repairs();
    }
}

#[test]
fn programs_are_told_where_it_was_and_that_it_is_repaired() {
    let folder = Folder::new();
    let volume = Volume::small(&folder);
    volume.flip(volume.group_block(1) + 132, 0);
    for (more, code, result, repaired) in
        [(&["--json"][..], 4, "left", false), (&["--json", "--repair"], 1, "repaired", true)]
    {
        let object: serde_json::Value =
            serde_json::from_str(&volume.fsck(more).ended(code)).expect("it is JSON");
        assert_eq!((&object["result"], &object["exit_code"]), (&result.into(), &code.into()));
        assert_eq!(object["counts"], serde_json::json!({ "cg.hash": 1 }));
        let [finding] = &object["findings"].as_array().expect("a list")[..] else {
            panic!("one finding is one: {object}");
        };
        assert_eq!((&finding["group"], &finding["repaired"]), (&1.into(), &repaired.into()));
        // The root and two files.
        assert_eq!((&object["files"], &object["directories"]), (&3.into(), &1.into()));
        assert!(object["held_bytes"].as_u64().expect("the superblock is well") > 0);
    }
}

#[test]
fn a_destroyed_superblock_is_found_elsewhere() {
    let folder = Folder::new();
    let volume = Volume::small(&folder);
    volume.zero(SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM as usize);
    on("info", &volume.path, &[]).failed(1, "'duramen fsck'");
    volume.assert_repairs();
    let serving = Serving::start(&[&volume.path], &[]);
    put(&serving, "data", "thanks", b"!");
    assert!(serving.stop().success());
    volume.assert_well();
}

#[test]
fn without_any_superblock_there_is_nothing_to_check() {
    let folder = Folder::new();
    let image = folder.path("disk.img");
    for content in [Vec::new(), vec![0; 512], vec![0; 4 << 20], vec![0xaa; 1 << 20]] {
        fs::write(&image, &content).expect("there is room");
        for more in [&[][..], &["--full"], &["--repair"]] {
            let said = on("fsck", &image, more);
            // After a full read of the image, nothing is left to search.
            let looks_further =
                !more.contains(&"--full") && content.len() > SUPERBLOCK_ADDRESS as usize;
            let advice =
                if looks_further { "'duramen fsck --full' looks" } else { "there is no UFS2" };
            said.failed(8, advice);
        }
        assert!(fs::read(&image).expect("it is there") == content, "it has changed");
    }
}

#[test]
fn a_volume_that_was_cut_off_is_not_called_damaged() {
    let folder = Folder::new();
    let volume = Volume::small(&folder);
    let serving = Serving::start(&[&volume.path], &[]);
    put(&serving, "data", "last", b"before the cut");
    serving.kill();
    let said = volume.fsck(&[]).ended(4);
    assert!(said.contains("nothing is damaged"), "{said}");
    volume.fsck(&["--repair"]).ended(1);
    volume.assert_well();
    assert_eq!(on("cat", &volume.path, &["last"]).good(), "before the cut");
}

#[test]
fn what_is_lost_is_listed() {
    let folder = Folder::new();
    let volume = Volume::small(&folder);
    let image = fs::read(&volume.path).expect("it is there");
    // A directory entry: inode number, length, type and length of the name; the name.
    let entry = |at: &usize| image[*at..].starts_with(b"\x08\x06letter\0");
    let at = (0..image.len()).find(entry).expect("it is in the root");
    let ino = u32::from_le_bytes(image[at - 6..at - 2].try_into().expect("four bytes"));
    let position = volume.geometry.inode_position(u64::from(ino));
    volume.zero(volume.geometry.byte_address(position.fragment) + position.offset as u64, 256);

    let said = volume.fsck(&["--repair"]).ended(1);
    let loss = said.lines().find(|line| line.starts_with("loss: ")).expect("the file is gone");
    assert!(loss.contains("letter"), "{said}");
    volume.fsck(&[]).ended(0);
    assert_clean(&volume.path);
    assert_eq!(on("ls", &volume.path, &[]).good(), "answer\n");
    assert_eq!(on("cat", &volume.path, &["answer"]).good().as_bytes(), ANSWER);
}

#[test]
fn what_is_write_protected_is_not_repaired() {
    let folder = Folder::new();
    let volume = Volume::small(&folder);
    fs::set_permissions(&volume.path, fs::Permissions::from_mode(0o444)).expect("it is ours");
    let Some(program) = program_for_others(&folder) else { return };
    let run = |more: &[&str]| {
        let mut command = Command::new(&program);
        if fs::metadata(&volume.path).expect("it is there").uid() == 0 {
            command.uid(65_534).gid(65_534); // nothing is protected from root
        }
        command.arg("fsck").arg(&volume.path).args(more).output().expect("it can be run")
    };
    assert_eq!(run(&[]).status.code(), Some(0));
    let output = run(&["--repair"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(8), "{errors}");
    assert!(errors.contains("for writing; it may"), "{errors}");
}

/// A copy of the program that any user may run: the folder that it was built in may be private.
fn program_for_others(folder: &Folder) -> Option<PathBuf> {
    let program = folder.path("duramen");
    // Another program copies it, because a program that we have open for writing could not be run.
    match Command::new("cp").arg(env!("CARGO_BIN_EXE_duramen")).arg(&program).status() {
        Ok(status) if status.success() => Some(program),
        other => skip(&format!("the program cannot be copied: {other:?}")),
    }
}

/// Starts a repair and kills it once its mark is on the disk and `more` further polls of the disk
/// have passed. Returns whether that was before its end.
fn cut_repair(volume: &Volume, more: u32) -> bool {
    let mut repair = Command::new(env!("CARGO_BIN_EXE_duramen"))
        .args(["fsck".as_ref(), volume.path.as_os_str(), "--repair".as_ref()])
        .stdout(Stdio::null())
        .spawn()
        .expect("the program was just built");
    let marked = || volume.bytes(LAST_MOUNT, MARK.len()) == MARK;
    while !marked() && repair.try_wait().expect("it is our child").is_none() {}
    for _ in 0..more {
        marked();
    }
    let _ = repair.kill(); // it may have ended
    repair.wait().expect("it is our child");
    marked() && volume.bytes(CLEAN, 1) == [0]
}

#[test]
fn a_repair_that_is_killed_is_made_whole_by_the_next() {
    let folder = Folder::new();
    // Small blocks make many groups, and so many repairs.
    let volume = Volume::new(&folder, &["--size", "256M", "--block-size", "4K"]);
    let groups = volume.geometry.group_count;
    assert!(groups > 10, "{groups}");
    let mut cuts = 0;
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it listens").to_string();
    let listen = ["--listen", &*address];
    for attempt in 0..24 {
        for group in 0..groups {
            volume.flip(volume.group_block(group) + 132, 0);
        }
        let cut = cut_repair(&volume, 1 << (attempt % 12));
        cuts += u32::from(cut);
        if cut {
            // Without the refusal the command would still fail, rather than serve for ever.
            on("serve", &volume.path, &listen).failed(1, "' again before it is served");
        }
        let Run { code, output, errors } = volume.fsck(&["--repair"]);
        // If all repairs had been written, only the mark of a clean stop is missing.
        let is_marked = output.contains("sb.state: fs_clean: found 0, expected 1; repaired: set");
        assert_eq!((is_marked, &*errors), (cut, ""), "{attempt}: {output}");
        assert!(code == 0 || cut && code == 1, "{attempt}: {code}: {output}");
        volume.assert_well();
        if cuts == 6 {
            return;
        }
    }
    assert!(cuts > 0, "no repair was cut off before its end");
}
