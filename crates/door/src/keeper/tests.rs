#[path = "../../../dispatch/tests/dispatch/memory.rs"]
#[allow(dead_code)]
mod memory;

use std::net::IpAddr;

use dispatch::{Exports, Fsid, Limits, Volume, Volumes, Window};
use sim::Executor;

use self::memory::MemoryFileSystem;
use super::*;
use crate::MAX_AT_DOOR;
use crate::pipe::{Entrance, Pipe};

/// Bytes that the kernels of a peer and of the server would buffer.
const ROOM: usize = 4096;
const GUEST: [u8; 4] = [127, 0, 0, 1];
/// An address that no export admits.
const STRANGER: [u8; 4] = [10, 0, 0, 1];

/// A door with this many places, and the entrance from which it accepts.
fn open(executor: &Executor, connections: u64) -> (Rc<Door>, Entrance) {
    let runtime = executor.runtime();
    let (name, file_system) = ("data".to_owned(), MemoryFileSystem::new());
    let volumes = Volumes::new(vec![Volume { name, fsid: Fsid(7), file_system }]);
    let volumes = volumes.expect("one name");
    let (window, limits) = (Window::default(), Limits::default());
    let dispatcher = Dispatcher::new(runtime.clone(), volumes, Exports::default(), window, limits);
    let bounds = Bounds { connections, calls_per_connection: 4 };
    let door = Door::new(runtime.clone(), dispatcher, bounds, Switch::default());
    let (entrance, accepts) = (Entrance::default(), door.clone());
    let listener = entrance.clone();
    runtime.tasks.spawn(async move { accepts.accept(&listener).await }.boxed_local());
    (door, entrance)
}

fn connect(entrance: &Entrance, address: impl Into<IpAddr>, count: usize) -> Vec<Pipe> {
    let address = SocketAddr::from((address.into(), 700));
    (0..count).map(|_| entrance.connect(address, ROOM)).collect()
}

#[test]
fn a_backlog_of_one_client_has_the_places_of_quiet_strangers() {
    let executor = Executor::new(1);
    let count = 2 * MAX_AT_DOOR + 1;
    let (door, entrance) = open(&executor, count as u64);
    let strangers = connect(&entrance, STRANGER, count);
    executor.run_for(Duration::ZERO);
    assert_eq!(door.occupants(), (count, 0));
    let guests = connect(&entrance, GUEST, count);
    executor.run_for(Duration::ZERO);
    let sent_away = guests.iter().filter(|guest| guest.is_over()).count();
    assert_eq!((sent_away, door.occupants()), (0, (count, 0)));
    assert!(strangers.iter().all(Pipe::is_over));
}
