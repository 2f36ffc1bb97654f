//! Replies to be sent to a peer: all that are ready go out in one vectored write.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Poll, ready};

use bytes::{Buf, Bytes};
use dispatch::{Reply, ReplyMemory};
use runtime::pool::Line;

/// The most pieces of one write; the kernel takes 1024.
const PIECES: usize = 256;

/// The unsent bytes of one connection, in order.
#[derive(Default)]
pub(crate) struct Outgoing {
    pieces: VecDeque<Piece>,
    replies: usize,
}

struct Piece {
    data: Bytes,
    /// On the last piece of a reply.
    last: Option<Last>,
}

/// The end of a reply, with the memory that is freed when it was sent.
struct Last {
    memory: Option<ReplyMemory>,
}

impl Outgoing {
    /// Adds a reply at the end, if there is one.
    pub(crate) fn extend(&mut self, reply: Option<Reply>) {
        if let Some((segments, memory)) = reply.map(Reply::into_parts) {
            self.push_segments(segments, memory);
        }
    }

    fn push_segments(&mut self, segments: Vec<Bytes>, memory: Option<ReplyMemory>) {
        self.replies += 1;
        self.pieces.extend(segments.into_iter().map(|data| Piece { data, last: None }));
        let end = self.pieces.back_mut().expect("a reply has at least a header");
        end.last = Some(Last { memory });
    }

    /// Replies that are not sent completely.
    pub(crate) fn replies(&self) -> usize {
        self.replies
    }

    /// Other requests that may wait for the memory of the first reply, if it holds some.
    pub(crate) fn line(&self) -> Option<Line> {
        let last = self.pieces.iter().find_map(|piece| piece.last.as_ref())?;
        last.memory.as_ref()?.line()
    }

    /// Whether everything has been sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Writes once, as much as `write` takes, and returns the number of bytes.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn poll_write(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let pieces = self.pieces.iter().take(PIECES);
        let slices: Vec<_> = pieces.map(|piece| IoSlice::new(&piece.data)).collect();
        let written = ready!(write(&slices))?;
        self.sent(written);
        Poll::Ready(Ok(written))
    }

    fn sent(&mut self, mut length: usize) {
        while let Some(piece) = self.pieces.front_mut()
            && piece.data.len() <= length
        {
            length -= piece.data.len();
            let last = self.pieces.pop_front().and_then(|piece| piece.last);
            self.replies -= usize::from(last.is_some());
        }
        if let Some(piece) = self.pieces.front_mut() {
            piece.data.advance(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use runtime::pool::{Pool, Share};

    use super::*;

    /// Sends replies through a socket that takes `step` bytes at a time.
    fn through(step: usize, replies: Vec<Vec<Bytes>>) -> Vec<u8> {
        let mut outgoing = Outgoing::default();
        let count = replies.len();
        replies.into_iter().for_each(|segments| outgoing.push_segments(segments, None));
        assert_eq!(outgoing.replies(), count);
        let mut taken = Vec::new();
        while !outgoing.is_empty() {
            let write = |slices: &[IoSlice<'_>]| {
                let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
                let length = all.len().min(step);
                taken.extend(&all[..length]);
                Poll::Ready(Ok(length))
            };
            let written = outgoing.poll_write(write);
            assert!(matches!(written, Poll::Ready(Ok(_))), "it takes bytes");
        }
        assert_eq!(outgoing.replies(), 0);
        taken
    }

    #[test]
    fn bytes_go_out_in_order_however_few_at_a_time() {
        let piece = |start: u8, length: u8| Bytes::from_iter(start..start + length);
        let replies =
            || vec![vec![piece(0, 5), piece(5, 1)], vec![piece(6, 7)], vec![piece(13, 2)]];
        for step in 1..20 {
            assert_eq!(through(step, replies()), (0..15).collect::<Vec<u8>>(), "{step}");
        }
    }

    #[test]
    fn more_pieces_than_one_write_takes_go_out_in_several() {
        let replies =
            (0..1_000).map(|number: u32| vec![Bytes::from(number.to_be_bytes().to_vec())]);
        let taken = through(usize::MAX, replies.collect());
        let expected: Vec<u8> = (0..1_000).flat_map(|number: u32| number.to_be_bytes()).collect();
        assert_eq!(taken, expected);
    }

    #[test]
    fn memory_goes_back_when_the_last_byte_of_its_reply_is_sent() {
        let pool = || Pool::new(10, &[Share { least: 0, may_exceed: true }], u64::MAX);
        let [of_session, of_all] = [pool(), pool()];
        let memory = ReplyMemory::new(of_session.take_now(0, 1), of_all.take_now(0, 1));
        let available = || [of_session.available(), of_all.available()];
        let mut outgoing = Outgoing::default();
        outgoing.push_segments(vec![Bytes::from_static(b"abcd")], Some(memory));
        let mut take = |length| {
            let written = outgoing.poll_write(|_| Poll::Ready(Ok(length)));
            assert!(matches!(written, Poll::Ready(Ok(_))), "it takes bytes");
            outgoing.line().is_some()
        };
        assert!(take(3));
        assert_eq!(available(), [9, 9]);
        assert!(!take(1));
        assert_eq!(available(), [10, 10]);
    }
}
