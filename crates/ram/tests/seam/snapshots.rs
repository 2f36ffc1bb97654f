//! Snapshots, in tests that decide when Updates become durable.

use std::cell::Cell;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{join, join3};
use futures::{FutureExt, poll};
use ram::{Disk, RamOptions};
use runtime::sync::STEPS_OF_A_TURN;
use vfs::{
    Attributes, CreateHow, DirectoryEntry, FileSystem, FsError, ObjectId, Requester, Sealed,
    SetAttributes, SnapshotNumber, Snapshots, Stability, Wcc,
};

use crate::{Fixture, NOW, name};

impl Fixture {
    fn all(&self) -> &dyn Snapshots {
        self.files.snapshots().expect("this engine has them")
    }

    /// The answer of `work`, once everything that it waits for is durable.
    fn done<T>(&self, work: impl Future<Output = Sealed<T>>) -> T {
        let sealed = self.executor.block_on(work);
        self.make_all_durable();
        self.opened(sealed)
    }

    /// The object under a name in the root.
    fn found(&self, text: &str) -> ObjectId {
        let (who, name) = (Requester::root().who, name(text));
        let found = self.done(self.files.lookup(&who, self.files.root(), &name));
        found.result.expect("it is there").id
    }

    /// Makes a file of this many bytes, which are durable or wait in memory.
    fn large(&self, text: &str, bytes: usize, stability: Stability) -> ObjectId {
        self.create(text);
        let file = self.found(text);
        let (who, data) = (Requester::root().who, vec![Bytes::from(vec![7; bytes])]);
        let written = self.files.write(&who, file, 0, data, stability);
        assert!(self.done(written).result.is_ok());
        file
    }

    /// Starts to truncate a file in steps, and runs `meanwhile` before the second.
    fn shorten(&self, file: ObjectId, meanwhile: impl FnOnce()) -> Result<(), FsError> {
        let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
        let (who, before) = (Requester::root(), self.disk.events());
        let shorter = self.files.setattr(&who, file, set, None);
        let second = async {
            assert_eq!(self.disk.events(), before + 1, "the first step is on its way");
            meanwhile();
            self.make_all_durable();
        };
        let (shorter, ()) = self.executor.block_on(join(shorter, second));
        self.make_all_durable();
        self.opened(shorter).result
    }

    fn opened<T>(&self, sealed: Sealed<T>) -> T {
        self.executor.block_on(sealed.open()).expect("it runs").into_inner()
    }

    /// The attributes of the `.snapshot` of the root.
    fn listing(&self) -> Attributes {
        let id = self.files.root().within(SnapshotNumber::LISTING);
        self.done(self.files.getattr(id)).expect("it is there")
    }
}

#[test]
fn of_what_is_no_directory_nothing_is_told_when_a_name_is_to_change_in_it() {
    let fixture = Fixture::new();
    fixture.create("file");
    let (who, run, files) = (Requester::root(), &fixture.executor, &fixture.files);
    let (root, old, new) = (files.root(), name("file"), name("new"));
    let file = run.block_on(files.lookup(&who.who, root, &old));
    fixture.make_all_durable();
    let file = run.block_on(file.open()).expect("it runs").into_inner().result;
    let file = file.expect("it is there").id;
    let how = CreateHow::Guarded(SetAttributes::default());
    let made = run.block_on(async { files.create(&who, file, &new, how).await.open().await });
    let made = made.expect("it runs").into_inner();
    assert_eq!((made.result.err(), made.about), (Some(FsError::NotDirectory), Wcc::default()));
    let gone = run.block_on(async { files.remove(&who, file, &new).await.open().await });
    let gone = gone.expect("it runs").into_inner();
    assert_eq!((gone.result.err(), gone.about), (Some(FsError::NotDirectory), Wcc::default()));
    let moved = files.rename(&who, root, &old, file, &new);
    let moved = run.block_on(async { moved.await.open().await }).expect("it runs").into_inner();
    assert_eq!(moved.result.err(), Some(FsError::NotDirectory));
    assert!(moved.about.0.after.is_some(), "of the one that is a directory it is told");
    assert_eq!(moved.about.1, Wcc::default());
}

