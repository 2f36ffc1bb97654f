//! The arguments of the 6 procedures of MOUNT version 3.

use nfs::mount::{Arguments, MAX_PATH, Procedure};
use nfs::xdr::{DecodeError, Decoder};
use sim::Prng;

use super::Target;
use crate::input::Input;
use crate::wire;

pub(super) const TARGET: Target =
    Target { name: "mount-arguments", check, generate, longest: 2 << 10, memory: 256 << 10 };

fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let procedure = *input.pick(&Procedure::ALL);
    check_arguments(procedure, input.rest());
}

/// The checks on arguments of any content.
pub(super) fn check_arguments(procedure: Procedure, bytes: &[u8]) {
    let Ok(arguments) = Arguments::decode(procedure, Decoder::new(bytes)) else { return };
    let (Arguments::Mnt(nfs::mount::MntArgs { path })
    | Arguments::Umnt(nfs::mount::UmntArgs { path })) = arguments
    else {
        assert!(bytes.is_empty(), "{} takes nothing", procedure.name());
        return;
    };
    assert!(path.len() <= MAX_PATH);
    let again = wire::bytes_of(|to| wire::mount_arguments(to, &arguments));
    assert_eq!(again.len(), bytes.len(), "arguments fill their bytes");
    assert_eq!(Arguments::decode(procedure, Decoder::new(&again)), Ok(arguments));
    let short = Arguments::decode(procedure, Decoder::new(&bytes[..bytes.len() - 1]));
    assert_eq!(short, Err(DecodeError::Short));
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let procedure = prng.below(6) as u8;
    let mut input = vec![procedure];
    input.extend(wire::any_mount_arguments(prng, procedure.into()));
    input
}
