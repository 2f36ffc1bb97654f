//! Runs cases and judges them: a case must not panic, hang or allocate too much.
//!
//! Cases run one after the other on a thread of their own, while the caller's thread watches it: a
//! case that hangs cannot be ended from within. Its allocations are counted, so that the judgement
//! about memory is exact and the same on every machine; only processor time counts, so that a busy
//! machine does not matter.
//!
//! Invariants:
//! 1. A case follows from its target, the seed and its number, and from the kept inputs.
//! 2. One run at a time in a process: allocations are counted for all threads together.
//!
//! Not asserted: 1, which tests show that make a case twice; 2, which a lock ensures.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use sim::Prng;

use crate::clock::{self, ThreadTime};
use crate::{MEMORY, Target, corpus, mutate};

/// The processor time in which a case must end.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same for a case that only waits, and so uses no processor time.
const PATIENCE_ASLEEP: Duration = Duration::from_secs(60);
/// The interval at which the watching thread checks.
const LOOK: Duration = Duration::from_millis(50);

/// The cases to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of the first case.
    pub first: u64,
    /// The most cases.
    pub cases: u64,
    /// The longest time, if there is one.
    pub time: Option<Duration>,
}

/// A violation by a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It panicked, with this message.
    Panicked(String),
    /// It did not end within a second.
    Hung,
    /// Its peak allocation exceeded its target's limit.
    Grew {
        /// Peak bytes.
        peak: usize,
        /// The limit in bytes.
        allowed: usize,
    },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Panicked(words) => write!(f, "panicked: {words}"),
            Self::Hung => write!(f, "did not end within {} s", PATIENCE.as_secs()),
            Self::Grew { peak, allowed } => {
                write!(f, "allocated {peak} bytes at once, where {allowed} are allowed")
            }
        }
    }
}

/// A failed case.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The number of the case.
    pub case: u64,
    /// The input.
    pub input: Vec<u8>,
    /// The violation.
    pub fault: Fault,
}

/// The result of a run, which ends with its first failure.
#[derive(Clone, Debug)]
pub struct Report {
    /// Cases that passed.
    pub passed: u64,
    /// The largest peak allocation of a case, in bytes.
    pub peak: usize,
    /// The case that failed.
    pub failure: Option<Failure>,
}

/// The input of a case (invariant 1).
pub fn input_of(target: &Target, kept: &[Vec<u8>], seed: u64, case: u64) -> Vec<u8> {
    let name = corpus::fingerprint(target.name.as_bytes());
    let mut prng = Prng::new(Prng::new(seed ^ name).next_u64().wrapping_add(case));
    let start = |prng: &mut Prng| {
        if kept.is_empty() || prng.chance(2, 3) {
            (target.generate)(prng)
        } else {
            kept[prng.index(kept.len())].clone()
        }
    };
    let mut input = start(&mut prng);
    if prng.chance(9, 10) {
        let other = if prng.chance(1, 4) { start(&mut prng) } else { Vec::new() };
        mutate::mutate(&mut prng, &mut input, &other, target.longest);
    }
    input
}

/// Runs the cases of a plan. Calls `before` with the number of each before it begins.
pub fn run(
    target: &'static Target,
    kept: Vec<Vec<u8>>,
    plan: Plan,
    mut before: impl FnMut(u64) + Send + 'static,
) -> Report {
    let start = clock::now();
    let mut case = plan.first;
    let cases = move || {
        let in_time = plan.time.is_none_or(|time| start.elapsed() < time);
        if case - plan.first == plan.cases || !in_time {
            return None;
        }
        let input = input_of(target, &kept, plan.seed, case);
        before(case);
        case += 1;
        Some((case - 1, input))
    };
    run_cases(target, cases)
}

/// Runs the inputs as they are; their indexes in the list are the numbers of the cases.
pub fn replay(target: &'static Target, inputs: Vec<Vec<u8>>) -> Report {
    let mut inputs = (0..).zip(inputs);
    run_cases(target, move || inputs.next())
}

/// The state that the two threads share: the case in progress.
type Current = Arc<Mutex<Option<(u64, Vec<u8>)>>>;

fn run_cases(
    target: &'static Target,
    mut cases: impl FnMut() -> Option<(u64, Vec<u8>)> + Send + 'static,
) -> Report {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = lock(&ONE); // invariant 2
    listen_to_panics();
    let current = Current::default();
    let (to_watcher, from_worker) = mpsc::channel();
    let shared = current.clone();
    let worker = move || {
        let _ = to_watcher.send(Message::Time(ThreadTime::of_this_thread()));
        let mut report = Report { passed: 0, peak: 0, failure: None };
        while let Some((case, input)) = cases() {
            let input = lock(&shared).insert((case, input)).1.clone();
            match judge(target, &input) {
                Ok(peak) => {
                    report.passed += 1;
                    report.peak = report.peak.max(peak);
                }
                Err(fault) => {
                    report.failure = Some(Failure { case, input, fault });
                    break;
                }
            }
        }
        let _ = to_watcher.send(Message::Done(report));
    };
    // The stack size of a program's main thread.
    let builder = thread::Builder::new().name(target.name.into()).stack_size(8 << 20);
    builder.spawn(worker).expect("a machine has room for another thread");
    watch(&current, &from_worker)
}

enum Message {
    Time(Option<ThreadTime>),
    Done(Report),
}

/// Waits for the end of the run, or until a case hangs. Its thread is then abandoned.
fn watch(current: &Current, worker: &mpsc::Receiver<Message>) -> Report {
    let Ok(Message::Time(time)) = worker.recv() else { panic!("a worker tells its time first") };
    let used = || time.as_ref().and_then(ThreadTime::used).unwrap_or_default();
    let (mut case, mut since, mut used_before) = (None, clock::now(), used());
    let mut passed = 0;
    loop {
        match worker.recv_timeout(LOOK) {
            Ok(Message::Done(report)) => return report,
            Ok(Message::Time(_)) => unreachable!("it is told once"),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the harness itself panicked"),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        let under_way = lock(current).clone();
        let number = under_way.as_ref().map(|(number, _)| *number);
        if number != case {
            (case, since, used_before) = (number, clock::now(), used());
            passed = number.unwrap_or(0);
        }
        let hangs = used().saturating_sub(used_before) > PATIENCE;
        if let Some((case, input)) =
            under_way.filter(|_| hangs || since.elapsed() > PATIENCE_ASLEEP)
        {
            let failure = Some(Failure { case, input, fault: Fault::Hung });
            return Report { passed, peak: 0, failure };
        }
    }
}

/// Runs one case; returns its peak allocation.
fn judge(target: &Target, input: &[u8]) -> Result<usize, Fault> {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    LAST_WORDS.set(Some(String::new()));
    let result = panic::catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    let peak = MEMORY.peak_usage().saturating_sub(before);
    let words = LAST_WORDS.take().unwrap_or_default();
    if result.is_err() {
        return Err(Fault::Panicked(words));
    }
    let allowed = target.allowance(input.len());
    if peak > allowed { Err(Fault::Grew { peak, allowed }) } else { Ok(peak) }
}

thread_local! {
    /// The message of a panic on a thread that runs a case.
    static LAST_WORDS: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records the message of a panicking case instead of printing it.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let noted = LAST_WORDS.with_borrow_mut(|words| match words {
                Some(words) if words.is_empty() => {
                    *words = info.to_string().replace('\n', " ");
                    true
                }
                Some(_) => true, // another panic while unwinding
                None => false,
            });
            if !noted {
                before(info);
            }
        }));
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