#[test]
fn a_volume_that_may_not_be_changed_gets_and_loses_no_snapshot() {
    let fixture = Fixture::new();
    let (going, then) = (name("going"), name("then"));
    for name in [&going, &then] {
        assert!(fixture.done(fixture.all().pin(name)).is_ok());
    }
    let number = fixture.done(fixture.all().delete(&going)).expect("it is there").number;
    let options = RamOptions { read_only: true, ..RamOptions::default() };
    let fixture = Fixture::with(Disk::of(1 << 20, fixture.disk.platter()), options);
    let refused = Some(FsError::ReadOnly);
    assert_eq!(fixture.done(fixture.all().pin(&name("now"))).err(), refused);
    assert_eq!(fixture.done(fixture.all().delete(&then)).err(), refused);
    assert_eq!(fixture.done(fixture.all().delete_step(number)).err(), refused);
    assert_eq!(fixture.done(fixture.all().roll_back(&then)).err(), refused);
}

#[test]
fn times_of_snapshots_rise_while_the_clock_stands_and_are_the_same_after_a_start() {
    let fixture = Fixture::new();
    let mut times = vec![fixture.listing().mtime];
    for text in ["one", "other"] {
        let made = fixture.done(fixture.all().pin(&name(text))).expect("a new name");
        times.push(fixture.listing().mtime);
        assert_eq!(Some(&made.created), times.last());
    }
    assert!(fixture.done(fixture.all().delete(&name("one"))).is_ok());
    times.push(fixture.listing().mtime);
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
    let fixture = fixture.lose_the_rest();
    assert_eq!(Some(&fixture.listing().ctime), times.last());
}

#[test]
fn a_listing_counts_the_directories_in_it() {
    let fixture = Fixture::new();
    assert_eq!(fixture.listing().nlink, 2);
    for text in ["one", "other"] {
        assert!(fixture.done(fixture.all().pin(&name(text))).is_ok());
    }
    assert_eq!(fixture.listing().nlink, 4);
    assert!(fixture.done(fixture.all().delete(&name("one"))).is_ok());
    assert_eq!(fixture.listing().nlink, 3);
}

#[test]
fn that_nothing_of_a_snapshot_is_left_is_told_when_it_is_durable() {
    let fixture = Fixture::new();
    let then = name("then");
    assert!(fixture.done(fixture.all().pin(&then)).is_ok());
    let number = fixture.done(fixture.all().delete(&then)).expect("it is there").number;
    let changed = fixture.listing().mtime;
    drop(fixture.executor.block_on(fixture.all().delete_step(number)));
    let told = fixture.all().list().open().now_or_never();
    assert!(told.is_none(), "what a cut brings back is told to be gone");
    fixture.make_all_durable();
    let told = fixture.all().list().open().now_or_never().expect("it is durable");
    assert_eq!(told.expect("it runs").into_inner(), []);
    assert_eq!(fixture.listing().mtime, changed, "clients saw no change");
}

/// A client sees no snapshot that a cut may take, even without waiting until its answer may be
/// given: the snapshot's number would be given to another one.
#[test]
fn a_snapshot_is_found_when_it_is_durable_and_counts_before() {
    let fixture = Fixture::new();
    let (run, files, who) = (&fixture.executor, &fixture.files, Requester::root().who);
    let (root, then) = (files.root(), name("then"));
    let [listing, tree] = [SnapshotNumber::LISTING, SnapshotNumber(1)].map(|of| root.within(of));
    let before = fixture.listing();
    drop(run.block_on(fixture.all().pin(&then)));
    let found = run.block_on(files.lookup(&who, listing, &then));
    let told = run.block_on(files.getattr(tree));
    let again = run.block_on(fixture.all().pin(&then));
    let other = run.block_on(fixture.all().pin(&name("other")));
    let meanwhile = run.block_on(files.getattr(listing));
    fixture.make_all_durable();
    assert_eq!(fixture.opened(told).err(), Some(FsError::Stale), "it was not durable");
    assert_eq!(fixture.opened(found).result.err(), Some(FsError::NoEntry), "it was not durable");
    let [again, other] = [again, other].map(|pin| fixture.opened(pin).map(|of| of.number));
    assert_eq!((again, other), (Err(FsError::Exists), Ok(SnapshotNumber(2))));
    assert!(fixture.done(files.getattr(tree)).is_ok());
    let (meanwhile, now) = (fixture.opened(meanwhile).expect("it is there"), fixture.listing());
    assert_eq!([before.nlink, meanwhile.nlink, now.nlink], [2, 2, 4]);
    let times = [before.mtime, meanwhile.mtime, now.mtime];
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
}

