//! The caller of an RPC, and the files that it may reach.

use std::net::IpAddr;
use std::rc::Rc;

use vfs::{CallKey, Credentials, FsError, Lost, ObjectId, Requester, Sealed};

use crate::planted::{Bug, is_planted};
use crate::refused::Refused;
use crate::reports::Reports;
use crate::slow::CallTimes;
use crate::told::Told;
use crate::volume::Served;
use crate::{Exports, Handle, Volumes};

/// A caller, with the rules that apply to its call.
pub(crate) struct Caller {
    pub(crate) client: IpAddr,
    /// The user that it claims to be; `None` without credentials.
    pub(crate) claim: Option<Credentials>,
    /// The key of its call, if that is to be remembered with its changes.
    pub(crate) call: Option<Rc<CallKey>>,
    pub(crate) volumes: Rc<Volumes>,
    pub(crate) exports: Rc<Exports>,
    pub(crate) reports: Rc<Reports>,
    /// Times of its call, if slow ones are logged.
    pub(crate) times: Option<Rc<CallTimes>>,
}

/// A file, and the user as whom the caller accesses it.
pub(crate) struct Target {
    pub(crate) volume: Rc<Served>,
    pub(crate) id: ObjectId,
    pub(crate) who: Requester,
    pub(crate) writable: bool,
    times: Option<Rc<CallTimes>>,
}

impl Target {
    /// Opens an answer of the volume, as [`Served::open`].
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn open<T>(&self, sealed: Sealed<T>) -> Result<Told<T>, Lost> {
        let open = self.volume.open(sealed);
        match &self.times {
            Some(times) => Box::pin(times.durable(open)).await, // it makes no other future larger
            None => open.await,
        }
    }

    /// Opens an answer that claims durability, as [`Served::open_stable`].
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn open_stable<T>(&self, sealed: Sealed<T>) -> Result<Told<T>, Lost> {
        let open = self.volume.open_stable(sealed);
        match &self.times {
            Some(times) => Box::pin(times.durable(open)).await, // it makes no other future larger
            None => open.await,
        }
    }
}

impl Caller {
    /// The same caller, with a call that is to be remembered.
    pub(crate) fn calling(self, call: Option<Rc<CallKey>>) -> Self {
        Self { call, ..self }
    }

    /// The file that a handle names.
    ///
    /// Bytes that no server of ours made are NFS3ERR_BADHANDLE. A good handle of a volume that is
    /// not served is NFS3ERR_STALE: the client drops it and looks the file up anew, which succeeds
    /// when the volume is back. A client that the rules do not admit gets NFS3ERR_ACCES and keeps
    /// its handles: they are good again as soon as the rules admit it.
    pub(crate) fn object(&self, handle: &[u8]) -> Result<Target, Refused> {
        let Handle { fsid, id } = Handle::decode(handle)?;
        let volume = self.volumes.by_fsid(fsid).ok_or(FsError::Stale)?;
        self.enter(volume, id).ok_or_else(|| {
            self.reports.refused("call", self.client, &volume.name, &self.exports);
            FsError::Access.into()
        })
    }

    /// As [`Caller::object`], for a change.
    pub(crate) fn object_to_change(&self, handle: &[u8]) -> Result<Target, Refused> {
        let target = self.object(handle)?;
        if target.writable { Ok(target) } else { Err(FsError::ReadOnly.into()) }
    }

    /// Two directories, or a file and a directory, of one volume, for a change.
    pub(crate) fn two_to_change(
        &self,
        one: &[u8],
        other: &[u8],
    ) -> Result<(Target, Target), Refused> {
        let (one, other) = (self.object_to_change(one)?, self.object_to_change(other)?);
        if one.volume.fsid != other.volume.fsid {
            return Err(FsError::CrossDevice.into());
        }
        Ok((one, other))
    }

    /// A file of a volume, if the rules admit the caller to the volume.
    pub(crate) fn enter(&self, volume: &Rc<Served>, id: ObjectId) -> Option<Target> {
        let mut rule = self.exports.rule(&volume.name, self.client)?;
        if is_planted(Bug::Unsquashed) {
            rule.squash = crate::Squash::None;
        }
        Some(Target {
            volume: volume.clone(),
            id,
            who: Requester { who: rule.credentials(self.claim.clone()), call: self.call.clone() },
            writable: rule.writable,
            times: self.times.clone(),
        })
    }
}
