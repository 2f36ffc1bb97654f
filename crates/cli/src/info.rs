//! `duramen info`: what a volume is and how it is, from its superblock and its log. It may be
//! served meanwhile: then what is on the disk is told, which may be some seconds old.

mod log;

use std::io::Write;
use std::path::PathBuf;

use block::file::{Access, OpenError};
use clap::Args;
use serde::Serialize;
use ufs2::layout::{ByteOrder, flags};

use crate::calendar::show_time;
use crate::failure::Failure;
use crate::info::log::LogInfo;
use crate::size::show_size;
use crate::volume::{FileSystem, Volume, read_superblock};

/// The arguments of `duramen info`.
#[derive(Args, Debug)]
pub(crate) struct InfoArguments {
    /// Which volume: see 'duramen --help'
    pub(crate) volume: PathBuf,
    /// Print one JSON object, for programs. Sizes are bytes, times are seconds since 1970
    #[arg(long)]
    pub(crate) json: bool,
}

/// What there is to tell. The names are those of the JSON object.
#[derive(Debug, Serialize)]
struct Info {
    volume: String,
    engine: &'static str,
    policy: Option<&'static str>,
    size_bytes: u64,
    free_bytes: u64,
    state: State,
    disk: String,
    label: String,
    id: String,
    reserved_bytes: u64,
    block_size_bytes: u64,
    fragment_size_bytes: u64,
    byte_order: &'static str,
    groups: u64,
    files: u64,
    directories: u64,
    free_inodes: u64,
    needs_check: bool,
    superblock_hash_fits: bool,
    check_hashes: Vec<&'static str>,
    flags: Vec<&'static str>,
    last_mounted_at: String,
    last_written: i64,
    log: Option<LogInfo>,
}

/// Whether a volume has to come back before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Another program has it now.
    InUse,
    /// It was stopped cleanly.
    Clean,
    /// It was not.
    Unclean,
}

/// Prints what there is to tell.
///
/// # Errors
/// [`Failure`] when there is no volume, or its superblock makes no sense.
pub(crate) fn run(arguments: &InfoArguments, output: &mut dyn Write) -> Result<(), Failure> {
    let volume = Volume::find(&arguments.volume)?;
    let (disk, in_use) = match volume.open(Access::ReadOnly) {
        Err(Failure::Open(OpenError::Locked(_) | OpenError::Busy(_))) => {
            (volume.open(Access::Glance)?, true)
        }
        opened => (opened?, false),
    };
    let mut info = gather(&volume, &read_superblock(&disk, &volume.disk_path)?);
    if in_use {
        info.state = State::InUse;
    }
    if let Some(path) = &volume.log_path {
        info.log = log::look(path)?;
    }
    if arguments.json {
        let text = serde_json::to_string_pretty(&info).expect("all keys are names");
        writeln!(output, "{text}")?;
        return Ok(());
    }
    for (name, value) in describe(&info) {
        writeln!(output, "{name:<16}{value}")?;
    }
    Ok(())
}

fn gather(volume: &Volume, file_system: &FileSystem) -> Info {
    let FileSystem { superblock, geometry, hash } = file_system;
    // The totals of a disk that is not clean may be anything; nothing here trusts them.
    let count = |total: i64| u64::try_from(total).unwrap_or(0);
    let totals = &superblock.totals;
    let fragments = count(totals.free_blocks.get())
        .saturating_mul(geometry.fragments_per_block)
        .saturating_add(count(totals.free_fragments.get()));
    let free_inodes = count(totals.free_inodes.get());
    let flags = superblock.flags.get();
    Info {
        volume: volume.path.display().to_string(),
        engine: volume.design().engine,
        policy: volume.folder.as_ref().and(volume.design().policy),
        size_bytes: geometry.byte_address(geometry.size),
        free_bytes: geometry.byte_address(fragments.min(geometry.size)),
        state: if superblock.clean == 1 { State::Clean } else { State::Unclean },
        disk: volume.disk_path.display().to_string(),
        label: text(&superblock.volume_name),
        id: format!("{:08x}{:08x}", superblock.id[0].get(), superblock.id[1].get()),
        reserved_bytes: geometry.byte_address(geometry.data_size * geometry.reserve_percent / 100),
        block_size_bytes: geometry.block_size,
        fragment_size_bytes: geometry.fragment_size,
        byte_order: match geometry.byte_order {
            ByteOrder::Little => "little-endian",
            ByteOrder::Big => "big-endian",
        },
        groups: geometry.group_count,
        // The first two inodes always count as used, but never are files.
        files: geometry.inode_count().saturating_sub(free_inodes).saturating_sub(2),
        directories: count(totals.directories.get()),
        free_inodes,
        needs_check: flags & (flags::NEEDS_FSCK | flags::UNCLEAN) != 0,
        superblock_hash_fits: hash.is_ok(),
        check_hashes: [
            (geometry.superblock_hashes, "superblocks"),
            (geometry.group_hashes, "groups"),
            (geometry.inode_hashes, "inodes"),
        ]
        .into_iter()
        .filter_map(|(kept, name)| kept.then_some(name))
        .collect(),
        flags: FLAG_NAMES
            .into_iter()
            .filter_map(|(bit, name)| (flags & bit != 0).then_some(name))
            .collect(),
        last_mounted_at: text(&superblock.last_mount),
        last_written: superblock.time.get(),
        log: None,
    }
}

