//! Volumes of version 3, which have no second copies: they can be read, and get the present version
//! with the first write. `golden/3` has the volumes that programs of that version made by the
//! history of [`golden`](crate::golden).

use enginekit::snapshots::{delete, roll_back};
use shadow::format::anchor::Anchor;
use shadow::format::kind;
use sim::{Choice, Disk, Executor, Image, Prng, sparse};
use vfs::FileSystem;

use crate::bench::{findings, opened};
use crate::copies::last;
use crate::golden::{NAMES, path, told};
use crate::mended::on;
use crate::repair::repaired;
use crate::scrub::{UNIT, unit_of};

fn kept() -> [Image; 2] {
    NAMES.map(|name| {
        let text = std::fs::read_to_string(path("3").join(name));
        sparse::read(&text.expect("it is kept")).remove(0)
    })
}

/// Versions of the whole anchors.
fn anchors(image: &Image) -> Vec<u16> {
    let units = image.size() / UNIT;
    let read = [0, 1, units - 2, units - 1].map(|unit| Anchor::read(&unit_of(image, unit)));
    read.into_iter().filter_map(|read| Some(read.ok()?.version)).collect()
}

/// Whether there is a superblock that programs of version 3 do not know.
fn has_new_superblock(image: &Image) -> bool {
    let is_one = |unit: u64| {
        let block = unit_of(image, unit);
        block.starts_with(b"DuSh") && block[4] == 4 && block[6] == kind::SUPERBLOCK.byte()
    };
    (32..image.size() / UNIT - 2).any(is_one)
}

#[test]
fn a_volume_of_version_3_has_what_it_had_and_gets_both_copies() {
    let images = kept();
    let right = std::fs::read_to_string(path("told")).expect("it is kept");
    for (name, image) in NAMES.into_iter().zip(&images) {
        assert_eq!(findings(image), Ok(()), "{name}");
        assert_eq!((anchors(image), last(image).inodes.twin), (vec![3; 4], 0), "{name}");
        let (after, ()) = on(image, async |_| Ok(())).expect("it opens");
        assert_eq!(findings(&after), Ok(()), "{name}");
        assert_eq!(anchors(&after), [4; 4], "{name}: a program of version 3 refuses it");
        assert!(last(&after).inodes.twin > 0, "{name}");
        let (mended, _) = repaired(image).expect("nothing is wrong");
        assert_eq!(findings(&mended), Ok(()), "{name}");
        assert!(last(&mended).inodes.twin > 0, "{name}");
    }
    assert_eq!(told(&images), Ok(right));
}

/// Snapshots of version 3 have single copies: the volume goes back to one, and both copies come
/// with the next opening.
#[test]
fn snapshots_of_version_3_are_gone_back_to_and_deleted() {
    for image in kept() {
        let (back, ()) = on(&image, async |volume| roll_back(volume, "two").await.map(drop))
            .expect("it is the newest");
        assert_eq!((findings(&back), last(&back).inodes.twin), (Ok(()), 0));
        let (after, ()) = on(&back, async |volume| {
            delete(volume, "one", true).await?;
            delete(volume, "two", true).await.map(drop)
        })
        .expect("both are there");
        assert_eq!(findings(&after), Ok(()));
        assert!(last(&after).inodes.twin > 0);
    }
}

/// Wherever the first opening is cut off, everything is there; and if there is a superblock of the
/// present version, no anchor is left by which a program of version 3 would go back behind it.
#[test]
fn a_first_opening_may_be_cut_off() {
    for image in kept() {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, image.clone());
        disk.start_trace();
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.expect("it is well");
            volume.lookup(volume.files.root(), "directory").await.expect("it is there");
        });
        let trace = disk.trace();
        for position in 0..=trace.events().len() {
            for seed in 0..8 {
                let platter = trace.platter_at(position);
                let mut prng = Prng::new(position as u64 * 100 + seed);
                let left = platter.image(&Choice::random(&platter, &mut prng));
                let is_new = has_new_superblock(&left);
                assert!(!is_new || !anchors(&left).contains(&3), "event {position}");
                let (after, ()) = on(&left, async |volume| {
                    let found = volume.lookup(volume.files.root(), "directory").await;
                    found.map(drop).map_err(|error| error.to_string())
                })
                .expect("it opens");
                assert_eq!(findings(&after), Ok(()), "event {position}");
            }
        }
    }
}
