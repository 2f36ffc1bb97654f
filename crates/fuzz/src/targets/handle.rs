//! File handles from clients: only those that the server has given out are accepted.

use dispatch::{Fsid, HANDLE_SIZE, Handle, LONG_HANDLE_SIZE, SNAPSHOT_HANDLE_SIZE};
use sim::Prng;
use vfs::{FsError, Ino, ObjectId, SnapshotNumber};

use super::Target;
use crate::input::Input;

pub(super) const TARGET: Target =
    Target { name: "handle", check, generate, longest: 128, memory: 256 << 10 };

fn check(bytes: &[u8]) {
    match Handle::decode(bytes) {
        Ok(handle) => assert_eq!(handle.encode()[..], *bytes, "a handle has one form"),
        Err(error) => assert_eq!(error, FsError::BadHandle),
    }
    let mut input = Input::new(bytes);
    let live = ObjectId::live(Ino(input.u64()), input.u32());
    let fsid = Fsid(input.u64());
    let held = live.within(SnapshotNumber(input.u32().into()));
    let long = live.within(SnapshotNumber(input.u64()));
    for id in [live, held, long] {
        let made = Handle { fsid, id };
        let size = match id.snapshot.0 {
            0 => HANDLE_SIZE,
            number if number < u64::from(u32::MAX) || id.is_listing() => SNAPSHOT_HANDLE_SIZE,
            _ => LONG_HANDLE_SIZE,
        };
        assert_eq!(made.encode().len(), size, "its version follows from what it names");
        assert_eq!(Handle::decode(&made.encode()), Ok(made));
        let mut damaged = made.encode().to_vec();
        let bit = usize::from(input.u8()) % (size * 8);
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Handle::decode(&damaged), Err(FsError::BadHandle), "bit {bit} is noticed");
    }
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let id = ObjectId::live(Ino(prng.below(1 << 32)), prng.next_u64() as u32);
    let number = match prng.below(4) {
        0 => u64::MAX,
        1 => prng.next_u64() >> prng.below(64),
        _ => 0,
    };
    let id = id.within(SnapshotNumber(number));
    Handle { fsid: Fsid(prng.next_u64()), id }.encode().to_vec()
}
