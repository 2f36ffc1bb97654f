//! The arguments of the 22 procedures of NFS version 3.

use bytes::Bytes;
use nfs::nfs3::{Arguments, MAX_HANDLE, Procedure};
use nfs::xdr::{DecodeError, Decoder};
use sim::Prng;

use super::Target;
use crate::input::Input;
use crate::wire;

pub(super) const TARGET: Target =
    Target { name: "nfs-arguments", check, generate, longest: 4 << 10, memory: 256 << 10 };

fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let procedure = *input.pick(&Procedure::ALL);
    check_arguments(procedure, input.rest());
}

/// The checks on arguments of any content.
pub(super) fn check_arguments(procedure: Procedure, bytes: &[u8]) {
    let decoded = Arguments::decode(procedure, Decoder::new(bytes));
    let shared = Bytes::copy_from_slice(bytes);
    let by_reference = Arguments::decode(procedure, Decoder::of_parts(&shared, &[]));
    assert_eq!(decoded, by_reference, "memory of its own, or shared: the same arguments");
    let Ok(arguments) = decoded else { return };

    let again = wire::bytes_of(|to| wire::nfs_arguments(to, &arguments));
    assert_eq!(Arguments::decode(procedure, Decoder::new(&again)), Ok(arguments.clone()));
    assert_eq!(again.len(), bytes.len(), "arguments fill their bytes");
    let padding = again.iter().zip(bytes).filter(|(ours, _)| **ours == 0);
    let other = again.iter().zip(bytes).filter(|(ours, _)| **ours != 0);
    assert!(other.clone().all(|(ours, theirs)| ours == theirs), "no byte but padding is free");
    assert!(padding.filter(|(_, theirs)| **theirs != 0).count() <= 3 * 4, "four fields at most");

    for cut in [bytes.len().saturating_sub(1), bytes.len() / 2, bytes.len().saturating_sub(4)] {
        let short = Arguments::decode(procedure, Decoder::new(&bytes[..cut]));
        assert_eq!(short.is_ok(), cut == bytes.len(), "{cut} of {} bytes", bytes.len());
    }
    let longer = [bytes, &[0; 4]].concat();
    let longer = Arguments::decode(procedure, Decoder::new(&longer));
    assert_eq!(longer, Err(DecodeError::Trailing(4)));
    check_write(procedure, &shared, &arguments, &by_reference.expect("decoded as the other"));
}

/// The payload is not copied, and is the same when it was placed separately.
fn check_write(
    procedure: Procedure,
    record: &Bytes,
    arguments: &Arguments<'_>,
    by_reference: &Arguments<'_>,
) {
    let (Arguments::Write(args), Arguments::Write(shared)) = (arguments, by_reference) else {
        return;
    };
    assert!(args.file.len() <= MAX_HANDLE);
    let within = record.as_ptr_range();
    let is_within = |piece: &Bytes| piece.is_empty() || within.contains(&piece.as_ptr());
    assert!(shared.data.iter().all(is_within), "payload is taken by reference");
    let payload = args.data.concat();
    let head = record.slice(..record.len() - nfs::xdr::padded(payload.len()));
    let payload: Vec<Bytes> = payload.chunks(7).map(Bytes::copy_from_slice).collect();
    let placed = Arguments::decode(procedure, Decoder::of_parts(&head, &payload));
    let Ok(Arguments::Write(placed)) = placed else { panic!("placed payload: {placed:?}") };
    assert_eq!(placed.data.concat(), args.data.concat(), "placed payload");
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let procedure = prng.below(22) as u8;
    let mut input = vec![procedure];
    input.extend(wire::any_nfs_arguments(prng, procedure.into(), 300));
    input
}
