//! The fast device: the kernel makes the calls, and many of them go out with one system call.
//!
//! A [`Ring`] belongs to one reactor and is shared by its devices. A call on a device only adds an
//! operation to the ring's backlog. The reactor
//! * calls [`Ring::turn`] when it has run all ready tasks, so that all operations of that round go
//!   out together, and now and then where some task is always ready;
//! * waits, beside its sockets, for [`Ring::event_fd`] to signal a completion, and then calls
//!   [`Ring::reap`], which wakes the futures of the completed operations.
//!
//! A reactor that never comes back to `turn` waits for ever; `turn` with nothing to do costs no
//! system call. Tools without a reactor call [`Ring::wait`].
//!
//! # Invariants
//! 1. From the moment an operation is in the ring until its completion has been taken out, its
//!    memory lives in `operations` and is touched by the kernel alone. Dropping a future abandons
//!    the result, never the memory; dropping the ring waits for the kernel.
//! 2. There are never more operations in the ring than its completion queue has room for, so no
//!    completion overflows. The others wait in the backlog, first come, first served.
//! 3. No borrow is held while a future is woken.
//!
//! # Deliberately absent
//! A kernel thread that polls for submissions: with as many threads as cores it takes the core that
//! the reactor needs. Deferred task work: the event counter would no longer signal completions by
//! itself. The order of completions: the kernel gives none, and [`crate::BlockDevice`] promises
//! none.

mod device;
mod operation;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;

use io_uring::{IoUring, Probe, opcode};

pub use device::UringDevice;
use operation::{Operation, Progress};

/// Submission queue entries; the completion queue has twice as many.
const ENTRIES: u32 = 256;

/// Whether this kernel, and the sandbox of this process, allow io_uring.
pub fn is_available() -> bool {
    Ring::new().is_ok()
}

/// The queues that one reactor shares with the kernel. See the module.
pub struct Ring {
    /// Counts completions. No code reads it: its edges are the signal.
    event: File,
    /// Operations that have completed.
    completed: Cell<u64>,
    state: RefCell<State>,
}

struct State {
    queues: IoUring,
    /// All unfinished operations, by number (invariant 1).
    operations: BTreeMap<u64, Operation>,
    /// Operations that the kernel does not know yet.
    backlog: VecDeque<u64>,
    /// Number of operations that it does know.
    submitted: usize,
    next: u64,
}

impl Ring {
    /// A ring with nothing in it.
    ///
    /// # Errors
    /// The operating system's; `PermissionDenied` or `Unsupported` where io_uring is forbidden or
    /// too old.
    pub fn new() -> io::Result<Rc<Self>> {
        let queues = IoUring::new(ENTRIES)?;
        let mut probe = Probe::new();
        queues.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Writev::CODE,
            opcode::Fsync::CODE,
            opcode::Fallocate::CODE,
        ];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(ErrorKind::Unsupported.into());
        }
        let event = crate::system::event_counter()?;
        queues.submitter().register_eventfd(event.as_raw_fd())?;
        let state = State {
            queues,
            operations: BTreeMap::new(),
            backlog: VecDeque::new(),
            submitted: 0,
            next: 0,
        };
        Ok(Rc::new(Self { event, completed: Cell::new(0), state: RefCell::new(state) }))
    }

    /// Becomes readable, once more each time, when [`Ring::reap`] has something to do. Watch it for
    /// these edges (`EPOLLET`), and never read it.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Number of unfinished operations.
    pub fn in_flight(&self) -> usize {
        self.state.borrow().operations.len()
    }

    /// Number of operations that have completed since the start.
    pub fn completed(&self) -> u64 {
        self.completed.get()
    }

    /// Submits all waiting operations that fit, with one system call if all goes well.
    ///
    /// # Errors
    /// The operating system's, when it takes no more; waiting operations stay queued.
    pub fn submit(&self) -> io::Result<()> {
        self.state.borrow_mut().submit()
    }

    /// Submits, and reaps if there are completions.
    ///
    /// # Errors
    /// As [`Ring::submit`].
    pub fn turn(&self) -> io::Result<()> {
        self.submit()?;
        let is_done = !self.state.borrow_mut().queues.completion().is_empty();
        if is_done {
            self.reap()?;
        }
        Ok(())
    }

    /// Finishes all completed operations and returns their number. Continues operations that were
    /// done only in part, or had no room so far.
    ///
    /// # Errors
    /// As [`Ring::submit`].
    pub fn reap(&self) -> io::Result<usize> {
        let finished = self.state.borrow_mut().take_finished();
        let count = finished.len();
        self.completed.set(self.completed.get() + count as u64);
        debug_assert!(self.state.try_borrow_mut().is_ok(), "invariant 3: nobody has the state");
        for (operation, result) in finished {
            operation.answer(result);
        }
        let mut state = self.state.borrow_mut();
        if !state.backlog.is_empty() {
            state.submit()?;
        }
        Ok(count)
    }

    /// Submits, blocks until a completion if any operation is in flight, and reaps.
    ///
    /// # Errors
    /// As [`Ring::submit`].
    pub fn wait(&self) -> io::Result<usize> {
        self.submit()?;
        let under_way = self.state.borrow().submitted > 0;
        if under_way {
            ignore_interruption(self.state.borrow().queues.submit_and_wait(1))?;
        }
        self.reap()
    }

    fn start(&self, operation: Operation) {
        let state = &mut *self.state.borrow_mut();
        state.operations.insert(state.next, operation);
        state.backlog.push_back(state.next);
        state.next += 1;
    }
}

impl State {
    fn submit(&mut self) -> io::Result<()> {
        loop {
            self.fill();
            if self.queues.submission().is_empty() {
                return Ok(());
            }
            ignore_interruption(self.queues.submit())?;
        }
    }

    /// Moves operations from the backlog into the submission queue.
    fn fill(&mut self) {
        let room = self.queues.params().cq_entries() as usize;
        let mut submission = self.queues.submission();
        while self.submitted < room && !submission.is_full() {
            let Some(number) = self.backlog.pop_front() else { return };
            let operation = self.operations.get_mut(&number).expect("invariant 1");
            operation.push(&mut submission, number);
            self.submitted += 1; // invariant 2
        }
    }

    fn take_finished(&mut self) -> Vec<(Operation, io::Result<()>)> {
        let mut finished = Vec::new();
        let completions = self.queues.completion();
        assert_eq!(completions.overflow(), 0, "invariant 2: there was room for each");
        for completion in completions {
            self.submitted -= 1;
            let number = completion.user_data();
            let operation = self.operations.get_mut(&number).expect("invariant 1");
            match operation.advance(completion.result()) {
                Progress::Again => self.backlog.push_back(number),
                Progress::Done(result) => {
                    let operation = self.operations.remove(&number).expect("seen just now");
                    finished.push((operation, result));
                }
            }
        }
        finished
    }
}

fn ignore_interruption(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            if self.wait().is_err() {
                // The kernel may still write into that memory: it must never be reused.
                std::mem::forget(std::mem::take(&mut self.state.get_mut().operations));
            }
        }
    }
}
