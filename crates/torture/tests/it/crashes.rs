//! A load over a bad network and a server that loses its power: answers hold, and the same seed
//! gives the same run.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use dispatch::{Counters, Window};
use fsck::{CheckOptions, Severity, check};
use futures::FutureExt;
use nfs::nfs3::Procedure;
use nfs::rpc::PROGRAM_NFS;
use sim::{Mishaps, NetworkOptions};
use torture::client::ClientOptions;
use torture::history::Call;
use torture::world::{Status, World, WorldOptions};

use crate::load::{self, Complaints};

const CLIENTS: u32 = 4;
const STEPS: usize = 16;

/// Facts about a run, for comparison with another.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    digest: u64,
    disk: u128,
    complaints: Vec<String>,
    calls: usize,
    repeated: usize,
    crossed: usize,
    retransmissions: u64,
}

fn bad_client() -> ClientOptions {
    ClientOptions { calls: Mishaps::many(), replies: Mishaps::many(), ..ClientOptions::default() }
}

/// The seeds to run: `count` of them, or those from the first to before the second number in the
/// variable.
fn seeds(count: u64) -> Range<u64> {
    let Ok(text) = std::env::var("DURAMEN_CASE") else { return 0..count };
    let range = text.split_once("..").map(|(first, end)| (first.parse(), end.parse()));
    match range {
        Some((Ok(first), Ok(end))) => first..end,
        _ => panic!("DURAMEN_CASE is two numbers, as in 0..1000"),
    }
}

/// The command that repeats a run.
fn again(seed: u64) -> String {
    let end = seed + 1;
    format!("DURAMEN_CASE={seed}..{end} cargo test -p duramen-torture --test it crashes")
}

/// Starts the work of all clients; returns the count of those that have ended.
fn begin(world: &World, options: &ClientOptions, complaints: &Complaints) -> Rc<Cell<u32>> {
    let ended = Rc::new(Cell::new(0));
    for number in 1..=CLIENTS {
        let client = world.client(number, options.clone());
        let (history, prng) = (world.history().clone(), world.fork_prng());
        let work = load::work(client, history, prng, complaints.clone(), STEPS);
        let ended = ended.clone();
        let task = work.map(move |()| ended.set(ended.get() + 1));
        world.runtime().tasks.spawn(task.boxed_local());
    }
    ended
}

fn pass(world: &World, time: Duration) {
    world.run_for(time, std::future::pending::<()>());
}

/// Lets time pass until a condition holds.
fn wait_until(world: &World, what: &str, holds: impl Fn() -> bool) {
    let hour = Duration::from_secs(3600);
    let start = world.now();
    while !holds() {
        pass(world, Duration::from_micros(500));
        assert!(world.now().since(start) < hour, "an hour has passed, and still not: {what}");
        assert!(world.failure().is_none(), "{:?}", world.failure());
    }
}

/// A load with crashes, mostly power cuts, or of the process alone; at the end the server is
/// stopped and the disk checked.
fn run(seed: u64, crashes: u64, network: NetworkOptions) -> Run {
    let options = WorldOptions { network, ..WorldOptions::default() };
    let world = World::new(seed, options);
    let complaints = Complaints::default();
    let mut prng = world.fork_prng();
    world.start();
    let ended = begin(&world, &bad_client(), &complaints);
    for crash in 1..=crashes {
        let target = (crash * prng.between(10, 28)) as usize;
        wait_until(&world, "work is done", || {
            world.history().len() >= target || ended.get() == CLIENTS
        });
        pass(&world, Duration::from_micros(prng.below(3_000)));
        if prng.chance(1, 4) {
            world.kill()
        } else {
            world.crash()
        }
        pass(&world, Duration::from_micros(prng.below(2_000_000)));
        world.start();
    }
    wait_until(&world, "all clients have ended", || ended.get() == CLIENTS);
    assert_eq!(world.run(world.serving()), Status::Serving);
    world.run(world.stop());
    judge(&world, seed);
    summary(&world, complaints.take())
}

/// A load on a good network, where answers arrive soon. At the moment of an answer the power is
/// cut, and only flushed writes survive.
fn cut_upon_an_answer(seed: u64) -> Vec<String> {
    let world = World::new(seed, WorldOptions::default());
    let complaints = Complaints::default();
    let target = world.fork_prng().between(8, 60) as usize;
    world.start();
    let ended = begin(&world, &ClientOptions::default(), &complaints);
    while world.history().answered() < target && ended.get() < CLIENTS {
        pass(&world, Duration::from_micros(5));
    }
    world.crash_to(sim::Platter::durable_image);
    world.start();
    wait_until(&world, "all clients have ended", || ended.get() == CLIENTS);
    complaints.take()
}

