//! The parties that share the bounds: the volumes, and the clients whose calls are about none.
//!
//! A volume whose disk does not respond keeps its calls, their turns and their memory. Strangers
//! can begin as many calls as they like. Neither may keep others from being served: so each is a
//! party with a share of every bound, and strangers have no more than theirs.

use runtime::pool::Share;

use crate::Fsid;

/// Clients that may use no volume at all.
pub(crate) const STRANGERS: usize = 0;
/// Calls of all others that are about no volume, or about one that they may not use.
const NO_VOLUME: usize = 1;
/// The first volume; the others follow.
pub(crate) const FIRST_VOLUME: usize = 2;
/// The first two parties each have one part in this many of a bound.
const SMALL_PART: u64 = 16;

/// Whether a party is a volume, which its caller may use.
pub(crate) fn is_volume(party: usize) -> bool {
    party >= FIRST_VOLUME
}

/// The shares of a bound among this many volumes.
pub(crate) fn shares(bound: u64, volumes: usize) -> Vec<Share> {
    let small = bound / SMALL_PART;
    // A bound that is too small to be divided is shared by all.
    let strangers = Share { least: small, may_exceed: small == 0 };
    let others = Share { least: small, may_exceed: true };
    // A single volume shares with no other.
    let least = if volumes > 1 { bound / 2 / volumes as u64 } else { 0 };
    let volume = Share { least, may_exceed: true };
    [strangers, others].into_iter().chain(std::iter::repeat_n(volume, volumes)).collect()
}

/// The last party found for a client, for calls that name one volume after the other.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) fsid: Option<Fsid>,
    pub(crate) exports_version: u64,
    pub(crate) party: usize,
}

/// The party of a client that may use this volume, given by its index; or of a call that names
/// none; `is_guest` says whether the client may use any.
pub(crate) fn party_of(volume: Option<usize>, is_guest: impl FnOnce() -> bool) -> usize {
    match volume {
        Some(volume) => FIRST_VOLUME + volume,
        None if is_guest() => NO_VOLUME,
        None => STRANGERS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_bound_the_shares_fit_into_it_and_one_volume_has_most_of_it() {
        for bound in [1, 15, 16, 1000, 64 << 20] {
            for volumes in 1..20 {
                let shares = shares(bound, volumes);
                assert_eq!(shares.len(), FIRST_VOLUME + volumes);
                let least: u64 = shares.iter().map(|share| share.least).sum();
                assert!(least <= bound * 5 / 8, "{least} of {bound} for {volumes}");
                assert!(shares[STRANGERS].least > 0 || shares[STRANGERS].may_exceed);
            }
        }
    }

    #[test]
    fn several_volumes_share_half_of_a_bound_and_a_sixteenth_each_is_for_all_others() {
        let share = |least, may_exceed| Share { least, may_exceed };
        let [strangers, others] = [share(100, false), share(100, true)];
        let [one, half, third] = [0, 400, 266].map(|least| share(least, true));
        assert_eq!(shares(1_600, 1), [strangers, others, one]);
        assert_eq!(shares(1_600, 2), [strangers, others, half, half]);
        assert_eq!(shares(1_600, 3), [strangers, others, third, third, third]);
    }

    #[test]
    fn where_there_is_little_strangers_may_have_what_is_common() {
        assert_eq!(shares(15, 1)[STRANGERS], Share { least: 0, may_exceed: true });
        assert_eq!(shares(16, 1)[STRANGERS], Share { least: 1, may_exceed: false });
    }

    #[test]
    fn only_volumes_are_taken_for_volumes() {
        let parties = [STRANGERS, NO_VOLUME, FIRST_VOLUME, FIRST_VOLUME + 1, FIRST_VOLUME + 7];
        assert_eq!(parties.map(is_volume), [false, false, true, true, true]);
    }
}
