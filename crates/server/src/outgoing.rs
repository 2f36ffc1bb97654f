//! Replies on their way to a peer: all that are ready go out in one vectored write.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};
use dispatch::Reply;
use runtime::sync::Permit;

/// The most pieces of one write; the kernel takes 1024.
const PIECES: usize = 256;

/// What is to be sent on one connection, in order.
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

/// The end of a reply, with the memory that goes back when it was sent.
struct Last {
    _memory: Option<[Permit; 2]>,
}

impl Outgoing {
    /// Adds a reply at the end.
    pub(crate) fn push(&mut self, reply: Reply) {
        self.replies += 1;
        let (segments, memory) = reply.into_parts();
        self.pieces.extend(segments.into_iter().map(|data| Piece { data, last: None }));
        let end = self.pieces.back_mut().expect("a reply has at least a header");
        end.last = Some(Last { _memory: memory });
    }

    /// Replies that are not sent to their end.
    pub(crate) fn replies(&self) -> usize {
        self.replies
    }

    /// Whether everything is sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Writes once, as much as `write` takes, and says how much that was.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(&piece.data);
            count += 1;
        }
        let written = write(&slices[..count])?;
        self.sent(written);
        Ok(written)
    }

    fn sent(&mut self, mut length: usize) {
        while let Some(piece) = self.pieces.front_mut()
            && piece.data.len() <= length
        {
            length -= piece.data.len();
            let ended = self.pieces.pop_front().is_some_and(|piece| piece.last.is_some());
            self.replies -= usize::from(ended);
        }
        if let Some(piece) = self.pieces.front_mut() {
            piece.data.advance(length);
        }
    }
}
