//! Changes that a rebuild gathers, by sector, and writes at its end.

use std::collections::BTreeMap;

use block::{BlockDevice, Buffer, Durability};
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::OpenError;

/// What the disk writes at once; no repair needs two of them to be written together.
const SECTOR: u64 = 512;
const WRITES_IN_FLIGHT: usize = 64;

/// Sectors with their new content, by byte address.
#[derive(Default)]
pub(super) struct Repairs {
    sectors: BTreeMap<u64, Vec<u8>>,
}

impl Repairs {
    /// Puts `bytes` at byte `address`, inside the sectors there.
    pub(super) async fn put(
        &mut self,
        device: &dyn BlockDevice,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), OpenError> {
        let mut done = 0;
        while done < bytes.len() {
            let at = address + done as u64;
            let sector = at - at % SECTOR;
            let offset = (at % SECTOR) as usize;
            let length = (SECTOR as usize - offset).min(bytes.len() - done);
            if !self.sectors.contains_key(&sector) {
                let old = self.read_sector(device, sector).await?;
                self.sectors.insert(sector, old);
            }
            let content = self.sectors.get_mut(&sector).expect("just put there");
            content[offset..offset + length].copy_from_slice(&bytes[done..done + length]);
            done += length;
        }
        Ok(())
    }

    async fn read_sector(
        &self,
        device: &dyn BlockDevice,
        sector: u64,
    ) -> Result<Vec<u8>, OpenError> {
        let unit = u64::from(device.geometry().logical_sector_size).max(SECTOR);
        let start = sector - sector % unit;
        let bytes = device.read(start, Buffer::zeroed(unit as usize)).await?;
        let offset = (sector - start) as usize;
        Ok(bytes[offset..offset + SECTOR as usize].to_vec())
    }

    /// Shows in `bytes`, read from byte `address`, what has been gathered.
    pub(super) fn overlay(&self, address: u64, bytes: &mut [u8]) {
        let end = address + bytes.len() as u64;
        for (sector, content) in self.sectors.range(address..end) {
            let at = (sector - address) as usize;
            bytes[at..at + content.len()].copy_from_slice(content);
        }
    }

    /// Writes everything and flushes.
    pub(super) async fn write(&mut self, device: &dyn BlockDevice) -> Result<(), OpenError> {
        let unit = u64::from(device.geometry().logical_sector_size).max(SECTOR);
        let starts: std::collections::BTreeSet<u64> =
            self.sectors.keys().map(|sector| sector - sector % unit).collect();
        let this = &*self;
        let write = |start| async move {
            let mut bytes = device.read(start, Buffer::zeroed(unit as usize)).await?;
            this.overlay(start, &mut bytes);
            device.write(start, vec![bytes.freeze()], Durability::Plain).await
        };
        stream::iter(starts)
            .map(write)
            .buffer_unordered(WRITES_IN_FLIGHT)
            .try_collect::<()>()
            .await?;
        device.flush().await?;
        self.sectors.clear();
        Ok(())
    }
}
