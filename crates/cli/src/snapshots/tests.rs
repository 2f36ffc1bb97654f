//! Snapshots of a served volume, over the engine in memory, in virtual time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Verb;
use designs::{Disks, MkfsOptions, OpenOptions, SHADOW};
use duramen_settings::{Settings, SnapshotsSettings};
use futures::FutureExt;
use futures::future::{Either, LocalBoxFuture, join_all, select};
use namespace::Namespace;
use ram::{Disk, Platter, RamOptions};
use runtime::{Clock, Instant, Runtime, Timestamp};
use serde_json::{Value, json};
use server::control::{Jobs, Refused};
use sim::{Effect, Executor, Fault, Image};
use vfs::{CreateHow, FileSystem, Name, Requester, SetAttributes};

use super::Place;
use super::here::Here;
use super::interrupt::Interrupt;
use super::keeper::Keeper;
use super::schedule::attend;
use super::verbs::{self, Wrong};
use crate::calendar::{show_day, show_hour};
use crate::volume::Volume;

const SIZE: u64 = 4 << 20;
const HOUR: Duration = Duration::from_secs(3600);

/// A clock that the test can set.
struct Set {
    clock: Rc<dyn Clock>,
    by_seconds: Rc<Cell<i64>>,
}

impl Clock for Set {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn wall(&self) -> Timestamp {
        let Timestamp { seconds, nanoseconds } = self.clock.wall();
        Timestamp { seconds: seconds + self.by_seconds.get(), nanoseconds }
    }

    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        self.clock.sleep(duration)
    }
}

/// A volume that is served.
struct Served {
    disk: Rc<Disk>,
    files: Rc<dyn FileSystem>,
    keeper: Keeper,
    jobs: Jobs,
    runtime: Runtime,
    by_seconds: Rc<Cell<i64>>,
}

impl Served {
    async fn of(executor: &Executor, disk: Rc<Disk>, options: RamOptions) -> Self {
        let (mut runtime, by_seconds) = (executor.runtime(), Rc::new(Cell::new(0)));
        runtime.clock = Rc::new(Set { clock: runtime.clock, by_seconds: by_seconds.clone() });
        let opened = ram::open(disk.clone(), runtime.clone(), options).await;
        let files: Rc<dyn FileSystem> = Rc::new(Namespace::new(opened.expect("it is a disk")));
        let jobs = Jobs::default();
        let keeper = Keeper::new("volume".into(), files.clone(), jobs.clone(), &runtime);
        Self { disk, files, keeper, jobs, runtime, by_seconds }
    }

    async fn new(executor: &Executor) -> Self {
        let disk = Disk::new(SIZE, executor.runtime().clock.wall());
        Self::of(executor, disk, RamOptions::default()).await
    }

    /// Serves the volume again after a cut, or after hours without a server.
    async fn again(executor: &Executor, platter: Platter) -> Self {
        Self::of(executor, Disk::of(SIZE, platter), RamOptions::default()).await
    }

    fn attend(&self, hourly: Option<u32>, daily: Option<u32>) {
        attend(self.keeper.clone(), SnapshotsSettings { hourly, daily });
    }

    async fn sleep(&self, time: Duration) {
        self.runtime.clock.sleep(time).await;
    }

    /// Sleeps until `time` after the beginning of the next hour.
    async fn sleep_into_the_next_hour(&self, time: Duration) {
        let left = 3600 - self.now().rem_euclid(3600).unsigned_abs();
        self.sleep(Duration::from_secs(left) + time).await;
    }

    fn now(&self) -> i64 {
        self.runtime.clock.wall().seconds
    }

    /// Name of the hourly snapshot from `ago` hours ago.
    fn hour(&self, ago: i64) -> String {
        format!("hourly-{}", show_hour(self.now() - 3600 * ago))
    }

    /// The names of the snapshots that are not being deleted, and the number of all.
    async fn names(&self) -> (Vec<String>, usize) {
        let all = verbs::list(&*self.files).await.expect("it has snapshots");
        let found = all.iter().filter(|told| !told.is_deleting());
        (found.map(|told| told.name.clone()).collect(), all.len())
    }

    async fn order(&self, order: &str, name: &str) -> Result<Value, Refused> {
        self.keeper.clone().act()(order.to_owned(), json!({ "name": name })).await
    }

    async fn touch(&self, name: &str) {
        let how = CreateHow::Guarded(SetAttributes::default());
        let (root, name) = (self.files.root(), Name::parse(name.as_bytes()).expect("legal"));
        let made = self.files.create(&Requester::root(), root, &name, how).await.open().await;
        made.expect("it runs").into_inner().result.expect("it is new");
    }

