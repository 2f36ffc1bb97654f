//! Blocks that are smaller than the pieces in which payload arrives: they share the memory of a
//! piece, have the right contents, and keep no other memory for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use block::{Buffer, PART};
use bytes::Bytes;
use enginekit::Volume;
use shadow::Shadow;
use shadow::mkfs::MkfsOptions;
use sim::{Options, Prng};
use vfs::{FileSystem, ObjectId, Stability};

use crate::bench::undisturbed;

const BLOCK: u64 = 8 << 10;
/// Greatest size of the file.
const MOST: u64 = 512 << 10;
const STEPS: u64 = 300;

/// A piece of payload whose memory is tracked.
struct Piece {
    bytes: Buffer,
    alive: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.alive.fetch_sub(self.bytes.memory(), Ordering::Relaxed);
    }
}

/// Splits data into pieces as a connection does.
fn pieces(data: &[u8], alive: &Arc<AtomicUsize>) -> Vec<Bytes> {
    let piece = |part: &[u8]| {
        let piece = Piece { bytes: Buffer::copied(part), alive: alive.clone() };
        alive.fetch_add(piece.bytes.memory(), Ordering::Relaxed);
        Bytes::from_owner(piece)
    };
    data.chunks(PART).map(piece).collect()
}

async fn write(
    volume: &Volume<Shadow>,
    file: ObjectId,
    (offset, pieces): (u64, Vec<Bytes>),
    stability: Stability,
) {
    let sealed = volume.files.write(&volume.root, file, offset, pieces, stability).await;
    let answer = sealed.open().await.expect("it runs").into_inner();
    answer.result.expect("there is room");
}

/// Range that a step writes: mostly whole pieces, or a block, or anything.
fn place(prng: &mut Prng) -> (u64, u64) {
    let (offset, length) = match prng.below(4) {
        0 => (prng.below(MOST / BLOCK) * BLOCK, BLOCK),
        1 => (prng.below(MOST), 1 + prng.below(MOST / 4)),
        2 => (prng.below(MOST / BLOCK) * BLOCK, (1 + prng.below(8)) * PART as u64),
        _ => (prng.below(MOST / PART as u64) * PART as u64, (1 + prng.below(8)) * PART as u64),
    };
    (offset, length.min(MOST - offset))
}

/// All memory of pieces belongs to dirty pages or to cached data, and is at most twice as large.
fn no_more_is_alive(volume: &Volume<Shadow>, alive: &AtomicUsize, step: u64) {
    let own = volume.files.store().unstable_bytes() as usize + volume.files.store().cached_bytes();
    let alive = alive.load(Ordering::Relaxed);
    assert!(alive <= 2 * own + 2 * PART, "step {step}: {alive} bytes for {own}");
}

#[test]
fn they_hold_what_was_written_and_no_memory_beside_their_own() {
    for seed in 1..=4 {
        let made = MkfsOptions { block_size: BLOCK, ..MkfsOptions::default() };
        let (executor, _, volume) = undisturbed(Options::default(), &made, 64 << 20);
        executor.block_on(async {
            let (mut prng, alive) = (Prng::new(seed), Arc::new(AtomicUsize::new(0)));
            let file = volume.create(volume.files.root(), "one").await.expect("it is new");
            let mut expected: Vec<u8> = Vec::new();
            for step in 0..STEPS {
                match prng.below(12) {
                    0 => {
                        let size = prng.below(MOST);
                        volume.resize(file, size).await.expect("there is room");
                        expected.resize(size as usize, 0);
                    }
                    1 | 2 => _ = volume.commit(file).await.expect("it runs"),
                    chance => {
                        let (offset, length) = place(&mut prng);
                        let data: Vec<u8> =
                            (0..length).map(|at| (step * 7 + (offset + at) / 512) as u8).collect();
                        let (from, to) = (offset as usize, (offset + length) as usize);
                        expected.resize(expected.len().max(to), 0);
                        expected[from..to].copy_from_slice(&data);
                        let sync = [Stability::Unstable, Stability::FileSync];
                        let stability = sync[usize::from(chance == 3)];
                        write(&volume, file, (offset, pieces(&data, &alive)), stability).await;
                    }
                }
                no_more_is_alive(&volume, &alive, step);
                if step % 16 == 0 {
                    let read = volume.read(file).await.expect("it is there");
                    assert!(read == expected, "seed {seed}, step {step}");
                }
            }
            volume.commit(file).await.expect("it runs");
            let read = volume.read(file).await.expect("it is there");
            assert!(read == expected, "seed {seed}, at the end");
            volume.resize(file, 0).await.expect("it runs");
            volume.settle().await;
            no_more_is_alive(&volume, &alive, STEPS);
        });
    }
}

#[test]
fn a_piece_that_is_written_is_kept_without_a_copy() {
    let made = MkfsOptions { block_size: BLOCK, ..MkfsOptions::default() };
    let (executor, _, volume) = undisturbed(Options::default(), &made, 64 << 20);
    executor.block_on(async {
        let alive = Arc::new(AtomicUsize::new(0));
        let file = volume.create(volume.files.root(), "one").await.expect("it is new");
        let all = 8 * PART;
        write(&volume, file, (0, pieces(&vec![7; all], &alive)), Stability::Unstable).await;
        assert_eq!(alive.load(Ordering::Relaxed), all, "pages are parts of what came");
        volume.commit(file).await.expect("it runs");
        // A piece whose blocks are not adjacent on the disk is copied.
        let kept = alive.load(Ordering::Relaxed);
        assert!(kept * 4 >= all * 3, "and so is what is kept: {kept}");
        // One block of each piece is overwritten: the others have copies, and the pieces are freed.
        for piece in 0..8 {
            let (offset, block) = (piece * PART as u64 + BLOCK, vec![8; BLOCK as usize]);
            volume.write(file, offset, block, Stability::FileSync).await.expect("there is room");
        }
        volume.settle().await;
        assert_eq!(alive.load(Ordering::Relaxed), 0);
        // The same with dirty pages.
        write(&volume, file, (0, pieces(&vec![9; all], &alive)), Stability::Unstable).await;
        let before = alive.load(Ordering::Relaxed);
        let block = vec![1; BLOCK as usize];
        volume.write(file, 3 * BLOCK, block, Stability::Unstable).await.expect("there is room");
        assert_eq!(alive.load(Ordering::Relaxed), before - PART);
    });
}
