//! Repairing a volume of damage that no cut leaves.
//!
//! Wrong blocks are changed in memory, as they are in engine `shadow`, and go out with one
//! checkpoint. The table and the dead lists are made anew from the blocks that trees hold, and
//! counts from the files that exist. The log is given up from the first damaged summary on, and a
//! snapshot whose line cannot be read is gone. A block that the disk cannot read may come back, so
//! nothing is given up for its sake.
//!
//! Commit point: the region of the checkpoint.

use std::rc::Rc;

use block::BlockDevice;
use cow::dropped::{clear_senseless, drop_all_wrong, drop_names};
use cow::format::inode::{Facts, Record};
use cow::homeless::{Census, Homeless};
use cow::{INODES, ROOT, Span, Stem};
use runtime::Runtime;
use vfs::{FileKind, FsError};
use vnode::chain::Chain;

use crate::check::Look;
use crate::error::OpenError;
use crate::log::Log;
use crate::open::{Purpose, recovered};
use crate::planted::{Bug, is_planted};

/// Repairs a volume as far as possible, and stops it.
///
/// # Errors
/// [`OpenError`]; then the volume is as it was, but for the copies that a start writes again.
pub async fn repair(device: Rc<dyn BlockDevice>, runtime: Runtime) -> Result<(), OpenError> {
    let found = recovered(device, &runtime, (32 << 20, false), Purpose::Repairing).await?;
    let (log, chains) = (found.log, found.chains);
    let nodes = &log.nodes;
    drop_all_wrong(nodes, &[Stem::Answers, Stem::Inodes, Stem::Snapshots]).await?;
    clear_senseless(nodes).await;
    let homeless = Homeless { nodes, now: runtime.clock.wall() };
    let mut silent = |_, _| ();
    let mut look = Look::new(&log, false, &mut silent);
    look.all(&chains).await;
    let directories: Vec<u64> = of_kind(&look, FileKind::Directory);
    drop_names(nodes, &directories, &look.missing).await;
    homeless.empty_lost_blocks(&census(&look, &chains)).await?;
    let mut silent = |_, _| ();
    let mut look = Look::new(&log, false, &mut silent);
    look.all(&chains).await;
    homeless.name_all(&census(&look, &chains)).await?;
    let mut silent = |_, _| ();
    let mut look = Look::new(&log, false, &mut silent);
    look.all(&chains).await;
    if look.has_unread {
        return Err(OpenError::Unread);
    }
    count(&log, &look, &homeless).await?;
    settle(&log, &look);
    log.begin_chain().map_err(OpenError::of_checkpoint)?;
    log.comes_to_rest.set(true);
    log.checkpoint().await.map_err(OpenError::of_checkpoint)?;
    while log.is_writing.get() {
        log.next_release().await?;
    }
    Ok(())
}

fn of_kind(look: &Look<'_>, kind: FileKind) -> Vec<u64> {
    look.files.iter().filter(|(_, known)| known.kind == kind).map(|(&ino, _)| ino).collect()
}

/// The files that were found; those of chains are being freed.
fn census(look: &Look<'_>, chains: &[Chain]) -> Census {
    let is_freed = |ino: u64| chains.iter().any(|chain| chain.ino == ino && chain.size.is_none());
    let mut census = Census::default();
    for (&ino, known) in &look.files {
        census.kinds.insert(ino, known.kind);
        match &known.name {
            Some((directory, _)) if known.kind == FileKind::Directory => {
                census.holders.insert(ino, *directory);
            }
            None if ino != ROOT && !is_freed(ino) => census.homeless.push((ino, known.kind)),
            _ => {}
        }
    }
    census
}

/// Makes links, units and dots those that were found, and the counts of the volume.
async fn count(
    log: &Log,
    look: &Look<'_>,
    homeless: &Homeless<'_, crate::logical::Names>,
) -> Result<(), FsError> {
    for (&ino, known) in &look.files {
        if let Some((holder, _)) = known.name.as_ref().filter(|_| known.kind == FileKind::Directory)
            && known.above.is_some_and(|above| above != *holder)
        {
            homeless.set_above(ino, *holder).await;
        }
        // A file without a name is being freed.
        let links = if known.name.is_none() && ino != ROOT { known.links } else { known.names };
        if (links, known.found) == (known.links, known.units) {
            continue;
        }
        let home = log.nodes.get(&Stem::Inodes, 0, ino / INODES).await?.ok_or(FsError::Corrupt)?;
        let facts = home.inode(ino % INODES, Record::facts).ok_or(FsError::Corrupt)?;
        let facts = Facts { links, units: known.found, ..facts };
        home.change(|bytes| Record::of_mut(bytes, ino % INODES).set(&facts));
        log.nodes.mark(&home);
    }
    let live = &log.live;
    live.files.set(look.files.len() as u64);
    live.directories.set(of_kind(look, FileKind::Directory).len() as u64);
    live.units.set(look.files.values().map(|known| known.found).sum());
    let last = look.files.last_key_value().map_or(0, |(&last, _)| last);
    live.next_ino.set(live.next_ino.get().max((last + 1).next_multiple_of(INODES)));
    Ok(())
}

/// Makes the table and the deaths those of the blocks that were found.
fn settle(log: &Log, look: &Look<'_>) {
    log.pins.count_anew(look.nodes);
    log.rows.recount(|address| look.seen.has(address));
    log.deaths.forget();
    for &(run, birth, end) in look.died.iter().filter(|_| !is_planted(Bug::ForgottenDeaths)) {
        if let Some(Span { first, .. }) = log.pins.span_of(birth) {
            log.deaths.note(run, Span { first, end });
        }
    }
}