    /// A command at work on the volume, and the interrupt of its user.
    fn place(&self) -> (Place, Rc<Cell<bool>>) {
        let (runtime, is_heard) = (self.runtime.clone(), Rc::new(Cell::new(false)));
        let interrupt = Interrupt { is_heard: is_heard.clone(), runtime: runtime.clone() };
        let volume = Volume {
            path: "volume".into(),
            disk_path: "volume".into(),
            log_path: None,
            settings: Settings::of(&SHADOW),
            folder: None,
            is_log_named: false,
            is_degraded_meant: false,
            silent: std::collections::BTreeSet::new(),
            is_waiting: std::sync::Arc::default(),
            is_loss_accepted: false,
            is_nvram_given_up: false,
        };
        (Place { volume, socket: None, runtime, interrupt }, is_heard)
    }

    /// States of the jobs, in the order in which they began.
    fn states(&self) -> Vec<Value> {
        self.jobs
            .told()
            .as_array()
            .expect("a list")
            .iter()
            .map(|job| job["state"].clone())
            .collect()
    }
}

fn run(test: impl AsyncFnOnce(&Executor)) {
    let executor = Executor::new(7);
    executor.block_on(test(&executor));
}

#[test]
fn so_many_are_kept_of_each_kind_and_none_of_another_goes() {
    run(async |executor| {
        let served = Served::new(executor).await;
        let mine = ["mine", "hourly-", "hourly-mine", "daily-2026-1-1", "daily-2026-01-01x"];
        for name in mine {
            served.order("create", name).await.expect("it is new");
        }
        served.attend(Some(3), Some(2));
        served.sleep(HOUR * 75).await;
        served.sleep_into_the_next_hour(Duration::from_secs(90)).await;
        let (names, all) = served.names().await;
        assert_eq!(names[..mine.len()], mine);
        let kept = &names[mine.len()..];
        for expected in [served.hour(2), served.hour(1), served.hour(0)] {
            assert!(kept.contains(&expected), "{expected}: {names:?}");
        }
        for ago in [0, 1] {
            let expected = format!("daily-{}", show_day(served.now() - ago * 24 * 3600));
            assert!(kept.contains(&expected), "{expected}: {names:?}");
        }
        assert_eq!((kept.len(), all), (5, names.len()), "the others are deleted wholly: {names:?}");
    });
}

#[test]
fn only_the_kind_that_is_asked_for_is_made() {
    run(async |executor| {
        let served = Served::new(executor).await;
        served.attend(None, Some(7));
        served.sleep(HOUR * 73).await;
        let (names, _) = served.names().await;
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(names.iter().all(|name| name.starts_with("daily-")), "{names:?}");
    });
}

#[test]
fn an_hour_that_began_while_it_was_not_served_is_not_made_up_for() {
    run(async |executor| {
        let served = Served::new(executor).await;
        served.sleep_into_the_next_hour(HOUR / 2).await;
        served.attend(Some(10), None);
        served.sleep(HOUR / 3).await;
        assert_eq!(served.names().await.0, [""; 0], "its hour had begun before");
        served.sleep_into_the_next_hour(Duration::from_secs(1)).await;
        let first = served.hour(0);
        assert_eq!(served.names().await.0, [&first[..]], "as the hour begins, and not later");
        let platter = served.disk.platter();
        served.sleep(HOUR * 5).await;
        let (now, served) = (served.now(), Served::again(executor, platter).await);
        served.attend(Some(10), None);
        served.sleep_into_the_next_hour(Duration::from_secs(90)).await;
        assert!(served.now() < now + 3600 + 90, "it was not served for five hours");
        assert_eq!(served.names().await.0, [first, served.hour(0)]);
    });
}

#[test]
fn a_clock_that_is_set_back_makes_no_second_one_of_the_same_name() {
    run(async |executor| {
        let served = Served::new(executor).await;
        served.attend(Some(10), None);
        served.sleep_into_the_next_hour(HOUR + Duration::from_secs(90)).await;
        let before = served.names().await;
        assert_eq!(before.0, [served.hour(1), served.hour(0)]);
        served.by_seconds.set(-3600);
        served.sleep(HOUR - Duration::from_secs(120)).await;
        assert_eq!(served.names().await, before, "the hour is one that has been");
        served.sleep(Duration::from_secs(120)).await;
        assert_eq!(served.names().await, before, "this one, too");
        served.sleep_into_the_next_hour(Duration::from_secs(90)).await;
        assert_eq!(served.names().await.0, [served.hour(2), served.hour(1), served.hour(0)]);
    });
}

