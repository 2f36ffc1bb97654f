//! Blocks to which no pointer leads: each has its own checksum, and says what it is.

use cow::format::head::{alone, is, seal, seal_alone};
use cow::{Head, Place, Secret, UNIT};

use super::codec::{Reader, Writer};

/// A block with this body, to which no pointer leads.
pub(crate) fn sealed(body: Writer, place: Place, birth: u64, secret: &Secret) -> Vec<u8> {
    let mut block = vec![0; UNIT];
    block[size_of::<Head>()..size_of::<Head>() + body.0.len()].copy_from_slice(&body.0);
    seal(&mut block, place, birth, secret);
    seal_alone(&mut block);
    block
}

/// Whether a block has this identity; then its birth, and its body.
pub(crate) fn opened<'a>(block: &'a [u8], place: Place, of: &Secret) -> Option<(u64, Reader<'a>)> {
    let (birth, _) = alone(block, place.kind)?;
    let is_it = is(block, place, birth, of);
    is_it.then(|| (birth, Reader(&block[size_of::<Head>()..])))
}

/// The first bytes of a block as those of its head are.
pub(crate) const fn body_bytes() -> usize {
    UNIT - size_of::<Head>()
}

const _: () = assert!(body_bytes() == cow::BODY);
