//! Callers use a volume in the first moments after a cut, before leaks were looked for: names move
//! into new directories, large files grow, directories that the cut left with two names get another
//! or go.

use std::rc::Rc;

use ffs::policy::softdep::SoftUpdatesOptions;
use ffs::{Disks, OpenOptions, Opened, PolicyKind, open};
use futures::future::join_all;
use runtime::Timestamp;
use sim::{Choice, Disk, Executor, Image, Prng};
use ufs2::mkfs::mkfs;
use vfs::{
    Answer, CreateHow, Delayed, FileSystem, FsError, ObjectId, Requester, Sealed, SetAttributes,
    Stability, Wcc,
};

use crate::common::cutting::{Pair, after_cut, judge, sizes};
use crate::common::volume::{Volume, name};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// So slow that callers finish before a scan has begun.
const SLOW: f64 = 0.0001;

async fn reopen(executor: &Executor, disk: &Rc<Disk>, share: f64) -> Opened {
    let softdep = SoftUpdatesOptions { reclaim_share: share, ..SoftUpdatesOptions::default() };
    let options = OpenOptions { softdep, finishes_reclaim: true, ..OpenOptions::default() };
    let disks = Disks::alone(disk.clone());
    let policy = PolicyKind::SoftUpdates;
    let opened = open(policy, disks, executor.runtime(), &options, &mut |_| ()).await;
    opened.unwrap_or_else(|error| panic!("{error}"))
}

/// Uses a new volume, and returns the result of `in_use` with its disk.
fn on_new<T>(size: u64, block: (u64, u64), in_use: impl AsyncFnOnce(&Volume, &Rc<Disk>) -> T) -> T {
    let executor = Executor::new(5);
    let disk = Disk::new(&executor, Image::zeroed(size));
    executor.block_on(async {
        let random = executor.runtime().random;
        mkfs(&*disk, &sizes(block.0, block.1), &*random, NOW).await.expect("it fits");
        let volume = Volume::new(reopen(&executor, &disk, 1.0).await.files);
        in_use(&volume, &disk).await
    })
}

/// A new volume that was used, and lost power when everything was in place.
fn cut_off(size: u64, block: (u64, u64), in_use: impl AsyncFnOnce(&Volume)) -> Image {
    on_new(size, block, async |volume, disk| {
        in_use(volume).await;
        volume.settle().await;
        disk.contents()
    })
}

/// Serves a disk after a cut while it is used, waits for reclaim, stops, and checks the result.
fn serve(
    image: &Image,
    use_it: impl AsyncFnOnce(&Volume) -> Result<(), String>,
) -> Result<(), String> {
    serve_on(image, async |volume, _| use_it(volume).await)
}

