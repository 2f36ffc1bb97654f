//! Replies that a volume has kept over a restart are sent again, and their calls not executed.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use dispatch::Window;
use nfs3_types::nfs3::{NFS_PROGRAM, REMOVE3args, REMOVE3res, nfs_fh3, nfsstat3};
use vfs::{CallKey, CallOutcome};

use crate::changes::{Raw, Scene};
use crate::fixture::{Client, Fixture, at, local, refusal};
use crate::memory::MemoryFileSystem;
use crate::watched::Watched;

/// Both volumes of a fixture.
fn volumes() -> [Rc<Watched>; 2] {
    [(); 2].map(|()| Watched::new(MemoryFileSystem::new()))
}

/// A fixture at this time, which has restored the replies of the volumes.
fn started(volumes: &[Rc<Watched>; 2], window: Window, seconds: u64) -> Fixture {
    let mut fixture = Fixture::over(volumes, window);
    fixture.clock.0.set(seconds * 1_000_000_000);
    fixture.pool.run_until(fixture.dispatcher.restore()).expect("both volumes are well");
    fixture
}

/// The root of a volume, and a file in it that can be removed.
fn file_to_remove(fixture: &mut Fixture, path: &str) -> nfs_fh3 {
    let root = fixture.mount(&local(), path).expect("a mount");
    fixture.create(&local(), &root, "file");
    root
}

