//! Installs the tests' requirements on the machine: a Debian 12 with Rust, as root.
//!
//! The network is not used if everything is already installed. Each requirement is a file and the
//! package that provides it, so a tool installed in another way counts too.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::While;
use crate::{Failure, Repository, Result, command};

/// A file, and the Debian package that provides it.
type Need = (&'static str, &'static str);

/// The guest: its kernel, its network, its first tool, and a compiler for one small library.
const GUEST: &[Need] = &[
    ("/usr/bin/linux.uml", "user-mode-linux"),
    ("/usr/bin/slirp-fullbolt", "slirp"),
    ("/bin/busybox", "busybox-static"),
    ("/usr/bin/gcc", "gcc"),
    ("/usr/include/stdio.h", "libc6-dev"),
];

/// The scripts that run in the guest, and the programs that judge a disk afterwards.
const JUDGES: &[Need] = &[
    ("/usr/bin/python3", "python3"),
    ("/usr/lib/python3.11/ensurepip/__init__.py", "python3-venv"),
    ("/usr/bin/git", "git"),
    ("/usr/bin/fls", "sleuthkit"),
    ("/usr/bin/nfs-cp", "libnfs-utils"),
    ("/usr/bin/xz", "xz-utils"),
];

/// The tool that kills a command at one of its calls.
const KILLERS: &[Need] = &[("/usr/bin/strace", "strace")];

/// The tool that counts instructions.
const COUNTERS: &[Need] = &[("/usr/bin/valgrind", "valgrind")];

/// Another server to measure, and the port mapper that it needs.
const BENCH: &[Need] = &[
    ("/usr/bin/ganesha.nfsd", "nfs-ganesha"),
    ("/etc/ganesha/vfs.conf", "nfs-ganesha-vfs"),
    ("/usr/sbin/rpcbind", "rpcbind"),
];

/// The tools for the file system on which it keeps its promises.
const RACE: &[Need] = &[("/usr/sbin/mkfs.xfs", "xfsprogs")];

/// The tools for the file system with its own sets of disks.
const RAID_RACE: &[Need] = &[("/usr/sbin/mkfs.btrfs", "btrfs-progs")];

/// The Python library that reads a UFS2 disk.
const DISSECT: &str = "dissect.ffs==3.12";

/// Installs a guest's requirements.
pub fn guest() -> Result<()> {
    install(GUEST)
}

/// Installs the requirements of measuring another server.
pub fn bench() -> Result<()> {
    install(BENCH)
}

/// Installs the requirements of a race against another server.
pub fn race() -> Result<()> {
    install(&[BENCH, RACE].concat())
}

/// Installs the requirements of a race of engines.
pub fn engine_race() -> Result<()> {
    install(&[BENCH, RAID_RACE].concat())
}

/// Installs the requirements of a race of sets of disks.
pub fn raid_race() -> Result<()> {
    install(RAID_RACE)
}

/// Installs all requirements of the tests.
pub fn all(repository: &Repository) -> Result<()> {
    install(&[GUEST, JUDGES, KILLERS, COUNTERS, BENCH].concat())?;
    python(repository).map(drop)
}

/// The Python of an environment with the disk-reading library, created if it is missing.
pub fn python(repository: &Repository) -> Result<PathBuf> {
    let environment = repository.target().join("venv");
    let python = environment.join("bin/python");
    let imports = |python: &Path| {
        command::capture(Command::new(python).args(["-c", "import dissect.ffs"])).is_ok()
    };
    if !imports(&python) {
        eprintln!("setup: {DISSECT} into {}", environment.display());
        let mut make = Command::new("/usr/bin/python3");
        command::capture(make.args(["-m", "venv", "--clear"]).arg(&environment))?;
        let mut install = Command::new(&python);
        command::capture(install.args(["-m", "pip", "install", "--quiet", DISSECT]))?;
    }
    Ok(python)
}

fn install(needs: &[Need]) -> Result<()> {
    let missing = needs.iter().filter(|(file, _)| !Path::new(file).exists());
    let packages = missing.map(|(_, package)| *package).collect::<Vec<_>>();
    if packages.is_empty() {
        return Ok(());
    }
    eprintln!("setup: installing {}", packages.join(" "));
    apt(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-yqq", "--no-install-recommends"];
    arguments.extend(&packages);
    apt(&arguments)?;
    let absent = needs.iter().find(|(file, _)| !Path::new(file).exists());
    match absent {
        None => Ok(()),
        Some((file, package)) => {
            Err(Failure::new(format!("the package {package} did not bring {file}")))
        }
    }
}

fn apt(arguments: &[&str]) -> Result<()> {
    let mut apt = Command::new("apt-get");
    // Another installation may be under way: wait for its lock.
    apt.args(["-o", "DPkg::Lock::Timeout=300"]).args(arguments);
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    command::capture(&mut apt).map(drop).while_doing("this needs root on a Debian machine")
}
