//! Write-behind, call by call.

use std::time::Duration;

use client::CallError;
use client::file::Options;
use nfs::nfs3::{Stability, Status};

use crate::server::{Seen, Turn};
use crate::{CALL, PAUSE, PIECE, World, bytes};

fn write(piece: u32, stable: Stability) -> Seen {
    Seen::Write { offset: u64::from(piece * PIECE), length: PIECE as usize, stable }
}

fn unstable(pieces: std::ops::Range<u32>) -> Vec<Seen> {
    pieces.map(|piece| write(piece, Stability::Unstable)).collect()
}

#[test]
fn a_write_returns_when_the_daemons_have_all_of_it() {
    for (daemons, returns, ends) in [(0, 16, 17), (1, 15, 17), (2, 7, 9), (4, 3, 5), (8, 1, 3)] {
        let world = World::new();
        let mut file = world.file(daemons);
        let (written, took) = world.timed(file.write(0, bytes(16 * PIECE)));
        assert_eq!((written, took), (Ok(()), returns * CALL), "{daemons} daemons");
        let (closed, took) = world.timed(file.close());
        assert_eq!((closed, returns * CALL + took), (Ok(()), ends * CALL), "{daemons} daemons");
        assert_eq!(world.server.writes.most.get(), daemons.max(1));
        assert!(world.durable() == bytes(16 * PIECE));
    }
}

#[test]
fn an_error_is_told_once_and_what_it_is_not_about_is_durable() {
    let world = World::new();
    world.set(|state| state.script = vec![(1, Turn::Fail(Status::NoSpace))]);
    let mut file = world.file(4);
    world.executor.block_on(async {
        assert_eq!(file.write(0, bytes(4 * PIECE)).await, Ok(()));
        assert_eq!(file.commit().await, Err(CallError::Status(Status::NoSpace)));
        assert_eq!(file.commit().await, Ok(()));
        assert_eq!(file.close().await, Ok(()));
    });
    let (durable, sent) = (world.durable(), bytes(4 * PIECE));
    let right = durable.chunks(PIECE as usize).zip(sent.chunks(PIECE as usize));
    let right: Vec<bool> = right.map(|(durable, sent)| durable == sent).collect();
    // The simulator chooses which of them is executed second.
    assert_eq!(right.iter().filter(|right| !**right).count(), 1, "{right:?}");
}

#[test]
fn of_several_errors_the_first_is_told_for_all() {
    let world = World::new();
    let script = vec![(1, Turn::Fail(Status::NoSpace)), (2, Turn::Fail(Status::Io))];
    world.set(|state| state.script = script);
    let mut file = world.file(1);
    world.executor.block_on(async {
        for piece in 0..2 {
            assert_eq!(file.write(piece * u64::from(PIECE), bytes(PIECE)).await, Ok(()));
        }
        assert_eq!(file.commit().await, Err(CallError::Status(Status::NoSpace)));
        assert_eq!(file.commit().await, Ok(()));
    });
    // The COMMIT of the pieces without an error failed as well.
    assert_eq!(world.seen(), [unstable(0..2), vec![Seen::Commit]].concat());
}

#[test]
fn an_error_shows_at_the_next_write_which_takes_nothing() {
    let world = World::new();
    world.set(|state| state.script = vec![(0, Turn::Fail(Status::Io))]);
    let mut file = world.file(2);
    world.executor.block_on(async {
        assert_eq!(file.write(0, bytes(PIECE)).await, Ok(()));
        world.executor.runtime().clock.sleep(2 * CALL).await;
        assert_eq!(file.write(0, bytes(PIECE)).await, Err(CallError::Status(Status::Io)));
        assert_eq!(file.close().await, Ok(()));
    });
    assert_eq!(world.seen(), unstable(0..1));
}

#[test]
fn without_daemons_a_write_tells_its_own_error() {
    let world = World::new();
    world.set(|state| state.script = vec![(1, Turn::Fail(Status::Io))]);
    let mut file = world.file(0);
    let (written, took) = world.timed(file.write(0, bytes(3 * PIECE)));
    assert_eq!((written, took), (Err(CallError::Status(Status::Io)), 2 * CALL));
    assert_eq!(world.seen(), unstable(0..2));
}