#[test]
fn a_clock_that_is_set_back_does_not_make_up_for_hours_either() {
    run(async |executor| {
        let served = Served::new(executor).await;
        served.sleep(HOUR * 9).await;
        served.attend(Some(10), None);
        served.sleep_into_the_next_hour(Duration::from_secs(90)).await;
        let first = served.hour(0);
        served.by_seconds.set(-5 * 3600);
        served.sleep(HOUR / 2).await;
        assert_eq!(served.names().await.0, [&first[..]], "this hour began long ago");
        served.sleep_into_the_next_hour(Duration::from_secs(90)).await;
        assert_eq!(served.names().await.0, [first, served.hour(0)]);
    });
}

#[test]
fn a_clock_that_was_ahead_for_a_year_leaves_nothing_for_ever() {
    run(async |executor| {
        let served = Served::new(executor).await;
        served.attend(Some(2), None);
        served.by_seconds.set(366 * 24 * 3600);
        served.sleep_into_the_next_hour(Duration::from_secs(90)).await;
        assert_eq!(served.names().await.0, [served.hour(0)]);
        served.by_seconds.set(0);
        served.sleep(HOUR * 3).await;
        assert_eq!(served.names().await.0, [served.hour(1), served.hour(0)]);
    });
}

#[test]
fn a_deletion_is_a_job_beside_which_others_are_made() {
    run(async |executor| {
        let served = Served::new(executor).await;
        for file in 0..40 {
            served.touch(&file.to_string()).await;
        }
        for name in ["a", "b"] {
            served.order("create", name).await.expect("it is new");
        }
        let begun = served.order("delete", "a").await.expect("it is there");
        let told = &begun["snapshot"];
        assert_eq!((&told["name"], &told["state"]), (&"a".into(), &"deleting".into()));
        assert_eq!(begun["job"], 1);
        let again = served.order("delete", "a").await.expect("it goes");
        assert_eq!((&again["job"], &again["snapshot"]["number"]), (&1.into(), &told["number"]));
        assert_eq!(served.order("delete", "b").await.expect("it is there")["job"], 2);
        served.order("create", "a").await.expect("the name is free");
        assert_eq!(served.states(), ["running", "running"], "a step was waited for, not all");
        served.sleep(HOUR).await;
        assert_eq!(served.states(), ["done", "done"]);
        assert_eq!(served.names().await, (vec!["a".to_owned()], 1));
    });
}

#[test]
fn deletions_that_are_asked_for_at_once_all_come_to_an_end() {
    for seed in 0..30 {
        let executor = Executor::new(seed);
        executor.block_on(async {
            let served = Served::new(&executor).await;
            let names = ["a", "b", "c", "d", "e", "f"];
            for name in names {
                served.order("create", name).await.expect("it is new");
            }
            let all = names.map(|name| served.order("delete", name));
            let begun = join_all(all).await;
            assert!(begun.iter().all(Result::is_ok), "{begun:?}");
            served.sleep(HOUR).await;
            assert_eq!(served.names().await, (vec![], 0));
            assert_eq!(served.states(), ["done"; 6], "seed {seed}");
        });
    }
}

#[test]
fn a_deletion_that_was_cut_off_is_gone_on_with() {
    run(async |executor| {
        let served = Served::new(executor).await;
        for file in 0..40 {
            served.touch(&file.to_string()).await;
        }
        served.order("create", "a").await.expect("it is new");
        served.order("delete", "a").await.expect("it is there");
        let served = Served::again(executor, served.disk.platter()).await;
        assert_eq!(served.names().await, (vec![], 1), "it is not over");
        served.keeper.go_on();
        served.sleep(HOUR).await;
        assert_eq!(served.names().await, (vec![], 0));
        assert_eq!(served.states(), ["done"]);
    });
}

#[test]
fn a_deletion_that_meets_a_stop_has_failed_and_is_not_lost() {
    run(async |executor| {
        let served = Served::new(executor).await;
        for file in 0..40 {
            served.touch(&file.to_string()).await;
        }
        served.order("create", "a").await.expect("it is new");
        served.order("delete", "a").await.expect("it is there");
        served.files.shutdown().await.expect("it runs");
        served.sleep(HOUR).await;
        assert_eq!(served.states(), ["failed"]);
        let served = Served::again(executor, served.disk.platter()).await;
        assert_eq!(served.names().await, (vec![], 1));
    });
}

