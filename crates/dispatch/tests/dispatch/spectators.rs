//! An observer gets each traced call, once it is answered.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use dispatch::{CallObserver, Session};
use nfs::nfs3::Procedure;
use nfs3_types::mount::MOUNT_PROGRAM;
use nfs3_types::nfs3::{self, GETATTR3args, MKDIR3args, NFS_PROGRAM, nfs_fh3, sattr3};
use nfs3_types::xdr_codec::Void;
use runtime::Instant;
use trace::{Begun, Entry, Target};

use crate::fixture::{Fixture, at, local};

/// Records the calls that it gets.
#[derive(Default)]
struct Notes(RefCell<Vec<Entry>>);

impl CallObserver for Notes {
    fn answered(&self, call: Begun, times: (Instant, Instant), connection: u64, reply: &[Bytes]) {
        let (begun, ended) = times;
        self.0.borrow_mut().push(Entry::seen(call, (begun.0, ended.0), connection, reply));
    }
}

fn watched() -> (Fixture, Rc<Notes>, nfs_fh3) {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let notes = Rc::new(Notes::default());
    fixture.dispatcher.set_observer(notes.clone());
    (fixture, notes, root)
}

/// A GETATTR on an existing connection.
fn getattr(fixture: &mut Fixture, session: &std::rc::Rc<Session>, root: &nfs_fh3) {
    let target = (nfs3::PROGRAM, nfs3::VERSION, NFS_PROGRAM::NFSPROC3_GETATTR as u32);
    let record = local().record(7, target, &GETATTR3args { object: root.clone() });
    assert!(fixture.call_on(session, record).is_some());
}

#[test]
fn connections_are_told_apart_and_calls_of_one_are_not() {
    let (mut fixture, notes, root) = watched();
    let [one, other, third] =
        [1; 3].map(|last| fixture.dispatcher.connect([127, 0, 0, last].into()));
    for session in [&one, &other, &one, &third] {
        getattr(&mut fixture, session, &root);
    }
    let notes = notes.0.borrow();
    let [a, b, c, d] = [0, 1, 2, 3].map(|index: usize| notes[index].connection);
    assert_eq!(a, c);
    assert!(a != b && b != d && a != d, "{a} {b} {d}");
}

#[test]
fn a_call_is_told_with_its_answer_when_that_is_there_and_with_both_times() {
    let (mut fixture, notes, root) = watched();
    fixture.clock.0.set(5);
    fixture.data.gate().close();
    let args = MKDIR3args { where_: at(&root, "made"), attributes: sattr3::default() };
    let mut sent = fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
    assert_eq!(notes.0.borrow().len(), 0, "it is not answered");
    fixture.clock.0.set(9);
    fixture.data.gate().open();
    fixture.poll(&mut sent);
    let notes = notes.0.borrow();
    let [entry] = &notes[..] else { panic!("one call: {notes:?}") };
    assert_eq!((entry.begun_ns, entry.ended_ns), (5, 9));
    assert_eq!(entry.target, Target::Nfs(Procedure::Mkdir));
    assert_eq!(entry.results[..], sent.bytes()[24..], "behind the header");
}

#[test]
fn a_call_of_no_kind_that_is_traced_is_answered_and_not_told() {
    let (mut fixture, notes, root) = watched();
    let Void = fixture.call_mount(&local(), MOUNT_PROGRAM::MOUNTPROC3_UMNTALL, &Void);
    assert!(fixture.send_record(&local(), Bytes::from_static(&[1; 40])).is_dropped_silently());
    assert_eq!(notes.0.borrow().len(), 0);
    fixture.getattr(&local(), &root).unwrap();
    assert_eq!(notes.0.borrow().len(), 1);
}
