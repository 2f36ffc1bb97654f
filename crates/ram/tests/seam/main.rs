//! Which reply waits for which Update, in tests that decide when Updates become durable.

mod chains;
mod climbs;
mod goals;
mod listing;
mod snapshots;

use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use namespace::Namespace;
use ram::{Cut, Disk, Ram, RamOptions, open};
use runtime::Timestamp;
use sim::Executor;
use vfs::{
    CallKey, CreateHow, DirectoryEntry, FileSystem, FsError, Name, ObjectId, Requester,
    SetAttributes, SnapshotNumber,
};
use vnode::Files;

const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };

struct Fixture {
    executor: Executor,
    disk: Rc<Disk>,
    files: Namespace<Files<Ram>>,
}

fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("a legal name")
}

impl Fixture {
    fn new() -> Self {
        Self::on(Disk::new(1 << 20, NOW))
    }

    /// An engine whose Updates become durable only by [`Disk::make_durable`].
    fn on(disk: Rc<Disk>) -> Self {
        let day = Duration::from_secs(86_400);
        Self::with(disk, RamOptions { delay: day..2 * day, ..RamOptions::default() })
    }

    fn with(disk: Rc<Disk>, options: RamOptions) -> Self {
        let executor = Executor::new(1);
        let files = executor.block_on(open(disk.clone(), executor.runtime(), options));
        let files = Namespace::new(files.unwrap_or_else(|error| panic!("{error}")));
        Self { executor, disk, files }
    }

    /// Makes a file without waiting for the answer.
    fn create(&self, text: &str) {
        let (who, how) = (Requester::root(), CreateHow::Guarded(SetAttributes::default()));
        let root = self.files.root();
        drop(self.executor.block_on(self.files.create(&who, root, &name(text), how)));
    }

    fn remove(&self, text: &str) {
        let (who, root) = (Requester::root(), self.files.root());
        drop(self.executor.block_on(self.files.remove(&who, root, &name(text))));
    }

    /// Makes a directory, and looks its name up before it is durable. Returns its id once
    /// everything is.
    fn make_directory(&self, parent: ObjectId, text: &str) -> ObjectId {
        let (who, none) = (Requester::root(), SetAttributes::default());
        drop(self.executor.block_on(self.files.mkdir(&who, parent, &name(text), none)));
        let found = self.executor.block_on(self.files.lookup(&who.who, parent, &name(text)));
        self.make_all_durable();
        let answer = self.executor.block_on(found.open()).expect("it runs").into_inner();
        answer.result.expect("it was made").id
    }

    fn make_all_durable(&self) {
        (1..=self.disk.events()).for_each(|sequence| self.disk.make_durable(sequence));
    }

    /// Moves a name without waiting for the answer.
    fn rename(&self, from: (ObjectId, &str), to: (ObjectId, &str)) {
        let (who, old, new) = (Requester::root(), name(from.1), name(to.1));
        drop(self.executor.block_on(self.files.rename(&who, from.0, &old, to.0, &new)));
    }

    /// The names in the root, if a listing may be answered now.
    fn told(&self) -> Option<Vec<String>> {
        let (who, mut all) = (Requester::root().who, |_: &DirectoryEntry| true);
        let listed = self.files.readdir(&who, self.files.root(), 0, false, &mut all);
        let sealed = self.executor.block_on(listed);
        let answer = sealed.open().now_or_never()?.expect("it runs").into_inner();
        let names = answer.result.expect("it is listed").entries.into_iter();
        Some(names.map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect())
    }

    /// A power cut that takes everything that is not durable.
    fn lose_the_rest(self) -> Self {
        let Self { executor, disk, files } = self;
        disk.cut(|| false);
        drop((files, executor));
        Self::on(disk)
    }
}

/// Two files are made, and only the second is durable: no listing may show both.
fn a_listing_waits_for_all_it_shows() -> Result<(), String> {
    let fixture = Fixture::new();
    fixture.create("one");
    fixture.create("other");
    fixture.disk.make_durable(2);
    if let Some(told) = fixture.told() {
        return Err(format!("{told:?} is told, and 'one' may be lost"));
    }
    let fixture = fixture.lose_the_rest();
    match fixture.told().as_deref() {
        Some([_, _, other]) if other == "other" => fixture.disk.platter().check(true),
        told => Err(format!("'other' alone was durable: {told:?}")),
    }
}