/// A file is looked up in a snapshot that is deleted at the same time.
#[test]
fn what_is_deleted_while_it_is_looked_at_is_stale_and_not_damaged() {
    let fixture = Fixture::new();
    fixture.create("file");
    let (files, who, then) = (&fixture.files, Requester::root().who, name("then"));
    assert!(fixture.done(fixture.all().pin(&then)).is_ok());
    let tree = files.root().within(SnapshotNumber(1));
    assert!(fixture.done(files.getattr(tree)).is_ok(), "the directory is in memory");
    let file = name("file");
    let (looked, gone) = (files.lookup(&who, tree, &file), fixture.all().delete(&then));
    let (looked, gone) = fixture.executor.block_on(join(looked, gone));
    fixture.make_all_durable();
    assert!(fixture.opened(gone).is_ok());
    assert_eq!(fixture.opened(looked).result.err(), Some(FsError::Stale));
}

/// A snapshot is deleted while a client looks it up, or lists it.
#[test]
fn that_a_snapshot_is_gone_is_told_when_it_is_durable_whenever_it_went() {
    let (who, then) = (Requester::root().who, name("then"));
    let new = || {
        let fixture = Fixture::new();
        assert!(fixture.done(fixture.all().pin(&then)).is_ok());
        let listing = fixture.files.root().within(SnapshotNumber::LISTING);
        (fixture, listing)
    };
    let (fixture, listing) = new();
    let (looked, gone) = (fixture.files.lookup(&who, listing, &then), fixture.all().delete(&then));
    let (looked, _) = fixture.executor.block_on(join(looked, gone));
    assert!(looked.open().now_or_never().is_none(), "it is told to be gone, and may come back");
    let (fixture, listing) = new();
    let mut all = |_: &DirectoryEntry| true;
    let listed = fixture.files.readdir(&who, listing, 0, false, &mut all);
    let (listed, _) = fixture.executor.block_on(join(listed, fixture.all().delete(&then)));
    assert!(listed.open().now_or_never().is_none(), "it is not listed, and may come back");
}

#[test]
fn a_snapshot_is_not_made_when_what_it_would_hold_is_lost() {
    let fixture = Fixture::new();
    fixture.large("file", 5_000, Stability::Unstable);
    fixture.disk.refuse(true);
    let then = name("then");
    assert_eq!(fixture.done(fixture.all().pin(&then)).err(), Some(FsError::Io));
    fixture.disk.refuse(false);
    assert!(fixture.done(fixture.all().pin(&then)).is_ok(), "of what was written since");
}

/// A truncation that the disk has stopped was answered with its failure: a snapshot shows the file
/// with its length at that time, and waits for nothing.
#[test]
fn a_truncation_that_has_failed_keeps_no_snapshot_and_no_roll_back_waiting() {
    let fixture = Fixture::new();
    let (then, now) = (name("then"), name("now"));
    assert!(fixture.done(fixture.all().pin(&then)).is_ok());
    let file = fixture.large("file", 100 * 4096, Stability::FileSync);
    assert_eq!(fixture.shorten(file, || fixture.disk.refuse(true)), Err(FsError::Io));
    fixture.disk.refuse(false);
    assert!(fixture.done(fixture.all().pin(&now)).is_ok());
    assert!(fixture.done(fixture.all().roll_back(&now)).is_ok());
}