/// Snapshots of a volume of engine `shadow` on this disk.
async fn on_a_disk(runtime: &Runtime, disk: &Rc<sim::Disk>) -> (Keeper, Jobs) {
    let disks = Disks::alone(disk.clone());
    let (open, options) = (SHADOW.work().open, OpenOptions::default());
    let opened = open(disks, runtime.clone(), &options, &mut |_| ()).await;
    let jobs = Jobs::default();
    let files = opened.expect("it is well").files;
    (Keeper::new("volume".into(), files, jobs.clone(), runtime), jobs)
}

/// Creates a new volume on a disk, with a snapshot whose deletion has begun.
async fn that_deletes(executor: &Executor) -> (Rc<sim::Disk>, Keeper, Jobs) {
    let disk = sim::Disk::new(executor, Image::zeroed(SIZE));
    let runtime = executor.runtime();
    let made = MkfsOptions { zone_size: Some(256 << 10), ..MkfsOptions::default() };
    let now = runtime.clock.wall();
    (SHADOW.work().make)(&*disk, &made, &*runtime.random, now).await.expect("it has room");
    let (keeper, jobs) = on_a_disk(&runtime, &disk).await;
    for name in ["a", "b"] {
        keeper.create(name).await.expect("it is new");
    }
    keeper.delete("a").await.expect("it is there");
    (disk, keeper, jobs)
}

#[test]
fn a_deletion_that_finds_no_room_below_goes_on_when_there_is_some() {
    run(async |executor| {
        let (disk, keeper, jobs) = that_deletes(executor).await;
        disk.inject(Fault::on(Verb::Write, Effect::NoSpace).forever());
        executor.runtime().clock.sleep(HOUR).await;
        assert_eq!(jobs.told()[0]["state"], "running");
        disk.heal();
        executor.runtime().clock.sleep(HOUR).await;
        assert_eq!(jobs.told()[0]["state"], "done");
        let left = keeper.list().await.expect("it goes on");
        assert_eq!(left.iter().map(|told| &told.name[..]).collect::<Vec<_>>(), ["b"]);
    });
}

#[test]
fn a_deletion_of_which_a_step_fails_goes_on_later() {
    run(async |executor| {
        let (disk, _, _) = that_deletes(executor).await;
        let runtime = executor.runtime();
        let disk = sim::Disk::new(executor, disk.contents());
        let (keeper, jobs) = on_a_disk(&runtime, &disk).await;
        disk.inject(Fault::on(Verb::Read, Effect::Eio).forever());
        keeper.go_on();
        runtime.clock.sleep(HOUR).await;
        let states = |jobs: &Jobs| jobs.told().as_array().map_or(0, Vec::len);
        assert_eq!((&jobs.told()[0]["state"], states(&jobs)), (&"failed".into(), 1), "once");
        disk.heal();
        runtime.clock.sleep(HOUR).await;
        let left = keeper.list().await.expect("it goes on");
        assert_eq!(left.iter().map(|told| &told.name[..]).collect::<Vec<_>>(), ["b"]);
    });
}

#[test]
fn a_command_that_is_interrupted_leaves_the_rest_of_a_deletion_to_the_next() {
    run(async |executor| {
        let served = Served::new(executor).await;
        for file in 0..40 {
            served.touch(&file.to_string()).await;
        }
        for name in ["a", "b", "c"] {
            served.order("create", name).await.expect("it is new");
        }
        let mut platter = served.disk.platter();
        for (new, expected) in [(true, "no snapshot is deleted"), (false, "the rest of it is")] {
            let served = Served::again(executor, platter).await;
            let (place, is_heard) = served.place();
            is_heard.set(new);
            let interrupt = async {
                while served.names().await.1 == served.names().await.0.len() {
                    served.sleep(Duration::from_micros(10)).await;
                }
                is_heard.set(true);
            };
            let here = Here { place: &place, files: served.files.clone() };
            let deleted = select(here.delete("c").boxed_local(), interrupt.boxed_local()).await;
            let deleted = match deleted {
                Either::Left((deleted, _)) => deleted,
                Either::Right(((), deleting)) => deleting.await,
            };
            let told = deleted.expect_err("it is interrupted").to_string();
            assert!(told.contains("interrupted: ") && told.contains(expected), "{told}");
            platter = served.disk.platter();
        }
        let served = Served::again(executor, platter).await;
        assert_eq!(served.names().await, (vec!["a".to_owned(), "b".to_owned()], 3));
        let (place, _) = served.place();
        let here = Here { place: &place, files: served.files.clone() };
        here.delete("c").await.expect("it is the same deletion");
        let served = Served::again(executor, served.disk.platter()).await;
        assert_eq!(served.names().await, (vec!["a".to_owned(), "b".to_owned()], 2));
    });
}

