//! What becomes of images that a cut has left: the volume comes back, is looked at, used, emptied
//! and stopped, and the checker finds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::rc::Rc;

use block::{BlockDevice, Buffer};
use designs::CheckOptions;
use futures::FutureExt;
use journal::format::SLOTS;
use sim::{Digest, Executor, Image, PAGE_SIZE, SECTOR_SIZE};
use ufs2::layout::{SUPERBLOCK_ADDRESS, Superblock};
use vfs::ObjectId;

use super::Before;
use super::alike::Looked;
use super::control;
use super::design::Design;
use super::device::Device;
use super::disks::{Disks, Images, Recording};
use super::driver::Driver;
use super::law::only_leaks;
use super::model::{Held, Shown, View, What};
use super::noted::Notes;
use super::ram::Ram;
use super::server::{Server, handle};
use crate::calls;

/// The world in which clients come back to images: the same for all.
pub const SEED: u64 = 1;
/// Bytes of a mark in a superblock, and more.
const MARK: usize = 64;

/// The world in which an image is brought back. Equal images have equal outcomes, so it follows
/// from the image. But a boot draws numbers that no other may draw, that of a log's epoch for one:
/// after a return that was cut it has to be another world. So it follows from where a boot leaves
/// them, which are few bytes: images that differ elsewhere are brought back in the same world.
pub(super) fn seed(design: Design, images: &Images) -> u64 {
    if design.device() != Device::Plain && design.is_ufs2() {
        return images.fingerprint() as u64; // it is in a log that may lie anywhere
    }
    if design.device() != Device::Plain {
        let lost = images.0.iter().position(|image| image.size() == 0);
        let mut digest = Digest::new(SEED); // of sets no return is cut
        digest.add(lost.map_or(0, |disk| disk as u64 + 1));
        return digest.value();
    }
    if !design.is_ufs2() {
        let last = shadow::look(&Ram::new(images.volume().clone())).now_or_never();
        let update = last.expect("nothing takes time").map(|seen| seen.update);
        return update.map_or(images.fingerprint() as u64, |update| {
            let mut digest = Digest::new(SEED);
            digest.add(update);
            digest.value()
        });
    }
    let slots = if design.has_beside() { &SLOTS[..] } else { &[] };
    let slots = slots.iter().map(|&slot| (&images.0[1], slot, SECTOR_SIZE));
    let mark = SUPERBLOCK_ADDRESS + offset_of!(Superblock, last_mount) as u64;
    let mut digest = Digest::new(SEED);
    for (image, offset, length) in slots.chain([(images.volume(), mark, MARK)]) {
        let mut bytes = vec![0; length];
        image.read(offset, &mut bytes);
        digest.add_bytes(&bytes);
    }
    digest.value()
}

/// An image as who brings it back sees it, and the world in which that is done. Of a set it is what
/// the set shows, of some pages or of all; none if it shows nothing, or if every image has a world
/// of its own.
pub(super) fn told_apart(
    design: Design,
    images: &Images,
    pages: Option<&BTreeSet<u64>>,
) -> Option<(Images, u64)> {
    let world = seed(design, images);
    if design.device() == Device::Plain {
        return Some((images.clone(), world));
    }
    if design.is_ufs2() {
        return None;
    }
    let executor = Executor::new(world);
    let shown = executor.block_on(async {
        let disks = design.stack(devices(&Ram::all(images)), &executor.runtime()).await.ok()?;
        Some(match pages {
            None => content_of(&*disks.volume).await,
            Some(pages) => pages_of(&*disks.volume, pages).await,
        })
    });
    Some((Images(vec![shown?]), world))
}

/// What a client sees that comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// All names.
    pub view: View,
    /// What handles name, by the numbers of files in the view.
    pub ids: Vec<ObjectId>,
    /// What snapshots show.
    pub held: Held<Shown>,
    /// A file that is made then.
    pub made: ObjectId,
    /// The verifier of this boot.
    pub verifier: [u8; 8],
}

/// Brings a volume back and gives what can be seen. `before` are files that were there before the
/// workload: their handles are still around.
///
/// # Errors
/// What went wrong, on the way or afterwards.
pub fn recover(design: Design, images: &Images, before: &Before) -> Result<Recovered, String> {
    recover_noting(design, images, before).map(|(recovered, _)| recovered)
}

/// The same, with the pages of the image that were read, if all follows from these.
///
/// # Errors
/// As [`recover`].
pub(super) fn recover_noting(
    design: Design,
    images: &Images,
    before: &Before,
) -> Result<(Recovered, Option<Looked>), String> {
    let executor = Executor::new(seed(design, images));
    let rams = Ram::all(images);
    let notes = Notes::default();
    let of = (images, &rams[..], &notes);
    let (recovered, is_compared) = bring_back(design, &executor, of, before)?;
    let report = executor.block_on(async {
        let runtime = executor.runtime();
        let disks =
            design.stack(devices(&rams), &runtime).await.map_err(|error| error.to_string())?;
        let volume = notes.of(disks.volume);
        let report = design.check(&volume, &runtime, &CheckOptions::default()).await;
        report.map_err(|error| error.to_string())
    });
    let report = report.map_err(|error| format!("it cannot be checked: {error}"))?;
    match report.findings.list.first() {
        None if is_compared => Ok((recovered, None)),
        None if design.device() == Device::Plain => Ok((recovered, Some(rams[0].looked().into()))),
        None => Ok((recovered, notes.looked())),
        Some(finding) => Err(format!("emptied and stopped, it is not well: {finding}")),
    }
}

