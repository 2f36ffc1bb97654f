//! Boots a kernel for a [`Guest`]: its modules, its command line, its first process.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::settings::Settings;
use super::{Guest, Mount, Running};
use crate::failure::While;
use crate::temporary::TemporaryFolder;
use crate::{Failure, Result, command, setup};

const KERNEL: &str = "/usr/bin/linux.uml";
const MODULES: &str = "/usr/lib/uml/modules";
const SLIRP: &str = "/usr/bin/slirp-fullbolt";
const MEMORY_MIB: u64 = 1024;

/// The guest's first process.
const INIT: &str = include_str!("init.sh");
/// The file explains why the kernel and its network need it.
const PRELOAD: &str = include_str!("preload.c");

/// Boots `guest` in a temporary folder that is kept until it ends.
pub(super) fn boot(guest: &Guest) -> Result<Running> {
    setup::guest()?;
    let folder = TemporaryFolder::new("guest")?;
    write_init(folder.path(), &settings(guest, folder.path())?)?;
    let preload = build_preload(folder.path())?;
    let console = fs::File::create(folder.path().join("console")).while_doing("the console")?;

    let mut kernel = Command::new(KERNEL);
    kernel.args(command_line(guest, folder.path())?);
    kernel.env("LD_PRELOAD", preload).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(console);
    if shared_memory_suffices()? {
        // Without these the kernel keeps its memory in /dev/shm, which is real memory.
        kernel.env_remove("TMPDIR").env_remove("TMP").env_remove("TEMP");
    }
    Running::new(&mut kernel, folder, guest.time_limit)
}

fn write_init(folder: &Path, settings: &Settings) -> Result<()> {
    let init = folder.join("init");
    fs::write(&init, INIT).while_doing("the guest's init")?;
    fs::set_permissions(&init, PermissionsExt::from_mode(0o755)).while_doing("the guest's init")?;
    fs::write(folder.join("settings"), settings.text()).while_doing("the guest's settings")
}

fn command_line(guest: &Guest, folder: &Path) -> Result<Vec<String>> {
    let folder = folder.display();
    let mut words = vec![
        format!("mem={MEMORY_MIB}M"),
        "quiet".to_owned(),
        "root=/dev/root rootfstype=hostfs rootflags=/ ro".to_owned(),
        format!("init={folder}/init"),
        format!("eth0=slirp,,{SLIRP}"),
        "con=null con0=null,fd:2 con1=null,fd:1".to_owned(),
        format!("uml_dir={folder}"),
    ];
    if let Some(disk) = &guest.disk {
        // A link, because the kernel splits its command line at spaces and commas.
        let disk = fs::canonicalize(disk).while_doing(disk.display())?;
        symlink(disk, format!("{folder}/disk")).while_doing("a link to the disk")?;
        words.push(format!("ubd0r={folder}/disk"));
    }
    Ok(words.iter().flat_map(|word| word.split(' ')).map(str::to_owned).collect())
}

fn settings(guest: &Guest, folder: &Path) -> Result<Settings> {
    let script = fs::canonicalize(&guest.script).while_doing(guest.script.display())?;
    let text = |path: &Path| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Failure::new(format!("{}: not a UTF-8 path", path.display()))),
    };
    let mut settings = Settings::default();
    settings.set("work", &text(folder)?);
    settings.set("modules", &modules()?.join(" "));
    settings.set("script_folder", &text(script.parent().expect("a file has a folder"))?);
    settings.set("script", &text(Path::new(script.file_name().expect("a file has a name")))?);
    settings.set("disk", if guest.disk.is_some() { "/dev/ubda" } else { "" });
    let share = guest.share.as_ref().map(|share| fs::canonicalize(share).while_doing("--share"));
    settings.set("share", &text(&share.transpose()?.unwrap_or_default())?);
    settings.set("export", guest.mount.as_ref().map_or("", |mount| &mount.export));
    settings.set("options", &guest.mount.as_ref().map(mount_options).unwrap_or_default());
    settings.set_arguments(&guest.arguments);
    Ok(settings)
}