/// The same, for a caller that cuts it once more.
fn serve_on(
    image: &Image,
    use_it: impl AsyncFnOnce(&Volume, &Rc<Disk>) -> Result<(), String>,
) -> Result<(), String> {
    let (executor, disks) = after_cut(9, Pair { home: image.clone(), log: None });
    executor.block_on(async {
        let volume = Volume::new(reopen(&executor, &disks.home, SLOW).await.files);
        use_it(&volume, &disks.home).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    judge(&disks.home, "reclaim-beside")
}

/// Waits until reclaim is through.
async fn wait_for_reclaim(volume: &Volume) -> Result<(), String> {
    let is_through = volume.files.store().engine().wait_for_reclaim().await;
    if is_through { Ok(()) } else { Err("reclaim cannot go on".to_owned()) }
}

fn told(error: FsError) -> String {
    format!("{error:?}")
}

async fn make_files(volume: &Volume, count: u8, length: usize) {
    let root = volume.files.root();
    for index in 0..count {
        let file = volume.create(root, &format!("file-{index}")).await.expect("there is room");
        let data = vec![index + 1; length];
        volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
    }
}

/// Files move into directories that were made since, and get second names there.
fn move_into_new_directories(size: u64, block: (u64, u64)) -> Result<(), String> {
    const FILES: u8 = 8;
    let image = cut_off(size, block, async |volume| make_files(volume, FILES, 3000).await);
    serve(&image, async |volume| {
        let root = volume.files.root();
        let mut directories = Vec::new();
        for index in 0..60 {
            let made = volume.mkdir(root, &format!("new-{index}")).await.map_err(told)?;
            directories.push(made);
        }
        for index in 0..FILES {
            let (name, at) = (format!("file-{index}"), usize::from(index));
            let home = directories[at * 7];
            volume.rename((root, &name), (home, &name)).await.map_err(told)?;
            if index % 2 == 0 {
                let file = volume.lookup(home, &name).await.map_err(told)?;
                volume.link(file, directories[at * 7 + 3], &name).await.map_err(told)?;
            }
        }
        wait_for_reclaim(volume).await?;
        for index in 0..FILES {
            let (name, at) = (format!("file-{index}"), usize::from(index));
            let file = volume.lookup(directories[at * 7], &name).await;
            let file = file.map_err(|error| format!("{name}: {error:?}"))?;
            let bytes = volume.read(file).await.map_err(told)?;
            let links = volume.attributes(file).await.nlink;
            if bytes != vec![index + 1; 3000] || links != 1 + u32::from(index % 2 == 0) {
                return Err(format!("{name} has {} bytes and {links} links", bytes.len()));
            }
        }
        Ok(())
    })
}

#[test]
fn files_may_move_into_new_directories_in_small_blocks() {
    assert_eq!(move_into_new_directories(16 << 20, (4096, 512)), Ok(()));
}

#[test]
fn files_may_move_into_new_directories_in_default_blocks() {
    assert_eq!(move_into_new_directories(512 << 20, (32768, 4096)), Ok(()));
}

/// Several callers extend large files that were not used since the cut.
fn append_to_large_files() -> Result<(), String> {
    const FILES: u8 = 12;
    let block = 4096;
    let image = cut_off(64 << 20, (4096, 512), async |volume| {
        make_files(volume, FILES, 15 * block).await;
    });
    for seed in 0..6 {
        serve(&image, async |volume| {
            let root = volume.files.root();
            let mut files = Vec::new();
            for index in 0..FILES {
                files.push(volume.lookup(root, &format!("file-{index}")).await.map_err(told)?);
            }
            let pieces = (0..3_u8).flat_map(|piece| (0..FILES).map(move |file| (file, piece)));
            let mut calls: Vec<(u8, u8)> = pieces.collect();
            let mut chance = Prng::new(seed);
            for at in (1..calls.len()).rev() {
                calls.swap(at, chance.index(at + 1));
            }
            let content = |file: u8, piece: u8| vec![100 + 3 * file + piece; block];
            let place = |piece: u8| (15 + usize::from(piece)) * block;
            let written = join_all(calls.iter().map(|&(file, piece)| {
                let (id, data) = (files[usize::from(file)], content(file, piece));
                volume.write(id, place(piece) as u64, data, Stability::FileSync)
            }));
            written.await.into_iter().collect::<Result<Vec<()>, _>>().map_err(told)?;
            for (file, piece) in calls {
                let bytes = volume.read(files[usize::from(file)]).await.map_err(told)?;
                if bytes[place(piece)..][..block] != content(file, piece) {
                    return Err(format!("of file {file} block {piece} behind the end is lost"));
                }
            }
            wait_for_reclaim(volume).await
        })?;
    }
    Ok(())
}

#[test]
fn large_files_may_grow_by_many_callers_at_once() {
    assert_eq!(append_to_large_files(), Ok(()));
}

/// The fate of a directory that the cut may have left with two names.
#[derive(Clone, Copy, Debug)]
enum Then {
    Moved,
    Replaced,
    Removed,
    /// Removed; others are made, one of them in its inode.
    Reused,
}

/// Cuts a rename of a directory everywhere, and uses the reported name.
fn use_second_names(across: bool, then: Then) -> Result<(), String> {
    let (homes, moved, trace) = on_new(16 << 20, (4096, 512), async |volume, disk| {
        let root = volume.files.root();
        let a = volume.mkdir(root, "a").await.expect("there is room");
        let b = volume.mkdir(root, "b").await.expect("there is room");
        let moved = volume.mkdir(a, "old").await.expect("there is room");
        volume.settle().await;
        disk.start_trace();
        let to = if across { b } else { a };
        volume.rename((a, "old"), (to, "new")).await.expect("it is there");
        ([a, to], moved, disk.trace())
    });
    for (position, platter) in trace.cuts() {
        for seed in 0..1 {
            let image = platter.image(&Choice::random(&platter, &mut Prng::new(seed)));
            let mut again = None;
            let used = serve_on(&image, async |volume, disk| {
                if volume.files.store().engine().reclaimed().is_none() {
                    return Ok(());
                }
                let named = use_name(volume, homes, moved, then).await?;
                let platter = disk.platter();
                let left = platter.image(&Choice::random(&platter, &mut Prng::new(seed + 1)));
                again = Some((left, named.clone()));
                look_at(volume, homes, &named).await
            });
            used.map_err(|error| format!("{position}, {seed}: {error}"))?;
            let Some((left, named)) = again else { continue };
            serve(&left, async |volume| look_at(volume, homes, &named).await)
                .map_err(|error| format!("{position}, {seed}, cut again: {error}"))?;
        }
    }
    Ok(())
}

/// A name in a directory, and the object that it leads to.
type Named = (ObjectId, String, ObjectId);

/// Changes the directory by the reported name. Returns the names that exist then.
async fn use_name(
    volume: &Volume,
    [a, b]: [ObjectId; 2],
    moved: ObjectId,
    then: Then,
) -> Result<Vec<Named>, String> {
    let up = volume.lookup(moved, "..").await.map_err(told)?;
    let mut name = None;
    for one in ["old", "new"] {
        if name.is_none() && volume.lookup(up, one).await == Ok(moved) {
            name = Some(one);
        }
    }
    let name = name.ok_or("it has no name")?;
    let other = if up == a { b } else { a };
    let mut named = Vec::new();
    match then {
        Then::Moved => {
            volume.rename((up, name), (other, "third")).await.map_err(told)?;
            named.push((other, "third".to_owned(), moved));
        }
        Then::Replaced => {
            let root = volume.files.root();
            let new = volume.mkdir(root, "z").await.map_err(told)?;
            volume.rename((root, "z"), (up, name)).await.map_err(told)?;
            named.push((up, name.to_owned(), new));
        }
        Then::Removed => volume.rmdir(up, name).await.map_err(told)?,
        Then::Reused => {
            volume.rmdir(up, name).await.map_err(told)?;
            volume.settle().await;
            for index in 0..12 {
                let name = format!("more-{index}");
                let made = volume.mkdir(other, &name).await.map_err(told)?;
                named.push((other, name, made));
            }
        }
    }
    Ok(named)
}

/// Checks that these names exist, that reclaim ends, and that every listed name leads somewhere.
async fn look_at(volume: &Volume, homes: [ObjectId; 2], named: &[Named]) -> Result<(), String> {
    for through in [false, true] {
        if through {
            wait_for_reclaim(volume).await?;
        }
        for (directory, name, id) in named {
            let found = volume.lookup(*directory, name).await;
            if found != Ok(*id) {
                return Err(format!("{name} is {found:?}"));
            }
        }
        for directory in homes {
            for name in volume.list(directory).await.map_err(told)? {
                let found = volume.lookup(directory, &name).await;
                found.map_err(|error| format!("{name}: {error:?}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_directory_of_two_names_may_move() {
    for across in [false, true] {
        assert_eq!(use_second_names(across, Then::Moved), Ok(()), "across: {across}");
    }
}

#[test]
fn a_directory_of_two_names_may_be_replaced() {
    for across in [false, true] {
        assert_eq!(use_second_names(across, Then::Replaced), Ok(()), "across: {across}");
    }
}

#[test]
fn a_directory_of_two_names_may_go() {
    for across in [false, true] {
        for then in [Then::Removed, Then::Reused] {
            assert_eq!(use_second_names(across, then), Ok(()), "{then:?}, across: {across}");
        }
    }
}

/// An answered removal is final: after the next cut the handle is stale, even before leaks were
/// looked for.
fn remove_and_cut() -> Result<(), String> {
    let (files, trace) = on_new(16 << 20, (4096, 512), async |volume, disk| {
        make_files(volume, 2, 3000).await;
        let root = volume.files.root();
        let mut files = Vec::new();
        for index in 0..2 {
            files.push(volume.lookup(root, &format!("file-{index}")).await.expect("it is there"));
        }
        volume.settle().await;
        disk.start_trace();
        volume.remove(root, "file-0").await.expect("it is there");
        disk.mark(0);
        volume.remove(root, "file-1").await.expect("it is there");
        (files, disk.trace())
    });
    for (position, platter) in trace.cuts() {
        if trace.marks_before(position).next().is_none() {
            continue;
        }
        let image = platter.image(&Choice::random(&platter, &mut Prng::new(position as u64)));
        serve(&image, async |volume| {
            let sealed = volume.files.getattr(files[0]).await;
            match sealed.open().await.expect("running").into_inner() {
                Err(FsError::Stale) => Ok(()),
                found => Err(format!("{position}: a file that was removed is {found:?}")),
            }
        })?;
    }
    Ok(())
}

#[test]
fn an_answered_removal_is_over() {
    assert_eq!(remove_and_cut(), Ok(()));
}

/// An answer that is taken before it is durable.
fn accepted<T>(sealed: Sealed<Answer<T, Wcc>>) -> T {
    let answer = sealed.accept(Delayed::declared()).expect("running").into_inner();
    answer.result.expect("there is room")
}

/// A directory and a file in it, not durable yet.
async fn make_delayed(volume: &Volume, index: u8) -> (ObjectId, ObjectId) {
    let (root, who) = (volume.files.root(), Requester::root());
    let name = name(&format!("new-{index}"));
    let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    let home = accepted(volume.files.mkdir(&who, root, &name, attributes).await).id;
    let how = CreateHow::Guarded(attributes);
    let file = accepted(volume.files.create(&who, home, &name, how).await).id;
    (home, file)
}

/// Asks that data written to a file stays; returns whether it does.
async fn is_told_to_stay(volume: &Volume, id: ObjectId, data: &[u8]) -> Result<bool, String> {
    let named = volume.files.ensure_named(id).await;
    match named.and(volume.write(id, 0, data.to_vec(), Stability::FileSync).await) {
        Ok(()) => Ok(true),
        Err(FsError::Stale) => Ok(false),
        Err(error) => Err(told(error)),
    }
}

/// A volume that is declared delayed is cut while directories with files are new, at any moment.
/// Clients continue with the handles that they have, and ask that the data that they write stays,
/// in a file or in a new one beside it. At any moment it is cut again: data that was promised to
/// stay is there.
fn promise_by_old_handles() -> Result<(), String> {
    const NEW: u8 = 3;
    const DATA: [u8; 3000] = [7; 3000];
    let (known, trace) = on_new(16 << 20, (4096, 512), async |volume, disk| {
        disk.start_trace();
        let mut known = Vec::new();
        for index in 0..NEW {
            known.push(make_delayed(volume, index).await);
        }
        volume.settle().await;
        (known, disk.trace())
    });
    let mut promises = 0;
    for (position, platter) in trace.cuts() {
        let image = platter.image(&Choice::random(&platter, &mut Prng::new(position as u64)));
        let mut again = Vec::new();
        let used = serve_on(&image, async |volume, disk| {
            if volume.files.store().engine().reclaimed().is_none() {
                return Ok(());
            }
            let mut kept = Vec::new();
            let mut chance = Prng::new(position as u64);
            for &(home, file) in &known {
                let beside = volume.create(home, "beside").await.ok();
                for id in beside.into_iter().chain([file]) {
                    if is_told_to_stay(volume, id, &DATA).await? {
                        kept.push(id);
                        let platter = disk.platter();
                        let left = platter.image(&Choice::random(&platter, &mut chance));
                        again.push((left, kept.clone()));
                    }
                }
            }
            wait_for_reclaim(volume).await
        });
        used.map_err(|error| format!("{position}: {error}"))?;
        for (left, kept) in again {
            promises += kept.len();
            let looked_at = serve(&left, async |volume| {
                wait_for_reclaim(volume).await?;
                for &id in &kept {
                    let bytes = volume.read(id).await;
                    if bytes.as_deref() != Ok(&DATA[..]) {
                        return Err(format!("what {id:?} was to keep is {:?}", bytes.err()));
                    }
                }
                Ok(())
            });
            looked_at.map_err(|error| format!("{position}, cut again: {error}"))?;
        }
    }
    if promises == 0 { Err("no file was there".to_owned()) } else { Ok(()) }
}

#[test]
fn what_was_told_to_stay_stays_whatever_handle_named_it() {
    assert_eq!(promise_by_old_handles(), Ok(()));
}

/// Writes until no fragment is left: a large file takes only whole blocks.
async fn fill(volume: &Volume) {
    let root = volume.files.root();
    for (number, size) in (0..1000).zip(std::iter::once(4096).chain(std::iter::repeat(512))) {
        let Ok(file) = volume.create(root, &format!("filler-{number}")).await else { return };
        let mut length = 0;
        while volume.write(file, length, vec![1; size], Stability::Unstable).await.is_ok() {
            length += size as u64;
        }
        if length == 0 {
            return;
        }
    }
    panic!("there is always room");
}

/// A full volume is cut while a new file has no name yet, which is changed afterwards by its
/// handle: `lost+found` has no room for it. Returns the answers for that file, and for one that has
/// its name; `None` if the cut took the new file, or left its name.
fn ask_when_full(
    image: &Image,
    (lost, named): (ObjectId, ObjectId),
) -> Option<[Result<(), FsError>; 2]> {
    let (executor, disks) = after_cut(9, Pair { home: image.clone(), log: None });
    executor.block_on(async {
        let volume = Volume::new(reopen(&executor, &disks.home, SLOW).await.files);
        let (root, who) = (volume.files.root(), Requester::root());
        if volume.lookup(root, "new").await.is_ok() {
            return None;
        }
        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        let changed = volume.files.setattr(&who, lost, mode, None).await;
        changed.accept(Delayed::declared()).expect("running").into_inner().result.ok()?;
        let engine = volume.files.store().engine();
        assert!(!engine.wait_for_reclaim().await, "there is room for a name");
        let answers =
            [volume.files.ensure_named(lost).await, volume.files.ensure_named(named).await];
        Some(answers)
    })
}

#[test]
fn a_file_without_room_for_a_name_holds_up_no_other() {
    let (known, trace) = on_new(4 << 20, (4096, 512), async |volume, disk| {
        let (root, who) = (volume.files.root(), Requester::root());
        let named = volume.create(root, "named").await.expect("there is room");
        fill(volume).await;
        volume.settle().await;
        disk.start_trace();
        let how = CreateHow::Guarded(SetAttributes::default());
        let lost = accepted(volume.files.create(&who, root, &name("new"), how).await).id;
        volume.settle().await;
        ((lost, named), disk.trace())
    });
    let images = trace.cuts().map(|(_, platter)| platter.killed().durable_image());
    let asked: Vec<_> = images.filter_map(|image| ask_when_full(&image, known)).collect();
    assert!(!asked.is_empty(), "no cut leaves the file without its name");
    assert!(asked.iter().all(|answers| *answers == [Err(FsError::Io), Ok(())]), "{asked:?}");
}

/// A cut leaves a file with one link more than names, and a caller removes its only name: the
/// former name is no promise that the file stays.
#[test]
fn a_name_that_was_taken_away_stands_for_no_promise() {
    let (file, trace) = on_new(16 << 20, (4096, 512), async |volume, disk| {
        let root = volume.files.root();
        let file = volume.create(root, "old").await.expect("there is room");
        volume.settle().await;
        disk.start_trace();
        volume.link(file, root, "new").await.expect("there is room");
        volume.settle().await;
        (file, disk.trace())
    });
    let mut asked = 0;
    for (position, platter) in trace.cuts() {
        let done = serve(&platter.killed().durable_image(), async |volume| {
            let root = volume.files.root();
            let is_meant = volume.attributes(file).await.nlink == 2
                && volume.lookup(root, "new").await.is_err();
            if is_meant {
                asked += 1;
                volume.remove(root, "old").await.map_err(told)?;
                if is_told_to_stay(volume, file, b"dear friend").await? {
                    return Err("it is told to stay".to_owned());
                }
            }
            wait_for_reclaim(volume).await?;
            let read = volume.read(file).await;
            let expected = if is_meant { Err(FsError::Stale) } else { Ok(Vec::new()) };
            if read == expected { Ok(()) } else { Err(format!("in the end {read:?}")) }
        });
        assert_eq!(done, Ok(()), "cut at {position}");
    }
    assert!(asked > 0, "no cut leaves a link without a name");
}

/// Blocks in trees of one, two and three levels are not leaked.
#[test]
fn what_large_files_hold_is_kept() {
    const BLOCK: u64 = 4096;
    const FAN: u64 = BLOCK / 8;
    let places = [12, 12 + FAN + 300, 12 + FAN + FAN * FAN + 5].map(|lbn| lbn * BLOCK);
    let image = cut_off(16 << 20, (BLOCK, 512), async |volume| {
        let file = volume.create(volume.files.root(), "large").await.expect("there is room");
        for at in places {
            let data = vec![7; 2 * BLOCK as usize];
            volume.write(file, at, data, Stability::FileSync).await.expect("there is room");
        }
    });
    assert_eq!(serve(&image, async |volume| wait_for_reclaim(volume).await), Ok(()));
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use ffs::planted::Bug;
    use vnode::planted::Bug as VnodeBug;

    use super::*;
    use crate::common::bugs::{Planted, plant, unplant};

    fn is_seen(bug: impl Into<Planted>, scenario: impl Fn() -> Result<(), String>) {
        plant(bug.into());
        let outcome = catch_unwind(AssertUnwindSafe(scenario));
        unplant();
        let said = outcome.unwrap_or_else(|_| Err("an assertion".to_owned()));
        println!("{}", said.expect_err("it is seen"));
    }

    #[test]
    fn directories_that_are_new_must_be_followed() {
        is_seen(Bug::UnfollowedNewcomers, || move_into_new_directories(16 << 20, (4096, 512)));
    }

    #[test]
    fn what_stands_behind_an_end_must_be_asked_of_the_inode_as_it_is() {
        is_seen(Bug::StaleEnds, append_to_large_files);
    }

    #[test]
    fn where_a_directory_has_its_name_must_be_known_when_that_changes() {
        is_seen(VnodeBug::HastyMoves, || use_second_names(false, Then::Moved));
    }

    #[test]
    fn a_file_must_be_known_to_have_a_name_before_it_is_told_to_stay() {
        is_seen(VnodeBug::HastyPromises, promise_by_old_handles);
    }

    #[test]
    fn directories_that_a_cut_took_must_be_stale() {
        is_seen(VnodeBug::LostDirectories, promise_by_old_handles);
    }

    #[test]
    fn a_removal_must_not_be_answered_before_the_file_is_gone() {
        is_seen(Bug::HastyTelling, remove_and_cut);
    }
}
