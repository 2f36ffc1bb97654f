//! What a volume's trouble, and a client that no rule admits, say in the log of the server: once,
//! and not once for every call.

use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use dispatch::Window;
use nfs3_types::nfs3::nfsstat3;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use vfs::FsError;

use crate::fixture::{Client, Fixture, local, refusal};
use crate::memory::MemoryFileSystem;
use crate::watched::Watched;

/// Hears what is said, down to a level, each line with the volume that it is about.
#[derive(Clone)]
struct Ear(Arc<Mutex<Vec<String>>>, Level);

impl Ear {
    fn new(level: Level) -> Self {
        Self(Arc::default(), level)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("nobody panics while he holds it"))
    }
}

/// The values of an event, one after the other.
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{value:?} ");
    }
}

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.1
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        self.0.lock().expect("nobody panics while he holds it").push(words.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Has somebody listen who is given two volumes and what looks at the root of one of them.
fn listening(work: impl FnOnce(&Ear, &[Rc<Watched>; 2], &mut dyn FnMut(usize) -> nfsstat3)) {
    let volumes = [(); 2].map(|()| Watched::new(MemoryFileSystem::new()));
    let mut fixture = Fixture::over(&volumes, Window::default());
    let roots = ["/data", "/other"].map(|path| fixture.mount(&local(), path).expect("a mount"));
    let ear = Ear::new(Level::ERROR);
    tracing::subscriber::with_default(ear.clone(), || {
        let mut look = |volume: usize| refusal(fixture.getattr(&local(), &roots[volume]));
        work(&ear, &volumes, &mut look);
    });
}

/// The one line that is said at the first of three looks that are told of an error; at the others
/// nothing is said.
fn said_at_first(ear: &Ear, mut look: impl FnMut() -> nfsstat3) -> [String; 1] {
    let said = [(); 3].map(|()| (look(), ear.take()));
    let [(nfsstat3::NFS3ERR_IO, first), further @ ..] = said else { panic!("an error: {said:?}") };
    assert_eq!(further, [(); 2].map(|()| (nfsstat3::NFS3ERR_IO, vec![])));
    first.try_into().expect("one line")
}

#[test]
fn damage_is_said_once_of_each_volume_and_clients_hear_of_an_error() {
    listening(|ear, volumes, look| {
        for (number, name) in [(1, "other"), (0, "data")] {
            volumes[number].broken.set(Some(FsError::Corrupt));
            let [line] = said_at_first(ear, || look(number));
            assert!(line.contains("damage on the disk") && line.contains(name), "{line}");
        }
    });
}

#[test]
fn a_volume_whose_changes_do_not_become_durable_is_named_once() {
    listening(|ear, volumes, look| {
        volumes[0].files().gate().lose();
        let [line] = said_at_first(ear, || look(0));
        assert!(line.contains("do not become durable") && line.contains("data"), "{line}");
        assert_eq!((look(1), ear.take()), (nfsstat3::NFS3_OK, vec![]));
    });
}

#[test]
fn of_what_clients_are_told_nothing_is_said() {
    listening(|ear, volumes, look| {
        for (error, status) in
            [(FsError::Stale, nfsstat3::NFS3ERR_STALE), (FsError::Io, nfsstat3::NFS3ERR_IO)]
        {
            volumes[0].broken.set(Some(error));
            assert_eq!((look(0), ear.take()), (status, vec![]), "{error}");
        }
    });
}

#[test]
fn a_client_that_no_rule_admits_is_named_with_the_rule_that_would() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let ear = Ear::new(Level::WARN);
    tracing::subscriber::with_default(ear.clone(), || {
        let stranger = Client::root("10.0.0.7");
        for _ in 0..3 {
            fixture.mount(&stranger, "/data").expect_err("no rule");
            assert_eq!(refusal(fixture.getattr(&stranger, &root)), nfsstat3::NFS3ERR_ACCES);
        }
        let [line] = &ear.take()[..] else { panic!("one line in a minute") };
        for part in ["refused a mount", "10.0.0.7", "[exports.data]", "network = \"10.0.0.7\""] {
            assert!(line.contains(part), "{part} in {line}");
        }
        // Many strangers say no more than a few lines, and how many more there were.
        let strangers = (0..100).map(|last| Client::root(&format!("10.0.1.{last}")));
        for stranger in strangers {
            fixture.getattr(&stranger, &root);
        }
        let lines = ear.take();
        assert_eq!(lines.len(), 9, "ten in a minute, with the one above: {lines:?}");
        assert!(lines.iter().all(|line| line.contains("refused a call")), "{lines:?}");
        fixture.clock.0.set(fixture.clock.0.get() + 60_000_000_000);
        fixture.getattr(&stranger, &root);
        let [count, again] = &ear.take()[..] else { panic!("two lines") };
        assert!(count.contains("91") && again.contains("10.0.0.7"), "{count} {again}");
    });
}
