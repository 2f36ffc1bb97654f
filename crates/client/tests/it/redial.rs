//! A line that is lost and dialed anew, against a double that is configured with the fate of each
//! connection.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use client::connection::{Broken, Numbers};
use client::file::{Calls, Remote};
use client::stream::{ByteStream, Dial, Service};
use client::{CallError, Patience, Redial};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use nfs::nfs3::results::CommitOk;
use nfs::nfs3::{Handle, Outcome, Verifier, Wcc};
use nfs::rpc::{self, Caller};
use runtime::{Instant, Runtime};
use sim::Executor;

/// The fate of a connection, once a call has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It cannot be made.
    Refused,
    HangsUp,
    Silent,
    Garbage,
    Answers,
}

struct Double {
    runtime: Runtime,
    /// For one connection after the other; the last one is for all later ones.
    fates: Vec<Fate>,
    dialed: RefCell<Vec<Instant>>,
    heard: Rc<RefCell<Vec<Vec<u8>>>>,
}

struct Pair {
    fate: Fate,
    heard: Rc<RefCell<Vec<Vec<u8>>>>,
    calls: RefCell<Vec<u8>>,
    replies: RefCell<Vec<u8>>,
    has_ended: Cell<bool>,
    reader: RefCell<Option<Waker>>,
}

impl Dial for Double {
    fn dial(&self, _: Service) -> LocalBoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        let mut dialed = self.dialed.borrow_mut();
        let fate = self.fates[dialed.len().min(self.fates.len() - 1)];
        dialed.push(self.runtime.clock.now());
        let pair = Pair {
            fate,
            heard: self.heard.clone(),
            calls: RefCell::default(),
            replies: RefCell::default(),
            has_ended: Cell::new(false),
            reader: RefCell::default(),
        };
        let refused = io::ErrorKind::ConnectionRefused;
        async move {
            if fate == Fate::Refused {
                return Err(refused.into());
            }
            Ok(Box::new(pair) as Box<dyn ByteStream>)
        }
        .boxed_local()
    }
}

impl ByteStream for Pair {
    fn poll_read(&self, context: &mut Context<'_>, target: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut bytes = self.replies.borrow_mut();
        if bytes.is_empty() && !self.has_ended.get() {
            self.reader.replace(Some(context.waker().clone()));
            return Poll::Pending;
        }
        let length = bytes.len().min(target.len());
        bytes.drain(..length).zip(target).for_each(|(byte, place)| *place = byte);
        Poll::Ready(Ok(length))
    }

    fn poll_write(&self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut calls = self.calls.borrow_mut();
        calls.extend_from_slice(bytes);
        while let Some(mark) = calls.first_chunk() {
            let length = 4 + (u32::from_be_bytes(*mark) & !(1 << 31)) as usize;
            if calls.len() < length {
                break;
            }
            let call: Vec<u8> = calls.drain(..length).collect();
            self.hear(call);
        }
        Poll::Ready(Ok(bytes.len()))
    }
}

impl Pair {
    fn hear(&self, call: Vec<u8>) {
        let xid = u32::from_be_bytes(call[4..8].try_into().expect("four bytes"));
        self.heard.borrow_mut().push(call);
        let answer = match self.fate {
            Fate::Refused => unreachable!("it was never connected"),
            Fate::Silent => return,
            Fate::HangsUp => {
                self.has_ended.set(true);
                Vec::new()
            }
            Fate::Garbage => [&0x8000_0008_u32.to_be_bytes()[..], &[7; 8]].concat(),
            Fate::Answers => {
                let mut to = rpc::success(xid);
                let ok = CommitOk { wcc: Wcc::default(), verifier: Verifier([9; 8]) };
                to.value(&Outcome::<_, Wcc>::Ok(ok));
                to.finish().concat()
            }
        };
        self.replies.borrow_mut().extend(answer);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

const PATIENCE: Patience = Patience {
    pause: Duration::from_secs(1),
    silence: Duration::from_secs(20),
    call: Duration::from_secs(60),
};

/// A server with such connections, and a file of it.
fn scene(fates: &[Fate]) -> (Executor, Rc<Double>, Remote<Redial>) {
    let executor = Executor::new(1);
    let double = Rc::new(Double {
        runtime: executor.runtime(),
        fates: fates.to_vec(),
        dialed: RefCell::default(),
        heard: Rc::default(),
    });
    let (caller, numbers) = (Rc::new(Caller::none()), Numbers::starting_at(6));
    let line = Redial::new(&executor.runtime(), double.clone(), caller, numbers, PATIENCE);
    let file = Handle::new(b"any file").expect("eight bytes are a handle");
    (executor, double, Remote { line, file })
}

impl Double {
    /// The times at which connections were dialed, in seconds.
    fn dialed(&self) -> Vec<u64> {
        self.dialed.borrow().iter().map(|at| at.0 / 1_000_000_000).collect()
    }
}

/// The result of a COMMIT on such connections, the times at which they were dialed, and the calls
/// that were heard.
fn commit(fates: &[Fate]) -> (Result<Verifier, CallError>, Vec<u64>, Vec<Vec<u8>>) {
    let (executor, double, file) = scene(fates);
    let given = executor.block_on(file.commit());
    (given, double.dialed(), double.heard.take())
}

#[test]
fn calls_that_lose_a_connection_together_share_the_next() {
    let (executor, double, file) = scene(&[Fate::HangsUp, Fate::Refused, Fate::Answers]);
    let calls = join_all((0..5).map(|_| file.commit()));
    let given = executor.block_on(calls);
    assert!(given.iter().all(Result::is_ok), "{given:?}");
    assert_eq!(double.dialed(), [0, 1, 2]);
    let mut heard = double.heard.take();
    assert_eq!(heard.len(), 10, "each of them twice");
    heard.sort();
    heard.dedup();
    assert_eq!(heard.len(), 5, "as it was");
}

#[test]
fn a_call_whose_connection_is_lost_is_made_again_as_it_was() {
    use Fate::{Answers, HangsUp, Refused, Silent};
    let (given, dialed, heard) = commit(&[HangsUp, Refused, Silent, Answers]);
    assert_eq!(given, Ok(Verifier([9; 8])));
    // A pause after each of three losses; one of them shows after the silence.
    assert_eq!(dialed, [0, 1, 2, 23]);
    assert_eq!(heard.len(), 3);
    assert!(heard.iter().all(|call| *call == heard[0]), "{heard:?}");
}

#[test]
fn a_call_fails_when_its_time_is_over_and_says_why() {
    let (given, dialed, _) = commit(&[Fate::Refused]);
    let Err(CallError::Broken(Broken::Failed(why))) = given else { panic!("{given:?}") };
    assert!(why.contains("refused"), "{why}");
    assert_eq!(dialed.len(), 62, "one a second, for more than a minute");
}

#[test]
fn what_is_no_reply_is_told_and_not_asked_for_again() {
    let (given, _, heard) = commit(&[Fate::Garbage, Fate::Answers]);
    assert!(matches!(given, Err(CallError::Broken(Broken::NoReply(_)))), "{given:?}");
    assert_eq!(heard.len(), 1);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn new_numbers_show_on_the_wire() {
    use client::planted::{Bug, plant};
    plant(Some(Bug::NewNumbers));
    let (_, _, heard) = commit(&[Fate::HangsUp, Fate::Answers]);
    plant(None);
    assert_ne!(heard[0], heard[1]);
}