/// Flags that say something about how a disk is used; hashes and state are told otherwise.
const FLAG_NAMES: [(u32, &str); 7] = [
    (flags::SOFT_UPDATES, "soft-updates"),
    (flags::SOFT_UPDATES_JOURNAL, "soft-updates-journal"),
    (flags::POSIX_ACLS, "posix-acls"),
    (flags::NFS4_ACLS, "nfs4-acls"),
    (flags::MULTILABEL, "multilabel"),
    (flags::GJOURNAL, "gjournal"),
    (flags::TRIM, "trim"),
];

/// NUL-padded text of the superblock, without what a terminal would act on.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).escape_debug().to_string()
}

/// The lines for people.
fn describe(info: &Info) -> Vec<(&'static str, String)> {
    let list = |names: &[&str]| if names.is_empty() { "none".into() } else { names.join(", ") };
    let or_none = |text: &str| if text.is_empty() { "none".into() } else { text.to_owned() };
    let state = match info.state {
        State::InUse => "in use; the counts below are those of when that began",
        State::Clean if info.needs_check => "clean, but due for a check",
        State::Clean => "clean",
        State::Unclean => "not cleanly stopped; the counts below may be stale",
    };
    let hash =
        if info.superblock_hash_fits { "" } else { " (the superblock does not fit its own)" };
    let read_only = if info.byte_order == "big-endian" { " (it can only be read)" } else { "" };
    let policy = match info.policy {
        Some(policy) => policy.to_owned(),
        None => "the default: a bare disk says nothing of it".into(),
    };
    let log = info.log.as_ref().map_or_else(
        || "none".to_owned(),
        |log| {
            let (size, live) = (show_size(log.size_bytes), show_size(log.live_bytes));
            format!(
                "{size}, {live} live in {} entries, {:.1} a write",
                log.live_entries,
                log.batching()
            )
        },
    );
    let answers = info.log.as_ref().map_or_else(
        || "none that survive a crash".to_owned(),
        |log| {
            format!(
                "{} kept; {} repeated calls answered from memory, {} of them over a start",
                log.answers, log.repeated_calls, log.repeated_over_a_start
            )
        },
    );
    vec![
        ("volume", info.volume.clone()),
        ("disk", info.disk.clone()),
        ("engine", info.engine.to_owned()),
        ("policy", policy),
        ("log", log),
        ("answers", answers),
        ("state", state.into()),
        ("label", or_none(&info.label)),
        ("id", info.id.clone()),
        ("size", show_size(info.size_bytes)),
        (
            "free",
            format!(
                "{}, {} of it for root",
                show_size(info.free_bytes),
                show_size(info.reserved_bytes)
            ),
        ),
        ("files", format!("{}, {} of them directories", info.files, info.directories)),
        ("free inodes", info.free_inodes.to_string()),
        ("blocks", show_size(info.block_size_bytes)),
        ("fragments", show_size(info.fragment_size_bytes)),
        ("groups", info.groups.to_string()),
        ("byte order", format!("{}{read_only}", info.byte_order)),
        ("check hashes", format!("{}{hash}", list(&info.check_hashes))),
        ("flags", list(&info.flags)),
        ("last mounted at", or_none(&info.last_mounted_at)),
        ("last written", format!("{} UTC", show_time(info.last_written))),
    ]
}