#[test]
fn a_long_write_ends_where_an_error_shows() {
    let world = World::new();
    world.set(|state| state.script = vec![(0, Turn::Fail(Status::Io))]);
    let mut file = world.file(1);
    let written = world.executor.block_on(file.write(0, bytes(9 * PIECE)));
    assert_eq!(written, Err(CallError::Status(Status::Io)));
    assert!(world.seen().len() <= 2, "{:?}", world.seen());
}

#[test]
fn a_commit_that_fails_is_told_and_not_made_again() {
    let world = World::new();
    world.set(|state| state.script = vec![(2, Turn::Fail(Status::Io))]);
    let mut file = world.file(1);
    world.executor.block_on(async {
        assert_eq!(file.write(0, bytes(2 * PIECE)).await, Ok(()));
        assert_eq!(file.commit().await, Err(CallError::Status(Status::Io)));
        assert_eq!(file.held_bytes(), 0);
        assert_eq!(file.close().await, Ok(()));
    });
    assert_eq!(world.seen(), [unstable(0..2), vec![Seen::Commit]].concat());
}

#[test]
fn a_write_goes_on_where_the_server_stopped() {
    let world = World::new();
    world.set(|state| state.script = vec![(0, Turn::Short(300)), (1, Turn::Short(1))]);
    let mut file = world.file(1);
    world.executor.block_on(async {
        assert_eq!(file.write(7, bytes(PIECE)).await, Ok(()));
        assert_eq!(file.close().await, Ok(()));
    });
    let part = |offset, length| Seen::Write { offset, length, stable: Stability::Unstable };
    let calls = [part(7, 1000), part(307, 700), part(308, 699), Seen::Commit];
    assert_eq!(world.seen(), calls);
    assert!(world.durable()[7..] == bytes(PIECE));
}

#[test]
fn what_a_restart_has_lost_is_sent_again() {
    let world = World::new();
    world.set(|state| state.script = vec![(4, Turn::Restart)]);
    let mut file = world.file(1);
    world.executor.block_on(async {
        assert_eq!(file.write(0, bytes(4 * PIECE)).await, Ok(()));
        assert_eq!(file.close().await, Ok(()));
    });
    let commit = || vec![Seen::Commit];
    assert_eq!(world.seen(), [unstable(0..4), commit(), unstable(0..4), commit()].concat());
    assert!(world.durable() == bytes(4 * PIECE));
}

#[test]
fn a_server_that_restarts_without_end_is_asked_for_durable_writes() {
    let world = World::new();
    world.set(|state| state.habits.restarts = 1);
    let mut file = world.file(1);
    world.executor.block_on(async {
        assert_eq!(file.write(0, bytes(PIECE)).await, Ok(()));
        assert_eq!(file.close().await, Ok(()));
    });
    let round = || [unstable(0..1), vec![Seen::Commit]].concat();
    let sync = vec![write(0, Stability::FileSync)];
    assert_eq!(world.seen(), [round(), round(), sync].concat());
    assert!(world.durable() == bytes(PIECE));
}

#[test]
fn what_is_durable_at_once_needs_no_commit() {
    let world = World::new();
    world.set(|state| state.habits.sync = 1);
    let mut file = world.file(1);
    world.executor.block_on(async {
        assert_eq!(file.write(0, bytes(3 * PIECE)).await, Ok(()));
        assert_eq!(file.close().await, Ok(()));
    });
    assert_eq!(world.seen(), unstable(0..3));
}

