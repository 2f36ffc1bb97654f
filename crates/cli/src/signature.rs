//! Recognises the contents of a disk before it is overwritten.

use designs::DESIGNS;

/// Magic bytes of a known format, at their offset.
struct Signature {
    offset: usize,
    bytes: &'static [u8],
    name: &'static str,
}

const fn signature(offset: usize, bytes: &'static [u8], name: &'static str) -> Signature {
    Signature { offset, bytes, name }
}

/// A member of one of our sets.
const MEMBER: &str = "a member of a set of disks";
/// An NVRAM of one of our sets.
const NVRAM: &str = "the NVRAM of a volume";
/// A spare of one of our sets.
const SPARE: &str = "a spare of a set of disks";
/// A member of a set of Linux's md.
const MD: &str = "a member of a Linux RAID";
/// Magic number of md's superblock.
const MD_MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
/// Size of a read at the end of a disk, in bytes.
const SECTOR: u64 = 4096;

/// Recognises contents by the end of a disk of `size` bytes; `read` fills bytes from an offset on,
/// and returns whether it succeeded.
pub(crate) fn at_the_end(size: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> Option<&'static str> {
    let md = [
        (size / SECTOR * SECTOR).checked_sub(2 * SECTOR), // version 1.0
        (size / (64 << 10) * (64 << 10)).checked_sub(64 << 10), // version 0.90
    ];
    let md = md.into_iter().flatten().map(|at| (at, &MD_MAGIC[..], MD));
    let end = raid::label::places(size)[1];
    let own = [(end, &raid::label::MAGIC[..], MEMBER), (end, &raid::SPARE_MAGIC[..], SPARE)];
    let mut all = md.chain(own).filter(|(at, ..)| at + SECTOR <= size);
    let found = all.find(|(at, bytes, _)| {
        let mut sector = block::Buffer::zeroed(SECTOR as usize);
        read(*at, &mut sector) && sector.starts_with(bytes)
    });
    found.map(|(.., name)| name)
}

/// Signatures of members and spares, whatever their set holds.
const OF_SETS: [Signature; 5] = [
    signature(0, &raid::label::MAGIC, MEMBER),
    signature(0, &nvram::format::LABEL_MAGIC, NVRAM),
    signature(0, &raid::SPARE_MAGIC, SPARE),
    signature(0, &MD_MAGIC, MD),
    signature(4096, &MD_MAGIC, MD),
];

/// Signatures of other programs. Our own designs recognise their own.
const OF_OTHERS: [Signature; 17] = [
    signature(8192 + 1372, &[0x54, 0x19, 0x01, 0x00], "a UFS1 file system"),
    signature(8192 + 1372, &[0x00, 0x01, 0x19, 0x54], "a UFS1 file system"),
    signature(1024 + 56, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    signature(0, b"XFSB", "an XFS file system"),
    signature(65_536 + 64, b"_BHRfS_M", "a btrfs file system"),
    signature(1024, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    signature(3, b"NTFS    ", "an NTFS file system"),
    signature(3, b"EXFAT   ", "an exFAT file system"),
    signature(32_769, b"CD001", "an ISO 9660 file system"),
    signature(0, b"hsqs", "a squashfs file system"),
    signature(0, b"LUKS\xba\xbe", "a LUKS encrypted volume"),
    signature(512, b"LABELONE", "an LVM physical volume"),
    signature(4086, b"SWAPSPACE2", "swap space"),
    signature(0, b"QFI\xfb", "a QEMU disk image"),
    signature(512, b"EFI PART", "a GPT partition table"),
    signature(4096, b"EFI PART", "a GPT partition table"),
    signature(510, &[0x55, 0xaa], "a partition table or a boot sector"),
];

/// Recognises contents by the first bytes of a disk; `None` if they are all zero.
pub(crate) fn recognise(head: &[u8]) -> Option<&'static str> {
    let data = || head.iter().any(|&byte| byte != 0).then_some("data of an unknown kind");
    known(head).or_else(data)
}

/// Recognises known formats by the first bytes of a disk.
pub(crate) fn known(head: &[u8]) -> Option<&'static str> {
    let among = |signatures: &[Signature]| {
        let found = signatures.iter().find(|signature| {
            head.get(signature.offset..).is_some_and(|rest| rest.starts_with(signature.bytes))
        });
        found.map(|signature| signature.name)
    };
    among(&OF_SETS).or_else(|| DESIGNS.recognise(head)).or_else(|| among(&OF_OTHERS))
}

#[cfg(test)]
mod tests {
    use designs::HEAD_SIZE;

    use super::*;

    /// The last field of a superblock is its magic number, in the writer's byte order.
    const OF_UFS2: [Signature; 2] = [
        signature(65_536 + 1372, &[0x19, 0x01, 0x54, 0x19], "a UFS2 file system"),
        signature(65_536 + 1372, &[0x19, 0x54, 0x01, 0x19], "a UFS2 file system"),
    ];

    #[test]
    fn every_signature_is_recognised_where_it_belongs() {
        for signature in OF_SETS.iter().chain(&OF_OTHERS).chain(&OF_UFS2) {
            let mut head = vec![0; HEAD_SIZE];
            let end = signature.offset + signature.bytes.len();
            head[signature.offset..end].copy_from_slice(signature.bytes);
            assert_eq!(recognise(&head), Some(signature.name));
        }
    }

    #[test]
    fn zeros_are_nothing_and_all_else_is_something() {
        let mut head = vec![0; HEAD_SIZE];
        assert_eq!(recognise(&head), None);
        assert_eq!(recognise(&[]), None);
        head[77_777] = 1;
        assert_eq!(recognise(&head), Some("data of an unknown kind"));
    }
}
