//! Log lines about a volume's troubles, and about a client that no rule admits: once, and not once
//! for every call.

use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dispatch::{Export, Exports, Fsid, Handle, Limits, Window};
use nfs3_types::nfs3::{
    self, MKDIR3args, NFS_PROGRAM, READ3args, READ3res, nfs_fh3, nfsstat3, sattr3,
};
use nfs3_types::rpc::{auth_flavor, opaque_auth};
use nfs3_types::xdr_codec::{Opaque, Void};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use vfs::{FsError, Ino, ObjectId, SnapshotNumber};

use crate::fixture::{Client, DATA, Fixture, OTHER, at, local, refusal};
use crate::memory::MemoryFileSystem;
use crate::watched::Watched;

/// Collects log lines, down to a level, each with its volume.
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

/// Runs `work` with a log collector, two volumes, and a function that reads the root of one of
/// them.
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

/// The one line that is logged at the first of three failing reads; the others log nothing.
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

/// A handle of a file of a volume, or of a snapshot.
fn handle(fsid: Fsid, ino: u64, snapshot: u32) -> nfs_fh3 {
    let id = ObjectId::live(Ino(ino), 0).within(SnapshotNumber(snapshot.into()));
    nfs_fh3 { data: Opaque::owned(Handle { fsid, id }.encode().to_vec()) }
}

#[test]
fn damage_is_said_of_each_file_with_what_was_asked_for_and_a_bound() {
    let volumes = [(); 2].map(|()| Watched::new(MemoryFileSystem::new()));
    let mut fixture = Fixture::over(&volumes, Window::default());
    volumes.iter().for_each(|volume| volume.broken.set(Some(FsError::Corrupt)));
    let ear = Ear::new(Level::WARN);
    tracing::subscriber::with_default(ear.clone(), || {
        let mut read = |file: nfs_fh3| {
            let args = READ3args { file, offset: 8192, count: 4096 };
            let read: READ3res<'_> = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_READ, &args);
            assert_eq!(refusal(read), nfsstat3::NFS3ERR_IO);
            ear.take()
        };
        let lines = read(handle(DATA, 4711, 0));
        let [of_volume, of_file] = &lines[..] else { panic!("two lines: {lines:?}") };
        assert!(of_volume.contains("check it"), "{of_volume}");
        for part in ["\"data\"", "4711", "4096 bytes from byte 8192 on"] {
            assert!(of_file.contains(part), "{part} in {of_file}");
        }
        assert_eq!(read(handle(DATA, 4711, 0)), [""; 0], "it was said");
        assert_eq!(read(handle(OTHER, 4711, 0)).len(), 2, "another volume");
        let held = read(handle(DATA, 4711, 77));
        assert!(held[0].contains("77") && held[0].contains("snapshot"), "{held:?}");
        // Ten lines in a minute, with the three above, and how many more there were.
        let more: usize = (0..100).map(|ino| read(handle(DATA, 5000 + ino, 0)).len()).sum();
        assert_eq!(more, 7);
        fixture.clock.0.set(fixture.clock.0.get() + 60_000_000_000);
        let again = refusal(fixture.getattr(&local(), &handle(DATA, 4711, 0)));
        assert_eq!(again, nfsstat3::NFS3ERR_IO);
        let [count, line] = &ear.take()[..] else { panic!("two lines") };
        assert!(count.contains("93") && line.contains("4711") && line.contains("the file"));
    });
}

