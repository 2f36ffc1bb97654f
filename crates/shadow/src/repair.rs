//! Repairing a volume at rest, or one that was cut off, of damage that no cut leaves.
//!
//! Wrong blocks are changed in memory, and go out as one update: if that is cut off, the old tree
//! stays. The map and the dead lists are rebuilt from the blocks that trees hold, and counters from
//! the files that exist. The live tree loses blocks of inodes that are other blocks, inodes that
//! make no sense, names of missing files, and all replies if some of them cannot be read; link
//! counts are those of the names found. Data in units that something else holds gets a place of its
//! own, or is removed.
//!
//! The tree of a snapshot has the files of its time, and stays as it is: reads of its lost blocks
//! fail, and the rest is readable. A snapshot without its line, or its root, is gone.
//!
//! A directory continues without a lost block of names, and files without a name get one in
//! `/lost+found` ([`cow::homeless`]).
//!
//! Damage that cannot be repaired stays, and reads of it fail: unreadable data is never taken for a
//! hole. A block that the disk cannot read may come back, so nothing is given up for its sake.
//!
//! Commit point: [`Commits::durable`], as for every update.

use std::collections::BTreeMap;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use cow::dropped::{clear_senseless, drop_all_wrong, drop_names};
use cow::format::head;
use cow::format::inode::{Facts, Record};
use cow::format::snapshot::{LINES, Line, Snapshots, State, Told, is_empty};
use cow::homeless::Homeless;
use cow::mend::mend;
use cow::{
    BODY, FAN, Head, INODES, NUMBERS, Occupied, Pins, Pointer, Run, Span, Stem, Tree, UNIT, Which,
    coalesced, sum,
};
use runtime::{Runtime, Timestamp};
use vfs::FsError;

use crate::anchors::find_anchor;
use crate::belief::{Chosen, believe, choose};
use crate::books::read_answers;
use crate::check::{Count, Look, ROUNDS, nodes_of};
use crate::commit::{Commits, Found};
use crate::error::OpenError;
use crate::format::MAPPED;
use crate::format::anchor::Shape;
use crate::format::record::Change;
use crate::format::superblock::{MOST_RESERVE, Superblock};
use crate::new_root::{LostWay, has_root};
use crate::planted::{Bug, is_planted};
use crate::runs::Unfolded;
use crate::space::Space;
use crate::space_log::Log;
use crate::units::{MAP, Nodes};

/// Repairs a volume as far as possible, with one update. The volume is not at rest afterwards: an
/// opening continues from there.
///
/// # Errors
/// [`OpenError`]; then the volume is as it was.
pub async fn repair(device: Rc<dyn BlockDevice>, runtime: Runtime) -> Result<(), OpenError> {
    let anchor = find_anchor(&*device).await?;
    let Chosen { superblock: found, at, highest, mended } = choose(&*device, &anchor).await?;
    let shape = anchor.shape;
    if !found.snapshots.makes_sense(shape.units) {
        return Err(OpenError::Damaged("what is told of snapshots makes no sense"));
    }
    let old = nodes_of(device.clone(), &anchor, &found);
    let Before { space, unfolded, strays } = used_before(&old, shape, &found).await?;
    let has_answers = has_answers(&old, &shape, &found).await?;
    let bare = bare(found.clone(), has_answers);
    let nodes = nodes_of(device.clone(), &anchor, &bare);
    nodes.mend_copies(&Stem::Inodes).await;
    if !has_root(&nodes, &Stem::Inodes).await? {
        let mut silent = |_, _| ();
        let mut look = Look::new(old, shape, false, &mut silent);
        let (snapshots, dead) = look.held_alone(&found, &unfolded).await;
        let (nodes, superblock, space) = (&nodes, &found, &*space);
        LostWay { nodes, superblock, space, snapshots, dead }.make_way(&runtime).await?;
    }
    let next = highest + 1;
    drop_all_wrong(&nodes, &[MAP, Stem::Answers, Stem::Inodes, Stem::Snapshots]).await?;
    clear_senseless(&nodes).await;
    // Copies go where the trees of that superblock have no blocks, though earlier ones may.
    if highest != anchor.rest && !is_planted(Bug::EarlyCopies) {
        believe(&*device, (&found, at), &mended, &anchor.secret).await?;
    }
    part(&nodes, &space, strays, next).await?;
    let Fixed { superblock, pins, unfolded } =
        fixed(&nodes, shape, bare, unfolded.answers, runtime.clock.wall()).await?;
    let path = nodes.path.clone();
    let log = Log::from(&shape, superblock.log_blocks.start);
    let found = Found { anchor, superblock, at, unfolded, log, pins };
    let commits = Commits::new(runtime, nodes, space.clone(), path, found);
    commits.pass_number(highest);
    commits.root_twice().await?;
    commits.fold(true).await?;
    if !space.has_blocks(0, commits.needs_now(), false) {
        return Err(OpenError::Damaged("nothing of it is free"));
    }
    commits.renew_anchor().await?;
    commits.commit(false).await.map_err(OpenError::of_commit)
}