/// A load without crashes, on a server with this window of remembered replies.
fn run_once(seed: u64, window: Window) -> (Vec<String>, Counters, Vec<Call>) {
    let world = World::new(seed, WorldOptions { window, ..WorldOptions::default() });
    let complaints = Complaints::default();
    world.start();
    let ended = begin(&world, &bad_client(), &complaints);
    wait_until(&world, "all clients have ended", || ended.get() == CLIENTS);
    let counters = world.dispatcher().expect("it runs").reply_cache_counters();
    (complaints.take(), counters, world.history().calls())
}

/// Whether the server must not execute a call twice.
fn changes_something(call: &Call) -> bool {
    let number = call.target.procedure;
    let procedure = Procedure::from_number(number).filter(|_| call.target.program == PROGRAM_NFS);
    procedure.is_some_and(|procedure| {
        use Procedure::*;
        let changing = [Setattr, Write, Create, Mkdir, Symlink, Mknod, Remove, Rmdir, Rename, Link];
        changing.contains(&procedure)
    })
}

fn judge(world: &World, seed: u64) {
    let options = CheckOptions { full: true, ..CheckOptions::default() };
    let executor = sim::Executor::new(0);
    let runtime = executor.runtime();
    let disk = sim::Disk::new(&executor, world.disk().contents());
    let report = executor.block_on(check(&*disk, &runtime, &options, &mut |_| ()));
    let report = report.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let wrong = report.findings.list.iter().filter(|finding| finding.severity > Severity::Note);
    let wrong: Vec<_> = wrong.map(ToString::to_string).collect();
    assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
}

fn summary(world: &World, complaints: Vec<String>) -> Run {
    let calls = world.history().calls();
    assert!(calls.iter().all(|call| call.answered.is_some()), "no call is left behind");
    let many = |which: fn(&Call) -> bool| calls.iter().filter(|call| which(call)).count();
    Run {
        digest: world.digest(),
        disk: world.disk().contents().fingerprint(),
        complaints,
        calls: calls.len(),
        repeated: many(|call| call.sent.len() > 1),
        crossed: many(Call::crossed_a_crash),
        retransmissions: world.network().counters().retransmissions,
    }
}

#[test]
fn a_load_over_a_bad_network_and_three_crashes_is_answered_rightly_and_the_same_again() {
    let [mut calls, mut repeated, mut crossed] = [0; 3];
    let mut retransmissions = 0;
    for seed in seeds(100) {
        let [one, other] = [(); 2].map(|()| run(seed, 3, NetworkOptions::bad()));
        assert_eq!(one, other, "not the same run twice: {}", again(seed));
        assert!(one.complaints.is_empty(), "{:#?}: {}", one.complaints, again(seed));
        calls += one.calls;
        repeated += one.repeated;
        crossed += one.crossed;
        retransmissions += one.retransmissions;
    }
    println!(
        "{calls} calls, {repeated} repeated, {crossed} over a crash; {retransmissions} losses"
    );
    if calls > 5000 {
        assert!(repeated > 500 && crossed > 200 && retransmissions > 1000, "there was trouble");
    }
}

#[test]
fn a_repeated_call_is_answered_from_memory_and_executed_once() {
    let mut repetitions = 0;
    for seed in seeds(30) {
        let (complaints, counters, calls) = run_once(seed, Window::default());
        assert!(complaints.is_empty(), "{complaints:#?}: {}", again(seed));
        let made = calls.iter().filter(|call| changes_something(call));
        let numbers: usize = made.map(|call| 1 + call.put_off as usize).sum();
        assert_eq!(counters.misses as usize, numbers, "executions of calls: {}", again(seed));
        repetitions += counters.hits + counters.in_progress_hits;
    }
    assert!(repetitions > 0, "calls came twice");
}

#[test]
fn a_server_that_remembers_nothing_is_found_out() {
    let forgetful = Window { calls: 0, ..Window::default() };
    let found = (0..30).filter(|&seed| {
        let (complaints, counters, calls) = run_once(seed, forgetful);
        let made = calls.iter().filter(|call| changes_something(call)).count();
        !complaints.is_empty() && counters.misses as usize > made
    });
    assert!(found.count() > 10, "calls that are executed twice show in what is answered");
}

#[test]
fn what_was_answered_survives_a_cut_at_the_moment_of_the_answer() {
    for seed in seeds(40) {
        let complaints = cut_upon_an_answer(seed);
        assert!(complaints.is_empty(), "{complaints:#?}: {}", again(seed));
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn an_engine_that_answers_early_is_found_out() {
    use ffs::planted::{Bug, plant};
    plant(Some(Bug::EarlyReceipts));
    let found = (0..40).filter(|&seed| {
        // A lost promise shows as a complaint, or as a failed assertion of the load.
        let complaints = std::panic::catch_unwind(|| cut_upon_an_answer(seed));
        complaints.map_or(true, |complaints| !complaints.is_empty())
    });
    let found = found.count();
    plant(None);
    assert!(found > 5, "{found} of 40 loads show what was lost");
}
