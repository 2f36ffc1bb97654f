//! A damaged volume of engine `shadow`: it is refused, or opened and then used as far as possible;
//! inspected, scrubbed and repaired.
//!
//! The first byte chooses the volume, one at rest or one after a cut, and the operations on it; the
//! rest are patches of its blocks. Each patch damages a chosen live block, and updates checksums up
//! to the superblocks if the patch says so, as an attacker would. Every operation must end, with an
//! answer or an error, and take no more memory than the disk can justify. A volume on which a check
//! finds nothing opens, and a check finds nothing after its use.

pub(super) mod blocks;
mod garden;
mod patch;

use std::rc::Rc;

use block::BlockDevice;
use namespace::Namespace;
use runtime::Runtime;
use shadow::{OpenError, check, look, repair, scrub};
use sim::{Disk, Executor, Image, Prng};
use vfs::{FileSystem, Snapshots};

use super::volume::name;
use super::{Target, disk};
use crate::input::Input;

pub(super) const TARGET: Target =
    Target { name: "shadow", check: use_it, generate, longest: 512, memory: 32 << 20 };

/// The operations on a volume.
const CUT: u8 = 1;
const SCRUBBED: u8 = 2;
const REPAIRED: u8 = 4;
const ONLY_READ: u8 = 8;
const SNAPSHOTS: u8 = 16;
/// Rolls back to a snapshot; no other operation follows.
const BACK: u8 = 32;
/// All calls that clients can make, which takes long.
const WALKED: u8 = BACK | 64;
/// The server is killed instead of stopped.
const KILLED: u8 = 128;

fn use_it(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let image = garden::with(choice & CUT != 0, |garden| {
        let mut image = garden.image.clone();
        while !input.is_empty() {
            patch::apply(garden, &mut image, &mut input);
        }
        image
    });
    all(image, choice);
}

fn all(mut image: Image, choice: u8) {
    let mut is_well = is_well(&mut image);
    if choice & SCRUBBED != 0 {
        let scrubbed = on(&mut image, async |disk, _| scrub(disk, &mut |_| true).await);
        let lost = told(scrubbed).map(|found| found.expect("the disk works").lost);
        let lost = lost.unwrap_or_default();
        assert!(!is_well || lost.is_empty(), "a scrub of a volume that is well: lost: {lost:?}");
    }
    if choice & REPAIRED != 0 && told(on(&mut image, repair)).is_some() {
        let was_well = std::mem::replace(&mut is_well, self::is_well(&mut image));
        assert!(!was_well || is_well, "a repair harmed a volume that was well");
    }
    let is_opened = open(&mut image, choice);
    let may_fail = !is_well || choice & ONLY_READ != 0;
    assert!(is_opened || may_fail, "a volume on which nothing is found opens");
    let now = found(&mut image);
    assert!(!is_well || now == Some(vec![]), "it was well, and is not after it was used: {now:?}");
    open(&mut image, choice & ONLY_READ);
}

/// Runs `work` on a disk with these contents, and updates the contents.
fn on<T>(image: &mut Image, work: impl AsyncFnOnce(Rc<dyn BlockDevice>, Runtime) -> T) -> T {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image.clone());
    let done = executor.block_on(work(disk.clone(), executor.runtime()));
    *image = disk.contents();
    done
}

/// The result, if it is not an error; an error must have a message that says why.
fn told<T>(came: Result<T, OpenError>) -> Option<T> {
    came.map_err(|error| assert!(error.to_string().len() > 10, "{error}")).ok()
}

/// Whether a check finds nothing.
fn is_well(image: &mut Image) -> bool {
    found(image).is_some_and(|found| found.is_empty())
}

/// The findings of a check, if it can run. Also inspects the volume.
fn found(image: &mut Image) -> Option<Vec<String>> {
    let _ = told(on(image, async |disk, _| look(&*disk).await));
    let found = on(image, async |disk, _| check(disk, true, &mut |_, _| ()).await);
    let words: Vec<_> = told(found)?.wrong.iter().map(ToString::to_string).collect();
    assert!(words.iter().all(|words| words.len() > 10), "{words:?}");
    Some(words)
}

/// Opens a volume, and uses it; returns whether it opened.
fn open(image: &mut Image, choice: u8) -> bool {
    on(image, async |disk, runtime| {
        let options = garden::options(choice & ONLY_READ != 0);
        let opened = shadow::open(disk, runtime, &options).await;
        let Some(opened) = told(opened) else { return false };
        let files = Namespace::new(opened);
        let snapshots = files.snapshots().expect("the engine has them");
        if choice & SNAPSHOTS != 0 {
            use_snapshots(snapshots, choice).await;
        }
        if choice & WALKED == WALKED {
            disk::walk::use_all(&files).await;
        } else if choice & BACK != 0 {
            let _ = snapshots.roll_back(&name("second")).await.open().await;
        } else {
            disk::walk::look_at_all(&files).await;
        }
        if choice & KILLED == 0 {
            let _ = files.shutdown().await;
        }
        true
    })
}

/// Makes snapshots, and deletes them.
async fn use_snapshots(snapshots: &dyn Snapshots, choice: u8) {
    let all = snapshots.list().open().await.map(|all| all.into_inner()).unwrap_or_default();
    assert!(all.len() <= 2048, "{} snapshots", all.len());
    let _ = snapshots.pin(&name("new")).await.open().await;
    let mut numbers: Vec<_> = all.iter().map(|(snapshot, _)| snapshot.number).collect();
    for text in ["first", "new"].iter().skip(usize::from(choice & REPAIRED != 0)) {
        if let Ok(gone) = snapshots.delete(&name(text)).await.open().await {
            numbers.extend(gone.into_inner().ok().map(|snapshot| snapshot.number));
        }
    }
    for number in numbers {
        let step =
            async || snapshots.delete_step(number).await.open().await.ok()?.into_inner().ok();
        let mut steps = 0;
        while step().await == Some(false) {
            steps += 1;
            assert!(steps < 1000, "a deletion ends");
        }
    }
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let mut input = vec![prng.next_u64() as u8];
    for _ in 0..1 + prng.below(4) {
        patch::generate(prng, &mut input);
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_without_damage_is_well_whatever_is_done_with_it() {
        for choice in 0..=u8::MAX {
            let mut image = garden::with(choice & CUT != 0, |garden| garden.image.clone());
            assert!(is_well(&mut image), "{choice}");
            all(image, choice);
        }
    }

    /// Sealed damage is not refused because of its checksums, and other damage is.
    #[test]
    fn damage_is_reached_where_it_is_sealed() {
        let mut prng = Prng::new(3);
        let [mut sealed, mut broken] = [[0; 2]; 2];
        for _ in 0..300 {
            let mut patches = Vec::new();
            patch::generate(&mut prng, &mut patches);
            let counts = if patches[4] >= 128 { &mut sealed } else { &mut broken };
            let mut image = garden::with(false, |garden| {
                let mut image = garden.image.clone();
                patch::apply(garden, &mut image, &mut Input::new(&patches));
                image
            });
            counts[usize::from(open(&mut image, 0))] += 1;
        }
        println!("refused and opened: {sealed:?} with checksums that fit, {broken:?} without");
        assert!(sealed.into_iter().chain(broken).all(|count| count > 10));
    }
}