/// Whether all replies can be read. Otherwise all are forgotten.
async fn has_answers(
    nodes: &Nodes,
    shape: &Shape,
    superblock: &Superblock,
) -> Result<bool, OpenError> {
    match read_answers(nodes, shape, superblock, &Unfolded::default()).await {
        Ok(_) => Ok(true),
        Err(OpenError::Failed(FsError::Corrupt) | OpenError::Damaged(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A superblock without lists and space log: they are rebuilt, or not needed. The trees that are
/// removed from it have not been changed.
fn bare(mut superblock: Superblock, has_answers: bool) -> Superblock {
    let none = Tree::default();
    let snapshots =
        Snapshots { lists: none, died: none, list_slots: 0, died_slots: 0, ..superblock.snapshots };
    if !has_answers {
        (superblock.answers, superblock.answers_begun, superblock.answers_from) = (none, 0, 0);
    }
    if superblock.reserve > MOST_RESERVE {
        superblock.reserve = 0;
    }
    Superblock { snapshots, log: none, log_blocks: 0..0, ..superblock }
}

/// All units of a volume.
fn units(shape: &Shape) -> impl Iterator<Item = Run> + use<> {
    (0..shape.units).map(Run::of)
}

/// The volume before the repair.
struct Before {
    /// Units that trees hold, or that the map has in use: none of them is overwritten, so that the
    /// old tree stays if the update is cut off.
    space: Rc<Space>,
    /// Contents of the records, as far as they are known.
    unfolded: Unfolded,
    /// Blocks of data in units that something else holds, by file and index.
    strays: BTreeMap<(u64, u64), Run>,
}

async fn used_before(
    nodes: &Rc<Nodes>,
    shape: Shape,
    superblock: &Superblock,
) -> Result<Before, OpenError> {
    let mut silent = |_, _| ();
    let mut old = Look::new(nodes.clone(), shape, false, &mut silent);
    let mut rounds = 1..ROUNDS;
    let (told, unfolded) = loop {
        let told = old.told(superblock).await;
        old.trees(superblock).await;
        if old.has_unread {
            return Err(OpenError::Unread);
        }
        if !old.has_claims() || rounds.next().is_none() {
            break told.unzip();
        }
        old = old.again();
    };
    let space = Rc::new(Space::empty(shape));
    let is_used =
        |run: &Run| old.held.has_all(*run) || told.as_ref().is_some_and(|it| it.has_all(*run));
    let is_kept = |run: &Run| is_used(run) != is_planted(Bug::OverwrittenRepairs);
    for run in units(&shape).filter(|run| shape.may_hold(run) && is_kept(run)) {
        assert!(space.take(run), "each unit once");
    }
    let claimed = old.claimed.iter().chain(&old.claims).map(|&unit| Run::of(unit));
    for unit in old.strays.values().flat_map(|run| run.units()).chain(claimed) {
        let _is_new = space.take(unit); // it is read before anything goes there
    }
    Ok(Before { space, unfolded: unfolded.unwrap_or_default(), strays: old.strays })
}

/// Gives files blocks of their own where they share units with something else. If two files share a
/// block, nothing shows whose it is: one of them gets a copy, which is as right as the other, or as
/// wrong. A block of metadata identifies its owner: then the file gets a hole.
async fn part(
    nodes: &Nodes,
    space: &Space,
    strays: BTreeMap<(u64, u64), Run>,
    next: u64,
) -> Result<(), OpenError> {
    for &(ino, lbn) in strays.keys() {
        let (block, slot) = (ino / INODES, ino % INODES);
        let Ok(Some(home)) = nodes.get(&Stem::Inodes, 0, block).await else { continue };
        let Some(facts) = home.inode(slot, Record::facts) else { continue };
        let stem = Stem::File(ino, home.clone(), slot);
        let Ok(Some(parent)) = nodes.parent(&stem, 0, lbn).await else { continue };
        let old = nodes.child_of(&parent, lbn);
        let own = match copied(nodes, space, old).await? {
            Some(address) => Pointer::new(address, next, old.sum.get()),
            None => {
                let units = facts.units.saturating_sub(space.shape().block);
                home.change(|bytes| Record::of_mut(bytes, slot).set(&Facts { units, ..facts }));
                nodes.mark(&home);
                Pointer::NULL
            }
        };
        nodes.set_child(&parent, lbn, own);
        nodes.mark_parent(&parent);
    }
    Ok(nodes.path.device().flush().await?)
}

/// Copies a block of data; none if it is metadata, or at no possible place.
async fn copied(nodes: &Nodes, space: &Space, old: Pointer) -> Result<Option<u64>, OpenError> {
    let run = Run { start: old.address.get(), length: space.shape().block };
    if !space.shape().may_hold(&run) {
        return Ok(None);
    }
    let device = nodes.path.device();
    let room = Buffer::unfilled(run.length as usize * UNIT);
    let mut data = device.read(old.offset(), room).await.map_err(|_| OpenError::Unread)?;
    if sum(&data) != old.sum.get()
        && let Some(mended) = mend(&**device, old.offset(), old.sum.get(), run.length).await
    {
        data = mended;
    }
    if data.chunks(UNIT).any(|unit| head::secret(unit) == *nodes.secret()) {
        return Ok(None);
    }
    let own = space.take_blocks(1).ok_or(OpenError::Full)?[0].start;
    device.write(own * UNIT as u64, vec![data.freeze()], Durability::Plain).await?;
    Ok(Some(own))
}

/// The repaired volume, in memory.
struct Fixed {
    superblock: Superblock,
    pins: Pins,
    /// Dead runs, from which lists are made.
    unfolded: Unfolded,
}

/// Repairs the volume in memory.
async fn fixed(
    nodes: &Rc<Nodes>,
    shape: Shape,
    mut superblock: Superblock,
    answers: Vec<Rc<[u8]>>,
    now: Timestamp,
) -> Result<Fixed, OpenError> {
    let mut silent = |_, _| ();
    let mut look = Look::new(nodes.clone(), shape, false, &mut silent);
    look.live(&superblock).await;
    let is_file = |ino: &u64| look.says.files.contains_key(ino);
    let gone = look.says.names.keys().filter(|ino| !is_file(ino)).copied().collect();
    drop_names(nodes, &look.says.directories(), &gone).await;
    let homeless = Homeless { nodes, now };
    let mut look = Look::new(nodes.clone(), shape, false, &mut silent);
    look.live(&superblock).await;
    homeless.empty_lost_blocks(&look.census(&superblock)).await?;
    let mut silent = |_, _| ();
    let mut look = Look::new(nodes.clone(), shape, false, &mut silent);
    look.live(&superblock).await;
    let mut census = look.census(&superblock);
    census.homeless.retain(|_| !is_planted(Bug::ForgottenHomeless));
    homeless.name_all(&census).await?;
    let slots = &mut superblock.snapshots.line_slots;
    let end = slots.div_ceil(LINES);
    if let Some(block) = nodes.leaf_from(&Stem::Snapshots, None, end, Which::Last).await {
        *slots = (block + 1) * LINES; // the lines there are as good as the others
    }
    let pins = look.pins(&superblock.snapshots).await;
    let all = kept_snapshots(nodes, &mut superblock.snapshots, &pins).await?;
    let mut silent = |_, _| ();
    let mut look = Look::new(nodes.clone(), shape, false, &mut silent);
    look.tree(&Stem::Snapshots).await;
    look.live(&superblock).await;
    count_live(nodes, &look, &mut superblock).await;
    let pins = Pins::new(&superblock.snapshots, all, BTreeMap::new(), Occupied::default());
    look.held(&pins).await;
    let all = counted(nodes, &look, &pins).await?;
    if look.has_unread {
        return Err(OpenError::Unread);
    }
    make_map(nodes, &mut look).await?;
    (superblock.record, superblock.records) = (Pointer::NULL, 0);
    let pins = Pins::new(&superblock.snapshots, all, BTreeMap::new(), Occupied::default());
    Ok(Fixed { superblock, pins, unfolded: dead(&look, answers) })
}

/// The runs that snapshots alone hold, in the form of records, and the replies of the old records.
fn dead(look: &Look<'_>, answers: Vec<Rc<[u8]>>) -> Unfolded {
    let mut died: BTreeMap<Span, Vec<Run>> = BTreeMap::new();
    look.died.values().for_each(|&(span, run)| died.entry(span).or_default().push(run));
    let of_span = |(span, runs)| {
        coalesced(runs).into_iter().map(move |run| Change::Died(run, span)).collect::<Vec<_>>()
    };
    let mut unfolded = Unfolded::default();
    unfolded.extend(died.into_iter().flat_map(of_span).collect(), answers);
    unfolded
}

/// Counts the files of the live tree, their links, and the rest.
async fn count_live(nodes: &Nodes, look: &Look<'_>, superblock: &mut Superblock) {
    let shape = look.held.shape();
    let orphans = look.chains(&superblock.chains).iter().map(|chain| chain.ino).collect();
    let of_orphans = look.says.named_by_orphans(&orphans);
    for (&ino, known) in &look.says.files {
        let named = look.says.names.get(&ino).copied().unwrap_or(0);
        let named = named.saturating_sub(of_orphans.get(&ino).copied().unwrap_or(0));
        let is_orphan = known.links == 0 && orphans.contains(&ino);
        // A file without a name stays as it is.
        let links = if is_orphan || named == 0 { known.links } else { named };
        let units = known.likely_units(shape);
        if (links, units) == (known.links, known.units) {
            continue;
        }
        let home = nodes.get(&Stem::Inodes, 0, ino / INODES).await.ok().flatten();
        if let Some(home) = home
            && let Some(facts) = home.inode(ino % INODES, Record::facts)
        {
            let facts = Facts { links, units, ..facts };
            home.change(|bytes| Record::of_mut(bytes, ino % INODES).set(&facts));
            nodes.mark(&home);
        }
    }
    let Count { files, directories, nodes, pinned, .. } = look.says.count;
    let units = look.says.files.values().map(|known| known.likely_units(shape)).sum();
    (superblock.files, superblock.directories, superblock.units) = (files, directories, units);
    (superblock.snapshots.nodes, superblock.snapshots.pinned) = (nodes, pinned);
    superblock.chains = look.chains(&superblock.chains);
    let last = look.says.files.last_key_value().map_or(0, |(&last, _)| last);
    let said = Some(superblock.next_ino).filter(|&next| next <= NUMBERS).unwrap_or(0);
    superblock.next_ino = said.max((last + 1).next_multiple_of(INODES));
}

/// The snapshots that stay, with the slots of their lines: those that make sense and have a root.
/// The lines of others are freed.
async fn kept_snapshots(
    nodes: &Rc<Nodes>,
    said: &mut Snapshots,
    pins: &Pins,
) -> Result<BTreeMap<u64, (Told, u64)>, OpenError> {
    let mut kept = BTreeMap::new();
    for (number, (told, slot)) in pins.lines() {
        let inodes = Stem::Pinned(Rc::new(told.inodes));
        if told.state == State::Gone || has_root(nodes, &inodes).await? {
            nodes.mend_copies(&inodes).await;
            kept.insert(number, (told, slot));
        }
    }
    for block in 0..said.line_slots.div_ceil(LINES) {
        let Some(lines) = nodes.get(&Stem::Snapshots, 0, block).await? else { continue };
        let is_wrong = |slot: &u64| match lines.read(|bytes| Line::read(bytes, *slot)) {
            Ok(told) => told.is_some_and(|told| kept.get(&told.number) != Some(&(told, *slot))),
            Err(()) => true,
        };
        let wrong: Vec<u64> = (block * LINES..(block + 1) * LINES).filter(is_wrong).collect();
        if !wrong.is_empty() {
            lines.change(|bytes| wrong.iter().for_each(|&slot| Line::write(bytes, slot, None)));
            nodes.mark(&lines);
        }
        if lines.read(is_empty) {
            nodes.remove_way(&lines);
        }
    }
    said.line_slots = kept.values().map(|(_, slot)| slot + 1).max().unwrap_or(0);
    if kept.is_empty() {
        nodes.clear(&Stem::Snapshots);
    }
    let holding = kept.values().filter(|(told, _)| told.state != State::Gone);
    said.pinned_until = holding.map(|(told, _)| told.update).max().unwrap_or(0);
    Ok(kept)
}

/// The snapshots, with the slots of their lines, whose counts are corrected.
async fn counted(
    nodes: &Rc<Nodes>,
    look: &Look<'_>,
    pins: &Pins,
) -> Result<BTreeMap<u64, (Told, u64)>, OpenError> {
    let mut all = pins.lines();
    for (number, (told, slot)) in &mut all {
        let Some(&Count { files, directories, units, nodes: of_tree, .. }) =
            look.counts.get(number)
        else {
            continue;
        };
        let units = units.min(look.held.shape().units); // else it could not be read again
        let right = Told { files, directories, units, nodes: of_tree, ..told.clone() };
        if right != *told {
            let lines = nodes.get(&Stem::Snapshots, 0, *slot / LINES).await?;
            let lines = lines.ok_or(FsError::Corrupt)?;
            lines.change(|bytes| Line::write(bytes, *slot, Some(&right)));
            nodes.mark(&lines);
            *told = right;
        }
    }
    Ok(all)
}

/// Rebuilds the map from the blocks that trees hold.
async fn make_map(nodes: &Nodes, look: &mut Look<'_>) -> Result<(), FsError> {
    let shape = *look.held.shape();
    let count = shape.units.div_ceil(MAPPED);
    let (mut map, mut made) = (Vec::new(), Vec::new());
    for leaf in 0..count {
        map.push(nodes.make(&MAP, 0, leaf, &mut made).await?);
    }
    // The old blocks stay in use: the update itself frees them.
    for level in 0..=nodes.height(&MAP) {
        for index in 0..count.div_ceil(FAN.pow(level.into())) {
            let node = nodes.find(&MAP, level, index);
            let old = node.map(|node| node.pointer()).filter(|pointer| !pointer.is_null());
            old.iter().for_each(|pointer| {
                look.hold(Run::of(pointer.address.get()), None);
            });
        }
    }
    for (leaf, node) in (0..).zip(&map) {
        node.change(|bytes| {
            let body = &mut bytes[size_of::<Head>()..size_of::<Head>() + BODY];
            body.fill(0);
            let first = leaf * MAPPED;
            for unit in first..(first + MAPPED).min(shape.units) {
                let run = Run::of(unit);
                if shape.may_hold(&run) && look.held.has_all(run) {
                    body[(unit - first) as usize / 8] |= 1 << (unit % 8);
                }
            }
        });
        nodes.mark(node);
    }
    Ok(())
}
