//! Recovers images that a cut has left: the volume is opened, read, used, emptied and stopped, and
//! the checker finds nothing.

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

/// The seed of the world in which clients reconnect to images: the same for all.
pub const SEED: u64 = 1;
/// Bytes of a superblock that contain the mark of the last mount.
const MARK: usize = 64;

/// The world in which an image is recovered. Equal images have equal outcomes, so it depends on the
/// image. But a boot draws numbers that must not repeat, such as a log's epoch: after a cut
/// recovery the world must be another. So it depends on the few bytes where a boot stores them:
/// images that differ elsewhere are recovered in the same world.
pub(super) fn seed(design: Design, images: &Images) -> u64 {
    if design.device() != Device::Plain && design.is_ufs2() {
        return images.fingerprint() as u64; // the bytes are in a log that may lie anywhere
    }
    if design.device() != Device::Plain {
        let lost = images.0.iter().position(|image| image.size() == 0);
        let mut digest = Digest::new(SEED); // no recovery of a set is cut
        digest.add(lost.map_or(0, |disk| disk as u64 + 1));
        return digest.value();
    }
    if !design.is_ufs2() {
        let volume = Ram::new(images.volume().clone());
        let look = async {
            match shadow::look(&volume).await {
                Ok(seen) => Some(seen.update),
                Err(_) => lfs::look(&volume).await.ok().map(|seen| seen.checkpoint),
            }
        };
        let update = look.now_or_never().expect("nothing takes time");
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

/// An image as its recovery sees it, and the world of the recovery. For a set it is the set's
/// contents, of some pages or of all; `None` if the set cannot be opened, or if every image has a
/// world of its own.
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

/// The state that a reconnecting client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// All names.
    pub view: View,
    /// The ids in handles, by the numbers of files in the view.
    pub ids: Vec<ObjectId>,
    /// The contents of snapshots.
    pub held: Held<Shown>,
    /// A new file, made after the recovery.
    pub made: ObjectId,
    /// The verifier of this boot.
    pub verifier: [u8; 8],
}

/// Recovers a volume and returns its contents. `before` are files that existed before the workload:
/// clients still hold their handles.
///
/// # Errors
/// The failure, during the recovery or afterwards.
pub fn recover(design: Design, images: &Images, before: &Before) -> Result<Recovered, String> {
    recover_noting(design, images, before).map(|(recovered, _)| recovered)
}

/// The same, with the pages of the image that were read, if the result depends on these alone.
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

/// Opens a volume, reads it, uses, empties and stops it. Also returns whether the result depended
/// on more of the image than the recorded reads.
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
        // Half of the images are used while the background check still runs.
        let waits = images.fingerprint().is_multiple_of(2);
        let none = Before::default();
        let mut handles = before;
        if reclaims {
            lower_links(&mut view); // they may be too high until reclaim is through
            if waits {
                engine.wait_for_reclaim().await;
            } else {
                handles = &none; // and there may be files without a name
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
        // In half of the worlds; in the others the checker sees the snapshots.
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

/// The contents of a volume.
async fn content_of(volume: &dyn BlockDevice) -> Image {
    let room = Buffer::zeroed(volume.geometry().size as usize);
    Image::from_bytes(&volume.read(0, room).await.expect("nothing fails here"))
}

/// The contents of some pages of a volume, and zeros elsewhere.
async fn pages_of(volume: &dyn BlockDevice, pages: &BTreeSet<u64>) -> Image {
    let mut image = Image::zeroed(volume.geometry().size);
    for at in pages.iter().map(|page| page * PAGE_SIZE as u64) {
        let read = volume.read(at, Buffer::zeroed(PAGE_SIZE)).await;
        image.write(at, &read.expect("nothing fails here"));
    }
    image
}

/// Sets link counts that are too high to the number of names.
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

/// Records the writes of a recovery, so that it can be cut.
///
/// # Errors
/// When the volume does not recover.
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
