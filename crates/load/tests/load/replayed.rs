//! A load that was recorded at one server and is replayed to another: every call is made again,
//! with the other's handles, and gets the same answer.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use dispatch::CallObserver;
use load::run::Measured;
use load::stage::{Stage, Unwatched};
use load::workload::{Workload, replay};
use nfs::nfs3::Procedure;
use nfs::rpc::Caller;
use runtime::Instant;
use torture::world::{VOLUME, World};
use trace::{Begun, Entry, MAGIC};

use crate::simulated::{client, options, plan};

/// A server's recording file, kept in memory.
#[derive(Default)]
struct Recording(RefCell<Vec<u8>>);

impl CallObserver for Recording {
    fn answered(&self, call: Begun, times: (Instant, Instant), connection: u64, reply: &[Bytes]) {
        let entry = Entry::seen(call, (times.0.0, times.1.0), connection, reply);
        self.0.borrow_mut().extend(entry.encode());
    }
}

async fn stage(world: &World, seed: u64) -> Stage {
    let dial = client(world);
    let (runtime, caller) = (world.runtime(), Caller::sys(b"load", 0, 0, &[]));
    let set = Stage::set(&runtime, &dial, caller, VOLUME, plan(seed), Rc::new(Unwatched)).await;
    set.unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}"))
}

/// Records all calls to a server during a workload, from the first MNT on.
fn record(name: &str) -> Vec<Entry> {
    let world = World::new(1, options());
    world.start();
    world.run(world.serving());
    let recording = Rc::new(Recording(RefCell::new(MAGIC.to_vec())));
    world.dispatcher().expect("it serves").set_observer(recording.clone());
    world.run(async {
        let stage = stage(&world, 1).await;
        let workload = Workload::named(name).expect("it is in the table");
        workload.play(&stage).await.expect("it can be prepared");
        stage.strike().await.expect("it can be removed");
    });
    let file = recording.0.take();
    trace::read(&file.into()).expect("what was just written")
}

/// Replays it to another server.
fn play(entries: &[Entry], speed: Option<f64>) -> Measured {
    let world = World::new(2, options());
    world.start();
    world.run(world.serving());
    world.run(async {
        let stage = stage(&world, 2).await;
        let measured = replay(&stage, entries, speed).await.expect("there is something in it");
        stage.strike().await.expect("it can be removed");
        measured
    })
}

/// The number of NFS calls in a trace.
fn calls(entries: &[Entry]) -> u64 {
    entries.iter().filter(|entry| entry.target != trace::Target::Mnt).count() as u64
}

#[test]
fn every_call_is_made_again_and_answered_as_it_was() {
    for name in ["smallfile", "copy-remove", "readdirplus", "rename", "write-64k"] {
        let entries = record(name);
        let measured = play(&entries, None);
        assert_eq!(measured.tally.failed(), 0, "{name}: {:?}", measured.tally.errors);
        assert_eq!(measured.tally.succeeded(), calls(&entries), "{name}");
    }
}

#[test]
fn a_trace_takes_its_own_time_or_a_part_of_it() {
    let entries = record("smallfile");
    let first = entries.iter().map(|entry| entry.begun_ns).min().expect("some");
    let last = entries.iter().map(|entry| entry.begun_ns).max().expect("some");
    let recorded = Duration::from_nanos(last - first);
    // Slow enough that the network delay of each call, which the server's times do not include, is
    // small in comparison.
    for speed in [0.05, 0.1] {
        let measured = play(&entries, Some(speed));
        let expected = recorded.div_f64(speed);
        let ratio = measured.elapsed.as_secs_f64() / expected.as_secs_f64();
        assert!((1.0..1.1).contains(&ratio), "{speed}: {:?}, not {expected:?}", measured.elapsed);
        assert_eq!(measured.tally.failed(), 0, "{:?}", measured.tally.errors);
    }
}

#[test]
fn what_was_answered_otherwise_and_what_is_not_there_are_told() {
    let mut entries = record("smallfile");
    // Changes the outcome of a successful MKDIR to a refusal.
    let mkdir = trace::Target::Nfs(Procedure::Mkdir);
    let one = entries.iter_mut().rfind(|entry| entry.target == mkdir).expect("there are many");
    one.results = Bytes::from_static(&[0, 0, 0, 28]);
    let measured = play(&entries, None);
    let errors = &measured.tally.errors;
    let told = "NFS3_OK, where NFS3ERR_NOSPC was recorded".to_owned();
    assert_eq!(errors.get(&("MKDIR", told)), Some(&1), "{errors:?}");

    // Without the MNT the replay knows no root, and no handle below it.
    let entries: Vec<_> =
        record("rename").into_iter().filter(|entry| entry.target != trace::Target::Mnt).collect();
    let measured = play(&entries, None);
    let told = "a file that was there before the trace began";
    assert!(measured.tally.failed() > 0 && measured.tally.succeeded() == 0);
    assert!(measured.tally.errors.keys().all(|(_, what)| what == told));
}