/// Options of the mount: no lock daemon and no port mapper, but one port for MOUNT and NFS alike.
fn mount_options(mount: &Mount) -> String {
    let port = mount.port;
    let mut options = format!(
        "vers=3,proto=tcp,nolock,addr=10.0.2.2,port={port},\
         mountproto=tcp,mountaddr=10.0.2.2,mountport={port}"
    );
    for option in &mount.options {
        options.push(',');
        options.push_str(option);
    }
    options
}

/// The module files that the guest needs, in loading order.
fn modules() -> Result<Vec<String>> {
    let versions = fs::read_dir(MODULES).while_doing(MODULES)?;
    let version = versions.filter_map(|entry| Some(entry.ok()?.path())).next();
    let folder = version.ok_or_else(|| Failure::new(format!("{MODULES} is empty")))?;
    let list = fs::read_to_string(folder.join("modules.dep")).while_doing("modules.dep")?;
    let files = load_order(&list, &["nfsv3", "ufs"]);
    Ok(files.iter().map(|file| folder.join(file).display().to_string()).collect())
}

/// Loading order by `modules.dep`, where a line names a module and its dependencies, the deepest
/// last.
fn load_order(list: &str, wanted: &[&str]) -> Vec<String> {
    let mut order = Vec::<String>::new();
    for name in wanted {
        let end = format!("/{name}.ko");
        let lines = list.lines().filter_map(|line| line.split_once(':'));
        for (module, needs) in lines.filter(|(module, _)| module.ends_with(&end)) {
            for file in needs.split_whitespace().rev().chain([module]) {
                if !order.iter().any(|known| known == file) {
                    order.push(file.to_owned());
                }
            }
        }
    }
    order
}

fn build_preload(folder: &Path) -> Result<PathBuf> {
    let source = folder.join("preload.c");
    let library = folder.join("preload.so");
    fs::write(&source, PRELOAD).while_doing("preload.c")?;
    command::run(
        Command::new("gcc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source),
    )?;
    Ok(library)
}

/// Whether `/dev/shm` has space for the memory of two guests: two may run at a time, and the other
/// one has not yet taken all of its memory. In a container it may be tiny, and a guest that
/// outgrows it is killed silently.
fn shared_memory_suffices() -> Result<bool> {
    let free = command::capture(Command::new("stat").args(["-f", "-c", "%a %S", "/dev/shm"]))?;
    let mut figures = free.split_whitespace().map(|figure| figure.parse::<u64>().unwrap_or(0));
    let bytes = figures.next().unwrap_or(0) * figures.next().unwrap_or(0);
    Ok(bytes > 2 * (MEMORY_MIB << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_load_after_what_they_need_and_once() {
        let list = "fs/nfs/nfs.ko: fs/lockd.ko net/sunrpc.ko\n\
                    fs/nfs/nfsv3.ko: fs/nfs/nfs.ko fs/lockd.ko net/sunrpc.ko\n\
                    fs/ufs/ufs.ko: net/sunrpc.ko\n";
        let expected =
            ["net/sunrpc.ko", "fs/lockd.ko", "fs/nfs/nfs.ko", "fs/nfs/nfsv3.ko", "fs/ufs/ufs.ko"];
        assert_eq!(load_order(list, &["nfsv3", "ufs"]), expected);
    }

    #[test]
    fn a_mount_asks_one_port_and_keeps_our_own_options() {
        let options = ["soft".to_owned(), "wsize=8192".to_owned()].to_vec();
        let text = mount_options(&Mount { port: 20490, export: "/".to_owned(), options });
        assert!(text.contains(",port=20490,") && text.contains(",mountport=20490,"), "{text}");
        assert!(text.ends_with(",soft,wsize=8192"), "{text}");
    }
}
