//! The calls that a file makes to its server: the seam below write-behind and read-ahead.
//!
//! Over the wire it is [`Remote`]; tests and experiments supply servers of their own.

#![expect(async_fn_in_trait, reason = "clients live on one thread; no future here is sent")]

use std::time::Duration;

use bytes::Bytes;
use nfs::nfs3::arguments::{CommitArgs, ReadArgs, WriteArgs};
use nfs::nfs3::{Handle, Stability, Status, Verifier};
use runtime::Clock;

use crate::call::{CallError, Line};
use crate::planted::{Bug, is_planted};

/// The result of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes that the server took, from the first on.
    pub count: u32,
    /// How durable they are.
    pub committed: Stability,
    /// For comparison with the verifier of a COMMIT.
    pub verifier: Verifier,
}

/// The result of a READ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The bytes, in pieces.
    pub data: Vec<Bytes>,
    /// Whether they end at the end of the file.
    pub eof: bool,
}

impl Found {
    /// Number of bytes.
    pub fn length(&self) -> u64 {
        self.data.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// The calls of one file. Each may be made while others are in flight, and the server may execute
/// calls in flight in any order.
pub trait Calls: 'static {
    /// WRITE.
    async fn write(
        &self,
        offset: u64,
        data: Bytes,
        stable: Stability,
    ) -> Result<Written, CallError>;

    /// COMMIT of the whole file.
    async fn commit(&self) -> Result<Verifier, CallError>;

    /// READ.
    async fn read(&self, offset: u64, count: u32) -> Result<Found, CallError>;
}

/// A file of a server, over the wire.
#[derive(Clone)]
pub struct Remote<L> {
    /// The line that makes its calls.
    pub line: L,
    /// The file.
    pub file: Handle,
}

impl<L: Line> Calls for Remote<L> {
    async fn write(
        &self,
        offset: u64,
        data: Bytes,
        stable: Stability,
    ) -> Result<Written, CallError> {
        let (file, count) = (self.file.as_bytes(), data.len() as u32);
        let arguments = WriteArgs { file, offset, count, stable, data: vec![data] };
        let ok = self.line.call(&arguments).await?;
        Ok(Written { count: ok.count, committed: ok.committed, verifier: ok.verifier })
    }

    async fn commit(&self) -> Result<Verifier, CallError> {
        let arguments = CommitArgs { file: self.file.as_bytes(), offset: 0, count: 0 };
        Ok(self.line.call(&arguments).await?.verifier)
    }

    async fn read(&self, offset: u64, count: u32) -> Result<Found, CallError> {
        let arguments = ReadArgs { file: self.file.as_bytes(), offset, count };
        let ok = self.line.call(&arguments).await?;
        Ok(Found { data: ok.data, eof: ok.eof })
    }
}

/// Repeats a call, after a pause each time, while the server replies "try again later" and the
/// result is still wanted.
pub(super) async fn patiently<T>(
    clock: &dyn Clock,
    pause: Duration,
    is_wanted: impl Fn() -> bool,
    call: impl AsyncFn() -> Result<T, CallError>,
) -> Result<T, CallError> {
    loop {
        match call().await {
            Err(CallError::Status(Status::Jukebox))
                if is_wanted() && !is_planted(Bug::HastyRetries) =>
            {
                clock.sleep(pause).await;
            }
            result => return result,
        }
    }
}
