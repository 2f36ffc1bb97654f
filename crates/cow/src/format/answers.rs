//! Replies in a block, each with its length before it.

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

/// Puts a reply into a block, with its length before it; returns its end.
pub fn put_answer(block: &mut [u8], at: usize, answer: &[u8]) -> usize {
    let (start, end) = (at + size_of::<U16>(), at + size_of::<U16>() + answer.len());
    block[at..start].copy_from_slice(U16::new(answer.len() as u16).as_bytes());
    block[start..end].copy_from_slice(answer);
    end
}

/// Splits bytes into replies, each with its length before it; none if they end within one.
pub fn split(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = U16::read_from_prefix(bytes).ok()?;
        let (answer, rest) = rest.split_at_checked(length.get().into())?;
        answers.push(answer.to_vec());
        bytes = rest;
    }
    Some(answers)
}