/// A file is truncated in steps, a snapshot waits for that, and another large file is to be
/// removed.
#[test]
fn a_snapshot_that_waits_for_steps_keeps_no_call_waiting() {
    let fixture = Fixture::new();
    let file = fixture.large("file", 100 * 4096, Stability::FileSync);
    fixture.large("other", 100 * 4096, Stability::FileSync);
    let (who, root, other, then) =
        (Requester::root(), fixture.files.root(), name("other"), name("then"));
    let all = fixture.all();
    let is_made = Cell::new(false);
    let pinned = async {
        let pinned = all.pin(&then).await;
        is_made.set(true);
        pinned
    };
    let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
    let shorter = fixture.files.setattr(&who, file, set, None);
    let clock = fixture.executor.runtime().clock;
    let gone = async {
        let gone = fixture.files.remove(&who, root, &other).now_or_never();
        assert!(gone.is_some(), "it waits for a snapshot");
        assert!(!is_made.get(), "which waits for the file");
        while !is_made.get() {
            fixture.make_all_durable();
            clock.sleep(Duration::from_millis(1)).await;
        }
    };
    let (shorter, pinned, ()) = fixture.executor.block_on(join3(shorter, pinned, gone));
    fixture.make_all_durable();
    assert!(fixture.opened(shorter).result.is_ok());
    assert!(fixture.opened(pinned).is_ok());
}

/// There are places for 64 operations in steps. One more file is to be removed or replaced: the
/// call waits for a place, and holds no directory lock meanwhile.
pub(crate) fn a_removal_without_a_place_keeps_no_call_waiting() -> Result<(), String> {
    const BYTES: usize = 65 * 4096;
    for replaces in [false, true] {
        let fixture = Fixture::on(Disk::new(32 << 20, NOW));
        let texts: Vec<String> = (0..65).map(|number| format!("f{number}")).collect();
        texts.iter().for_each(|text| _ = fixture.large(text, BYTES, Stability::FileSync));
        fixture.create("other");
        fixture.make_all_durable();
        texts[..64].iter().for_each(|text| fixture.remove(text));
        let (files, who, last) = (&fixture.files, Requester::root(), name(&texts[64]));
        let (root, other) = (files.root(), name("other"));
        let replaced = async { files.rename(&who, root, &other, root, &last).await.open().await };
        let gone = async { files.remove(&who, root, &last).await.open().await };
        let mut last_goes = if replaces {
            replaced.map(|done| done.map(|done| done.into_inner().result)).boxed_local()
        } else {
            gone.map(|done| done.map(|done| done.into_inner().result)).boxed_local()
        };
        let clock = fixture.executor.runtime().clock;
        let done = fixture.executor.block_on(async {
            for _ in 0..3 {
                assert!(poll!(&mut last_goes).is_pending(), "nothing is durable");
                clock.sleep(Duration::from_millis(1)).await;
            }
            let (how, new) = (CreateHow::Guarded(SetAttributes::default()), name("new"));
            if files.create(&who, root, &new, how).now_or_never().is_none() {
                return Err(format!("CREATE waits for a place; replaces: {replaces}"));
            }
            assert!(files.lookup(&who.who, root, &last).now_or_never().is_some(), "nor LOOKUP");
            loop {
                fixture.make_all_durable();
                clock.sleep(Duration::from_millis(1)).await;
                if let Poll::Ready(done) = poll!(&mut last_goes) {
                    return done.map_err(|lost| lost.to_string());
                }
            }
        })?;
        assert_eq!(done, Ok(()));
    }
    Ok(())
}

#[test]
fn a_removal_that_waits_for_a_place_keeps_no_call_waiting() {
    assert_eq!(a_removal_without_a_place_keeps_no_call_waiting(), Ok(()));
}

/// A large file is being freed, and no step of that becomes durable: a snapshot is made.
pub(crate) fn a_snapshot_waits_for_no_file_that_goes() -> Result<(), String> {
    let fixture = Fixture::new();
    fixture.large("file", 100 * 4096, Stability::FileSync);
    fixture.remove("file");
    let (then, all) = (name("then"), fixture.all());
    let pinned = all.pin(&then).now_or_never();
    let pinned = pinned.ok_or("the snapshot waits for a file that is being freed")?;
    fixture.make_all_durable();
    assert!(fixture.opened(pinned).is_ok());
    fixture.disk.platter().check(false)
}

#[test]
fn a_snapshot_does_not_wait_for_a_file_that_is_being_freed() {
    assert_eq!(a_snapshot_waits_for_no_file_that_goes(), Ok(()));
}

