//! Performance of a device without a file system, past the kernel's cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::failure::While;
use crate::track::statistics::Series;
use crate::{Result, clock};

/// Bytes written before each flush.
const BLOCK: usize = 4 << 10;

/// Bytes of a request of a sequential stream.
const PIECE: usize = 1 << 20;

/// The device's limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Raw {
    /// Writes of 4 KiB with a flush each, a second.
    pub(super) flushes_per_s: Series,
    /// Sequential writes of 1 MiB, several at once, with a flush at the end, in MiB/s.
    pub(super) write_mib_per_s: Series,
    /// Sequential reads of 1 MiB, several at once, in MiB/s.
    pub(super) read_mib_per_s: Series,
}

/// Concurrent requests of a stream.
const DEPTH: usize = 4;

impl Raw {
    /// Measures each for this long, on an unused device of this many MiB.
    pub(super) fn measure(&mut self, device: &Path, mib: u64, seconds: f64) -> Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        let file = options.open(device).while_doing(device.display())?;
        let stream = Stream { file: &file, mib, time: Duration::from_secs_f64(seconds) };
        let doing = || device.display().to_string();
        self.flushes_per_s.add(stream.flushes().while_doing(doing())?);
        let write = |piece: &mut [u8], offset| file.write_all_at(piece, offset);
        self.write_mib_per_s.add(stream.pieces(write).while_doing(doing())?);
        let read = |piece: &mut [u8], offset| file.read_exact_at(piece, offset);
        self.read_mib_per_s.add(stream.pieces(read).while_doing(doing())?);
        Ok(())
    }
}

struct Stream<'a> {
    file: &'a File,
    mib: u64,
    time: Duration,
}

impl Stream<'_> {
    /// Writes with flushes, a second.
    fn flushes(&self) -> io::Result<f64> {
        let begin = clock::now();
        let mut count = 0;
        with_piece(|piece| {
            while begin.elapsed() < self.time {
                let offset = count * BLOCK as u64 % (self.mib << 20);
                self.file.write_all_at(&piece[..BLOCK], offset)?;
                self.file.sync_data()?;
                count += 1;
            }
            Ok(count as f64 / begin.elapsed().as_secs_f64())
        })
    }

    /// MiB a second of consecutive pieces, several at once, with a flush at the end.
    fn pieces(&self, request: impl Fn(&mut [u8], u64) -> io::Result<()> + Sync) -> io::Result<f64> {
        let (begin, next) = (clock::now(), AtomicU64::new(0));
        let work = || {
            with_piece(|piece| {
                while begin.elapsed() < self.time {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    request(piece, number % self.mib * PIECE as u64)?;
                }
                Ok(())
            })
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..DEPTH).map(|_| scope.spawn(work)).collect();
            let mut done = workers.into_iter().map(|worker| worker.join());
            done.try_for_each(|result| result.expect("it does not panic"))
        })?;
        self.file.sync_data()?;
        Ok(next.into_inner() as f64 / begin.elapsed().as_secs_f64())
    }
}

/// Lends a piece of memory with the alignment that a device needs.
fn with_piece<T>(work: impl FnOnce(&mut [u8]) -> io::Result<T>) -> io::Result<T> {
    let mut memory = vec![0x5a; PIECE + BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    work(&mut memory[start..start + PIECE])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    #[test]
    fn a_stream_goes_over_the_whole_device_and_not_beyond() {
        let folder = TemporaryFolder::new("raw").expect("a folder");
        let path = folder.path().join("device");
        std::fs::write(&path, vec![0; 3 << 20]).expect("a file");
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("a file");
        let stream = Stream { file: &file, mib: 3, time: Duration::from_millis(200) };
        let written = stream.pieces(|piece, offset| file.write_all_at(piece, offset));
        assert!(written.expect("it can be written") > 3.0);
        let bytes = std::fs::read(&path).expect("a file");
        assert_eq!(bytes, vec![0x5a; 3 << 20]);
        assert!(stream.flushes().expect("it can be flushed") > 1.0);
        let beyond = Stream { mib: 4, ..stream };
        assert!(beyond.pieces(|piece, offset| file.read_exact_at(piece, offset)).is_err());
    }
}
