//! Random histories of a file against a model: data promised by an `Ok` is durable, whatever the
//! server did meanwhile.

use std::time::Duration;

use bytes::Bytes;
use client::CallError;
use client::file::{File, Options};
use runtime::Runtime;
use sim::{Executor, Prng};

use crate::server::{Habits, Server};

/// Number of histories.
const SEEDS: u64 = 200;

/// The written data, byte by byte.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    /// Bytes that an error has left undefined.
    in_doubt: Vec<bool>,
    /// Writes since all data was durable.
    since: Vec<(usize, usize)>,
    /// Errors that were reported.
    told: u64,
}

impl Model {
    fn write(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        let length = self.bytes.len().max(end);
        self.bytes.resize(length, 0);
        self.in_doubt.resize(length, false);
        self.bytes[offset..end].copy_from_slice(data);
        self.in_doubt[offset..end].fill(false);
        self.since.push((offset, end));
    }

    fn failed(&mut self) {
        self.told += 1;
        for (start, end) in self.since.drain(..) {
            self.in_doubt[start..end].fill(true);
        }
    }

    /// The first wrong byte of a range.
    fn differs(&self, held: &[u8], from: usize, length: usize) -> Option<usize> {
        let until = self.bytes.len().min(from.saturating_add(length));
        if self.bytes.get(from..until) == Some(held) {
            return None; // by far the fastest path
        }
        let expected = self.bytes.iter().zip(&self.in_doubt).enumerate().skip(from).take(length);
        let mut wrong = expected.filter(|(at, (byte, in_doubt))| {
            !**in_doubt && held.get(*at - from).copied().unwrap_or(0) != **byte
        });
        wrong.next().map(|(at, _)| at)
    }
}

struct Run {
    prng: Prng,
    options: Options,
    server: Server,
    model: Model,
    runtime: Runtime,
    /// The limit of offsets.
    span: u64,
    length_max: u64,
    /// Ends of the last write and the last read.
    written: u64,
    read: u64,
}

fn one_of<T: Copy>(prng: &mut Prng, of: &[T]) -> T {
    of[prng.index(of.len())]
}

fn habits(prng: &mut Prng) -> Habits {
    let delay = Duration::from_millis(one_of(prng, &[0, 1, 20]));
    Habits {
        takes: Duration::ZERO,
        delay,
        restarts: one_of(prng, &[0, 4, 20, 60]),
        errors: one_of(prng, &[0, 0, 40]),
        put_off: one_of(prng, &[0, 0, 5]),
        short: one_of(prng, &[0, 3, 10]),
        sync: one_of(prng, &[0, 0, 3]),
    }
}

/// Plays the history of a seed; returns what was wrong.
pub(crate) fn play(seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let mut prng = Prng::new(seed);
    let span = one_of(&mut prng, &[40, 10_000, 300_000, 4 << 20]);
    let write_size = one_of(&mut prng, &[1, 7, 512, 4096, 32 << 10, 1 << 20]);
    let options = Options {
        daemons: prng.index(9),
        write_size,
        read_size: one_of(&mut prng, &[write_size, 3000, 64 << 10]),
        uncommitted_max: one_of(&mut prng, &[0, 4096, 64 << 10, 64 << 20]),
        pause: Duration::from_millis(100),
    };
    let runtime = executor.runtime();
    let habits = habits(&mut prng);
    let server = Server::new(&runtime, habits, prng.next_u64());
    let length_max = span.min(u64::from(write_size) * 20);
    let model = Model::default();
    let mut run =
        Run { prng, options, server, model, runtime, span, length_max, written: 0, read: 0 };
    let done = executor.block_on(run.steps());
    done.map_err(|wrong| format!("seed {seed}: {wrong}; {:?}, {habits:?}", run.options))
}

