//! Bounds for the most frequent calls of a server, in instructions: see `docs/performance.md`.
//!
//! `valgrind` counts the instructions of this very program, which then makes calls of one kind and
//! nothing else: the bytes of the call go through the record reader, the dispatcher, the namespace,
//! the engine and the log, onto disks in memory, and come back as the pieces of a reply. The
//! preparation is not counted. So neither the machine nor its other users matter; the compiler
//! does, a little, which is why there is some room under each bound.
//!
//! A change that needs a higher bound raises it, and says why.

#[path = "../answers/fixture.rs"]
mod fixture;
mod kinds;

use std::env;
use std::process::Command;

use dispatch::Session;
use nfs::reader::{Limits, Progress, RecordReader};
use nfs::rpc::Call;
use sim::Executor;

use fixture::client;
use kinds::{Calls, Kind};

/// The bound of each kind of call.
const BOUNDS: [Bound; 9] = [
    Bound { kind: Kind::Getattr, debug: 25_200, release: 5_930 },
    Bound { kind: Kind::Lookup, debug: 37_700, release: 9_830 },
    Bound { kind: Kind::Create, debug: 162_000, release: 61_300 },
    Bound { kind: Kind::Remove, debug: 178_000, release: 67_700 },
    Bound { kind: Kind::Write8k, debug: 243_000, release: 102_200 },
    Bound { kind: Kind::Append8k, debug: 301_000, release: 126_000 },
    Bound { kind: Kind::Hole8k, debug: 400_000, release: 183_000 },
    Bound { kind: Kind::Write64k, debug: 483_000, release: 177_800 },
    Bound { kind: Kind::Read1m, debug: 188_500, release: 75_900 },
];

struct Bound {
    kind: Kind,
    /// Instructions of a call in a test build, incremental or not,
    debug: u64,
    /// and in an optimised one.
    release: u64,
}

impl Bound {
    fn of(&self) -> u64 {
        if cfg!(debug_assertions) { self.debug } else { self.release }
    }
}

/// Orders for the counted program: the kind of call, and the extent.
const COUNTED: &str = "DURAMEN_COUNTED";

/// The extent of the program's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Stops before the calls: for tools that count whole programs, such as `dhat`.
    Prepared,
    /// Makes the calls.
    Called,
    /// The same, but decodes each call twice more than necessary.
    Planted,
}

const EXTENTS: [Extent; 3] = [Extent::Prepared, Extent::Called, Extent::Planted];

/// Makes calls of a kind.
fn run(kind: Kind, extent: Extent) {
    let executor = Executor::new(3);
    let calls = executor.block_on(Calls::prepare(&executor, kind));
    if extent != Extent::Prepared {
        make(&executor, &calls, extent == Extent::Planted);
    }
}

/// The counted part, as a function of its own, so that the counter sees it as one.
#[inline(never)]
fn make(executor: &Executor, calls: &Calls, planted: bool) {
    let session = calls.fixture.dispatcher.connect(client(1));
    executor.block_on(for_all(&session, &calls.records, planted));
}

/// The work of `server::connection` on the bytes of a connection, without the socket.
async fn for_all(session: &std::rc::Rc<Session>, calls: &[bytes::Bytes], planted: bool) {
    let mut reader = RecordReader::new(Limits::default()).with_checksums();
    for bytes in calls {
        let (mut rest, mut memory) = (&bytes[..], None);
        let record = loop {
            match reader.poll().expect("a stream of records") {
                Progress::NeedsBytes => rest = &rest[reader.feed(rest)..],
                Progress::NeedsMemory(bytes) => {
                    let party = session.party(reader.front());
                    memory = Some(session.request_memory(party, bytes).await);
                    reader.grant();
                }
                Progress::Record(record) => break record,
            }
        };
        if planted {
            decode(&record);
            decode(&record);
        }
        let memory = memory.expect("the reader asked for memory");
        let reply = session.call(record, memory).await.expect("a reply");
        assert!(kinds::is_good(&reply), "a call that was carried out");
    }
}

/// Decodes a call and drops it.
fn decode(record: &nfs::record::Record) {
    let call = Call::decode(std::hint::black_box(record)).expect("a call");
    let procedure = nfs::nfs3::Procedure::from_number(call.procedure).expect("one that there is");
    let arguments = nfs::nfs3::Arguments::decode(procedure, call.arguments);
    std::hint::black_box(arguments.expect("its arguments"));
}

/// Instructions of one call; `None` without valgrind.
fn cost(kind: Kind, extent: Extent) -> Option<u64> {
    let counter = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=hot_path::make")
        .arg(env::current_exe().expect("this program"))
        .args(["--exact", "the_calls_of_the_hot_path_keep_within_their_bounds"])
        .env(COUNTED, format!("{kind:?} {extent:?}"))
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&counter.stderr);
    assert!(counter.status.success(), "{said}");
    let total = said.lines().find_map(|line| line.split_once("Collected :")).expect("a total").1;
    Some(total.trim().parse::<u64>().expect("a number") / u64::from(kinds::COUNT))
}

/// Runs the orders in the environment, if this is the counted program.
fn is_counted() -> bool {
    let Ok(asked) = env::var(COUNTED) else { return false };
    let is_asked = |word: String| asked.split(' ').any(|asked| asked == word);
    let bound = BOUNDS.iter().find(|bound| is_asked(format!("{:?}", bound.kind)));
    let extent = EXTENTS.iter().find(|extent| is_asked(format!("{extent:?}")));
    run(bound.expect("a kind").kind, *extent.expect("an extent"));
    true
}

#[test]
fn the_calls_of_the_hot_path_keep_within_their_bounds() {
    if is_counted() {
        return;
    }
    let mut beyond = Vec::new();
    for bound in &BOUNDS {
        let (kind, most) = (bound.kind, bound.of());
        let Some(cost) = cost(kind, Extent::Called) else {
            eprintln!("SKIPPED: valgrind is not there to count instructions");
            return;
        };
        println!("{kind:?} takes {cost} instructions; {most} are the most");
        if cost > most {
            beyond.push(format!("{kind:?} takes {cost} instructions, where {most} are the most"));
        }
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
}

#[test]
fn a_call_that_is_decoded_too_often_is_noticed() {
    let bound = &BOUNDS[0];
    let Some(cost) = cost(bound.kind, Extent::Planted) else {
        eprintln!("SKIPPED: valgrind is not there to count instructions");
        return;
    };
    println!("{:?} takes {cost} instructions with what was planted", bound.kind);
    assert!(cost > bound.of(), "{cost} is not beyond {}", bound.of());
}
