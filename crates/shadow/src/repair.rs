//! Repairing what a volume at rest, or one that was cut off, has that no cut leaves.
//!
//! What is wrong is changed in memory, and goes out as one update: where that is cut off, the old
//! tree stands. The map is made anew of what trees hold, and counters of what there is. In the live
//! tree a block of inodes that is another goes, and so does what makes no sense as an inode, names
//! of files that are not there, and answers if some of them cannot be read; links are the names
//! that are found.
//!
//! What cannot be made right stays as it is, an error for who reads it: data, and the names in a
//! directory, are never taken for none. A block that the disk cannot read may come back, so nothing
//! is given up for its sake.
//!
//! Commit point: [`Commits::durable`], as that of every update.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use block::BlockDevice;
use directory::chunk;
use directory::entry::{CHUNK_SIZE, EntryHeader};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use runtime::Runtime;
use vfs::{FileKind, FsError};

use crate::check::{Look, nodes_of};
use crate::commit::{Commits, Found};
use crate::format::anchor::Shape;
use crate::format::head::Head;
use crate::format::inode::{Facts, Record};
use crate::format::pointer::{Pointer, Tree, WIDTH};
use crate::format::record::Run;
use crate::format::superblock::Superblock;
use crate::format::{BODY, CHUNKS, FAN, INODES, MAPPED, ROOT};
use crate::nodes::{Node, Nodes, Stem};
use crate::open::{OpenError, believe, choose, find_anchor};
use crate::pins::Pins;
use crate::planted::{Bug, is_planted};
use crate::runs::Unfolded;
use crate::space::Space;
use crate::space_log::Log;

/// Repairs what can be, with one update. The volume is not at rest then: an opening goes on from
/// there.
///
/// # Errors
/// [`OpenError`]; then the volume is as it was.
pub async fn repair(device: Rc<dyn BlockDevice>, runtime: Runtime) -> Result<(), OpenError> {
    let anchor = find_anchor(&*device).await?;
    let (found, at, highest) = choose(&*device, &anchor).await?;
    let shape = anchor.shape;
    let said = &found.snapshots;
    if said.line_slots + said.list_slots > 0 {
        return Ok(()); // what snapshots hold is not known here, and nothing is given up for it
    }
    let nodes = nodes_of(device.clone(), &anchor, &found);
    let root = nodes.get(&Stem::Inodes, 0, ROOT / INODES).await?;
    if root.is_none_or(|root| root.inode(ROOT, Record::facts).is_none()) {
        return Err(OpenError::Damaged("it has no root"));
    }
    let space = used_before(&nodes, shape, &found).await?;
    let superblock = fixed(&nodes, shape, found.clone()).await?;
    believe(&*device, &found, at, &anchor.secret).await?;
    let path = nodes.path.clone();
    let said = superblock.snapshots;
    let log = Log::from(&shape, superblock.log_blocks.start);
    let found = Found {
        anchor,
        superblock,
        at,
        unfolded: Unfolded::default(),
        log,
        pins: Pins::new(&said, BTreeMap::new(), BTreeMap::new()),
    };
    let commits = Commits::new(runtime, nodes, space.clone(), path, found);
    commits.pass_number(highest);
    if !space.has_blocks(0, commits.needs_now(), false) {
        return Err(OpenError::Damaged("nothing of it is free"));
    }
    commits.renew_anchor().await?;
    commits.commit(false).await.map_err(OpenError::of_commit)
}

/// Each unit of a volume.
fn units(shape: &Shape) -> impl Iterator<Item = Run> + use<> {
    (0..shape.units).map(Run::of)
}

/// What trees hold, and what the map says is in use: nothing of it is written over, so that the old
/// tree stands if the update is cut off.
async fn used_before(
    nodes: &Rc<Nodes>,
    shape: Shape,
    superblock: &Superblock,
) -> Result<Rc<Space>, OpenError> {
    let mut silent = |_, _| ();
    let mut old = Look::new(nodes.clone(), shape, false, &mut silent);
    let told = old.told(superblock).await?;
    for stem in [Stem::Map, Stem::Log] {
        old.tree(&stem, false, &mut Vec::new()).await;
    }
    old.files(superblock).await;
    let space = Rc::new(Space::empty(shape));
    let is_used =
        |run: &Run| old.held.has_all(*run) || told.as_ref().is_some_and(|(it, _)| it.has_all(*run));
    let is_kept = |run: &Run| is_used(run) != is_planted(Bug::OverwrittenRepairs);
    for run in units(&shape).filter(|run| shape.may_hold(run) && is_kept(run)) {
        assert!(space.take(run), "each unit once");
    }
    Ok(space)
}

