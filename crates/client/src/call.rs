//! Typed calls, and the interface that makes them: a [`Line`].

#![expect(async_fn_in_trait, reason = "clients live on one thread; no future here is sent")]

use std::rc::Rc;

use bytes::Bytes;
use nfs::nfs3::{self, Failure, Request, Status};
use nfs::rpc::{self, Caller, PROGRAM_NFS, Refusal, Reply};
use nfs::xdr::{DecodeError, Decoder, Encode, Encoder};

use crate::connection::{Broken, Connection, Numbers};

/// The reasons for which a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The procedure returned an error.
    #[error("{}", .0.name())]
    Status(Status),
    /// The server refused the call at RPC level.
    #[error("the call is refused: {0:?}")]
    Refused(Refusal),
    /// The results are not those of the procedure.
    #[error("results that cannot be read: {0}")]
    Garbled(#[from] DecodeError),
    /// The results can be decoded, but are impossible.
    #[error("a wrong answer: {0}")]
    Wrong(&'static str),
    /// The connection broke before the reply.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Makes NFS calls.
pub trait Line: 'static {
    /// Makes a call and reads its results.
    ///
    /// # Errors
    /// [`CallError`].
    async fn call<R: Request>(&self, arguments: &R) -> Result<R::Ok, CallError>;
}

/// A caller, and its connection. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    connection: Connection,
    caller: Rc<Caller>,
    numbers: Numbers,
}

impl Client {
    /// A client with its own connection; clients of one machine share their numbers.
    pub fn new(connection: Connection, caller: Rc<Caller>, numbers: Numbers) -> Self {
        Self { connection, caller, numbers }
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Makes a call of NFS and reads its results.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call<R: Request>(&self, arguments: &R) -> Result<R::Ok, CallError> {
        let number = self.numbers.next();
        let segments = segments(number, &self.caller, arguments);
        read::<R>(&self.connection.call(number, segments).await?)
    }

    /// The procedure that does nothing.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn null(&self) -> Result<(), CallError> {
        let record = self.ask((PROGRAM_NFS, nfs3::VERSION, 0), |_| {}).await?;
        Ok(results(&record)?.finish()?)
    }

    /// Makes a call of any program, version and procedure; returns the record of its reply.
    ///
    /// # Errors
    /// [`CallError::Broken`].
    pub async fn ask(
        &self,
        (program, version, procedure): (u32, u32, u32),
        arguments: impl FnOnce(&mut Encoder),
    ) -> Result<Bytes, CallError> {
        let number = self.numbers.next();
        let mut record = rpc::call(number, program, version, procedure, &self.caller);
        arguments(&mut record);
        Ok(self.connection.call(number, record.finish()).await?)
    }

    /// As [`Client::ask`], with arguments of one value.
    ///
    /// # Errors
    /// [`CallError::Broken`].
    pub async fn ask_with(
        &self,
        target: (u32, u32, u32),
        arguments: &impl Encode,
    ) -> Result<Bytes, CallError> {
        self.ask(target, |to| to.value(arguments)).await
    }
}

impl Line for Client {
    async fn call<R: Request>(&self, arguments: &R) -> Result<R::Ok, CallError> {
        Self::call(self, arguments).await
    }
}

/// The record of an NFS call, in segments.
pub(crate) fn segments<R: Request>(number: u32, caller: &Caller, arguments: &R) -> Vec<Bytes> {
    let procedure = R::PROCEDURE as u32;
    let mut record = rpc::call(number, PROGRAM_NFS, nfs3::VERSION, procedure, caller);
    record.value(arguments);
    record.finish()
}

/// The result of a call, from the record of its reply.
pub(crate) fn read<R: Request>(record: &Bytes) -> Result<R::Ok, CallError> {
    match R::results(results(record)?)? {
        Ok(ok) => Ok(ok),
        Err(Failure { status, .. }) => Err(CallError::Status(status)),
    }
}

/// The results in the record of a reply.
///
/// # Errors
/// [`CallError::Refused`], [`CallError::Garbled`].
pub fn results(record: &Bytes) -> Result<Decoder<'_>, CallError> {
    let reply = Reply::decode(Decoder::of_parts(record, &[]))?;
    reply.results.map_err(CallError::Refused)
}
