//! A task that writes past the log revokes the log's data at that place (rule 5 of
//! docs/durability.md): after any sequence of overwrites, of any length, the last acknowledged
//! write is there after a cut. And the new part of a growing file is zero, whatever was on the disk
//! or in the log there.

use sim::Prng;
use vfs::{FileSystem, Stability};

use crate::common::quiet::Quiet;
use crate::common::volume::Volume;

/// Larger than the payload limit of an entry.
const LARGE: usize = 24 << 10;
const SMALL: (u64, u64) = (4096, 512);

/// A write: offset, byte value, and length.
type Write = (usize, u8, usize);

/// The difference between two contents, if any.
fn compare(label: &str, found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{label}: {} bytes of {}", found.len(), expected.len()));
    }
    let wrong = found.iter().zip(expected).position(|(one, other)| one != other);
    wrong.map_or(Ok(()), |at| {
        Err(format!("{label}: byte {at} is {}, not {}", found[at], expected[at]))
    })
}

async fn read(volume: &Volume) -> Vec<u8> {
    let id = volume.lookup(volume.files.root(), "file").await.expect("it is there");
    volume.read(id).await.expect("it can be read")
}

/// A file of `length` bytes that was written in place; then these writes, each of them
/// acknowledged; then power fails.
fn written_over(sizes: (u64, u64), length: usize, writes: &[Write]) -> Result<(), String> {
    let quiet = Quiet::new(64 << 20, Some(8 << 20));
    let mut expected = vec![0x11; length];
    quiet.executor.block_on(async {
        let volume = quiet.make(sizes).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        volume.write(id, 0, expected.clone(), Stability::FileSync).await.expect("room");
        volume.settle().await;
        for &(at, byte, length) in writes {
            let data = vec![byte; length];
            volume.write(id, at as u64, data, Stability::FileSync).await.expect("room");
            expected[at..at + length].fill(byte);
        }
    });
    let back = quiet.cut();
    let found = back.executor.block_on(async { read(&back.open().await).await });
    compare("after the cut", &found, &expected)
}

fn of_several_revocations() -> Result<(), String> {
    written_over(SMALL, 96 << 10, &[(0, 1, 8192), (0, 2, LARGE), (0, 3, 8192), (0, 4, LARGE)])
}

fn within_a_run_that_begins_before() -> Result<(), String> {
    written_over(SMALL, 96 << 10, &[(0, 1, 16_384), (8192, 2, LARGE)])
}

fn over_the_rest_of_a_longer_run() -> Result<(), String> {
    written_over(SMALL, 96 << 10, &[(0, 1, 16_384), (0, 2, 4096), (8192, 3, LARGE)])
}

fn over_the_entry_at_the_head() -> Result<(), String> {
    written_over(SMALL, 96 << 10, &[(0, 1, 8192), (0, 2, LARGE)])
}

#[test]
fn of_several_revocations_of_a_fragment_the_last_counts() {
    assert_eq!(of_several_revocations(), Ok(()));
}

#[test]
fn a_run_that_begins_before_the_write_is_revoked() {
    assert_eq!(within_a_run_that_begins_before(), Ok(()));
}

#[test]
fn a_shorter_run_does_not_hide_a_longer_one() {
    assert_eq!(over_the_rest_of_a_longer_run(), Ok(()));
}

#[test]
fn nothing_is_forgotten_an_entry_early() {
    assert_eq!(over_the_entry_at_the_head(), Ok(()));
}

#[test]
fn a_large_write_far_within_many_zeros_stays() {
    let half = 256 << 10;
    assert_eq!(written_over(SMALL, 2 * half, &[(0, 0, half), (half / 2, 2, LARGE)]), Ok(()));
    let usual = [(0, 0, 1 << 20), (768 << 10, 2, 64 << 10)];
    assert_eq!(written_over((32_768, 4096), 1 << 20, &usual), Ok(()));
}

/// A volume with a model of its file; everything acknowledged is in the model.
struct Story<'a> {
    volume: &'a Volume,
    prng: &'a mut Prng,
    block: usize,
    model: Vec<u8>,
}