/// Changes what is wrong, in memory, and gives the superblock of that.
async fn fixed(
    nodes: &Rc<Nodes>,
    shape: Shape,
    mut superblock: Superblock,
) -> Result<Superblock, OpenError> {
    drop_wrong(nodes, &Stem::Map, nodes.height(&Stem::Map), 0, WIDTH as u64).await?;
    drop_wrong(nodes, &Stem::Inodes, nodes.height(&Stem::Inodes), 0, WIDTH as u64).await?;
    if drop_wrong(nodes, &Stem::Answers, nodes.height(&Stem::Answers), 0, WIDTH as u64).await? {
        nodes.set_tree(&Stem::Answers, Tree::default());
        superblock.answers_begun = 0;
    }
    nodes.set_tree(&Stem::Log, Tree::default());
    superblock.log_blocks.start = superblock.log_blocks.end; // the map tells all
    clear_senseless(nodes, superblock.next_ino).await;
    let mut silent = |_, _| ();
    let mut look = Look::new(nodes.clone(), shape, false, &mut silent);
    look.files(&superblock).await;
    let gone = look.names.keys().filter(|ino| !look.files.contains_key(ino)).copied().collect();
    drop_names(nodes, &look, &gone).await;
    let mut silent = |_, _| ();
    let mut look = Look::new(nodes.clone(), shape, false, &mut silent);
    look.files(&superblock).await;
    for (&ino, facts) in &look.files {
        let named = look.names.get(&ino).copied().unwrap_or(0);
        let home = nodes.get(&Stem::Inodes, 0, ino / INODES).await.ok().flatten();
        // One without a name stays as it is.
        if let Some(home) = home.filter(|_| named > 0 && named != facts.links) {
            let facts = Facts { links: named, ..facts.clone() };
            home.change(|bytes| Record::of_mut(bytes, ino % INODES).set(&facts));
            nodes.mark(&home);
        }
    }
    make_map(nodes, &mut look).await?;
    superblock.snapshots.nodes = look.nodes_held.0;
    let files = look.files.values();
    superblock.directories = files.filter(|it| it.kind == FileKind::Directory).count() as u64;
    superblock.files = look.files.len() as u64;
    superblock.units = look.files.values().map(|facts| facts.units).sum();
    superblock.chains.retain(|chain| look.files.contains_key(&chain.ino));
    (superblock.record, superblock.records) = (Pointer::NULL, 0);
    Ok(superblock)
}

/// Takes pointers out of a tree that lead to other blocks than they say; says whether there were
/// any.
fn drop_wrong<'s>(
    nodes: &'s Nodes,
    stem: &'s Stem,
    level: u8,
    first: u64,
    count: u64,
) -> LocalBoxFuture<'s, Result<bool, FsError>> {
    async move {
        let mut has_dropped = false;
        for index in first..first + count {
            let Some(parent) = nodes.parent(stem, level, index).await? else { continue };
            match nodes.get(stem, level, index).await {
                Ok(Some(_)) if level > 0 => {
                    has_dropped |= drop_wrong(nodes, stem, level - 1, index * FAN, FAN).await?;
                }
                Ok(_) => {}
                Err(FsError::Corrupt) => {
                    nodes.set_child(&parent, index, Pointer::NULL);
                    nodes.mark_parent(&parent);
                    has_dropped = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(has_dropped)
    }
    .boxed_local()
}

/// Clears what makes no sense as an inode.
async fn clear_senseless(nodes: &Nodes, end: u64) {
    for block in 0..end.div_ceil(INODES) {
        let Ok(Some(home)) = nodes.get(&Stem::Inodes, 0, block).await else { continue };
        for slot in 0..INODES {
            let makes_sense = |record: &Record| record.is_free() || record.facts().is_some();
            if !home.inode(slot, makes_sense) {
                home.change(|bytes| Record::of_mut(bytes, slot).clear());
                nodes.mark(&home);
            }
        }
    }
}

/// Takes the names of files that are not there out of directories.
async fn drop_names(nodes: &Nodes, look: &Look<'_>, gone: &BTreeSet<u64>) {
    let directories = look.files.iter().filter(|(_, it)| it.kind == FileKind::Directory);
    for (&ino, facts) in directories {
        let home = nodes.get(&Stem::Inodes, 0, ino / INODES).await;
        let Ok(Some(home)) = home else { continue };
        let stem = Stem::File(ino, home, ino % INODES);
        for leaf in 0..facts.size.div_ceil(CHUNKS * CHUNK_SIZE as u64) {
            let Ok(Some(node)) = nodes.get(&stem, 0, leaf).await else { continue };
            let places = names_in(&node, gone);
            if !places.is_empty() {
                node.change(|bytes| {
                    places.iter().for_each(|&at| EntryHeader::at_mut(bytes, at).inode.set(0));
                });
                nodes.mark(&node);
            }
        }
    }
}

/// Where in a block of names these files have some.
fn names_in(node: &Node, gone: &BTreeSet<u64>) -> Vec<usize> {
    node.read(|bytes| {
        let starts = (size_of::<Head>()..).step_by(CHUNK_SIZE).take(CHUNKS as usize);
        let of_chunk = |start: usize| {
            let entries = chunk::entries(&bytes[start..start + CHUNK_SIZE]).filter_map(Result::ok);
            let is_one = |it: &chunk::Entry<'_>| {
                it.is_live() && gone.contains(&it.ino.into()) && !matches!(it.name, b"." | b"..")
            };
            entries.filter(is_one).map(|it| start + it.offset).collect::<Vec<_>>()
        };
        starts.flat_map(of_chunk).collect()
    })
}

/// Makes the map anew of what trees hold.
async fn make_map(nodes: &Nodes, look: &mut Look<'_>) -> Result<(), FsError> {
    let shape = *look.held.shape();
    let count = shape.units.div_ceil(MAPPED);
    let (mut map, mut made) = (Vec::new(), Vec::new());
    for leaf in 0..count {
        map.push(nodes.make(&Stem::Map, 0, leaf, &mut made).await?);
    }
    // Where the old ones stand: they are given back by the update itself.
    for level in 0..=nodes.height(&Stem::Map) {
        for index in 0..count.div_ceil(FAN.pow(level.into())) {
            let node = nodes.find(&Stem::Map, level, index);
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
