//! Impossible numbers, in blocks that match their checksums: they lead to findings or errors, in a
//! time that depends on the real contents, not on the number.

use cow::Kind;
use cow::format::snapshot::{Died, Line};
use enginekit::Volume;
use enginekit::snapshots::pin;
use shadow::format::anchor::Anchor;
use shadow::format::superblock::Superblock;
use shadow::{Law, Shadow};
use sim::{Disk, Executor, Image};
use vfs::{FileSystem, ObjectId, Requester, Stability};
use vnode::chain::Chain;

use crate::bench::findings;
use crate::forge::forge;
use crate::judged::{found, of_three_trees, units};
use crate::mended::on;
use crate::repair::repaired;
use crate::scrub::{UNIT, unit_of};
use crate::strays::{D, FIRST, LARGE, name, of_files, read_all, units_of_home};

const SIZES: [u64; 4] = [1 << 52, 1 << 60, i64::MAX as u64, u64::MAX];
const PLACES: [u64; 5] = [(1 << 52) - 1, 1 << 52, 1 << 60, u64::MAX - 3, u64::MAX];

/// Byte offsets in an inode: of its size, and of its first pointer.
const SIZE: usize = 28;
const POINTER: usize = 88;
/// Byte offset of its units.
const UNITS: usize = 36;

/// Changes the number at a byte offset of a file's inode.
fn with(image: &Image, file: u64, at: usize, number: u64) -> Image {
    let mut image = image.clone();
    let home = units_of_home(&image, file);
    forge(&mut image, home, |block| {
        let at = 64 + (file % 16) as usize * 252 + at;
        block[at..at + 8].copy_from_slice(&number.to_le_bytes());
    });
    image
}

/// Clients use a file, and its directory, in all ways.
async fn use_all(volume: &Volume<Shadow>, file: u64) -> Result<(), String> {
    let files = &volume.files;
    let root = files.root();
    let told = |error: vfs::FsError| error.to_string();
    let d = volume.lookup(root, "d").await.map_err(told)?;
    let _names = volume.list(d).await;
    let id: ObjectId = volume.lookup(d, &name(file)).await.map_err(told)?;
    let size = volume.attributes(id).await.size;
    for at in [0, 5000, size / 2, size.saturating_sub(100)] {
        let _read = files.read(&Requester::root(), id, at, 4096).await.open().await;
        let _written = volume.write(id, at, vec![1; 100], Stability::FileSync).await;
    }
    for size in [size.saturating_sub(4096), 9000, 100] {
        let _resized = volume.resize(id, size).await;
    }
    let _removed = volume.remove(d, &name(file)).await;
    let _made = volume.create(d, "new").await;
    let _gone = volume.rmdir(root, "d").await;
    let _stopped = volume.files.store().quiesce().await;
    Ok(())
}

/// Nothing panics or runs forever; and a repair keeps all other files.
fn is_met(image: &Image, wrong: &Image, file: u64, laws: &[Law]) -> Result<(), String> {
    let told = found(wrong)?.wrong;
    let has = |law: &Law| told.iter().any(|it| it.law == *law);
    if !laws.iter().all(has) {
        return Err(format!("{told:?}"));
    }
    let _of_callers = on(wrong, async |volume| use_all(volume, file).await);
    let (mended, _) = repaired(wrong)?;
    let left = found(&mended)?.wrong;
    // Files whose names are lost stay.
    if left.iter().any(|it| it.ino.is_none_or(|ino| file != D && ino != file)) {
        return Err(format!("{left:?} are left"));
    }
    let _of_callers = on(&mended, async |volume| use_all(volume, file).await);
    if file == D {
        return Ok(());
    }
    let (_, right) = on(image, async |volume| read_all(volume, file).await)?;
    let (_, now) = on(&mended, async |volume| read_all(volume, file).await)?;
    if now == right { Ok(()) } else { Err("another file is lost".to_owned()) }
}

#[test]
fn sizes_that_no_file_has_cost_nothing() {
    let image = of_files(4);
    for size in SIZES {
        let wrong = with(&image, D, SIZE, size);
        assert_eq!(is_met(&image, &wrong, D, &[Law::Entry]), Ok(()), "{size}");
        for file in [FIRST, LARGE] {
            let wrong = with(&image, file, SIZE, size);
            assert_eq!(is_met(&image, &wrong, file, &[Law::Size]), Ok(()), "{size} of {file}");
        }
    }
}

