//! The mark by which a volume says that we have it, or had it when the power went.
//!
//! It stands in the superblock's last-mount field: `duramen:OWNER:NONCE`, with *clean* 0 and
//! NEEDSFSCK set. The owner is a policy, or the checker. Any other system's mount overwrites the
//! field, so where the mark stands no other system wrote the disk since. When it is set and when it
//! is taken back is told where volumes are opened, and where they are checked.

use crate::layout::{Superblock, flags};

const PREFIX: &str = "duramen:";
/// The owner that is no policy.
pub const CHECK: &str = "fsck";

/// How the writes of a volume are ordered, as far as its mark tells it: what such a volume is after
/// a cut is another thing for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// Ordered writes: the tree is true, counts and maps may not be.
    Sync,
    /// A log of metadata: what it holds comes first.
    Log,
    /// Soft updates: as ordered writes leave it, but that any change may be missing of which no
    /// other needs it.
    SoftUpdates,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Sync, Self::Log, Self::SoftUpdates];

    /// Whether such a volume has a log, without which it cannot be brought back.
    pub fn has_log(self) -> bool {
        self == Self::Log
    }

    /// What volumes under it are marked with.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Log => "log",
            Self::SoftUpdates => "softdep",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// Which system had a volume last, as its superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// No system has it: it was stopped cleanly.
    Clean,
    /// We, under this policy.
    Policy(PolicyKind),
    /// We, under a policy of this name, which another version has.
    UnknownPolicy(String),
    /// Our checker, in the middle of its repairs.
    Check,
    /// We: a write that sets the mark or takes it back was cut. No other system leaves *clean* 1
    /// together with NEEDSFSCK behind.
    Torn,
    /// Another system, which did not stop it cleanly.
    Foreign,
}

impl Mark {
    /// What a superblock says.
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

/// The policy under which a volume was served that was not stopped cleanly, as its superblock says.
pub fn policy_of(superblock: &Superblock) -> Option<String> {
    match Mark::of(superblock) {
        Mark::Policy(policy) => Some(policy.name().to_owned()),
        Mark::UnknownPolicy(policy) => Some(policy),
        _ => None,
    }
}

/// Whose mark the last-mount field bears, if any.
pub fn owner(superblock: &Superblock) -> Option<&str> {
    let end = superblock.last_mount.iter().position(|&byte| byte == 0)?;
    let text = std::str::from_utf8(&superblock.last_mount[..end]).ok()?;
    text.strip_prefix(PREFIX)?.split(':').next()
}

/// The number that the mark bears, which a log bears too.
pub fn nonce(superblock: &Superblock) -> Option<u64> {
    let end = superblock.last_mount.iter().position(|&byte| byte == 0)?;
    let text = std::str::from_utf8(&superblock.last_mount[..end]).ok()?;
    let (_, nonce) = text.strip_prefix(PREFIX)?.split_once(':')?;
    u64::from_str_radix(nonce, 16).ok()
}

/// Puts a mark on a superblock.
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