/// A file is removed, and another is made, whose name would fit into its place: the first may come
/// back.
fn a_name_does_not_take_the_place_of_one_that_may_come_back() -> Result<(), String> {
    let fixture = Fixture::new();
    fixture.create("first");
    fixture.disk.make_durable(1);
    fixture.remove("first");
    fixture.create("other");
    fixture.disk.make_durable(3);
    let fixture = fixture.lose_the_rest();
    match fixture.told().map(|told| told.len()) {
        Some(4) => fixture.disk.platter().check(true),
        told => Err(format!("both are there, with the dots: {told:?}")),
    }
}

/// A directory moves out of another, which then moves below the first. Neither move changes
/// anything that the other changes; but the second without the first makes a cycle.
fn a_directory_does_not_come_below_itself() -> Result<(), String> {
    let fixture = Fixture::new();
    let root = fixture.files.root();
    let [here, there] = ["here", "there"].map(|text| fixture.make_directory(root, text));
    let upper = fixture.make_directory(here, "upper");
    let between = fixture.make_directory(upper, "between");
    let lower = fixture.make_directory(between, "lower");
    let lowest = fixture.make_directory(lower, "lowest");
    let before = fixture.disk.events();
    fixture.rename((between, "lower"), (there, "lower"));
    fixture.rename((here, "upper"), (lowest, "upper"));
    assert_eq!(fixture.disk.events(), before + 2, "both are on their way");
    let both: Vec<u64> = fixture.disk.pending();
    fixture.disk.make_durable(both[1]);
    fixture.disk.platter().check(true)
}

/// A call changes a file after another one has, and both are to be remembered.
fn an_answer_is_not_remembered_without_what_it_shows() -> Result<(), String> {
    let fixture = Fixture::new();
    fixture.create("one");
    let call = Some(Rc::new(CallKey::new(b"a client, and its number").expect("a key")));
    let (who, how) =
        (Requester { call, ..Requester::root() }, CreateHow::Guarded(Default::default()));
    let (root, other) = (fixture.files.root(), name("other"));
    drop(fixture.executor.block_on(fixture.files.create(&who, root, &other, how)));
    fixture.disk.make_durable(2);
    let fixture = fixture.lose_the_rest();
    match fixture.told() {
        Some(told) if told.len() == 2 => Ok(()),
        told => Err(format!("its answer shows the times of 'one', which is not there: {told:?}")),
    }
}

/// A snapshot is made, and a client reads it before it is durable; then it is deleted, and a client
/// reads it before that is durable.
fn an_answer_about_a_snapshot_waits_until_it_is_durable() -> Result<(), String> {
    let fixture = Fixture::new();
    let who = Requester::root().who;
    let (root, run) = (fixture.files.root(), &fixture.executor);
    fixture.create("one");
    fixture.make_all_durable();
    let all = fixture.files.snapshots().expect("this engine has them");
    let pinned = run.block_on(all.pin(&name("then")));
    if pinned.open().now_or_never().is_some() {
        return Err("a snapshot is told to be there that a cut takes".to_owned());
    }
    let tree = root.within(SnapshotNumber(1));
    let listing = root.within(SnapshotNumber::LISTING);
    let (one, then) = (name("one"), name("then"));
    let told = || {
        [
            run.block_on(fixture.files.getattr(tree)).open().now_or_never().is_some(),
            run.block_on(fixture.files.lookup(&who, tree, &one)).open().now_or_never().is_some(),
            run.block_on(fixture.files.lookup(&who, listing, &then))
                .open()
                .now_or_never()
                .is_some(),
            run.block_on(fixture.files.getattr(listing)).open().now_or_never().is_some(),
        ]
    };
    if told() != [false; 4] {
        return Err(format!("what is in it is told before: {:?}", told()));
    }
    fixture.make_all_durable();
    assert_eq!(told(), [true; 4], "it is durable");
    let gone = run.block_on(all.delete(&then));
    if gone.open().now_or_never().is_some() || told() != [false; 4] {
        return Err(format!("a snapshot is told to be gone that comes back: {:?}", told()));
    }
    fixture.make_all_durable();
    assert_eq!(told(), [true; 4], "it is durably gone");
    Ok(())
}

