//! Choice of the superblock to continue from, and of the blocks to rewrite.
//!
//! It is the highest superblock that is whole, with all that it lists; a flipped bit in a listed
//! run is mended. If it is not whole, it is the one that it names as durable. The listed runs are
//! rewritten before anything rests on them: a flush that failed may have dropped them.
//!
//! All of the update with which the volume was stopped was durable before an anchor named it. So
//! nothing that it lists is doubted: if a block of it has rotted since, only its content is lost.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use block::{BlockDevice, Buffer, Durability, IoError, Verb};
use bytes::Bytes;
use cow::{Secret, UNIT};

use crate::anchors::superblocks;
use crate::copies::with_copies;
use crate::error::OpenError;
use crate::format::anchor::Anchor;
use crate::format::superblock::{Listed, Superblock};
use crate::mend::{mended_run, sum_listed};
use crate::planted::{Bug, is_planted};

/// The superblock to continue from.
pub(crate) struct Chosen {
    pub(crate) superblock: Superblock,
    /// Its unit.
    pub(crate) at: u64,
    /// The highest number of any superblock.
    pub(crate) highest: u64,
    /// Listed runs that are wrong on the disk, mended, by their first bytes.
    pub(crate) mended: Mended,
}

/// Bytes that were mended in memory, by their positions on the disk.
type Mended = BTreeMap<u64, Bytes>;

/// Chooses the superblock to continue from.
pub(crate) async fn choose(device: &dyn BlockDevice, anchor: &Anchor) -> Result<Chosen, OpenError> {
    let found = superblocks(device, anchor).await?;
    let highest = found.last_key_value().map_or(0, |(&(number, _), _)| number);
    if highest < anchor.rest && !is_planted(Bug::ForgottenRest) {
        return Err(OpenError::NoSuperblock { highest });
    }
    // A stopped volume has two with this number.
    let highest_ones = || found.range((highest, 0)..);
    if let Some((&(_, at), superblock)) = highest_ones().next()
        && highest == anchor.rest
        && !is_planted(Bug::DoubtedRest)
    {
        let superblock = Superblock { listed: Vec::new(), ..superblock.clone() };
        return Ok(Chosen { superblock, at, highest, mended: Mended::new() });
    }
    for mends in [false, true] {
        for (&(_, at), superblock) in highest_ones() {
            let whole = whole(device, anchor, (superblock, at), mends).await?;
            let whole = whole.or_else(|| is_planted(Bug::BelievedHighest).then(Mended::new));
            if let Some(mended) = whole {
                return Ok(Chosen { superblock: superblock.clone(), at, highest, mended });
            }
        }
    }
    for (_, superblock) in highest_ones() {
        let at = superblock.durable_at;
        if let Some(durable) = found.get(&(superblock.durable, at))
            && let Some(mended) = whole(device, anchor, (durable, at), true).await?
        {
            return Ok(Chosen { superblock: durable.clone(), at, highest, mended });
        }
    }
    Err(OpenError::NoSuperblock { highest })
}

/// The mended runs of a superblock, if all that it lists is there, or can be mended if `mends`. An
/// unreadable run may be there, so it is an error.
async fn whole(
    device: &dyn BlockDevice,
    anchor: &Anchor,
    (superblock, at): (&Superblock, u64),
    mends: bool,
) -> Result<Option<Mended>, IoError> {
    let all = &superblock.listed;
    let mut mended = Mended::new();
    for listed in &superblock.listed {
        match read_listed(device, listed).await {
            Ok(bytes) if fits(listed, &bytes) => {}
            Ok(_) if !mends => return Ok(None),
            Ok(bytes) => {
                let block = superblock.write(at, &anchor.secret);
                let told = (&block[..], all.as_slice(), anchor.shape.block);
                let copied = with_copies(device, superblock, listed, &bytes).await;
                let right = match copied {
                    None => mended_run(device, told, *listed, &bytes).await,
                    copied => copied,
                };
                match right {
                    Some(right) => _ = mended.insert(listed.offset(), right.freeze()),
                    None => return Ok(None),
                }
            }
            Err(error) if !is_planted(Bug::PassedReads) => return Err(error),
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(mended))
}

async fn read_listed(device: &dyn BlockDevice, listed: &Listed) -> Result<Buffer, IoError> {
    let length = listed.run.length as usize * UNIT;
    device.read(listed.offset(), Buffer::unfilled(length)).await
}

fn fits(listed: &Listed, bytes: &[u8]) -> bool {
    sum_listed(listed, bytes) == listed.sum
}

/// Rewrites the believed superblock, and the runs that no flush covers, as they were mended.
pub(crate) async fn believe(
    device: &dyn BlockDevice,
    (superblock, at): (&Superblock, u64),
    mended: &Mended,
    secret: &Secret,
) -> Result<(), IoError> {
    if !is_planted(Bug::HalfBelief) {
        let block = vec![Buffer::copied(&*superblock.write(at, secret)).freeze()];
        device.write(at * UNIT as u64, block, Durability::Plain).await?;
    }
    for listed in &superblock.listed {
        // A mirror may return its other copy this time.
        if let Some(bytes) = mended.get(&listed.offset()) {
            device.write(listed.offset(), vec![bytes.clone()], Durability::Plain).await?;
            continue;
        }
        let bytes = read_listed(device, listed).await?;
        if !fits(listed, &bytes) {
            let length = bytes.len() as u64;
            return Err(IoError::new(Verb::Read, listed.offset(), length, ErrorKind::InvalidData));
        }
        device.write(listed.offset(), vec![bytes.freeze()], Durability::Plain).await?;
    }
    device.flush().await
}