/// A scrub that finds a loss searches all names.
#[test]
fn a_scrub_of_a_directory_of_any_size_ends() {
    let image = of_files(4);
    for size in [1 << 62, u64::MAX] {
        let mut wrong = with(&image, D, SIZE, size);
        let is_data = |unit: &u64| unit_of(&wrong, *unit) == [FIRST as u8; 4096];
        let data = (32..wrong.size() / UNIT - 2).find(is_data).expect("it is there");
        wrong.write(data * UNIT + 7, &[0]);
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, wrong);
        let found = executor.block_on(shadow::scrub(disk, &mut |_| true)).expect("it is found");
        let lost = found.expect("it ends").lost;
        let paths: Vec<_> = lost.iter().filter_map(|lost| lost.path.as_deref()).collect();
        assert_eq!(paths, [format!("/d/{}", name(FIRST))], "{lost:?}");
    }
}

#[test]
fn units_that_no_volume_has_are_those_of_the_leaves() {
    let image = of_files(4);
    for file in [FIRST, LARGE, D] {
        for units in [1 << 48, u64::MAX] {
            let wrong = with(&image, file, UNITS, units);
            assert_eq!(is_met(&image, &wrong, file, &[Law::Size]), Ok(()), "{units} of {file}");
            let (mended, _) = repaired(&wrong).expect("there is room");
            assert_eq!(findings(&mended), Ok(()), "{units} of {file}");
        }
    }
}

#[test]
fn places_that_no_disk_has_are_findings() {
    let image = of_files(4);
    for place in PLACES {
        let wrong = with(&image, D, POINTER, place);
        assert_eq!(is_met(&image, &wrong, D, &[Law::Block]), Ok(()), "{place}");
        let wrong = with(&image, LARGE, POINTER, place);
        assert_eq!(is_met(&image, &wrong, LARGE, &[Law::Block]), Ok(()), "{place}");
        let wrong = with(&image, FIRST, POINTER, place);
        assert_eq!(is_met(&image, &wrong, FIRST, &[Law::Once]), Ok(()), "{place}");
    }
}

/// A file has a pointer to no unit in use, or to one that another file has and frees first; a
/// snapshot holds it or not. It is removed: the volume goes on, and a repair finds nothing amiss.
pub(crate) fn wrong_frees_are_left_out() -> Result<(), String> {
    let image = of_files(4);
    let is_data = |unit: &u64| unit_of(&image, *unit) == [FIRST as u8; 4096];
    let taken = (32..image.size() / UNIT - 2).find(is_data).expect("it is there");
    let is_free = |unit: &u64| unit_of(&image, *unit) == [0; 4096];
    let free = (image.size() / UNIT - 400..).find(is_free).expect("it is there");
    for (place, is_held) in
        [(taken, false), (free, false), (free, true), (u64::MAX, false), (1 << 52, true)]
    {
        let is_told = |error: String| format!("{place}, {is_held}: {error}");
        let wrong = with(&image, FIRST + 1, POINTER, place);
        let (after, ()) = on(&wrong, async |volume| {
            let told = |error: vfs::FsError| error.to_string();
            if is_held {
                pin(volume, "one").await?;
            }
            let d = volume.lookup(volume.files.root(), "d").await.map_err(told)?;
            for file in [FIRST, FIRST + 1] {
                volume.remove(d, &name(file)).await.map_err(told)?;
            }
            volume.settle().await;
            for number in 0..60 {
                volume.create(d, &format!("new{number}")).await.map_err(told)?;
            }
            let given_up = volume.files.store().engine().status().renewed.given_up;
            if given_up == 1 { Ok(()) } else { Err(format!("{given_up} are given up")) }
        })
        .map_err(is_told)?;
        // The snapshot stays as it is.
        let wrong = found(&repaired(&after)?.0)?.wrong;
        if let Some(wrong) = wrong.iter().find(|it| it.snapshot.is_none()) {
            return Err(is_told(wrong.to_string()));
        }
    }
    Ok(())
}

#[test]
fn a_pointer_to_what_is_free_ends_no_volume() {
    assert_eq!(wrong_frees_are_left_out(), Ok(()));
}

/// Changes all superblocks.
fn said(image: &Image, change: impl Fn(&mut Superblock)) -> Image {
    let mut image = image.clone();
    let anchor = Anchor::read(&unit_of(&image, 0)).expect("it is at rest");
    for unit in 32..image.size() / UNIT - 2 {
        if let Some(mut read) = Superblock::read(&unit_of(&image, unit), unit, &anchor.secret) {
            change(&mut read);
            image.write(unit * UNIT, &*read.write(unit, &anchor.secret));
        }
    }
    image
}

