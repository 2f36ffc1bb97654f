//! The device of a volume: a disk, or a set with one disk that may be lost in a power cut.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::str::FromStr;

use block::BlockDevice;
use futures::FutureExt;
use nvram::pairing::{Pairing, Record};
use raid::label;
use raid::layout::Level;
use raid::{MakeOptions, OpenOptions, Set};
use runtime::Runtime;

/// Bytes of a unit of a tested set.
const UNIT: u64 = 8192;

/// The device of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// One disk.
    #[default]
    Plain,
    /// Mirrors.
    Raid1,
    /// A set with parity.
    Raid5,
    /// One disk with an NVRAM in front of it.
    Nvram,
    /// A set with parity, and an NVRAM in front of it.
    Raid5Nvram,
}

impl Device {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Plain, Self::Raid1, Self::Raid5, Self::Nvram, Self::Raid5Nvram];

    /// Number of disks of the device.
    pub fn disks(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::Raid1 | Self::Nvram => 2,
            Self::Raid5 => 4,
            Self::Raid5Nvram => 5,
        }
    }

    /// Number of members of its set. They are its first disks.
    pub(crate) fn members(self) -> usize {
        self.disks() - usize::from(self.has_nvram())
    }

    /// Whether its last disk is an NVRAM.
    pub(crate) fn has_nvram(self) -> bool {
        matches!(self, Self::Nvram | Self::Raid5Nvram)
    }

    /// The disks of which one may be lost in a power cut.
    pub fn losable(self) -> Range<usize> {
        if self.level().is_none() { 0..0 } else { 0..self.members() }
    }

    pub(crate) fn level(self) -> Option<Level> {
        match self {
            Self::Plain | Self::Nvram => None,
            Self::Raid1 => Some(Level::Mirrored),
            Self::Raid5 | Self::Raid5Nvram => Some(Level::Parity),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Raid1 => "raid1",
            Self::Raid5 => "raid5",
            Self::Nvram => "nvram",
            Self::Raid5Nvram => "raid5+nvram",
        })
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|device| device.to_string() == word);
        found.ok_or_else(|| {
            let all = Self::ALL.map(|device| device.to_string()).join(", ");
            format!("there is no device {word}: there are {all}")
        })
    }
}

/// Bytes of the NVRAM with which an engine is tested: few buffers, so that they are used up.
pub(super) const NVRAM_BYTES: u64 = 480 << 10;
/// The number that it shares with the volume.
pub(crate) const NVRAM_ID: nvram::Id = [7; 16];

/// Bytes of each member of a set with this capacity.
pub(crate) fn member_size(device: Device, bytes: u64) -> u64 {
    let Some(level) = device.level() else { return bytes };
    let members = device.members();
    let width = if level == Level::Parity { members as u64 - 1 } else { 1 };
    options(level).member_size(members, bytes.div_ceil(width * UNIT))
}

/// Options for a set with the smallest possible log.
fn options(level: Level) -> MakeOptions {
    MakeOptions { level, unit: UNIT, log: 0 }
}

/// Makes a set of members, whatever they contain.
pub(crate) async fn make(level: Level, members: &[Rc<dyn BlockDevice>], runtime: &Runtime) {
    raid::make(members, &options(level), runtime).await.expect("they are large enough");
}

/// Opens a set; members of length 0 are lost. No part of it has ever continued alone except as its
/// labels say, so a missing member is not newer.
///
/// # Errors
/// Why it does not open.
pub(crate) async fn open(
    members: Vec<Rc<dyn BlockDevice>>,
    runtime: &Runtime,
) -> Result<Set, String> {
    open_logged(members, Vec::new(), runtime).await
}

/// The same, with its log device, or with both.
///
/// # Errors
/// Why it does not open.
pub(crate) async fn open_logged(
    members: Vec<Rc<dyn BlockDevice>>,
    log_devices: Vec<Rc<dyn BlockDevice>>,
    runtime: &Runtime,
) -> Result<Set, String> {
    let there = members.into_iter().filter(|member| member.geometry().size > 0).collect();
    let options = OpenOptions { is_meant: true, log_devices, ..OpenOptions::default() };
    raid::open(there, runtime, options).await.map_err(|error| format!("the set: {error}"))
}

