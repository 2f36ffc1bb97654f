//! Description of a volume, as one object. `duramen info --json` prints it as JSON, and `GET
//! /v1/info` answers with the same text.

use block::file::{Access, OpenError};
use designs::Found;
use serde::{Deserialize, Serialize};

use super::live::{Lfs, Live, Reclaim, Shadow, Softdep};
use super::log::{self, LogInfo};
use crate::failure::Failure;
use crate::front;
use crate::scrub::Scrub;
use crate::sets::Status;
use crate::stack::look;
use crate::volume::Volume;

/// Description of a volume. The names are those of the JSON object; an absent value is null.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Info {
    pub(super) volume: String,
    pub(super) engine: String,
    pub(super) policy: Option<String>,
    pub(super) size_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) state: State,
    pub(super) durability: Option<String>,
    /// Process ID of the server.
    #[serde(default)]
    pub(super) pid: Option<u32>,
    /// Name under which the server exports the volume.
    #[serde(default)]
    pub(super) export: Option<String>,
    /// Absolute path of the server's configuration.
    #[serde(default)]
    pub(super) configuration: Option<String>,
    pub(super) softdep: Option<Softdep>,
    pub(super) shadow: Option<Shadow>,
    /// Statistics of engine lfs.
    #[serde(default)]
    pub(super) lfs: Option<Lfs>,
    pub(super) reclaim: Option<Reclaim>,
    pub(super) scrub: Option<Scrub>,
    pub(super) raid: Option<Status>,
    /// The NVRAM in front of the set.
    #[serde(default)]
    pub(super) nvram: Option<front::Status>,
    pub(super) disk: String,
    pub(super) label: String,
    pub(super) id: String,
    pub(super) missing_bytes: u64,
    pub(super) reserved_bytes: u64,
    pub(super) block_size_bytes: u64,
    pub(super) fragment_size_bytes: Option<u64>,
    pub(super) byte_order: Option<String>,
    pub(super) groups: Option<u64>,
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) free_inodes: u64,
    pub(super) needs_check: bool,
    pub(super) has_anchors: Option<bool>,
    pub(super) superblock_hash_fits: Option<bool>,
    pub(super) check_hashes: Option<Vec<String>>,
    pub(super) flags: Option<Vec<String>>,
    pub(super) last_mounted_at: Option<String>,
    pub(super) last_written: i64,
    pub(super) log: Option<LogInfo>,
}

/// Whether a volume needs recovery before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// A server has the volume and provided all of this.
    Served,
    /// Another program is using the volume.
    InUse,
    /// The volume was stopped cleanly.
    Clean,
    /// The volume was not stopped cleanly.
    Unclean,
    /// Part of the volume lies beyond the end of its disk.
    CutShort,
}

impl Info {
    /// Inspects a volume without a server.
    ///
    /// # Errors
    /// [`Failure`] if the superblock or the log is invalid.
    pub(super) fn look(volume: &Volume) -> Result<Self, Failure> {
        let look = |access| {
            look(volume, access, async |stack| {
                let nvram = match stack.front() {
                    Some(front) => Some(front::Status::look(&front).await),
                    None => None,
                };
                Ok((log::look_in_set(volume, stack).await?, nvram))
            })
        };
        let ((found, (log, nvram)), in_use) = match look(Access::ReadOnly) {
            Err(Failure::Open(OpenError::Locked(_) | OpenError::Busy(_))) => {
                (look(Access::Glance)?, true)
            }
            found => (found?, false),
        };
        let mut info = Self { log, nvram, ..gather(volume, &found) };
        if volume.settings.raid.is_some() {
            info.raid = Some(Status::look(volume)?);
        }
        if in_use {
            info.state = State::InUse;
        }
        info.look_at_log(volume)
    }

    /// Describes a served volume: from its disk, or from what is known of that, and from the
    /// server's own statistics.
    ///
    /// # Errors
    /// As [`Info::look`].
    pub(super) fn of_served(
        volume: &Volume,
        known: Option<&Found>,
        live: Live,
    ) -> Result<Self, Failure> {
        let on_disk = match known {
            // The opening wrote anchors, if the volume has any.
            Some(known) => {
                Self { has_anchors: known.has_anchors.map(|_| true), ..gather(volume, known) }
            }
            None => gather(volume, &look(volume, Access::Glance, async |_| Ok(()))?.0),
        };
        let info = Self {
            state: State::Served,
            durability: Some(live.durability),
            free_bytes: live.free_bytes,
            files: live.files,
            directories: live.directories,
            free_inodes: live.free_inodes,
            softdep: live.softdep,
            shadow: live.shadow,
            lfs: live.lfs,
            reclaim: live.reclaim,
            scrub: live.scrub,
            raid: live.raid,
            nvram: live.nvram,
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

fn gather(volume: &Volume, found: &Found) -> Info {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let ufs2 = found.ufs2.as_ref();
    Info {
        volume: volume.path.display().to_string(),
        engine: volume.design().engine.to_owned(),
        policy: volume.folder.as_ref().and(volume.design().policy).map(str::to_owned),
        size_bytes: found.size,
        free_bytes: found.free,
        state: match found {
            Found { missing: 1.., .. } => State::CutShort,
            Found { is_clean: true, .. } => State::Clean,
            _ => State::Unclean,
        },
        missing_bytes: found.missing,
        durability: None,
        pid: None,
        export: None,
        configuration: None,
        softdep: None,
        shadow: None,
        lfs: None,
        reclaim: None,
        scrub: None,
        raid: None,
        nvram: None,
        disk: volume.disk_path.display().to_string(),
        label: text(&found.label),
        id: format!("{:016x}", found.number),
        reserved_bytes: found.reserved,
        block_size_bytes: found.block_size,
        fragment_size_bytes: ufs2.map(|it| it.fragment_size),
        byte_order: ufs2.map(|it| it.byte_order.to_owned()),
        groups: ufs2.map(|it| it.groups),
        files: found.files,
        directories: found.directories,
        free_inodes: found.free_files,
        needs_check: found.needs_check,
        has_anchors: found.has_anchors,
        superblock_hash_fits: ufs2.map(|_| found.doubt.is_none()),
        check_hashes: ufs2.map(|it| owned(&it.check_hashes)),
        flags: ufs2.map(|it| owned(&it.flags)),
        last_mounted_at: ufs2.map(|it| text(&it.last_mounted_at)),
        last_written: found.last_written,
        log: None,
    }
}

/// Text from the disk, with control characters escaped for a terminal.
fn text(text: &str) -> String {
    text.escape_debug().to_string()
}