impl Run {
    async fn steps(&mut self) -> Result<(), String> {
        let mut file = File::new(&self.runtime, self.server.clone(), self.options);
        for _ in 0..self.prng.between(1, 30) {
            match self.prng.below(12) {
                0 => {
                    let committed = file.commit().await;
                    self.settled(&committed)?;
                }
                1 => self.runtime.clock.sleep(Duration::from_millis(30)).await,
                2 | 3 => self.read(&mut file).await?,
                _ => self.write(&mut file).await,
            }
            self.bounds(&file)?;
        }
        let closed = file.close().await;
        self.settled(&closed)
    }

    /// Writes at random, or on from the end of a write or a read.
    async fn write(&mut self, file: &mut File<Server>) {
        let length = self.prng.between(1, self.length_max);
        let by_chance = self.prng.below(self.span);
        let offset = one_of(&mut self.prng, &[by_chance, by_chance, self.written, self.read]);
        let offset = offset % self.span;
        let mut data = vec![0; length as usize];
        self.prng.fill(&mut data);
        let result = file.write(offset, Bytes::from(data.clone())).await;
        self.model.write(offset as usize, &data);
        if result.is_err() {
            self.model.failed();
        }
        self.written = offset + length;
    }

    /// Reads at random, or on from the end of a read.
    async fn read(&mut self, file: &mut File<Server>) -> Result<(), String> {
        let count = self.prng.between(1, self.span.min(u64::from(self.options.read_size) * 20));
        let mut offset = one_of(&mut self.prng, &[self.read, 0, self.read / 2]);
        for _ in 0..self.prng.between(1, 4) {
            let read = file.read(offset, count).await;
            // It may show data left by an error that is reported now.
            let committed = file.commit().await;
            self.settled(&committed)?;
            let Ok(found) = read else {
                self.model.told += 1;
                continue;
            };
            let (bytes, from) = (found.data.concat(), offset as usize);
            if bytes.len() as u64 > count || (bytes.len() as u64) < count && !found.eof {
                return Err(format!("{} bytes of {count} at {offset}", bytes.len()));
            }
            if let Some(at) = self.model.differs(&bytes, from, count as usize) {
                return Err(format!("byte {at} is read wrong, by a read at {offset}"));
            }
            offset += bytes.len() as u64;
            self.read = offset;
        }
        Ok(())
    }

    /// Checks the promise of a commit or close.
    fn settled(&mut self, answer: &Result<(), CallError>) -> Result<(), String> {
        if answer.is_err() {
            self.model.failed();
        }
        self.model.since.clear();
        let state = self.server.state.borrow();
        if self.model.told > state.errors {
            return Err(format!("{answer:?}, with {} errors given", state.errors));
        }
        match self.model.differs(&state.durable, 0, usize::MAX) {
            Some(at) => Err(format!("byte {at} is not durable after {answer:?}")),
            None => Ok(()),
        }
    }

    fn bounds(&self, file: &File<Server>) -> Result<(), String> {
        let Server { writes, commits, reads, .. } = &self.server;
        let daemons = self.options.daemons.max(1);
        let most = [writes, reads, commits].map(|gauge| gauge.most.get());
        if most[0] > daemons || most[1] > daemons || most[2] > 1 {
            return Err(format!("{most:?} WRITEs, READs and COMMITs were under way"));
        }
        let held_max =
            self.options.uncommitted_max + daemons as u64 * u64::from(self.options.write_size);
        if file.held_bytes() > held_max {
            return Err(format!("{} bytes are held", file.held_bytes()));
        }
        Ok(())
    }
}

#[test]
fn what_was_committed_is_durable_whatever_the_server_does() {
    for seed in 0..SEEDS {
        play(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn every_planted_bug_of_a_file_shows_in_a_history() {
    use client::planted::{Bug, plant};
    // A changed call number shows on the wire alone: see `redial`.
    for bug in Bug::ALL.iter().filter(|bug| **bug != Bug::NewNumbers) {
        plant(Some(*bug));
        let found = (0..SEEDS).find_map(|seed| play(seed).err());
        plant(None);
        assert!(found.is_some(), "{bug:?} was not found");
    }
}
