//! How much memory there is, and how much of it volumes take when the user does not say.

use std::fs::read_to_string;
use std::ops::RangeInclusive;

/// Volumes together take one part in so many: programs beside us, and the page cache of the
/// system, have the rest.
const PART: u64 = 4;
/// Bounds for a single volume, in bytes.
const BOUNDS: RangeInclusive<u64> = 64 << 20..=16 << 30;
/// Where the system does not tell how much there is, in bytes.
const UNKNOWN: u64 = 1 << 30;

/// Bytes for the cache of each of so many volumes.
pub(crate) fn usual_cache(volumes: usize) -> usize {
    let there_are = [of_machine(), of_group()].into_iter().flatten().min().unwrap_or(UNKNOWN);
    let share = there_are / PART / (volumes as u64).max(1);
    usize::try_from(share.clamp(*BOUNDS.start(), *BOUNDS.end())).unwrap_or(usize::MAX)
}

/// Bytes of memory of this machine.
fn of_machine() -> Option<u64> {
    total(&read_to_string("/proc/meminfo").ok()?)
}

/// Bytes of memory that a container lets us use.
fn of_group() -> Option<u64> {
    let group = group(&read_to_string("/proc/self/cgroup").ok()?)?.to_owned();
    read_to_string(format!("/sys/fs/cgroup{group}/memory.max")).ok()?.trim().parse().ok()
}

/// What `/proc/meminfo` says of all memory.
fn total(text: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Which group of the unified hierarchy we are in, by `/proc/self/cgroup`.
fn group(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_understood() {
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       16384 kB\n"), Some(16 << 20));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert_eq!(group("12:cpu:/a\n0::/system.slice/x\n"), Some("/system.slice/x"));
        assert_eq!(group(""), None);
    }

    #[test]
    fn volumes_share_a_part_of_it_within_bounds() {
        let (one, four) = (usual_cache(1), usual_cache(4));
        assert!(BOUNDS.contains(&(one as u64)) && BOUNDS.contains(&(four as u64)));
        assert!(four <= one && four >= one / 4);
        assert_eq!(usual_cache(1_000_000) as u64, *BOUNDS.start());
    }
}
