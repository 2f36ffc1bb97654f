//! The disks between two steps, and their settings.

use futures::FutureExt;
use sim::{Digest, Fate, Image, Platter};

use super::super::design::Design;
use super::super::disks::Images;
use super::super::ram::Ram;

/// The state between two steps.
#[derive(Clone)]
pub struct Place {
    /// The design in the settings.
    pub design: Design,
    /// The disks of this policy, the volume first, with their pending writes.
    pub disks: Vec<Platter>,
    /// A log beside the volume that the settings do not name.
    pub beside: Option<Image>,
}

impl Place {
    /// Disks with durable contents.
    pub fn new(design: Design, images: &Images) -> Self {
        let settled = |image: &Image| Platter::new(image.clone(), sim::Honesty::Honest);
        Self { design, disks: images.0.iter().map(settled).collect(), beside: None }
    }

    /// The contents that a process reads.
    pub fn contents(&self) -> Images {
        Images(self.disks.iter().map(|disk| disk.image_with(|_| Fate::Whole)).collect())
    }

    /// Whether the volume is marked as stopped cleanly.
    pub fn is_clean(&self) -> bool {
        let volume = Ram::new(self.disks[0].image_with(|_| Fate::Whole));
        let found = (self.design.work().look)(&volume).now_or_never();
        let found = found.expect("nothing on it takes time");
        found.is_ok_and(|found| found.is_clean && !found.needs_check)
    }

    /// A hash of the contents, and of the durable contents.
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
