//! Bytes written by hand from the RFCs' definitions, field by field, to check the codec.

mod arguments;
mod calls;
mod mount;
mod portmap;
mod results;
mod results_of_directories;
mod results_of_failures;

use bytes::Bytes;
use nfs::nfs3::{Attributes, Device, FileKind, Handle, Time, Wcc, WccAttributes};
use nfs::rpc;
use nfs::xdr::Encode;

/// The bytes of hexadecimal `text`; text after '#' on a line is a comment.
fn wire(text: &str) -> Vec<u8> {
    let digits: String = text
        .lines()
        .map(|line| line.split('#').next().expect("split gives one piece at least"))
        .flat_map(str::split_whitespace)
        .collect();
    assert!(digits.len().is_multiple_of(8), "everything on the wire is a multiple of four bytes");
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// `nfs_fh3` of [`handle`].
const HANDLE: &str = "
    00000006            # length
    68616e646c65 0000   # 'handle', padding
";

fn handle() -> Handle {
    Handle::new(b"handle").expect("six bytes are a handle")
}

/// `fattr3` of [`attributes`].
const ATTRIBUTES: &str = "
    00000001            # type NF3REG
    000001a4            # mode 0644
    00000002            # nlink
    000003e8            # uid 1000
    00000064            # gid 100
    00000001 00000002   # size
    00000001 00001000   # used
    00000007 00000008   # rdev
    0a0b0c0d 0e0f1011   # fsid
    00000000 00000305   # fileid
    60000000 00000001   # atime
    60000001 00000002   # mtime
    60000002 00000003   # ctime
";

fn attributes() -> Attributes {
    Attributes {
        kind: FileKind::Regular,
        mode: 0o644,
        nlink: 2,
        uid: 1000,
        gid: 100,
        size: 0x1_0000_0002,
        used: 0x1_0000_1000,
        device: Device { major: 7, minor: 8 },
        fsid: 0x0a0b_0c0d_0e0f_1011,
        fileid: 0x305,
        atime: Time { seconds: 0x6000_0000, nanoseconds: 1 },
        mtime: Time { seconds: 0x6000_0001, nanoseconds: 2 },
        ctime: Time { seconds: 0x6000_0002, nanoseconds: 3 },
    }
}

/// `post_op_attr` of `Some(attributes())`.
fn some_attributes() -> String {
    format!("00000001 # attributes follow\n{ATTRIBUTES}")
}

/// `wcc_data` of [`wcc`].
fn some_wcc() -> String {
    format!(
        "
        00000001            # before: attributes follow
        00000000 00000200   # size
        5fffffff 00000009   # mtime
        5ffffffe 0000000a   # ctime
        {}",
        some_attributes()
    )
}

/// `wcc_data` without any attributes.
const NO_WCC: &str = "00000000 00000000 # neither before nor after\n";

fn wcc() -> Wcc {
    let before = WccAttributes {
        size: 0x200,
        mtime: Time { seconds: 0x5fff_ffff, nanoseconds: 9 },
        ctime: Time { seconds: 0x5fff_fffe, nanoseconds: 10 },
    };
    Wcc { before: Some(before), after: Some(attributes()) }
}

/// All bytes of a record, as sent.
fn sent(segments: &[Bytes]) -> Vec<u8> {
    segments.concat()
}

/// The bytes of `result` after the header of a successful reply.
fn encoded(result: &impl Encode) -> Vec<u8> {
    let mut reply = rpc::success(1);
    reply.value(result);
    let bytes = sent(&reply.finish());
    let (header, results) = bytes.split_at(28);
    let mark = 0x8000_0000 | u32::try_from(24 + results.len()).expect("a short reply");
    assert_eq!(header[..4], mark.to_be_bytes());
    results.to_vec()
}

/// Asserts that `result` is encoded as the bytes of `text`.
#[track_caller]
fn assert_encodes(result: &impl Encode, text: &str) {
    assert_eq!(encoded(result), wire(text));
}