#[test]
fn too_much_that_is_not_durable_forces_a_commit_and_no_writer_waits_for_it() {
    let world = World::new();
    let (daemons, uncommitted_max) = (2, u64::from(8 * PIECE));
    let options = Options { daemons, write_size: PIECE, uncommitted_max, ..Options::default() };
    let mut file = world.file_with(options);
    let ((), took) = world.timed(async {
        for piece in 0..40 {
            assert_eq!(file.write(piece * u64::from(PIECE), bytes(PIECE)).await, Ok(()));
            assert!(file.held_bytes() <= u64::from(10 * PIECE));
        }
    });
    assert_eq!(took, 19 * CALL);
    let commits = world.seen().iter().filter(|seen| **seen == Seen::Commit).count();
    assert!((6..=9).contains(&commits), "{commits}");
}

#[test]
fn who_left_is_not_asked_for_again() {
    let world = World::new();
    let later = Turn::Fail(Status::Jukebox);
    world.set(|state| state.script = (0..99).map(|call| (call, later)).collect());
    let mut file = world.file(1);
    world.executor.block_on(file.write(0, bytes(PIECE))).expect("a daemon has it");
    world.executor.run_for(10 * PAUSE);
    drop(file);
    world.executor.run_for(2 * PAUSE);
    let before = world.seen().len();
    assert!((8..12).contains(&before), "{before}");
    world.executor.run_for(10 * PAUSE);
    assert_eq!(world.seen().len(), before);
}

#[test]
fn many_small_pieces_force_a_commit() {
    let world = World::new();
    let mut file = world.file(8);
    world.executor.block_on(async {
        for offset in 0..10_000 {
            assert_eq!(file.write(offset * 2, bytes(1)).await, Ok(()));
        }
    });
    assert!(file.held_bytes() <= 5000, "{}", file.held_bytes());
}

#[test]
fn who_is_put_off_waits_and_asks_again() {
    let world = World::new();
    let later = Turn::Fail(Status::Jukebox);
    world.set(|state| state.script = vec![(0, later), (1, later), (3, later), (5, later)]);
    let mut file = world.file(0);
    let (read, took) = world.timed(async {
        assert_eq!(file.write(0, bytes(PIECE)).await, Ok(()));
        assert_eq!(file.commit().await, Ok(()));
        file.read(0, PIECE.into()).await.expect("it is there").length()
    });
    assert_eq!((read, took), (PIECE.into(), 4 * PAUSE + 7 * CALL));
}

#[test]
fn answers_that_cannot_be_are_errors() {
    let boot = |script: Vec<(usize, Turn)>| {
        let world = World::new();
        world.set(|state| state.script = script);
        world.set(|state| state.habits.restarts = 1);
        let mut file = world.file(0);
        world.executor.block_on(async {
            file.write(0, bytes(PIECE)).await?;
            file.close().await
        })
    };
    assert_eq!(boot(vec![]), Ok(()));
    let nothing = boot(vec![(0, Turn::Short(0))]);
    assert_eq!(nothing, Err(CallError::Wrong("it wrote nothing")));
    let more = boot(vec![(0, Turn::Boast)]);
    assert_eq!(more, Err(CallError::Wrong("it wrote more than it was given")));
    let lax = boot(vec![(4, Turn::Lax)]);
    assert_eq!(lax, Err(CallError::Wrong("it is less stable than it should be")));
}

#[test]
fn a_write_beyond_all_offsets_is_refused_and_an_empty_one_is_nothing() {
    let world = World::new();
    let mut file = world.file(1);
    world.executor.block_on(async {
        let beyond = file.write(u64::MAX - 10, bytes(PIECE)).await;
        assert_eq!(beyond, Err(CallError::Status(Status::FileTooLarge)));
        assert_eq!(file.write(5, bytes(0)).await, Ok(()));
        assert_eq!(file.close().await, Ok(()));
    });
    assert_eq!(world.seen(), []);
}

#[test]
fn a_file_that_is_dropped_begins_nothing_more() {
    let world = World::new();
    world.set(|state| state.script = vec![(0, Turn::Short(1))]);
    let mut file = world.file(1);
    world.executor.block_on(file.write(0, bytes(PIECE))).expect("a daemon has it");
    drop(file);
    world.executor.run_for(Duration::from_secs(1));
    assert_eq!(world.seen().len(), 1);
}
