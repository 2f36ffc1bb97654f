//! Pages of mapped files that cannot be given: the kernel reports them by SIGBUS, to the thread
//! that touches one.
//!
//! The handler puts a page of zeros in the place of the bad one, counts that, and returns: the
//! access goes on, and its caller sees by the count that what it read means nothing. A fault
//! elsewhere is none of this module's: the handler of before comes back, and hears of it.
//!
//! Invariant: an entry of the table is that of one [`Watched`] at a time, from the exchange that
//! takes it to the store that gives it back.
//!
//! Not asserted: that, which the exchange keeps.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use crate::system;

/// Mappings of a process at one time.
const MOST: usize = 64;

struct Entry {
    /// Addresses of the mapping; it has none while `end` is 0. `start` is 0 where it is free.
    start: AtomicUsize,
    end: AtomicUsize,
    faults: AtomicUsize,
}

static ENTRIES: [Entry; MOST] = [const {
    Entry { start: AtomicUsize::new(0), end: AtomicUsize::new(0), faults: AtomicUsize::new(0) }
}; MOST];

/// The action of the signal before. Set before a mapping is watched.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapping whose faults are counted.
pub(super) struct Watched(&'static Entry);

impl Watched {
    /// Watches memory. None if too much is watched.
    pub(super) fn new(start: usize, length: usize) -> Option<Self> {
        BEFORE.get_or_init(install);
        let take = |entry: &&Entry| entry.start.compare_exchange(0, start, SeqCst, SeqCst).is_ok();
        let entry = ENTRIES.iter().find(take)?;
        entry.end.store(start + length, SeqCst);
        Some(Self(entry))
    }

    /// Bad pages that were touched so far.
    pub(super) fn faults(&self) -> usize {
        self.0.faults.load(SeqCst)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.end.store(0, SeqCst);
        self.0.start.store(0, SeqCst);
    }
}

/// Installs the handler. Gives what was there before.
fn install() -> libc::sigaction {
    system::page_size(); // the handler only reads it
    let mut before = MaybeUninit::zeroed();
    // SAFETY: a sigaction is a C struct of numbers, for which zeros are a value.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and calls only what may be
    // called in one; both structs live until the call returns, which fills `before`.
    unsafe {
        let done = libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr());
        assert_eq!(done, 0, "SIGBUS has a handler");
        before.assume_init()
    }
}

extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes the report of this signal.
    let code = unsafe { (*info).si_code };
    if code == libc::BUS_MCEERR_AO {
        return; // a warning: whoever touches the page gets a signal of its own
    }
    // SAFETY: as above; the kernel's own reports have an address.
    let address = if code > 0 { unsafe { (*info).si_addr() }.addr() } else { 0 };
    let is_it =
        |entry: &&Entry| (entry.start.load(SeqCst)..entry.end.load(SeqCst)).contains(&address);
    if let Some(entry) = ENTRIES.iter().find(is_it) {
        entry.faults.fetch_add(1, SeqCst);
        let page = system::page_size();
        let at = ptr::without_provenance_mut(address / page * page);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the page is one of a mapping of a `MappedDevice`, which has no reference to it,
        // and maps the file there again before it goes on.
        if unsafe { libc::mmap(at, page, access, kind, -1, 0) } != libc::MAP_FAILED {
            return;
        }
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: it was the action of this signal. The access is tried again, and faults again; a
        // signal of another process is sent again.
        unsafe {
            libc::sigaction(libc::SIGBUS, before, ptr::null_mut());
            if code <= 0 {
                libc::raise(libc::SIGBUS);
            }
        }
    }
}
