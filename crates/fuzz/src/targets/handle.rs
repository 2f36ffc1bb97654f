//! File handles that come back: only those that were given out are believed.

use dispatch::{Fsid, HANDLE_SIZE, Handle};
use sim::Prng;
use vfs::{FsError, Ino, ObjectId};

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
    let id = ObjectId { ino: Ino(input.u64()), generation: input.u32() };
    let made = Handle { fsid: Fsid(input.u64()), id };
    assert_eq!(Handle::decode(&made.encode()), Ok(made));
    let mut damaged = made.encode();
    let bit = usize::from(input.u8()) % (HANDLE_SIZE * 8);
    damaged[bit / 8] ^= 1 << (bit % 8);
    assert_eq!(Handle::decode(&damaged), Err(FsError::BadHandle), "bit {bit} is noticed");
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let id = ObjectId { ino: Ino(prng.below(1 << 32)), generation: prng.next_u64() as u32 };
    Handle { fsid: Fsid(prng.next_u64()), id }.encode().to_vec()
}
