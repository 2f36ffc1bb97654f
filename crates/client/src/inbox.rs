//! Splits the bytes of a connection into the records of replies.
//!
//! Small records are cut out of one buffer of fixed size and copied into memory of their own; a
//! record that does not fit is read into its memory straight from the stream.
//!
//! Invariants:
//! 1. `start <= end <= buffer.len()`: the bytes between have arrived and are unprocessed.
//! 2. Bytes go straight into a record only while there are none between.

use std::ops::Range;

use bytes::Bytes;

/// Size of the buffer, in bytes: several hundred small replies.
const BUFFER: usize = 128 << 10;

/// The longest record that is accepted, in bytes. No READ asks for that much.
const LONGEST: usize = 16 << 20;

/// The bit of a mark that makes its fragment the last of the record.
const LAST: u32 = 1 << 31;

/// A record that no server should send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of more than {LONGEST} bytes")]
pub(crate) struct TooLong;

/// Bytes that have arrived.
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    assembly: Option<Assembly>,
}

/// A record that has not arrived as a whole, or not in one fragment.
struct Assembly {
    bytes: Vec<u8>,
    /// Bytes of it that have arrived.
    filled: usize,
    /// Whether its last fragment has begun.
    is_last: bool,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; BUFFER], start: 0, end: 0, assembly: None }
    }

    /// The memory to read into.
    pub(crate) fn target(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if let Some(Assembly { bytes, filled, .. }) = &mut self.assembly
                && *filled < bytes.len()
            {
                return &mut bytes[*filled..]; // invariant 2
            }
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.buffer[self.end..]
    }

    /// Notes that this many bytes have arrived in the target.
    pub(crate) fn arrived(&mut self, length: usize) {
        match &mut self.assembly {
            Some(assembly) if self.start == self.end && assembly.filled < assembly.bytes.len() => {
                assembly.filled += length;
                let fits = assembly.filled <= assembly.bytes.len();
                assert!(fits, "invariant 2: what goes straight into a record is of it");
            }
            _ => self.end += length,
        }
        let is_within = self.start <= self.end && self.end <= self.buffer.len();
        assert!(is_within, "invariant 1: what has arrived is in the buffer");
    }

    /// The next record, if it has arrived.
    ///
    /// # Errors
    /// [`TooLong`]: the connection is of no further use.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        loop {
            if let Some(assembly) = &mut self.assembly {
                let wanted = assembly.bytes.len() - assembly.filled;
                let have = wanted.min(self.end - self.start);
                let from = self.start..self.start + have;
                assembly.bytes[assembly.filled..][..have].copy_from_slice(&self.buffer[from]);
                assembly.filled += have;
                self.start += have;
                if have < wanted {
                    return Ok(None);
                }
                if assembly.is_last {
                    return Ok(self.assembly.take().map(|assembly| assembly.bytes.into()));
                }
            }
            let Some((length, is_last)) = self.mark() else { return Ok(None) };
            let before = self.assembly.as_ref().map_or(0, |assembly| assembly.bytes.len());
            if before + length > LONGEST {
                return Err(TooLong);
            }
            if is_last
                && before == 0
                && let Some(range) = self.whole(length)
            {
                let record = Bytes::copy_from_slice(&self.buffer[range.clone()]);
                self.start = range.end;
                return Ok(Some(record));
            }
            self.start += 4;
            let none = || Assembly { bytes: Vec::new(), filled: 0, is_last };
            let assembly = self.assembly.get_or_insert_with(none);
            assembly.is_last = is_last;
            assembly.bytes.resize(before + length, 0);
        }
    }

    /// The mark in front, if it has arrived.
    fn mark(&self) -> Option<(usize, bool)> {
        let mark = self.buffer[self.start..self.end].first_chunk()?;
        let mark = u32::from_be_bytes(*mark);
        Some(((mark & !LAST) as usize, mark & LAST != 0))
    }

    /// The range of the fragment after the mark in front, if it has arrived completely.
    fn whole(&self, length: usize) -> Option<Range<usize>> {
        let first = self.start + 4;
        (first + length <= self.end).then(|| first..first + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(bytes: &[u8], is_last: bool) -> Vec<u8> {
        let mark = bytes.len() as u32 | if is_last { LAST } else { 0 };
        [&mark.to_be_bytes(), bytes].concat()
    }

    /// The records of `stream` when it arrives in pieces of at most `piece` bytes.
    fn records(mut stream: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let (mut inbox, mut records) = (Inbox::new(), Vec::new());
        while !stream.is_empty() {
            let target = inbox.target();
            let length = target.len().min(piece).min(stream.len());
            target[..length].copy_from_slice(&stream[..length]);
            inbox.arrived(length);
            stream = &stream[length..];
            while let Some(record) = inbox.next().expect("short records") {
                records.push(record.to_vec());
            }
        }
        records
    }

    #[test]
    fn records_come_whole_however_their_bytes_arrive() {
        let large: Vec<u8> = (0..3 * BUFFER).map(|index| index as u8).collect();
        let stream = [
            fragment(b"one", true),
            fragment(b"", false),
            fragment(b"tw", false),
            fragment(b"o", true),
            fragment(&large, true),
            fragment(b"", true),
            fragment(&large[..BUFFER], false),
            fragment(&large[BUFFER..], true),
            fragment(b"end", true),
        ];
        let expected =
            [&b"one"[..], b"two", &large, b"", &large, b"end"].map(<[u8]>::to_vec).to_vec();
        for piece in [1, 3, 4096, BUFFER - 1, BUFFER, usize::MAX] {
            assert!(records(&stream.concat(), piece) == expected, "pieces of {piece}");
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_refused_before_memory_is_taken() {
        let mut inbox = Inbox::new();
        inbox.target()[..4].copy_from_slice(&0xffff_ffff_u32.to_be_bytes());
        inbox.arrived(4);
        assert_eq!(inbox.next(), Err(TooLong));
    }
}