impl Story<'_> {
    /// A position that is often at an edge of a fragment or a block.
    fn place(&mut self, most: usize) -> usize {
        let at = self.prng.below(most as u64) as usize;
        match self.prng.below(4) {
            0 => at,
            1 => at / self.block * self.block,
            _ => at / (self.block / 8) * (self.block / 8),
        }
    }

    async fn step(&mut self, id: vfs::ObjectId) {
        let most = 30 * self.block;
        match self.prng.below(10) {
            0 => self.volume.settle().await,
            1..=3 => {
                let size = self.place(most);
                self.volume.resize(id, size as u64).await.expect("room");
                self.model.resize(size, 0);
            }
            _ => {
                let at = self.place(most - 1);
                let lengths = [self.block / 8, self.block, 2 * self.block, 8 * self.block];
                let longest = lengths[self.prng.index(4)];
                let length = (self.place(longest) + 1).min(most - at);
                let byte = self.prng.below(3) as u8 * 0x55;
                let stability = match self.prng.below(3) {
                    0 => Stability::Unstable,
                    _ => Stability::FileSync,
                };
                let data = vec![byte; length];
                self.volume.write(id, at as u64, data, stability).await.expect("room");
                if stability == Stability::Unstable {
                    self.volume.commit(id).await.expect("it can be written");
                }
                self.model.resize(self.model.len().max(at + length), 0);
                self.model[at..at + length].fill(byte);
            }
        }
    }
}

/// A file is written, truncated and extended at random, with blocks of `sizes`; power fails;
/// acknowledged data is there; and the file grows by zeros then.
fn somehow(seed: u64, has_log: bool, sizes: (u64, u64)) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let quiet = Quiet::new(64 << 20, has_log.then_some(8 << 20));
    let label = format!("seed {seed}, log {has_log}, blocks of {}", sizes.0);
    let model = quiet.executor.block_on(async {
        let volume = quiet.make(sizes).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        let block = sizes.0 as usize;
        let mut story = Story { volume: &volume, prng: &mut prng, block, model: Vec::new() };
        for step in 0..12 {
            story.step(id).await;
            compare(&format!("{label}, step {step}"), &read(&volume).await, &story.model)?;
        }
        Ok::<_, String>(story.model)
    });
    let mut model = model?;
    let back = quiet.cut();
    back.executor.block_on(async {
        let volume = back.open().await;
        compare(&format!("{label}, after the cut"), &read(&volume).await, &model)?;
        let id = volume.lookup(volume.files.root(), "file").await.expect("it is there");
        let longer = model.len() + sizes.0 as usize * 3 / 2;
        volume.resize(id, longer as u64).await.expect("room");
        model.resize(longer, 0);
        compare(&format!("{label}, longer after the cut"), &read(&volume).await, &model)
    })
}

#[test]
fn whatever_is_written_over_what_the_last_stays() {
    for seed in 0..150 {
        let sizes = if seed % 3 == 0 { (8192, 8192) } else { SMALL };
        for has_log in [false, true] {
            somehow(seed, has_log, sizes).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use ffs::planted::Bug;

    use super::*;
    use crate::common::quiet::finds;

    #[test]
    fn each_part_of_the_rule_that_is_broken_is_found() {
        assert!(finds(Bug::NoRevokes, of_several_revocations));
        assert!(finds(Bug::LaterRuns, within_a_run_that_begins_before));
        assert!(finds(Bug::ShorterRuns, over_the_rest_of_a_longer_run));
        assert!(finds(Bug::ForgottenAtTheHead, over_the_entry_at_the_head));
    }

    #[test]
    fn tails_that_are_not_written_anew_are_found() {
        for bug in [Bug::FragmentTails, Bug::RaggedTail] {
            let story = || (0..150).try_for_each(|seed| somehow(seed, true, SMALL));
            assert!(finds(bug, story), "{bug:?} is not found");
        }
    }
}