/// Makes a disk the NVRAM of another one.
pub(super) async fn make_nvram(disks: &[Rc<dyn BlockDevice>]) {
    let volume_size = disks[0].geometry().size;
    nvram::make(&disks[1], NVRAM_ID, volume_size).await.expect("it is large enough");
}

/// Opens a disk with its NVRAM.
///
/// # Errors
/// Why not.
pub(super) async fn open_nvram(
    disks: Vec<Rc<dyn BlockDevice>>,
    runtime: &Runtime,
) -> Result<nvram::Nvram, String> {
    let [below, memory] = &disks[..] else { panic!("a disk and its NVRAM") };
    let opened = nvram::open(below.clone(), memory.clone(), runtime.clone(), NVRAM_ID).await;
    opened.map(|(nvram, _)| nvram).map_err(|error| format!("the NVRAM: {error}"))
}

/// Makes one or two disks the NVRAM of a volume. Gives its generation, and who of two is out.
pub(crate) async fn make_memories(
    memories: &[Rc<dyn BlockDevice>],
    volume_size: u64,
) -> (u64, Option<[bool; 2]>) {
    let (made, out) = match memories {
        [one, other] => {
            (nvram::make_two([one, other], NVRAM_ID, volume_size).await, Some([false; 2]))
        }
        _ => (nvram::make(&memories[0], NVRAM_ID, volume_size).await, None),
    };
    (made.expect("they are large enough").generation, out)
}

/// Makes one or two disks the NVRAM of a set.
pub(crate) async fn put_in_front(
    members: Vec<Rc<dyn BlockDevice>>,
    memories: &[Rc<dyn BlockDevice>],
    runtime: &Runtime,
) {
    let set = open(members, runtime).await.expect("it is new");
    let (generation, out) = make_memories(memories, set.geometry().size).await;
    let known = Pairing { id: NVRAM_ID, generation, is_dirty: false, out };
    let paired = label_of(&known);
    set.stand_behind(Some(paired)).await.expect("nothing has failed");
    // The devices stay open.
}

/// The pairing that a label has.
///
/// # Errors
/// It names none.
pub(crate) fn pairing_of(label: &label::Label) -> Result<Pairing, String> {
    let label::Nvram { id, generation, is_dirty, out, .. } =
        label.nvram.ok_or("no label names the NVRAM")?;
    Ok(Pairing { id, generation, is_dirty: is_dirty || label.has_log_apart, out })
}

/// A pairing as a label has it.
fn label_of(pairing: &Pairing) -> label::Nvram {
    let Pairing { id, generation, is_dirty, out } = *pairing;
    label::Nvram { id, generation, is_dirty, out, log_start: None }
}

/// What a set knows of its NVRAM, and how it records that.
///
/// # Errors
/// It stands behind none.
pub(crate) fn paired(set: &Rc<Set>) -> Result<(Pairing, Record), String> {
    let (known, set) = (pairing_of(&set.label())?, set.clone());
    let record = Record::new(move |pairing| {
        let (set, known) = (set.clone(), label_of(&pairing));
        async move { set.stand_behind(Some(known)).await }.boxed_local()
    });
    Ok((known, record))
}

/// Opens a set with its NVRAM; members of length 0 are lost.
///
/// # Errors
/// Why not.
pub(super) async fn open_set_behind(
    members: Vec<Rc<dyn BlockDevice>>,
    memory: Rc<dyn BlockDevice>,
    runtime: &Runtime,
) -> Result<nvram::Nvram, String> {
    let set = Rc::new(open(members, runtime).await?);
    let (pairing, record) = paired(&set)?;
    let below = set;
    let opened = nvram::open_paired(below, memory, runtime.clone(), pairing, record).await;
    opened.map(|(nvram, _)| nvram).map_err(|error| format!("the NVRAM: {error}"))
}
