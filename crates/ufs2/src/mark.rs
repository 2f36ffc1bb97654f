//! The mark by which a volume says that we have it, or had it at a crash.
//!
//! It is in the superblock's last-mount field: `duramen:OWNER:NONCE`, with *clean* 0 and NEEDSFSCK
//! set. The owner is a policy, or the checker. Any other system's mount overwrites the field, so
//! where the mark is, no other system has written the disk since. The code that opens and checks
//! volumes documents when it is set and when it is cleared.

use crate::layout::{Superblock, flags};

const PREFIX: &str = "duramen:";
/// The owner name of the checker, which is no policy.
pub const CHECK: &str = "fsck";

/// The policy that orders the writes of a volume, as its mark names it: the state of the volume
/// after a crash depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// Ordered writes: the tree is true, counts and maps may not be.
    Sync,
    /// A log of metadata, which must be replayed first.
    Log,
    /// Soft updates: as ordered writes leave it, except that any change may be missing on which no
    /// other depends.
    SoftUpdates,
}

impl PolicyKind {
    /// All policies.
    pub const ALL: &[Self] = &[Self::Sync, Self::Log, Self::SoftUpdates];

    /// Whether such a volume has a log, without which it cannot be recovered.
    pub fn has_log(self) -> bool {
        self == Self::Log
    }

    /// The name of the policy in marks.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Log => "log",
            Self::SoftUpdates => "softdep",
        }
    }

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// The system that had a volume last, as its superblock shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// No system: it was stopped cleanly.
    Clean,
    /// Our server, under this policy.
    Policy(PolicyKind),
    /// Our server, under a policy of this name, from another version.
    UnknownPolicy(String),
    /// Our checker, in the middle of its repairs.
    Check,
    /// Ours: a write that sets or clears the mark was cut. No other system leaves *clean* 1
    /// together with NEEDSFSCK behind.
    Torn,
    /// Another system, which did not stop it cleanly.
    Foreign,
}

impl Mark {
    /// The mark of a superblock.
    pub fn of(superblock: &Superblock) -> Self {
        let flags = superblock.flags.get();
        if superblock.clean == 1 && flags & (flags::UNCLEAN | flags::NEEDS_FSCK) == 0 {
            return Self::Clean;
        }
        match owner(superblock) {
            Some(CHECK) => Self::Check,
            Some(policy) => PolicyKind::named(policy)
                .map_or_else(|| Self::UnknownPolicy(policy.to_owned()), Self::Policy),
            None if superblock.clean == 1 && flags & flags::NEEDS_FSCK != 0 => Self::Torn,
            None => Self::Foreign,
        }
    }
}

/// The policy under which a volume was served that was not stopped cleanly, by its superblock.
pub fn policy_of(superblock: &Superblock) -> Option<String> {
    match Mark::of(superblock) {
        Mark::Policy(policy) => Some(policy.name().to_owned()),
        Mark::UnknownPolicy(policy) => Some(policy),
        _ => None,
    }
}

/// The owner of the mark in the last-mount field, if there is one.
pub fn owner(superblock: &Superblock) -> Option<&str> {
    let end = superblock.last_mount.iter().position(|&byte| byte == 0)?;
    let text = std::str::from_utf8(&superblock.last_mount[..end]).ok()?;
    text.strip_prefix(PREFIX)?.split(':').next()
}

/// The nonce of the mark, which the log has, too.
pub fn nonce(superblock: &Superblock) -> Option<u64> {
    let end = superblock.last_mount.iter().position(|&byte| byte == 0)?;
    let text = std::str::from_utf8(&superblock.last_mount[..end]).ok()?;
    let (_, nonce) = text.strip_prefix(PREFIX)?.split_once(':')?;
    u64::from_str_radix(nonce, 16).ok()
}

/// Sets the mark of a superblock.
pub fn put(superblock: &mut Superblock, owner: &str, nonce: u64) {
    superblock.clean = 0;
    superblock.flags.set(superblock.flags.get() | flags::NEEDS_FSCK);
    let mark = format!("{PREFIX}{owner}:{nonce:016x}");
    superblock.last_mount.fill(0);
    superblock.last_mount[..mark.len()].copy_from_slice(mark.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn a_mark_says_who_put_it() {
        let mut superblock = Superblock::new_zeroed();
        assert_eq!(Mark::of(&superblock), Mark::Foreign);
        superblock.clean = 1;
        assert_eq!(Mark::of(&superblock), Mark::Clean);
        put(&mut superblock, "sync", 7);
        assert_eq!(Mark::of(&superblock), Mark::Policy(PolicyKind::Sync));
        assert!(superblock.last_mount.starts_with(b"duramen:sync:0000000000000007\0"));
        assert_eq!(nonce(&superblock), Some(7));
        put(&mut superblock, CHECK, 7);
        assert_eq!(Mark::of(&superblock), Mark::Check);
    }

    #[test]
    fn a_clean_volume_that_needs_a_check_was_torn() {
        let mut superblock = Superblock::new_zeroed();
        superblock.clean = 1;
        superblock.flags.set(flags::NEEDS_FSCK);
        assert_eq!(Mark::of(&superblock), Mark::Torn);
        superblock.flags.set(flags::UNCLEAN);
        assert_eq!(Mark::of(&superblock), Mark::Foreign);
    }
}