#[test]
fn a_volume_goes_back_when_those_in_its_way_are_wholly_gone() {
    run(async |executor| {
        let served = Served::new(executor).await;
        for name in ["a", "b", "c"] {
            served.order("create", name).await.expect("it is new");
            served.touch(name).await;
        }
        let back = async |newer| {
            let served = Served::again(executor, served.disk.platter()).await;
            let (place, _) = served.place();
            let here = Here { place: &place, files: served.files.clone() };
            (here.roll_back("b", newer).await, served.disk.platter())
        };
        let (refused, _) = back(false).await;
        let refused = refused.expect_err("there is a newer one").to_string();
        let why = "a snapshot is newer than 'b' and would be lost: c; if that is meant";
        assert!(refused.contains(why), "{refused}");
        let (deleted, platter) = back(true).await;
        assert_eq!(deleted.expect("it is meant"), ["c"]);
        let served = Served::again(executor, platter).await;
        assert_eq!(served.names().await, (vec!["a".to_owned(), "b".to_owned()], 2));
        served.touch("b").await; // the file no longer exists
    });
}

#[test]
fn one_that_takes_long_to_make_is_a_job() {
    run(async |executor| {
        let disk = Disk::new(SIZE, executor.runtime().clock.wall());
        let delay = Duration::from_secs(20)..Duration::from_secs(21);
        let options = RamOptions { delay, ..RamOptions::default() };
        let served = Served::of(executor, disk, options).await;
        let begun = served.order("create", "slow").await.expect("it is new");
        assert_eq!((begun, served.states()), (json!({ "job": 1 }), vec!["running".into()]));
        served.sleep(HOUR).await;
        assert_eq!(served.states(), ["done"]);
        assert_eq!(served.names().await.0, ["slow"]);
    });
}

#[test]
fn what_cannot_be_done_is_told_and_changes_nothing() {
    run(async |executor| {
        let served = Served::new(executor).await;
        for name in ["a", "b", "c"] {
            served.order("create", name).await.expect("it is new");
        }
        let before = served.names().await;
        let long = "x".repeat(256);
        for (order, name, expected) in [
            ("create", "x/y", "'x/y' cannot be the name of a snapshot: it has a '/'"),
            ("create", ".snapshot", "that is where snapshots are found"),
            ("create", "..", "that is a directory in each directory"),
            ("create", "", "it is empty"),
            ("create", "a\0b", "it has a byte 0"),
            ("create", &long, "more than 255 bytes"),
            ("delete", "x/y", "it has a '/'"),
        ] {
            let refused = served.order(order, name).await;
            let Err(Refused::Senseless(why)) = refused else { panic!("{refused:?}") };
            assert!(why.contains(expected), "{why}");
        }
        for (order, name, expected) in [
            ("create", "a", "there is a snapshot 'a' already"),
            ("delete", "d", "there is no snapshot 'd'; there are these: a, b, c"),
            ("rollback", "a", "it is served: stop its server"),
        ] {
            let refused = served.order(order, name).await;
            let Err(Refused::Conflict(why)) = refused else { panic!("{refused:?}") };
            assert!(why.contains(expected), "{why}");
        }
        assert_eq!(served.order("sing", "a").await, Err(Refused::Unknown));
        let act = served.keeper.clone().act();
        let refused = act("create".to_owned(), json!({ "nam": "x" })).await;
        assert!(matches!(refused, Err(Refused::Senseless(_))), "{refused:?}");
        let newer = verbs::newer(&*served.files, "a").await.expect("it is there");
        assert_eq!(newer.iter().map(|told| told.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        let absent = verbs::newer(&*served.files, "d").await;
        assert!(matches!(absent, Err(Wrong::Absent { .. })), "{absent:?}");
        assert_eq!(served.names().await, before);
        let options = RamOptions { read_only: true, ..RamOptions::default() };
        let disk = Disk::of(SIZE, served.disk.platter());
        let read = Served::of(executor, disk, options).await;
        for (order, name) in [("create", "d"), ("delete", "a")] {
            let refused = read.order(order, name).await;
            assert_eq!(refused, Err(Refused::Conflict("it can only be read".to_owned())));
        }
        assert_eq!(read.names().await, before);
    });
}