/// A snapshot is made while changes before and after it are pending.
#[test]
fn a_snapshot_is_durable_after_all_that_it_holds() {
    let fixture = Fixture::new();
    fixture.create("before");
    let all = fixture.files.snapshots().expect("this engine has them");
    drop(fixture.executor.block_on(all.pin(&name("then"))));
    fixture.create("behind");
    let pending = fixture.disk.pending();
    assert_eq!(pending.len(), 3, "all are on their way");
    fixture.disk.make_durable(pending[1]);
    fixture.disk.make_durable(pending[2]);
    assert_eq!(fixture.disk.pending(), pending[..2], "the snapshot rests on what is before it");
    fixture.disk.make_durable(pending[0]);
    assert_eq!(fixture.disk.pending(), [], "and comes with it");
    let fixture = fixture.lose_the_rest();
    let then = fixture.files.root().within(SnapshotNumber(1));
    let names = [("before", Ok(())), ("behind", Err(FsError::NoEntry))];
    for (text, right) in names {
        let (who, text) = (Requester::root().who, name(text));
        let found = fixture.executor.block_on(fixture.files.lookup(&who, then, &text));
        let found = fixture.executor.block_on(found.open()).expect("it runs").into_inner().result;
        assert_eq!(found.map(|_| ()), right, "{text:?}");
    }
}

#[test]
fn what_is_told_of_a_snapshot_is_durable() {
    assert_eq!(an_answer_about_a_snapshot_waits_until_it_is_durable(), Ok(()));
}

#[test]
fn moves_of_directories_rest_on_the_way_up() {
    assert_eq!(a_directory_does_not_come_below_itself(), Ok(()));
}

#[test]
fn a_remembered_answer_rests_on_what_it_shows() {
    assert_eq!(an_answer_is_not_remembered_without_what_it_shows(), Ok(()));
}

#[test]
fn updates_of_one_directory_are_durable_out_of_order_and_a_listing_waits_for_each() {
    assert_eq!(a_listing_waits_for_all_it_shows(), Ok(()));
}

#[test]
fn a_place_in_a_directory_is_kept_for_what_may_come_back() {
    assert_eq!(a_name_does_not_take_the_place_of_one_that_may_come_back(), Ok(()));
}

#[test]
fn what_rests_on_something_waits_for_it() {
    let fixture = Fixture::new();
    fixture.create("file");
    fixture.remove("file");
    fixture.disk.make_durable(2);
    assert_eq!(fixture.told(), None, "the removal rests on the creation");
    fixture.disk.make_durable(1);
    assert_eq!(fixture.told().map(|told| told.len()), Some(2));
}

#[test]
fn a_cut_keeps_what_is_closed_and_says_what_it_did() {
    let fixture = Fixture::new();
    fixture.create("file");
    fixture.remove("file");
    fixture.create("other");
    let mut keeps = [false, true, true].into_iter();
    let cut = fixture.disk.cut(|| keeps.next().expect("three"));
    assert_eq!(cut, Cut { taken: 2, kept: 1 }, "a removal without its creation is nothing");
    assert_eq!(fixture.disk.platter().check(true), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn broken_rules_are_found() {
    vnode::planted::plant(Some(vnode::planted::Bug::NewestAlone));
    let newest = a_listing_waits_for_all_it_shows();
    vnode::planted::plant(None);
    ram::planted::plant(Some(ram::planted::Bug::ReusedSlots));
    let reused = a_name_does_not_take_the_place_of_one_that_may_come_back();
    ram::planted::plant(Some(ram::planted::Bug::LoneAnswers));
    let alone = an_answer_is_not_remembered_without_what_it_shows();
    ram::planted::plant(None);
    namespace::planted::plant(Some(namespace::planted::Bug::LooseMoves));
    let circle = a_directory_does_not_come_below_itself();
    namespace::planted::plant(None);
    vnode::planted::plant(Some(vnode::planted::Bug::UnwaitedPins));
    let unwaited = an_answer_about_a_snapshot_waits_until_it_is_durable();
    vnode::planted::plant(Some(vnode::planted::Bug::LockedWaits));
    let locked = snapshots::a_removal_without_a_place_keeps_no_call_waiting();
    vnode::planted::plant(Some(vnode::planted::Bug::PinsAwaitOrphans));
    let awaited = snapshots::a_snapshot_waits_for_no_file_that_goes();
    vnode::planted::plant(None);
    for found in [newest, reused, alone, circle, unwaited, locked, awaited] {
        println!("{}", found.expect_err("it is found"));
    }
}
