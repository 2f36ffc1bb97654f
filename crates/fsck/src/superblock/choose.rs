//! Decides which of several file systems is the one on the disk.
//!
//! Copies that agree in their shape vote together. The evidence of the groups counts first, because
//! a wrong shape does not fit them; then the number of copies that agree; and if that does not
//! decide, a primary that fits its hash is believed.

use ufs2::layout::{BadSuperblock, ByteOrder, RecoveryRecord, SUPERBLOCK_ADDRESS, Superblock};

use super::candidates::{Copy, Gathered};
use super::evidence;
use super::fields::{Class, FIELDS};
use crate::CheckError;
use crate::overlay::Overlay;

/// The copies that describe the file system on the disk, the most trustworthy first.
pub(super) struct Chosen<'a> {
    pub(super) copies: Vec<&'a Copy>,
}

impl<'a> Chosen<'a> {
    /// The copy that represents all of them.
    pub(super) fn best(&self) -> &'a Copy {
        self.copies[0]
    }
}

impl Copy {
    fn is_primary(&self) -> bool {
        self.place == SUPERBLOCK_ADDRESS
    }

    /// Whether nothing about it is wrong.
    fn is_sound(&self) -> bool {
        self.fits_hash && self.mended == 0
    }

    /// The shape: fields that no mount changes and nothing else determines.
    fn shape(&self) -> (bool, Vec<i128>) {
        let shape = FIELDS.iter().filter(|field| field.class == Class::Shape);
        let values = shape.map(|field| field.get(&self.block)).collect();
        (self.geometry.byte_order == ByteOrder::Big, values)
    }

    fn votes(&self) -> u64 {
        match (self.is_sound(), self.is_primary()) {
            (true, true) => 3,
            (true, false) => 2,
            (false, _) => 1,
        }
    }
}

/// The votes of a recovery record that describes the file system: those of a backup.
fn record_votes(record: Option<&RecoveryRecord>, block: &[u8]) -> u64 {
    let s = Superblock::of(block);
    let agrees = record.is_some_and(|record| {
        record.sector_shift == s.sector_shift
            && record.backup_offset == s.backup_offset
            && record.fragments_per_group == s.fragments_per_group
            && record.group_count == s.group_count
    });
    if agrees { 2 } else { 0 }
}

/// Evidence, votes, and whether a trusted primary is among the copies: in this order.
type Rank = (u64, u64, bool);

/// Makes the decision.
pub(super) async fn choose<'a>(
    disk: &Overlay<'_>,
    gathered: &'a Gathered,
) -> Result<Chosen<'a>, CheckError> {
    let mut parties: Vec<(_, Vec<&Copy>)> = Vec::new();
    for copy in &gathered.copies {
        let shape = copy.shape();
        match parties.iter_mut().find(|(known, _)| *known == shape) {
            Some((_, members)) => members.push(copy),
            None => parties.push((shape, vec![copy])),
        }
    }
    let alone = parties.len() == 1;
    let mut best: Option<(Rank, Vec<&Copy>)> = None;
    for (_, members) in parties {
        let trusted = members.iter().any(|copy| copy.is_primary() && copy.is_sound());
        let evidence = if alone && trusted {
            evidence::Evidence { score: 0, fits: true } // nothing to decide: save the reads
        } else {
            evidence::weigh(disk, &members[0].geometry).await?
        };
        if !(evidence.fits || trusted || members.len() > 1) {
            continue; // a single copy without evidence on the disk
        }
        let record = record_votes(gathered.record.as_ref(), &members[0].block);
        let votes = record + members.iter().map(|copy| copy.votes()).sum::<u64>();
        let rank = (evidence.score, votes, trusted);
        if best.as_ref().is_none_or(|(known, _)| rank > *known) {
            best = Some((rank, members));
        }
    }
    let Some((_, mut copies)) = best else {
        let found = Superblock::of(&gathered.primary).magic.get();
        let refused = gathered.refused.clone();
        return Err(refused.unwrap_or(BadSuperblock::Missing { found }).into());
    };
    copies.sort_by_key(|copy| (!copy.is_sound(), copy.place));
    Ok(Chosen { copies })
}
