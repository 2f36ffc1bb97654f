//! Conversions between the types of the protocol and those of a file system.

use nfs::nfs3 as wire;
use vfs::{Credentials, FsError, Name, SetAttributes, SetTime, Stability, Timestamp};

use crate::Fsid;
use crate::planted::{Bug, is_planted};
use crate::refused::Refused;

/// Permission, set-id and sticky bits.
const MODE_BITS: u32 = 0o7777;

const NANOSECONDS: u32 = 1_000_000_000;

pub(super) fn attributes(fsid: Fsid, from: &vfs::Attributes) -> wire::Attributes {
    wire::Attributes {
        kind: kind(from.kind),
        mode: from.mode.into(),
        nlink: from.nlink,
        uid: from.uid,
        gid: from.gid,
        size: from.size,
        used: from.used,
        device: wire::Device { major: from.device.major, minor: from.device.minor },
        fsid: fsid.0,
        fileid: from.ino.0,
        atime: time(from.atime),
        mtime: time(from.mtime),
        ctime: time(from.ctime),
    }
}

pub(super) fn post_op(fsid: Fsid, from: vfs::PostOp) -> wire::PostOp {
    from.map(|known| attributes(fsid, &known))
}

pub(super) fn wcc(fsid: Fsid, from: vfs::Wcc) -> wire::Wcc {
    let before = from.before.map(|before| wire::WccAttributes {
        size: before.size,
        mtime: time(before.mtime),
        ctime: time(before.ctime),
    });
    wire::Wcc { before, after: post_op(fsid, from.after) }
}

fn kind(from: vfs::FileKind) -> wire::FileKind {
    match from {
        vfs::FileKind::Regular => wire::FileKind::Regular,
        vfs::FileKind::Directory => wire::FileKind::Directory,
        vfs::FileKind::Symlink => wire::FileKind::Symlink,
        vfs::FileKind::BlockDevice => wire::FileKind::BlockDevice,
        vfs::FileKind::CharacterDevice => wire::FileKind::CharacterDevice,
        vfs::FileKind::Fifo => wire::FileKind::Fifo,
        vfs::FileKind::Socket => wire::FileKind::Socket,
    }
}

/// Converts a time. The protocol's seconds are 32 bits without a sign. A time outside (before 1970,
/// after 2106) becomes the nearest that it can express, so that newer never looks older.
pub(super) fn time(from: Timestamp) -> wire::Time {
    match u32::try_from(from.seconds) {
        Ok(seconds) => wire::Time { seconds, nanoseconds: from.nanoseconds },
        Err(_) if from.seconds < 0 => wire::Time::default(),
        Err(_) => wire::Time { seconds: u32::MAX, nanoseconds: NANOSECONDS - 1 },
    }
}

/// Converts a time from a client.
pub(super) fn timestamp(from: wire::Time) -> Result<Timestamp, FsError> {
    if from.nanoseconds >= NANOSECONDS {
        return Err(FsError::Invalid);
    }
    Ok(Timestamp { seconds: from.seconds.into(), nanoseconds: from.nanoseconds })
}

pub(super) fn set_attributes(from: wire::SetAttributes) -> Result<SetAttributes, FsError> {
    let mode = |bits: u32| u16::try_from(bits & MODE_BITS).expect("12 bits");
    Ok(SetAttributes {
        // A client cannot set the type, though some send it along.
        mode: from.mode.map(mode),
        uid: from.uid,
        gid: from.gid,
        size: from.size,
        atime: from.atime.map(set_time).transpose()?,
        mtime: from.mtime.map(set_time).transpose()?,
    })
}

fn set_time(from: wire::SetTime) -> Result<SetTime, FsError> {
    match from {
        wire::SetTime::Now => Ok(SetTime::Now),
        wire::SetTime::To(time) => timestamp(time).map(SetTime::To),
    }
}

pub(super) fn device(from: wire::Device) -> vfs::Device {
    vfs::Device { major: from.major, minor: from.minor }
}

pub(super) fn stability(from: wire::Stability) -> Stability {
    match from {
        wire::Stability::Unstable => Stability::Unstable,
        wire::Stability::DataSync => Stability::DataSync,
        wire::Stability::FileSync => Stability::FileSync,
    }
}

pub(super) fn verifier(from: vfs::Verifier) -> wire::Verifier {
    wire::Verifier(if is_planted(Bug::UnsetVerifier) { [0; 8] } else { from.0 })
}

pub(super) fn committed(from: Stability) -> wire::Stability {
    match from {
        _ if is_planted(Bug::OverstatedStability) => wire::Stability::FileSync,
        Stability::Unstable => wire::Stability::Unstable,
        Stability::DataSync => wire::Stability::DataSync,
        Stability::FileSync => wire::Stability::FileSync,
    }
}

/// Converts a name. RFC 1813, section 3.2: an empty name is refused with NFS3ERR_ACCES, one with
/// impossible characters with NFS3ERR_INVAL, and one too long with NFS3ERR_NAMETOOLONG.
pub(super) fn name(from: &[u8]) -> Result<Name, Refused> {
    if from.is_empty() {
        return Err(FsError::Access.into());
    }
    Ok(Name::parse(from)?)
}

/// The user that a client claims to be.
pub(crate) fn claim(from: &nfs::rpc::AuthSys<'_>) -> Credentials {
    Credentials { uid: from.uid, gid: from.gid, groups: from.gids.as_slice().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_outside_the_protocol_show_as_the_nearest() {
        let at = |seconds| time(Timestamp { seconds, nanoseconds: 7 });
        assert_eq!(at(-1), wire::Time { seconds: 0, nanoseconds: 0 });
        assert_eq!(at(0), wire::Time { seconds: 0, nanoseconds: 7 });
        assert_eq!(at(u32::MAX.into()), wire::Time { seconds: u32::MAX, nanoseconds: 7 });
        let last = wire::Time { seconds: u32::MAX, nanoseconds: NANOSECONDS - 1 };
        assert_eq!(at(i64::from(u32::MAX) + 1), last);
    }

    #[test]
    fn a_second_has_less_than_a_billion_nanoseconds() {
        let to = |nanoseconds| timestamp(wire::Time { seconds: 5, nanoseconds });
        assert_eq!(to(999_999_999), Ok(Timestamp { seconds: 5, nanoseconds: 999_999_999 }));
        assert_eq!(to(1_000_000_000), Err(FsError::Invalid));
    }

    #[test]
    fn a_mode_keeps_its_low_twelve_bits() {
        let set = wire::SetAttributes { mode: Some(0o104_755), ..Default::default() };
        let expected = SetAttributes { mode: Some(0o4755), ..Default::default() };
        assert_eq!(set_attributes(set), Ok(expected));
    }

    #[test]
    fn bad_names_are_refused_as_the_protocol_says() {
        let refusal = |bytes: &[u8]| name(bytes).map_err(Refused::status);
        assert_eq!(refusal(b""), Err(wire::Status::Access));
        assert_eq!(refusal(b"a/b"), Err(wire::Status::Invalid));
        assert_eq!(refusal(b"a\0b"), Err(wire::Status::Invalid));
        assert_eq!(refusal(&[b'a'; 256]), Err(wire::Status::NameTooLong));
        assert!(refusal(&[b'a'; 255]).is_ok());
    }
}
