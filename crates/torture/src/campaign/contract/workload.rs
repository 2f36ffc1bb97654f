//! The calls of a workload: two writes, in many patterns.

use std::fmt;

use crate::explore::device::Device;

/// Bytes of a unit of a tested set.
pub(super) const UNIT: u64 = 4096;
/// The slot of the member that is rebuilt.
pub(super) const COMING: usize = 1;

/// The order of the two writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The first, the second, a flush.
    Flushed,
    /// The first, a flush, the second, a flush.
    Apart,
    /// Both through, one after the other.
    Through,
    /// Both at once, then a flush.
    Together,
    /// The first; then the second and a flush at the same time.
    Crossed,
    /// The first, the second, a flush, while a member is rebuilt ([`COMING`]).
    Rebuilt,
    /// The first, through; a member fails at the second, and is rebuilt as another one.
    Returned,
    /// The same, but the member comes back as it left.
    CaughtUp,
    /// The first; a discard of the second's range; the second, a flush.
    Vacated,
}

impl Pattern {
    /// Whether writes are through.
    pub(super) fn is_through(self) -> bool {
        matches!(self, Self::Through | Self::Returned | Self::CaughtUp)
    }

    /// Whether a member is rebuilt.
    pub(super) fn has_rebuild(self) -> bool {
        matches!(self, Self::Rebuilt | Self::Returned | Self::CaughtUp)
    }

    const ALL: [Self; 9] = [
        Self::Flushed,
        Self::Apart,
        Self::Through,
        Self::Together,
        Self::Crossed,
        Self::Rebuilt,
        Self::Returned,
        Self::CaughtUp,
        Self::Vacated,
    ];
}

/// The verb that fails on a member, and the number of the call from which on all do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) member: usize,
    pub(super) is_flush: bool,
    pub(super) nth: u64,
}

/// A workload: see the module.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) device: Device,
    pub(super) disks: usize,
    pub(super) pattern: Pattern,
    /// Offset and length of each write, in bytes.
    pub(super) writes: [(u64, u64); 2],
    pub(super) failure: Option<Failure>,
    /// The set was never written before.
    pub(super) is_fresh: bool,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, disks, pattern, writes: [one, other], failure, is_fresh } = self;
        write!(f, "{device}-{disks}-{pattern:?}-{}+{}-{}+{}", one.0, one.1, other.0, other.1)?;
        if let Some(Failure { member, is_flush, nth }) = failure {
            write!(f, "-{member}{}{nth}", if *is_flush { "f" } else { "w" })?;
        }
        f.write_str(if *is_fresh { "-fresh" } else { "" })?;
        Ok(())
    }
}

/// Offsets and lengths of writes to a set with stripes of this many bytes.
fn shapes(stripe: u64) -> Vec<(u64, u64)> {
    let mut shapes = vec![
        (0, 512),
        (1024, 2048),
        (0, UNIT),
        (UNIT - 512, 1024),
        (UNIT, 2 * UNIT - 1024),
        (512, stripe - 512),
        (0, stripe),
        (stripe, stripe),
        (stripe - 1024, 1536),
        (stripe - UNIT, 2 * UNIT),
        (UNIT, 2 * stripe),
        (0, 2 * stripe + 512),
    ];
    shapes.sort_unstable();
    shapes.dedup();
    shapes
}

/// All workloads for a device.
pub(super) fn all(device: Device) -> Vec<Workload> {
    let mut all = Vec::new();
    let sizes: &[usize] = match device {
        Device::Plain | Device::Nvram | Device::Raid5Nvram => &[1],
        Device::Raid1 => &[2, 3],
        Device::Raid5 => &[3, 4],
    };
    for &disks in sizes {
        let stripe = match device {
            Device::Raid5 => (disks as u64 - 1) * UNIT,
            Device::Plain | Device::Nvram | Device::Raid1 | Device::Raid5Nvram => UNIT,
        };
        let shapes = shapes(stripe);
        let end = if device == Device::Plain { 4 * UNIT } else { 3 * stripe };
        let fits = |&(at, length): &(u64, u64)| at + length <= end;
        let shapes: Vec<(u64, u64)> = shapes.into_iter().filter(fits).collect();
        for (first, &one) in shapes.iter().enumerate() {
            for (second, &other) in shapes.iter().enumerate() {
                for (number, pattern) in Pattern::ALL.into_iter().enumerate() {
                    let writes = [one, other];
                    let is_set = device != Device::Plain;
                    let is_fresh = is_set && (first + second + number) % 3 == 0;
                    let whole =
                        Workload { device, disks, pattern, writes, failure: None, is_fresh };
                    if is_set || !pattern.has_rebuild() {
                        all.push(whole.clone());
                    }
                    if !is_set || pattern.has_rebuild() {
                        continue;
                    }
                    let turn = first + 5 * second + 3 * number;
                    let failure = Some(Failure {
                        member: turn % disks,
                        is_flush: turn % 4 == 3,
                        nth: 1 + (turn / 4 % 4) as u64,
                    });
                    all.push(Workload { failure, ..whole });
                }
            }
        }
    }
    all
}

/// The workload with this name.
///
/// # Errors
/// There is none.
pub(super) fn named(device: Device, name: &str) -> Result<Workload, String> {
    let found = all(device).into_iter().find(|workload| workload.to_string() == name);
    found.ok_or_else(|| format!("no workload of {device} is called {name}"))
}
