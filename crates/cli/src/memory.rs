//! Available memory, and the share of it that volumes take by default.

use std::fs::read_to_string;
use std::ops::RangeInclusive;

/// Divisor of the memory that all volumes together take: other programs and the page cache of the
/// system have the rest.
const PART: u64 = 4;
/// Bounds of the cache of a single volume, in bytes.
const BOUNDS: RangeInclusive<u64> = 64 << 20..=16 << 30;
/// Assumed memory if the system does not report it, in bytes.
const UNKNOWN: u64 = 1 << 30;

/// Default cache size for each of `volumes` volumes, in bytes.
pub(crate) fn usual_cache(volumes: usize) -> usize {
    let there_are = [of_machine(), of_group()].into_iter().flatten().min().unwrap_or(UNKNOWN);
    let share = there_are / PART / (volumes as u64).max(1);
    usize::try_from(share.clamp(*BOUNDS.start(), *BOUNDS.end())).unwrap_or(usize::MAX)
}

/// Memory of this machine, in bytes.
fn of_machine() -> Option<u64> {
    total(&read_to_string("/proc/meminfo").ok()?)
}

/// Memory limit of our container, in bytes.
fn of_group() -> Option<u64> {
    let group = group(&read_to_string("/proc/self/cgroup").ok()?)?.to_owned();
    read_to_string(format!("/sys/fs/cgroup{group}/memory.max")).ok()?.trim().parse().ok()
}

/// Total memory in the text of `/proc/meminfo`, in bytes.
fn total(text: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Our group of the unified hierarchy, from the text of `/proc/self/cgroup`.
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
