//! The disks between two steps, and what the settings say of them.

use sim::{Digest, Fate, Image, Platter};
use ufs2::layout::{SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock, flags};

use super::super::design::Design;
use super::super::disks::Images;

/// What is there between two steps.
#[derive(Clone)]
pub struct Place {
    /// What the settings say.
    pub design: Design,
    /// The disks that this policy has, the volume first, with what may still be lost of them.
    pub disks: Vec<Platter>,
    /// A log that lies beside the volume, and that the settings do not name.
    pub beside: Option<Image>,
}

impl Place {
    /// Disks that hold this for sure.
    pub fn new(design: Design, images: &Images) -> Self {
        let settled = |image: &Image| Platter::new(image.clone(), sim::Honesty::Honest);
        Self { design, disks: images.0.iter().map(settled).collect(), beside: None }
    }

    /// What a process sees on them.
    pub fn contents(&self) -> Images {
        Images(self.disks.iter().map(|disk| disk.image_with(|_| Fate::Whole)).collect())
    }

    /// Whether the volume says that it was stopped cleanly.
    pub fn is_clean(&self) -> bool {
        let volume = self.disks[0].image_with(|_| Fate::Whole);
        let mut block = vec![0; SUPERBLOCK_ROOM as usize];
        volume.read(SUPERBLOCK_ADDRESS, &mut block);
        let superblock = Superblock::of(&block);
        superblock.clean == 1 && superblock.flags.get() & flags::NEEDS_FSCK == 0
    }

    /// A hash of what is seen, and of what is there for sure.
    pub fn fingerprint(&self) -> u64 {
        let mut digest = Digest::new(self.design.number());
        let mut add = |fingerprint: u128| {
            digest.add(fingerprint as u64);
            digest.add((fingerprint >> 64) as u64);
        };
        add(self.contents().fingerprint());
        self.disks.iter().for_each(|disk| add(disk.durable_image().fingerprint()));
        self.beside.iter().for_each(|log| add(log.fingerprint()));
        digest.value()
    }
}