/// Opens a volume, looks at it, uses, empties and stops it. Says as well whether more of its image
/// mattered than what was read of it.
fn bring_back(
    design: Design,
    executor: &Executor,
    (images, rams, notes): (&Images, &[Rc<Ram>], &Notes),
    before: &Before,
) -> Result<(Recovered, bool), String> {
    executor.block_on(async {
        let failed = |error| format!("it does not come back: {error}");
        let mut disks = design.stack(devices(rams), &executor.runtime()).await.map_err(failed)?;
        disks.volume = notes.of(disks.volume);
        let volume = disks.volume.clone();
        let opened = design.open_stack(disks, executor.runtime()).await.map_err(failed)?;
        let (reclaims, engine) = (opened.reclaims, opened.engine);
        if let Some(report) = &opened.rebuilt {
            let (left, now) = if design.device() == Device::Plain {
                (images.volume().clone(), rams[0].image())
            } else {
                let left = devices(&Ram::all(images));
                let left = design.stack(left, &executor.runtime()).await.map_err(failed)?;
                (content_of(&*left.volume).await, content_of(&*volume).await)
            };
            only_leaks(design, &left, &now, report)?;
        }
        let server = Server::new(executor.runtime(), opened.files);
        let driver = Driver::new(server.witness.clone());
        let seen = driver.view().await.map_err(|error| format!("it cannot be read: {error}"))?;
        let (mut view, ids) = seen;
        let unread = |error| format!("a snapshot cannot be read: {error}");
        let held = driver.held().await.map_err(unread)?;
        // Half of the images are used while what a cut left is looked for.
        let waits = images.fingerprint().is_multiple_of(2);
        let none = Before::default();
        let mut handles = before;
        if reclaims {
            lower_links(&mut view); // they may be too high until reclaim is through
            if waits {
                engine.wait_for_reclaim().await;
            } else {
                handles = &none; // and files without a name may be there
            }
        }
        let probe = driver.probe().await.map_err(|error| format!("nothing is made: {error}"))?;
        let committed = server.ask(&calls::commit(&handle(probe))).await?;
        let verifier = committed.unwrap().verf.0;
        let all = held.values().flat_map(|(_, ids)| ids).chain(&ids).copied();
        driver.use_and_empty(&view, &all.collect::<Vec<_>>(), handles, probe).await?;
        if driver.held().await.map_err(unread)? != held {
            return Err("what a snapshot holds has changed".to_owned());
        }
        // In half of the worlds; in the others the checker sees what they hold.
        if executor.seed().is_multiple_of(2) {
            control::delete_all(&*server.witness).await?;
        }
        driver.stop().await.map_err(|error| format!("it does not stop: {error}"))?;
        if !engine.wait_for_reclaim().await {
            return Err("reclaim cannot go on".to_owned());
        }
        let recovered = Recovered { view, ids, held, made: probe, verifier };
        Ok((recovered, opened.rebuilt.is_some() || reclaims))
    })
}

fn devices(rams: &[Rc<Ram>]) -> Vec<Rc<dyn BlockDevice>> {
    rams.iter().map(|ram| ram.clone() as _).collect()
}

/// What is on a volume.
async fn content_of(volume: &dyn BlockDevice) -> Image {
    let room = Buffer::zeroed(volume.geometry().size as usize);
    Image::from_bytes(&volume.read(0, room).await.expect("nothing fails here"))
}

/// What is on some pages of it, and nothing elsewhere.
async fn pages_of(volume: &dyn BlockDevice, pages: &BTreeSet<u64>) -> Image {
    let mut image = Image::zeroed(volume.geometry().size);
    for at in pages.iter().map(|page| page * PAGE_SIZE as u64) {
        let read = volume.read(at, Buffer::zeroed(PAGE_SIZE)).await;
        image.write(at, &read.expect("nothing fails here"));
    }
    image
}

/// Has what counts too many links count as many as it has names.
fn lower_links(view: &mut View) {
    let mut names: BTreeMap<usize, u32> = BTreeMap::new();
    for (path, seen) in &*view {
        *names.entry(seen.file).or_default() += 1;
        if seen.what == What::Directory {
            let above = path.rsplit_once('/').and_then(|(above, _)| view.get(above));
            *names.entry(seen.file).or_default() += 1; // its "."
            above.into_iter().for_each(|above| *names.entry(above.file).or_default() += 1);
        }
    }
    view.values_mut().for_each(|seen| seen.links = seen.links.min(names[&seen.file]));
}

/// What a return writes: to be cut again.
///
/// # Errors
/// When the volume does not come back.
pub fn record(design: Design, images: &Images) -> Result<Recording, String> {
    let executor = Executor::new(seed(design, images));
    let disks = Disks::new(&executor, images);
    disks.start_recording();
    let opened = executor.block_on(design.open(disks.devices(), executor.runtime()));
    opened.map_err(|error| format!("it does not come back: {error}"))?;
    Ok(disks.recording())
}

#[cfg(test)]
mod tests {
    use super::super::base;
    use super::*;

    #[test]
    fn a_return_after_another_one_is_in_another_world() {
        for design in Design::all() {
            let (mut images, _) = base(design);
            let mut seeds = Vec::new();
            for _ in 0..3 {
                seeds.push(seed(design, &images));
                let recording = record(design, &images).expect("it comes back");
                let last = recording.cuts().last().expect("there is a last moment");
                images = last.whole();
            }
            seeds.sort_unstable();
            seeds.dedup();
            assert_eq!(seeds.len(), 3, "{design:?}: {seeds:?}");
            assert_eq!(seed(design, &images), seed(design, &images.clone()));
        }
    }
}
