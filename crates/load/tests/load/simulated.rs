//! Workloads against the whole server in a simulated world: the same as over TCP, in virtual time.
//! The same seed gives the same figures, to the nanosecond.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use lab::wire::Simulated;
use load::run::Measured;
use load::stage::{Plan, Ramp, Stage, Unwatched};
use load::workload::{ALL, Workload};
use nfs::nfs3::Procedure;
use nfs::rpc::Caller;
use torture::explore::design::Design;
use torture::world::{SERVER, VOLUME, World, WorldOptions};

pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));

/// Connections to the world's server.
pub(crate) fn client(world: &World) -> Simulated {
    Simulated { host: world.network().host(CLIENT, None), server: SERVER }
}

/// All results of a run.
struct Run {
    phases: Vec<Measured>,
    digest: u64,
    now_ns: u64,
}

impl Run {
    /// All figures, to the last digit.
    fn digits(&self) -> String {
        let mut text = format!("{:x} {}", self.digest, self.now_ns);
        for Measured { name, elapsed, tally, .. } in &self.phases {
            text.push_str(&format!("\n{name} {elapsed:?} {} bytes", tally.bytes));
            for (procedure, series) in tally.calls() {
                let (count, mean, max) = (series.count(), series.mean(), series.max());
                text.push_str(&format!(" {procedure} {count} {mean:?} {max:?}"));
            }
            text.push_str(&format!(" {:?}", tally.errors));
        }
        text
    }
}

/// A volume with a log, large enough for the workloads.
pub(crate) fn options() -> WorldOptions {
    let mut options = WorldOptions {
        size: 64 << 20,
        design: Design::LOG,
        log_size: 4 << 20,
        ..WorldOptions::default()
    };
    options.open.cache_bytes = 32 << 20;
    options
}

pub(crate) fn plan(seed: u64) -> Plan {
    Plan {
        connections: 2,
        depth: 4,
        duration: Some(Duration::from_secs(2)),
        count: 160,
        file_size: 1 << 20,
        ramp: Ramp { first: 100.0, last: Some(200.0), points: 2 },
        file_set_max: 2 << 20,
        seed,
        ..Plan::default()
    }
}

fn play(name: &str, seed: u64) -> Run {
    let world = World::new(seed, options());
    world.start();
    world.run(world.serving());
    let dial = client(&world);
    let (runtime, caller) = (world.runtime(), Caller::sys(b"load", 0, 0, &[]));
    let phases = world.run(async {
        let watch = Rc::new(Unwatched);
        let stage = Stage::set(&runtime, &dial, caller, VOLUME, plan(seed), watch).await;
        let stage = stage.unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}"));
        let workload = Workload::named(name).expect("it is in the table");
        let played = workload.play(&stage).await;
        let played = played.unwrap_or_else(|trouble| panic!("{name}, seed {seed}: {trouble}"));
        stage.strike().await.unwrap_or_else(|left| panic!("{name}, seed {seed}: {left}"));
        played.phases
    });
    Run { phases, digest: world.digest(), now_ns: world.now().0 }
}

#[track_caller]
fn assert_good(name: &str, run: &Run) {
    for phase in &run.phases {
        assert_eq!(phase.tally.failed(), 0, "{name}: {:?}", phase.tally.errors);
        assert!(phase.tally.succeeded() > 0, "{name}: {} did nothing", phase.name);
    }
}

#[test]
fn every_workload_of_one_procedure_or_two_runs_without_an_error() {
    for workload in ALL {
        assert_good(workload.name, &play(workload.name, 1));
    }
}

#[test]
fn the_same_seed_gives_the_same_digits_and_another_gives_others() {
    for name in ["create-write", "laddis3"] {
        let (one, again, other) = (play(name, 7), play(name, 7), play(name, 8));
        assert_good(name, &one);
        assert_eq!(one.digits(), again.digits(), "{name}, seed 7");
        assert_ne!(one.digits(), other.digits(), "{name}, seeds 7 and 8");
    }
}

#[test]
fn the_small_file_benchmark_makes_exactly_the_calls_that_it_says() {
    let run = play("smallfile", 1);
    assert_good("smallfile", &run);
    let counts = |phase: usize, procedures: &[Procedure]| {
        let tally = &run.phases[phase].tally;
        let all: Vec<_> = procedures.iter().map(|&procedure| tally.of(procedure)).collect();
        assert_eq!(all.iter().sum::<u64>(), tally.succeeded(), "and no others");
        all
    };
    assert_eq!(run.phases.len(), 4);
    assert_eq!(counts(0, &[Procedure::Lookup, Procedure::Mkdir]), [160, 160]);
    assert_eq!(counts(1, &[Procedure::Lookup, Procedure::Rmdir]), [160, 160]);
    let copies = [Procedure::Lookup, Procedure::Create, Procedure::Write];
    assert_eq!(counts(2, &copies), [160, 160, 160]);
    assert_eq!(counts(3, &[Procedure::Lookup, Procedure::Remove]), [160, 160]);
}

#[test]
fn a_mix_has_the_calls_of_its_table() {
    let run = play("laddis", 3);
    assert_good("laddis", &run);
    let calls: u64 = run.phases.iter().map(|phase| phase.tally.succeeded()).sum();
    assert!((500..700).contains(&calls), "100/s and 200/s for 2 s: {calls}");
    let of = |procedure| run.phases.iter().map(|phase| phase.tally.of(procedure)).sum::<u64>();
    let per_cent = |procedure| of(procedure) * 100 / calls;
    assert!((26..43).contains(&per_cent(Procedure::Lookup)), "34 % are LOOKUPs");
    assert!((14..31).contains(&per_cent(Procedure::Read)), "22 % are READs");
    assert!((8..24).contains(&per_cent(Procedure::Write)), "15 % are WRITEs");
}

#[test]
fn copies_are_what_was_copied() {
    let run = play("copy-remove", 2);
    assert_good("copy-remove", &run);
    let tally = &run.phases[0].tally;
    let copies = tally.headline().count();
    assert!(copies > 0);
    assert_eq!(tally.of(Procedure::Remove), 10 * copies);
    assert_eq!(tally.of(Procedure::Rmdir), copies);
}
