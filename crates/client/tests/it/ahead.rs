//! Read-ahead, call by call.

use client::CallError;
use nfs::nfs3::Status;

use crate::server::{Seen, Turn};
use crate::{CALL, PAUSE, PIECE, World, bytes};

/// A world with a file of this length.
fn world(length: u32) -> World {
    let world = World::new();
    world.set(|state| state.view = bytes(length).to_vec());
    world.set(|state| state.durable = state.view.clone());
    world
}

fn read(offset: u64, count: u32) -> Seen {
    Seen::Read { offset, count }
}

#[test]
fn a_sequential_reader_waits_the_less_the_more_daemons_there_are() {
    for (daemons, takes) in [(0, 32), (1, 16), (2, 8), (4, 4), (8, 2)] {
        let world = world(16 * PIECE);
        let mut file = world.file(daemons);
        let (data, took) = world.timed(async {
            let mut data = Vec::new();
            for piece in 0..32 {
                let half = u64::from(PIECE / 2);
                let found = file.read(piece * half, half).await.expect("it is there");
                found.data.iter().for_each(|bytes| data.extend_from_slice(bytes));
                assert_eq!(found.eof, piece == 31);
            }
            data
        });
        assert!(data == bytes(16 * PIECE), "{daemons} daemons");
        assert_eq!(took, takes * CALL, "{daemons} daemons");
        assert_eq!(world.server.reads.most.get(), daemons.max(1));
        // Nothing is requested behind the end once it is seen; the piece before may come first.
        world.executor.run_for(2 * CALL);
        let most = if daemons == 0 { 32 } else { 17 };
        assert!(world.seen().len() <= most, "{daemons} daemons: {:?}", world.seen());
    }
}

#[test]
fn a_large_read_has_as_many_calls_under_way_as_there_are_daemons() {
    for (daemons, takes) in [(0, 8), (1, 8), (3, 3), (8, 1)] {
        let world = world(16 * PIECE);
        let mut file = world.file(daemons);
        let offset = u64::from(4 * PIECE); // not where a reader begins
        let (found, took) = world.timed(file.read(offset, u64::from(8 * PIECE)));
        let found = found.expect("it is there").data.concat();
        assert!(found == bytes(16 * PIECE)[offset as usize..][..8 * PIECE as usize]);
        assert_eq!(took, takes * CALL, "{daemons} daemons");
    }
}

#[test]
fn who_jumps_is_read_what_was_asked_for() {
    let world = world(16 * PIECE);
    let mut file = world.file(4);
    world.executor.block_on(async {
        for offset in [7, 5000, 300] {
            let found = file.read(offset, 20).await.expect("it is there");
            assert!(found.data.concat() == bytes(16 * PIECE)[offset as usize..][..20]);
        }
    });
    assert_eq!(world.seen(), [read(7, 20), read(5000, 20), read(300, 20)]);
}

#[test]
fn pieces_end_where_their_size_divides() {
    let world = world(16 * PIECE);
    let mut file = world.file(1);
    world.executor.block_on(async {
        file.read(300, 200).await.expect("it is there");
        file.read(500, 700).await.expect("it is there");
    });
    assert_eq!(world.seen()[..3], [read(300, 200), read(500, 500), read(1000, 1000)]);
}

#[test]
fn a_short_read_goes_on_and_nothing_at_all_is_wrong() {
    let world = world(2 * PIECE);
    world.set(|state| state.script = vec![(0, Turn::Short(300)), (2, Turn::Short(0))]);
    let mut file = world.file(0);
    world.executor.block_on(async {
        let found = file.read(0, PIECE.into()).await.expect("it is there");
        assert!(found.data.concat() == bytes(2 * PIECE)[..PIECE as usize]);
        let nothing = file.read(PIECE.into(), PIECE.into()).await;
        let wrong = CallError::Wrong("it read nothing before the end of the file");
        assert_eq!(nothing, Err(wrong));
    });
    let calls = [read(0, 1000), read(300, 700), read(1000, 1000)];
    assert_eq!(world.seen(), calls);
}

#[test]
fn an_error_ahead_shows_to_who_comes_there_and_goes_with_that() {
    let world = world(4 * PIECE);
    world.set(|state| state.script = vec![(1, Turn::Fail(Status::Io))]);
    let mut file = world.file(1);
    let piece = u64::from(PIECE);
    world.executor.block_on(async {
        assert_eq!(file.read(0, piece).await.map(|found| found.length()), Ok(piece));
        assert_eq!(file.read(piece, piece).await, Err(CallError::Status(Status::Io)));
        assert_eq!(file.read(piece, piece).await.map(|found| found.length()), Ok(piece));
        assert_eq!(file.close().await, Ok(()));
    });
}

#[test]
fn the_end_of_a_file_is_told_and_may_move() {
    let world = world(PIECE + 1);
    let mut file = world.file(2);
    world.executor.block_on(async {
        let found = file.read(0, 5 * u64::from(PIECE)).await.expect("it is there");
        assert_eq!((found.length(), found.eof), (u64::from(PIECE) + 1, true));
        let end = file.read(found.length(), 10).await.expect("the end is no error");
        assert_eq!((end.length(), end.eof), (0, true));
        world.set(|state| state.view.push(7));
        let more = file.read(found.length(), 10).await.expect("it is there");
        assert_eq!((more.data.concat(), more.eof), (vec![7], true));
    });
}

#[test]
fn what_was_asked_for_in_vain_does_not_keep_a_daemon() {
    let world = world(8 * PIECE);
    let later = Turn::Fail(Status::Jukebox);
    world.set(|state| state.script = (1..99).map(|call| (call, later)).collect());
    let mut file = world.file(1);
    world.executor.block_on(file.read(0, PIECE.into())).expect("it is there");
    world.executor.run_for(10 * PAUSE);
    world.set(|state| state.script.clear());
    let (found, took) = world.timed(file.read(5000, 10));
    assert_eq!(found.map(|found| found.length()), Ok(10));
    assert!(took <= PAUSE + 2 * CALL, "{took:?}");
    let calls = world.seen();
    let ahead = calls.iter().filter(|call| **call == read(1000, 1000)).count();
    assert!((9..12).contains(&ahead), "{calls:?}");
}