#[test]
fn what_the_disk_does_not_give_is_said_of_each_file_with_a_bound() {
    let volumes = [(); 2].map(|()| Watched::new(MemoryFileSystem::new()));
    let mut fixture = Fixture::over(&volumes, Window::default());
    volumes[0].broken.set(Some(FsError::Io));
    let ear = Ear::new(Level::WARN);
    tracing::subscriber::with_default(ear.clone(), || {
        let mut read = |ino: u64| {
            let file = handle(DATA, ino, 0);
            let args = READ3args { file, offset: 8192, count: 4096 };
            let read: READ3res<'_> = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_READ, &args);
            assert_eq!(refusal(read), nfsstat3::NFS3ERR_IO);
            ear.take()
        };
        let [line] = &read(4711)[..] else { panic!("one line") };
        for part in ["the disk failed", "\"data\"", "4711", "4096 bytes from byte 8192 on"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert_eq!(read(4711), [""; 0], "it was said");
        let more: usize = (0..100).map(|ino| read(5000 + ino).len()).sum();
        assert_eq!(more, 9, "ten lines in a minute");
        // The stop of a volume is logged once, and not file by file.
        volumes[0].files().gate().lose();
        volumes[0].broken.set(None);
        fixture.clock.0.set(fixture.clock.0.get() + 60_000_000_000);
        let look = |fixture: &mut Fixture| fixture.getattr(&local(), &handle(DATA, 2, 0));
        assert_eq!(refusal(look(&mut fixture)), nfsstat3::NFS3ERR_IO);
        assert!(ear.take().iter().any(|line| line.contains("do not become durable")));
        volumes[0].broken.set(Some(FsError::Io));
        assert_eq!(refusal(look(&mut fixture)), nfsstat3::NFS3ERR_IO);
        assert_eq!(ear.take(), [""; 0]);
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
        for part in ["refused a mount", "10.0.0.7", "[exports.data]"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        // The advised line admits the client, and this machine as before.
        let own = ["127.0.0.0/8", "::1/128"];
        let own = own.map(|network| {
            format!("{{ network = \"{network}\", access = \"rw\", squash = \"none\" }}, ")
        });
        let rule = "{ network = \"10.0.0.7\", access = \"ro\" }";
        let clients = format!("clients = [{}{rule}]", own.concat());
        assert!(
            line.contains(&format!("below [exports.data] in the configuration: {clients}")),
            "{line}"
        );
        // Many strangers cause only a few lines, and a count of the dropped ones.
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

#[test]
fn a_volume_with_rules_is_named_with_the_one_that_it_lacks() {
    let mut exports = Exports::default();
    exports.insert("data", Export::new(Vec::new()).expect("no rules"));
    let mut fixture = Fixture::with(exports, Limits::default());
    let ear = Ear::new(Level::WARN);
    tracing::subscriber::with_default(ear.clone(), || {
        for address in ["127.0.0.2", "::ffff:127.0.0.2"] {
            fixture.mount(&Client::root(address), "/data").expect_err("no rule");
        }
        let [line] = &ear.take()[..] else {
            panic!("one client, whatever its address is mapped to")
        };
        let rule =
            "add { network = \"127.0.0.2\", access = \"ro\" } to the clients of [exports.data]";
        assert!(line.contains(rule), "{line}");
    });
}

#[test]
fn a_mount_of_a_path_that_is_none_is_said_with_those_that_are() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.create(&local(), &root, "file");
    let ear = Ear::new(Level::WARN);
    tracing::subscriber::with_default(ear.clone(), || {
        for (last, path, why) in [
            (1, "/dtaa\nWARN", "no volume has this name; expected one of: \"/data\", \"/other\""),
            (2, "/data/none", "no such file or directory"),
            (3, "/data/file", "not a directory"),
        ] {
            let client = Client::root(&format!("127.0.0.{last}"));
            for _ in 0..3 {
                fixture.mount(&client, path).expect_err("it leads nowhere");
            }
            let [line] = &ear.take()[..] else { panic!("one line in a minute") };
            assert!(line.contains(why) && !line.contains('\n'), "{line:?}");
        }
    });
}

#[test]
fn a_client_that_asks_for_another_version_or_with_kerberos_is_told_how_to_mount() {
    let mut fixture = Fixture::new();
    let ear = Ear::new(Level::WARN);
    tracing::subscriber::with_default(ear.clone(), || {
        for _ in 0..3 {
            let record = local().record(1, (nfs3::PROGRAM, 4, 0), &Void);
            fixture.send_record(&local(), record);
        }
        let [line] = &ear.take()[..] else { panic!("one line in a minute") };
        assert!(line.contains("version 4") && line.contains("vers=3"), "{line}");
        let des = opaque_auth { flavor: auth_flavor::AUTH_DES, body: Opaque::borrowed(b"1234") };
        let stranger = Client::with_credential("10.0.0.7", des);
        let record = stranger.record(1, (nfs3::PROGRAM, 3, 1), &Void);
        fixture.send_record(&stranger, record);
        let [line] = &ear.take()[..] else { panic!("one line") };
        assert!(line.contains("10.0.0.7") && line.contains("sec=sys"), "{line}");
    });
}

#[test]
fn a_slow_call_is_said_with_where_its_time_went_and_others_are_not() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let slow = |fixture: &mut Fixture, name: &'static str, ms: u64| {
        fixture.data.gate().close();
        let args = MKDIR3args { where_: at(&root, name), attributes: sattr3::default() };
        let mut sent = fixture.send(&local(), ms as u32, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
        fixture.clock.0.set(fixture.clock.0.get() + ms * 1_000_000);
        fixture.data.gate().open();
        fixture.poll(&mut sent);
    };
    let ear = Ear::new(Level::WARN);
    tracing::subscriber::with_default(ear.clone(), || {
        slow(&mut fixture, "unlimited", 5_000);
        assert_eq!(ear.take(), [] as [String; 0], "there is no limit");
        fixture.dispatcher.set_slow_limit(Some(Duration::from_millis(500)));
        slow(&mut fixture, "quick", 499);
        assert_eq!(ear.take(), [] as [String; 0], "it is not slow");
        slow(&mut fixture, "slow", 700);
        let [line] = &ear.take()[..] else { panic!("one line") };
        for part in ["\"MKDIR\"", "127.0.0.1", "\"data\"", "a slow call", "700 0 0 700"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        // A minute has ten lines at most.
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        names.iter().for_each(|name| slow(&mut fixture, name, 501));
        assert_eq!(ear.take().len(), 9);
        slow(&mut fixture, "later", 60_000);
        let said = ear.take();
        assert!(said.len() == 2 && said[0].contains('2'), "two were left out: {said:?}");
    });
}

#[test]
fn a_slow_call_that_waits_for_its_turn_has_waited() {
    let mut fixture = Fixture::with(Exports::default(), Limits { calls: 1, ..Limits::default() });
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.dispatcher.set_slow_limit(Some(Duration::from_secs(1)));
    let ear = Ear::new(Level::WARN);
    tracing::subscriber::with_default(ear.clone(), || {
        fixture.data.gate().close();
        let args = |name| MKDIR3args { where_: at(&root, name), attributes: sattr3::default() };
        let number = NFS_PROGRAM::NFSPROC3_MKDIR;
        let mut first = fixture.send(&local(), 1, number, &args("first"));
        let mut second = fixture.send(&local(), 2, number, &args("second"));
        fixture.clock.0.set(2_000_000_000);
        fixture.data.gate().open();
        fixture.poll(&mut first);
        fixture.poll(&mut second);
        let said = ear.take().join("\n");
        assert!(said.contains("2000 0 0 2000") && said.contains("2000 2000 0 0"), "{said}");
    });
}
