//! Attributes in wire format (RFC 1813, sections 2.5 and 2.6).

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// `ftype3`: the type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// NF3REG.
    Regular = 1,
    /// NF3DIR.
    Directory = 2,
    /// NF3BLK.
    BlockDevice = 3,
    /// NF3CHR.
    CharacterDevice = 4,
    /// NF3LNK.
    Symlink = 5,
    /// NF3SOCK.
    Socket = 6,
    /// NF3FIFO.
    Fifo = 7,
}

/// `specdata3`: a device number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device {
    /// The driver.
    pub major: u32,
    /// The unit.
    pub minor: u32,
}

/// `nfstime3`: a time since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds.
    pub seconds: u32,
    /// The rest. A client may send more than a second here; the caller checks.
    pub nanoseconds: u32,
}

/// 64 opaque bits: of writes, of cookies, of exclusive creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Verifier(pub [u8; 8]);

/// `fattr3`: the attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its type.
    pub kind: FileKind,
    /// Permission, set-id and sticky bits.
    pub mode: u32,
    /// Number of links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Bytes of disk that it holds.
    pub used: u64,
    /// The device that a device file names.
    pub device: Device,
    /// The volume it is on.
    pub fsid: u64,
    /// Its inode number.
    pub fileid: u64,
    /// Last read.
    pub atime: Time,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of content or attributes.
    pub ctime: Time,
}

impl Attributes {
    /// Their length on the wire, in bytes.
    pub const SIZE: usize = 84;
}

/// `post_op_attr`: attributes after an operation, where they are known.
pub type PostOp = Option<Attributes>;

/// `wcc_attr`: the attributes by which a client knows whether its cache was current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WccAttributes {
    /// Length in bytes.
    pub size: u64,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of content or attributes.
    pub ctime: Time,
}

/// `wcc_data`: an object before and after an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wcc {
    /// Just before.
    pub before: Option<WccAttributes>,
    /// Just after.
    pub after: PostOp,
}

/// The value to set a time to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// SET_TO_SERVER_TIME.
    Now,
    /// SET_TO_CLIENT_TIME.
    To(Time),
}

/// `sattr3`: attributes to set; `None` leaves one alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission, set-id and sticky bits, and any others that the client sent.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of the content.
    pub mtime: Option<SetTime>,
}

/// `stable_how`: the required or the actual stability of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// UNSTABLE.
    Unstable = 0,
    /// DATA_SYNC.
    DataSync = 1,
    /// FILE_SYNC.
    FileSync = 2,
}

impl Decode<'_> for FileKind {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match from.u32()? {
            1 => Self::Regular,
            2 => Self::Directory,
            3 => Self::BlockDevice,
            4 => Self::CharacterDevice,
            5 => Self::Symlink,
            6 => Self::Socket,
            7 => Self::Fifo,
            value => return Err(DecodeError::BadValue { of: "ftype3", value }),
        })
    }
}

impl Decode<'_> for Device {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { major: from.u32()?, minor: from.u32()? })
    }
}

impl Decode<'_> for Time {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { seconds: from.u32()?, nanoseconds: from.u32()? })
    }
}

impl Decode<'_> for Verifier {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        from.array().map(Self)
    }
}

impl Decode<'_> for Stability {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match from.u32()? {
            0 => Self::Unstable,
            1 => Self::DataSync,
            2 => Self::FileSync,
            value => return Err(DecodeError::BadValue { of: "stable_how", value }),
        })
    }
}

impl Decode<'_> for SetAttributes {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            mode: from.value()?,
            uid: from.value()?,
            gid: from.value()?,
            size: from.value()?,
            atime: decode_set_time(from)?,
            mtime: decode_set_time(from)?,
        })
    }
}

/// A time is the one optional field with three cases, so it is not an `Option` on the wire.
fn decode_set_time(from: &mut Decoder<'_>) -> Result<Option<SetTime>, DecodeError> {
    Ok(match from.u32()? {
        0 => None,
        1 => Some(SetTime::Now),
        2 => Some(SetTime::To(from.value()?)),
        value => return Err(DecodeError::BadValue { of: "time_how", value }),
    })
}

impl Encode for Device {
    fn encode(&self, to: &mut Encoder) {
        to.u32(self.major);
        to.u32(self.minor);
    }
}

impl Encode for Time {
    fn encode(&self, to: &mut Encoder) {
        to.u32(self.seconds);
        to.u32(self.nanoseconds);
    }
}

impl Encode for Verifier {
    fn encode(&self, to: &mut Encoder) {
        to.array(&self.0);
    }
}

impl Encode for Stability {
    fn encode(&self, to: &mut Encoder) {
        to.u32(*self as u32);
    }
}

impl Encode for Attributes {
    fn encode(&self, to: &mut Encoder) {
        to.u32(self.kind as u32);
        to.u32(self.mode);
        to.u32(self.nlink);
        to.u32(self.uid);
        to.u32(self.gid);
        to.u64(self.size);
        to.u64(self.used);
        to.value(&self.device);
        to.u64(self.fsid);
        to.u64(self.fileid);
        to.value(&self.atime);
        to.value(&self.mtime);
        to.value(&self.ctime);
    }
}

impl Encode for WccAttributes {
    fn encode(&self, to: &mut Encoder) {
        to.u64(self.size);
        to.value(&self.mtime);
        to.value(&self.ctime);
    }
}

impl Encode for Wcc {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.before);
        to.value(&self.after);
    }
}