/// The status of a REMOVE of the file.
fn remove(fixture: &mut Fixture, xid: u32, root: &nfs_fh3) -> nfsstat3 {
    let args = REMOVE3args { object: at(root, "file") };
    let sent = fixture.send(&local(), xid, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
    refusal(sent.reply::<REMOVE3res>())
}

fn send_all(fixture: &mut Fixture, changes: &[(NFS_PROGRAM, Raw)]) -> Vec<Vec<u8>> {
    let numbered = (1_000..).zip(changes);
    numbered
        .map(|(xid, (procedure, args))| fixture.send(&local(), xid, *procedure, args).bytes())
        .collect()
}

#[test]
fn every_change_but_a_write_is_told_its_answer_after_a_start_and_not_carried_out() {
    let volumes = volumes();
    let mut fixture = started(&volumes, Window::default(), 0);
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let mut changes = Scene::furnish(&mut fixture, &local(), &root).changes();
    let answers = send_all(&mut fixture, &changes);
    let executed = fixture.data.executed();
    volumes[0].take_repetitions();

    let mut fixture = started(&volumes, Window::default(), 0);
    let restored = fixture.dispatcher.reply_cache_counters().restored;
    assert_eq!(restored, executed - 1, "all but the WRITE were kept");
    let repeated = send_all(&mut fixture, &changes);
    for ((number, (procedure, _)), answer) in changes.iter().enumerate().zip(&answers) {
        let is_same = repeated[number] == *answer;
        assert_eq!(is_same, *procedure != NFS_PROGRAM::NFSPROC3_WRITE, "{procedure:?}");
    }
    assert_eq!(fixture.data.executed(), executed + 1, "a WRITE writes the same once more");
    let counters = fixture.dispatcher.reply_cache_counters();
    assert_eq!((counters.hits, counters.restored_hits, counters.misses), (9, 9, 1));
    assert_eq!(volumes[0].take_repetitions(), [true; 9]);

    changes.retain(|(procedure, _)| *procedure == NFS_PROGRAM::NFSPROC3_WRITE);
    let args = &changes[0].1;
    fixture.send(&local(), 1_001, NFS_PROGRAM::NFSPROC3_WRITE, args);
    assert_eq!(volumes[0].take_repetitions(), [false], "that one was answered since the start");
}

#[test]
fn a_repetition_is_counted_at_the_volume_of_its_handle() {
    let volumes = volumes();
    let mut fixture = started(&volumes, Window::default(), 0);
    let roots = ["/data", "/other"].map(|path| file_to_remove(&mut fixture, path));
    for (number, root) in roots.iter().enumerate() {
        for _ in 0..2 {
            assert_eq!(remove(&mut fixture, 50, root), nfsstat3::NFS3_OK);
        }
        let mut expected = [vec![], vec![]];
        expected[number].push(false);
        assert_eq!([0, 1].map(|volume: usize| volumes[volume].take_repetitions()), expected);
    }
}

#[test]
fn a_call_whose_second_step_failed_hears_of_that_again() {
    let volumes = volumes();
    let mut fixture = started(&volumes, Window::default(), 0);
    let root = file_to_remove(&mut fixture, "/data");
    assert_eq!(remove(&mut fixture, 50, &root), nfsstat3::NFS3_OK);
    volumes[0].fail_last();
    let mut fixture = started(&volumes, Window::default(), 0);
    assert_eq!(remove(&mut fixture, 50, &root), nfsstat3::NFS3ERR_IO);
}

#[test]
fn an_answer_that_was_kept_is_forgotten_when_it_is_older_than_the_window() {
    let window = Window { age: Duration::from_secs(600), ..Window::default() };
    for (seconds, expected) in [(1_600, nfsstat3::NFS3_OK), (1_601, nfsstat3::NFS3ERR_NOENT)] {
        let volumes = volumes();
        volumes[0].time.set(1_000);
        let mut fixture = started(&volumes, window, 1_000);
        let root = file_to_remove(&mut fixture, "/data");
        assert_eq!(remove(&mut fixture, 50, &root), nfsstat3::NFS3_OK);
        let mut fixture = started(&volumes, window, seconds);
        assert_eq!(remove(&mut fixture, 50, &root), expected, "{seconds}");
    }
}

#[test]
fn of_the_answers_of_all_volumes_the_oldest_go_where_there_are_too_many() {
    let volumes = volumes();
    let [data, other] = &volumes;
    let [first, second, third, fourth] = [1, 2, 3, 4].map(|xid| name(xid, 12));
    for (volume, seconds, key) in
        [(data, 20, &second), (data, 40, &fourth), (other, 10, &first), (other, 30, &third)]
    {
        volume.time.set(seconds);
        volume.keep(key, CallOutcome::default());
    }
    let window = Window { calls: 2, age: Duration::from_secs(100), ..Window::default() };
    let mut fixture = started(&volumes, window, 40);
    let root = fixture.mount(&local(), "/data").expect("a mount");
    assert_eq!(fixture.dispatcher.remembered().0, 2);
    // Restored replies keep their age: the third expires at 130, the fourth at 140.
    for (seconds, left) in [(130, 2), (131, 1), (140, 1), (141, 0)] {
        fixture.clock.0.set(seconds * 1_000_000_000);
        // Every change evicts expired replies, even a stranger's, and his own is not noted.
        let args = REMOVE3args { object: at(&root, "file") };
        let stranger = Client::root("10.0.0.1");
        fixture.send(&stranger, 1, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
        assert_eq!(fixture.dispatcher.remembered().0, left, "{seconds}");
    }
}

/// The name of a call as it is on the disk, of this procedure.
fn name(xid: u32, procedure: u32) -> CallKey {
    let IpAddr::V4(address) = local().address else { panic!("an address of version 4") };
    let mut bytes = address.to_ipv6_mapped().octets().to_vec();
    bytes.extend([0; 8]); // no user
    bytes.extend(xid.to_be_bytes());
    bytes.extend(procedure.to_be_bytes());
    bytes.extend([0; 16]); // no arguments
    CallKey::new(&bytes).expect("48 bytes are few")
}

#[test]
fn what_was_kept_and_cannot_be_told_again_is_passed_over() {
    let volumes = volumes();
    let foreign = CallKey::new(b"of another program").expect("short");
    let [read, unknown, create, remove] = [6, 99, 8, 12].map(|procedure| name(1, procedure));
    // The reply to a CREATE includes a file, and this one has none.
    for key in [&foreign, &read, &unknown, &create, &remove] {
        volumes[1].keep(key, CallOutcome::default());
    }
    let fixture = started(&volumes, Window::default(), 0);
    assert_eq!(fixture.dispatcher.reply_cache_counters().restored, 1);
    assert_eq!(fixture.dispatcher.remembered().0, 1);
}

#[test]
fn nothing_is_taken_over_where_answers_are_not_to_survive() {
    let volumes = volumes();
    let window = Window { survives: false, ..Window::default() };
    let mut fixture = started(&volumes, Window::default(), 0);
    let root = file_to_remove(&mut fixture, "/data");
    assert_eq!(remove(&mut fixture, 50, &root), nfsstat3::NFS3_OK);
    let mut fixture = started(&volumes, window, 0);
    assert_eq!(fixture.dispatcher.reply_cache_counters().restored, 0);
    assert_eq!(remove(&mut fixture, 50, &root), nfsstat3::NFS3ERR_NOENT);
    let fixture = started(&volumes, Window::default(), 0);
    assert_eq!(fixture.dispatcher.reply_cache_counters().restored, 0, "and no call was named");
}

#[test]
fn a_volume_that_has_stopped_gives_nothing_back_and_says_so() {
    let volumes = volumes();
    let mut fixture = Fixture::over(&volumes, Window::default());
    volumes[1].files().gate().lose();
    assert_eq!(fixture.pool.run_until(fixture.dispatcher.restore()), Err(vfs::Lost));
}
