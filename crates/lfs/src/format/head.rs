//! The head of a volume: its shape, its secret and its label.

use cow::format::head::{alone, secret};
use cow::{Head, Place, Secret, UNIT};

use super::alone::sealed;
use super::codec::{Reader, Writer};
use super::shape::Shape;
use super::{VERSION, kind};

/// Bytes that a label may have.
pub const LABEL: usize = 31;

/// See the module's prose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeHead {
    /// The sizes of its parts.
    pub shape: Shape,
    /// The volume's secret.
    pub secret: Secret,
    /// Its label; empty if there is none.
    pub label: String,
    /// Whether the volume was finished.
    pub is_whole: bool,
    /// The version of its format.
    pub version: u16,
}

impl VolumeHead {
    /// Encodes it, for one of its places: they count from 0.
    pub fn write(&self, index: u64) -> Vec<u8> {
        let mut body = Writer::default();
        body.u16(self.version);
        body.u8(u8::from(self.is_whole));
        body.u8(self.shape.reserve);
        [self.shape.units, self.shape.segment, self.shape.block]
            .into_iter()
            .for_each(|size| body.u64(size));
        body.u8(self.label.len().try_into().expect("a label is short"));
        body.bytes(self.label.as_bytes());
        sealed(body, Place { kind: kind::HEAD, owner: 0, level: 0, index }, 1, &self.secret)
    }

    /// Decodes it; none if the block is something else.
    pub fn read(block: &[u8]) -> Option<Self> {
        alone(block, kind::HEAD)?;
        let mut body = Reader(&block[size_of::<Head>()..]);
        let (version, is_whole, reserve) = (body.u16()?, body.u8()? == 1, body.u8()?);
        let (units, segment, block_size) = (body.u64()?, body.u64()?, body.u64()?);
        let length = body.u8()?;
        let label = String::from_utf8(body.bytes(length.into())?.to_vec()).ok()?;
        let shape = Shape { units, segment, block: block_size, reserve };
        Some(Self { shape, secret: secret(block), label, is_whole, version })
    }

    /// Whether a disk begins with the head of a volume.
    pub fn begins(disk: &[u8]) -> bool {
        disk.len() >= UNIT && Self::read(&disk[..UNIT]).is_some()
    }

    /// Whether a disk begins with the head of a volume that was not finished.
    pub fn is_begun(disk: &[u8]) -> bool {
        disk.len() >= UNIT && Self::read(&disk[..UNIT]).is_some_and(|head| !head.is_whole)
    }

    /// Whether this program knows its version.
    pub fn is_known(&self) -> bool {
        self.version == VERSION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let shape = Shape { units: 1 << 18, segment: 240, block: 2, reserve: 8 };
        let head = VolumeHead {
            shape,
            secret: [7; 16],
            label: "tank".to_owned(),
            is_whole: true,
            version: VERSION,
        };
        let mut block = head.write(1);
        assert_eq!(VolumeHead::read(&block), Some(head));
        assert!(VolumeHead::begins(&block) && !VolumeHead::is_begun(&block));
        block[100] ^= 1;
        assert_eq!(VolumeHead::read(&block), None);
    }
}
