//! Facts at the start of a record, before all of it has arrived.

use super::{MAX_HANDLE, VERSION};
use crate::rpc::{self, MAX_AUTH_BODY};
use crate::xdr::padded;

/// The handle with which the arguments of a call begin, if this is the start of a call of this
/// protocol other than NULL. The bytes behind it need not be there, nor be valid.
pub fn handle_of(start: &[u8]) -> Option<&[u8]> {
    // Every call of every client passes here a second time: so this only peeks, and does not
    // decode.
    let (_xid, rest) = start.split_first_chunk::<4>()?;
    let (target, mut rest) = rest.split_first_chunk::<20>()?;
    if target[..16] != TARGET || target[16..] == [0; 4] {
        return None;
    }
    for _ in ["credential", "verifier"] {
        let (_flavor, behind) = rest.split_first_chunk::<4>()?;
        let (length, behind) = length(behind, MAX_AUTH_BODY)?;
        rest = behind.get(padded(length)..)?;
    }
    let (length, rest) = length(rest, MAX_HANDLE)?;
    rest.get(..length)
}

/// The bytes of a call's record from its number to the procedure.
const TARGET: [u8; 16] = {
    let [_, _, _, call] = rpc::CALL.to_be_bytes();
    let [_, _, _, version] = rpc::VERSION.to_be_bytes();
    let [a, b, c, d] = rpc::PROGRAM_NFS.to_be_bytes();
    let [_, _, _, three] = VERSION.to_be_bytes();
    [0, 0, 0, call, 0, 0, 0, version, a, b, c, d, 0, 0, 0, three]
};

/// The length of opaque data, and the bytes behind it.
fn length(from: &[u8], most: usize) -> Option<(usize, &[u8])> {
    let (length, behind) = from.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length) as usize;
    (length <= most).then_some((length, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs3::Procedure;
    use crate::nfs3::arguments::GetattrArgs;
    use crate::xdr::Encoder;

    /// A call of this procedure, with a handle in front of its arguments.
    fn call(program: u32, procedure: u32) -> Vec<u8> {
        let mut to = Encoder::with_capacity(100);
        for word in [7, rpc::CALL, rpc::VERSION, program, VERSION, procedure] {
            to.u32(word);
        }
        to.u32(1);
        to.opaque(&[9; 33]);
        to.u32(0);
        to.opaque(&[]);
        to.value(&GetattrArgs { object: b"a handle" });
        to.finish().concat().split_off(4)
    }

    #[test]
    fn a_handle_is_known_as_soon_as_it_is_there_and_only_in_calls_that_begin_with_one() {
        let whole = call(rpc::PROGRAM_NFS, Procedure::Write as u32);
        for length in 0..whole.len() {
            assert_eq!(handle_of(&whole[..length]), None, "{length} bytes");
        }
        let longer = [&whole[..], b"and more"].concat();
        assert_eq!(handle_of(&longer), Some(&b"a handle"[..]));
        assert_eq!(handle_of(&call(rpc::PROGRAM_NFS, 0)), None);
        assert_eq!(handle_of(&call(rpc::PROGRAM_MOUNT, 1)), None);
    }
}