/// A change of a superblock, with its description.
type Said<'a> = (&'a str, &'a dyn Fn(&mut Superblock));

#[test]
fn counts_that_no_volume_has_are_made_right() {
    let image = of_files(4);
    let chain = |ino, generation| Chain { ino, generation, size: Some(u64::MAX) };
    let changes: [Said<'_>; 10] = [
        ("files", &|it| it.files = u64::MAX),
        ("directories", &|it| it.directories = u64::MAX),
        ("units", &|it| it.units = u64::MAX),
        ("numbers", &|it| it.next_ino = u64::MAX),
        ("answers", &|it| it.answers_begun = u64::MAX),
        ("answers from", &|it| it.answers_from = it.answers_begun + 1),
        ("a chain of nobody", &|it| it.chains = vec![chain(9999, 1)]),
        ("a chain of no number", &|it| it.chains = vec![chain(u32::MAX.into(), 1)]),
        ("a chain of another", &|it| it.chains = vec![chain(FIRST, 1)]),
        ("a chain of the blocks of answers", &|it| it.chains = vec![chain(3, 1)]),
    ];
    for (what, change) in changes {
        let wrong = said(&image, change);
        assert!(findings(&wrong).is_err(), "{what}");
        let opened = on(&wrong, async |volume| use_all(volume, FIRST).await);
        // A chain whose file is gone ends, and is no reason to refuse all others.
        assert_eq!(opened.is_ok(), what.starts_with("a chain"), "{what}: {opened:?}");
        let (mended, _) = repaired(&wrong).expect(what);
        assert_eq!(findings(&mended), Ok(()), "{what}");
        assert!(on(&mended, async |volume| read_all(volume, 0).await).is_ok(), "{what}");
    }
}

/// A repair removes an inode whose number no file may have.
#[test]
fn inodes_of_no_number_go() {
    let image = of_files(4);
    let mut wrong = image.clone();
    let home = units_of_home(&image, 2);
    forge(&mut wrong, home, |block| block.copy_within(64 + 2 * 252..64 + 3 * 252, 64 + 3 * 252));
    let told = found(&wrong).expect("it can be looked at").wrong;
    assert!(told.iter().any(|it| it.law == Law::Inode && it.ino == Some(3)), "{told:?}");
    let (mended, _) = repaired(&wrong).expect("there is room");
    assert_eq!(findings(&mended), Ok(()));
    assert!(on(&mended, async |volume| read_all(volume, 0).await).is_ok());
}

/// Lines behind the last one are as good as others; lists end.
#[test]
fn lines_behind_the_last_and_lists_without_an_end_are_seen() {
    let image = of_three_trees();
    let wrong = said(&image, |it| it.snapshots.line_slots = 1);
    assert!(findings(&wrong).is_err());
    assert!(on(&wrong, async |_| Ok(())).is_err(), "its line would be another's");
    let (mended, _) = repaired(&wrong).expect("there is room");
    assert_eq!(findings(&mended), Ok(()));
    let listed = on(&mended, async |volume| enginekit::snapshots::listed(volume).await);
    assert_eq!(listed.expect("it opens").1.len(), 2, "no snapshot is lost");
    let wrong = said(&image, |it| it.snapshots.list_slots = 1);
    assert!(findings(&wrong).is_err());
    assert_eq!(findings(&repaired(&wrong).expect("there is room").0), Ok(()));
    let mut wrong = image.clone();
    forge(&mut wrong, units(&image, Kind::DIED, 6, 0)[0], |block| {
        let Died { runs, .. } = Died::read(block).expect("it is one");
        Died::begin(block, Some(1 << 40));
        runs.iter().for_each(|&run| Died::add(block, run));
    });
    let told = found(&wrong).expect("it can be looked at").wrong;
    assert!(
        told.iter().any(|it| it.law == Law::Listed && it.found.contains("goes on")),
        "{told:?}"
    );
    assert_eq!(findings(&repaired(&wrong).expect("there is room").0), Ok(()));
    // Sizes in a line are small.
    let mut wrong = image.clone();
    forge(&mut wrong, units(&image, Kind::SNAPSHOTS, 4, 0)[0], |block| {
        let mut told = Line::read(block, 0).expect("it makes sense").expect("it is one");
        (told.update, told.files) = (u64::MAX, u64::MAX);
        Line::write(block, 0, Some(&told));
    });
    assert!(findings(&wrong).is_err());
    assert_eq!(findings(&repaired(&wrong).expect("there is room").0), Ok(()));
}