#[test]
fn no_snapshot_waits_for_steps_for_which_no_room_comes() {
    let fixture = Fixture::new();
    let file = fixture.large("file", 100 * 4096, Stability::FileSync);
    let (then, all) = (name("then"), fixture.all());
    let shorter = fixture.shorten(file, || {
        fixture.disk.refuse(true);
        let pinned = all.pin(&then).now_or_never();
        fixture.disk.refuse(false);
        let told = pinned.expect("it waits").open().now_or_never().expect("nothing is done");
        assert_eq!(told.expect("it runs").into_inner().err(), Some(FsError::NoSpace));
    });
    assert_eq!(shorter, Ok(()));
    assert_eq!(fixture.done(all.pin(&then)).map(|then| then.number), Ok(SnapshotNumber(1)));
}

#[test]
fn a_stop_waits_for_what_changes_snapshots_and_is_the_end_of_that() {
    let fixture = Fixture::with(Disk::new(1 << 20, NOW), RamOptions::default());
    let (all, [one, other, late]) = (fixture.all(), ["one", "other", "late"].map(name));
    let file = fixture.large("file", 100 * 4096, Stability::FileSync);
    // The first waits for steps, the second for the first, and the stop begins before its turn.
    let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
    let who = Requester::root();
    let shorter = fixture.files.setattr(&who, file, set, None);
    let (pins, stop) = (join(all.pin(&one), all.pin(&other)), fixture.files.shutdown());
    let (_, (one, other), stopped) = fixture.executor.block_on(join3(shorter, pins, stop));
    assert_eq!(stopped, Ok(()));
    assert!(fixture.opened(one).is_ok());
    assert_eq!(fixture.opened(other).err(), Some(FsError::Io));
    assert_eq!(fixture.done(all.pin(&late)).err(), Some(FsError::Io));
    assert_eq!(fixture.disk.pending(), [], "all is at rest");
}

/// A file is looked up in a snapshot. A caller deletes that without waiting for the end.
#[test]
fn nothing_is_given_back_that_is_being_read() {
    let fixture = Fixture::new();
    fixture.create("file");
    let (files, who, all) = (&fixture.files, Requester::root().who, fixture.all());
    let [file, then] = ["file", "then"].map(name);
    assert!(fixture.done(all.pin(&then)).is_ok());
    let (number, tree) = (SnapshotNumber(1), files.root().within(SnapshotNumber(1)));
    assert!(fixture.done(files.getattr(tree)).is_ok(), "the directory is in memory");
    let mut looked = files.lookup(&who, tree, &file);
    fixture.executor.block_on(async {
        assert!(poll!(&mut looked).is_pending(), "it is reading");
        drop(all.delete(&then).now_or_never());
        assert!(all.delete_step(number).now_or_never().is_none(), "it is read");
        assert!(all.delete_step(number).now_or_never().is_none(), "still");
        drop(looked.await);
        assert!(all.delete_step(number).now_or_never().is_some(), "nobody reads it");
    });
}

/// The first listing reads from the disk, and the second finds everything in memory.
#[test]
fn a_long_listing_of_snapshots_gives_way() {
    const COUNT: u32 = 3 * STEPS_OF_A_TURN;
    let fixture = Fixture::new();
    let (all, who) = (fixture.all(), Requester::root().who);
    for number in 0..COUNT {
        assert!(fixture.done(all.pin(&name(&format!("of {number}")))).is_ok());
    }
    let listing = fixture.files.root().within(SnapshotNumber::LISTING);
    let list = || {
        let mut every = |_: &DirectoryEntry| true;
        let mut listed = pin!(fixture.files.readdir(&who, listing, 0, false, &mut every));
        let mut pauses = 0;
        loop {
            if let Some(sealed) = listed.as_mut().now_or_never() {
                return (fixture.opened(sealed).result.expect("it is listed").entries, pauses);
            }
            pauses += 1;
        }
    };
    list();
    let (entries, pauses) = list();
    assert_eq!((entries.len(), pauses), (COUNT as usize + 2, 3));
    assert!(entries.is_sorted_by_key(|entry| entry.cookie));
}
