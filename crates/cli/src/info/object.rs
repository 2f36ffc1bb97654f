//! What there is to tell of a volume, as one object. Its text in JSON is what `duramen info --json`
//! prints and what `GET /v1/info` answers.

use block::file::{Access, OpenError};
use serde::{Deserialize, Serialize};
use ufs2::layout::{ByteOrder, flags};

use super::live::{Live, Reclaim, Softdep};
use super::log::{self, LogInfo};
use crate::failure::Failure;
use crate::sets::Status;
use crate::stack::look;
use crate::volume::{FileSystem, Volume};

/// What there is to tell. The names are those of the JSON object; what is absent is null.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Info {
    pub(super) volume: String,
    pub(super) engine: String,
    pub(super) policy: Option<String>,
    pub(super) size_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) state: State,
    pub(super) durability: Option<String>,
    pub(super) softdep: Option<Softdep>,
    pub(super) reclaim: Option<Reclaim>,
    pub(super) raid: Option<Status>,
    pub(super) disk: String,
    pub(super) label: String,
    pub(super) id: String,
    pub(super) reserved_bytes: u64,
    pub(super) block_size_bytes: u64,
    pub(super) fragment_size_bytes: u64,
    pub(super) byte_order: String,
    pub(super) groups: u64,
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) free_inodes: u64,
    pub(super) needs_check: bool,
    pub(super) superblock_hash_fits: bool,
    pub(super) check_hashes: Vec<String>,
    pub(super) flags: Vec<String>,
    pub(super) last_mounted_at: String,
    pub(super) last_written: i64,
    pub(super) log: Option<LogInfo>,
}

/// Whether a volume has to come back before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// A server has it, and has told all this.
    Served,
    /// Another program has it now.
    InUse,
    /// It was stopped cleanly.
    Clean,
    /// It was not.
    Unclean,
}

impl Info {
    /// Looks at a volume that no server tells of.
    ///
    /// # Errors
    /// [`Failure`] when its superblock or its log makes no sense.
    pub(super) fn look(volume: &Volume) -> Result<Self, Failure> {
        let (found, in_use) = match look(volume, Access::ReadOnly) {
            Err(Failure::Open(OpenError::Locked(_) | OpenError::Busy(_))) => {
                (look(volume, Access::Glance)?, true)
            }
            found => (found?, false),
        };
        let mut info = gather(volume, &found);
        if volume.settings.raid.is_some() {
            info.raid = Some(Status::look(volume)?);
        }
        if in_use {
            info.state = State::InUse;
        }
        info.look_at_log(volume)
    }

    /// What stands on the disk of a volume that is served, or is known of that, and what its server
    /// knows better.
    ///
    /// # Errors
    /// As [`Info::look`].
    pub(super) fn of_served(
        volume: &Volume,
        known: Option<&FileSystem>,
        live: Live,
    ) -> Result<Self, Failure> {
        let on_disk = match known {
            Some(known) => gather(volume, known),
            None => gather(volume, &look(volume, Access::Glance)?),
        };
        let info = Self {
            state: State::Served,
            durability: Some(live.durability),
            free_bytes: live.free_bytes,
            files: live.files,
            directories: live.directories,
            free_inodes: live.free_inodes,
            softdep: live.softdep,
            reclaim: live.reclaim,
            raid: live.raid,
            ..on_disk
        };
        info.look_at_log(volume)
    }

    fn look_at_log(mut self, volume: &Volume) -> Result<Self, Failure> {
        if let Some(path) = &volume.log_path {
            self.log = log::look(path)?;
        }
        Ok(self)
    }
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
        engine: volume.design().engine.to_owned(),
        policy: volume.folder.as_ref().and(volume.design().policy).map(str::to_owned),
        size_bytes: geometry.byte_address(geometry.size),
        free_bytes: geometry.byte_address(fragments.min(geometry.size)),
        state: if superblock.clean == 1 { State::Clean } else { State::Unclean },
        durability: None,
        softdep: None,
        reclaim: None,
        raid: None,
        disk: volume.disk_path.display().to_string(),
        label: text(&superblock.volume_name),
        id: format!("{:08x}{:08x}", superblock.id[0].get(), superblock.id[1].get()),
        reserved_bytes: geometry.byte_address(geometry.data_size * geometry.reserve_percent / 100),
        block_size_bytes: geometry.block_size,
        fragment_size_bytes: geometry.fragment_size,
        byte_order: match geometry.byte_order {
            ByteOrder::Little => "little-endian",
            ByteOrder::Big => "big-endian",
        }
        .to_owned(),
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
        .filter(|&(kept, _)| kept)
        .map(|(_, name)| name.to_owned())
        .collect(),
        flags: FLAG_NAMES
            .into_iter()
            .filter(|&(bit, _)| flags & bit != 0)
            .map(|(_, name)| name.to_owned())
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
