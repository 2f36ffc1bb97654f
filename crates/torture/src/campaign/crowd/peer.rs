//! The clients, each in a task of its own.

use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes};
use dispatch::MAX_TRANSFER;
use door::{LEAST, PATIENCE, REPLY_BEAT, Stream};
use futures::FutureExt;
use futures::future::select;
use nfs3_types::nfs3::{
    Nfs3Option, cookieverf3, createhow3, nfs_fh3, nfsstat3, sattr3, stable_how,
};
use runtime::Clock;
use sim::Prng;

use super::ledger::{Client, Ledger, Role};
use super::records::Records;
use super::workload::{Manner, Mix, Peer};
use crate::calls;
use crate::protocol::{self, Null, Request, User};

/// How long a client stays if the server tolerates it.
const STAYS: Duration = Duration::from_secs(2 * PATIENCE.as_secs() + 30);
/// How long a newcomer keeps its place.
pub(super) const KEEPS: Duration = Duration::from_secs(3);
/// Number of names that each client uses.
const NAMES: u64 = 6;
/// Bytes of the file that is read, and of the one that is written.
pub(super) const DATA_BYTES: u64 = 512 << 10;
/// Bytes that a quiet client reads.
const QUIET_BYTES: u32 = 2048;
/// Beats for which a hoarder takes replies.
const HOARDER_BEATS: usize = 20;
/// The payload of a WRITE that is never completed.
const HALF_BYTES: usize = 320 << 10;

/// The files of the volume.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) root: nfs_fh3,
    /// A directory that never changes, with a file `kept`.
    pub(super) still: nfs_fh3,
    pub(super) data: nfs_fh3,
    pub(super) target: nfs_fh3,
}

/// State that clients share.
pub(super) struct Crowd {
    pub(super) ledger: Rc<Ledger>,
    pub(super) clock: Rc<dyn Clock>,
    pub(super) files: Files,
}

/// The pace of a client's bytes.
#[derive(Clone, Copy)]
struct Habit {
    takes: bool,
    step: usize,
    pause: Duration,
}

const BRISK: Habit = Habit { takes: true, step: 64 << 10, pause: Duration::ZERO };

/// A call by root as a record.
pub(super) fn record(xid: u32, request: &Request) -> Bytes {
    let user = User { machine: "crowd".to_owned(), uid: 0, gid: 0, groups: Vec::new() };
    protocol::call_record(xid, &user, request.target(), &request.encode())
}

impl Crowd {
    /// Runs a peer.
    ///
    /// # Errors
    /// Why a quiet client's answer is wrong.
    pub(super) async fn live(&self, peer: &Peer, mut prng: Prng) -> Result<(), String> {
        self.clock.sleep(peer.start).await;
        let number = prng.next_u64() % 1_000_000;
        match peer.manner {
            Manner::Quiet { calls, pause_us } => {
                return self.quiet(peer, calls, pause_us, &mut prng).await;
            }
            Manner::Pipelined { calls, mix, connections } => {
                for turn in 1..=connections {
                    // It disconnects with calls under way, and reconnects.
                    let is_last = turn == connections;
                    self.work(peer, (calls, mix), BRISK, is_last, number, &mut prng).await;
                }
            }
            Manner::Slow { calls, mix, step, pause_us } => {
                let habit = Habit { takes: true, step, pause: Duration::from_micros(pause_us) };
                self.work(peer, (calls, mix), habit, true, number, &mut prng).await;
            }
            Manner::Deaf { calls, mix } => {
                let habit = Habit { takes: false, ..BRISK };
                self.work(peer, (calls, mix), habit, true, number, &mut prng).await;
            }
            Manner::Hoarder { calls } => self.hoard(peer, calls).await,
            Manner::HalfSent { bytes } => {
                let mut client = self.connect(peer, Role::HalfSent);
                let data = vec![1; HALF_BYTES];
                let write = calls::write(&self.files.target, 0, data, stable_how::UNSTABLE);
                let record = record(1, &Request::Write(write));
                let _ = client.pipe.write_all(&record[..bytes]).await; // the server may hang up
                self.stay(&client).await;
            }
            Manner::Idle => self.stay(&self.connect(peer, Role::Other)).await,
            Manner::Newcomer => self.come(peer).await,
        }
        Ok(())
    }

    fn connect(&self, peer: &Peer, role: Role) -> Client {
        self.ledger.connect(peer.address, role, peer.room)
    }

    /// Waits until the server hangs up, or for long.
    async fn stay(&self, client: &Client) {
        let hung_up = client.pipe.hung_up().boxed_local();
        select(hung_up, self.clock.sleep(STAYS)).await;
    }

    /// Makes one call at a time, each of which must succeed.
    async fn quiet(
        &self,
        peer: &Peer,
        calls: u64,
        pause_us: u64,
        prng: &mut Prng,
    ) -> Result<(), String> {
        let mut client = self.connect(peer, Role::Quiet);
        for xid in 0..calls as u32 {
            let request = match prng.below(4) {
                3 => Request::Read(calls::read(&self.files.data, 0, QUIET_BYTES)),
                0 => Request::Lookup(calls::lookup(&self.files.still, "kept")),
                1 => Request::Access(calls::access(&self.files.still, 1)),
                _ => Request::Getattr(calls::getattr(&self.files.still)),
            };
            let record = record(xid, &request);
            client.lane.shortest.set(record.len());
            self.ledger.asks(&client.lane, matches!(request, Request::Read(_)));
            let answer = exchange(&mut client, &record).await;
            let answer = answer.ok_or("a quiet client was hung up on")?;
            let (answered, answer) = protocol::reply(&answer).ok_or("a reply that is none")?;
            let status = answer.status(request.target());
            if answered != xid || status != Some(nfsstat3::NFS3_OK) {
                return Err(format!("{request:?} of a quiet client was answered by {answer:?}"));
            }
            if pause_us > 0 {
                self.clock.sleep(Duration::from_micros(prng.below(pause_us))).await;
            }
        }
        Ok(())
    }

    /// Makes calls of a mix; waits for all answers, or disconnects earlier.
    async fn work(
        &self,
        peer: &Peer,
        (calls, mix): (u64, Mix),
        habit: Habit,
        ends: bool,
        number: u64,
        prng: &mut Prng,
    ) {
        let mut client = self.connect(peer, Role::Other);
        let mut left = match mix {
            Mix::Small | Mix::Whole => calls,
            Mix::Changes | Mix::Any => calls / 2,
            Mix::Reads | Mix::Large => calls / 8 + 1,
        };
        if !ends {
            left = prng.below(left) + 1;
        }
        let most = left;
        let next = || {
            left = left.checked_sub(1)?;
            let record = record(left as u32, &self.request(mix, number, prng));
            Some(record)
        };
        let leaves_after = if ends { u64::MAX } else { most / 2 };
        pump(&mut client, habit, &*self.clock, leaves_after, next).await;
        if !habit.takes {
            self.stay(&client).await;
        }
    }

    /// Sends all calls, and takes the least that is tolerated in each beat.
    async fn hoard(&self, peer: &Peer, calls: u64) {
        let mut client = self.connect(peer, Role::Other);
        for xid in 0..calls as u32 {
            let record =
                record(xid, &Request::Read(calls::read(&self.files.data, 0, MAX_TRANSFER)));
            client.lane.shortest.set(record.len());
            if client.pipe.write_all(&record).await.is_err() {
                return;
            }
        }
        let mut buffer = vec![0; LEAST as usize];
        for _ in 0..HOARDER_BEATS {
            self.clock.sleep(REPLY_BEAT).await;
            let mut taken = 0;
            while taken < buffer.len() {
                match client.pipe.read(&mut buffer[taken..]).await {
                    Ok(length) if length > 0 => taken += length,
                    _ => return,
                }
            }
        }
    }

    /// Waits for a place, makes one call, and keeps the place a little.
    async fn come(&self, peer: &Peer) {
        let mut client = self.connect(peer, Role::Newcomer);
        let record = record(1, &Request::Getattr(calls::getattr(&self.files.still)));
        if exchange(&mut client, &record).await.is_some() {
            let hung_up = client.pipe.hung_up().boxed_local();
            select(hung_up, self.clock.sleep(KEEPS)).await;
        }
    }

    fn request(&self, mix: Mix, number: u64, prng: &mut Prng) -> Request {
        let Files { root, still, data, target } = &self.files;
        match mix {
            Mix::Small => match prng.below(5) {
                0 => Request::Null(Null),
                1 => Request::Lookup(calls::lookup(still, "kept")),
                2 => Request::Access(calls::access(root, 1)),
                3 => Request::Getattr(calls::getattr(data)),
                _ => Request::Getattr(calls::getattr(root)),
            },
            Mix::Reads => match prng.below(4) {
                0 => Request::Readdirplus(calls::readdirplus(root, 0, cookieverf3::default())),
                _ => {
                    let (from, count) = (prng.below(DATA_BYTES), 4096 << prng.below(9));
                    Request::Read(calls::read(data, from, count as u32))
                }
            },
            Mix::Whole => Request::Read(calls::read(data, 0, MAX_TRANSFER)),
            Mix::Changes => self.change(number, prng),
            Mix::Large => {
                let length = (33 << 10) + prng.below(64 << 10);
                let payload = vec![prng.below(256) as u8; length as usize];
                let stable =
                    if prng.chance(1, 3) { stable_how::FILE_SYNC } else { stable_how::UNSTABLE };
                let from = prng.below(DATA_BYTES - length);
                Request::Write(calls::write(target, from, payload, stable))
            }
            Mix::Any => {
                let others = [Mix::Small, Mix::Small, Mix::Reads, Mix::Changes, Mix::Large];
                let other = others[prng.index(others.len())];
                self.request(other, number, prng)
            }
        }
    }

    fn change(&self, number: u64, prng: &mut Prng) -> Request {
        let Files { root, data, target, .. } = &self.files;
        let name = format!("{number}-{}", prng.below(NAMES));
        let other = format!("{number}-{}", prng.below(NAMES));
        match prng.below(6) {
            0 | 1 => {
                let how = createhow3::UNCHECKED(sattr3::default());
                Request::Create(nfs3_types::nfs3::CREATE3args {
                    where_: calls::place(root, &name),
                    how,
                })
            }
            2 => Request::Remove(calls::remove(root, &name)),
            3 => Request::Rename(calls::rename((root, &name), (root, &other))),
            4 => {
                let mode = sattr3 { mode: Nfs3Option::Some(0o644), ..sattr3::default() };
                Request::Setattr(calls::setattr(data, mode))
            }
            _ => {
                let payload = vec![7; 1 + prng.index(4096)];
                let stable = stable_how::FILE_SYNC;
                Request::Write(calls::write(target, prng.below(8192), payload, stable))
            }
        }
    }
}

/// Sends a call and takes its reply, without its mark; `None` if the server hangs up.
pub(super) async fn exchange(client: &mut Client, record: &[u8]) -> Option<Vec<u8>> {
    const MARK: usize = 4;
    client.pipe.write_all(record).await.ok()?;
    let (mut records, mut reply, mut buffer) = (Records::default(), Vec::new(), [0; 4096]);
    while records.count == 0 {
        let length = client.pipe.read(&mut buffer).await.ok().filter(|&length| length > 0)?;
        records.feed(&buffer[..length]);
        reply.extend(&buffer[..length]);
    }
    Some(reply.split_off(MARK))
}

/// Sends records and takes replies, until all are answered, or enough to leave, or the server hangs
/// up. A client that takes no replies ends once it has sent everything.
async fn pump(
    client: &mut Client,
    habit: Habit,
    clock: &dyn Clock,
    leaves_after: u64,
    mut next: impl FnMut() -> Option<Bytes>,
) {
    let (mut out, mut asked, mut replies) = (Bytes::new(), 0, Records::default());
    let mut buffer = vec![0; habit.step];
    loop {
        if out.is_empty()
            && let Some(record) = next()
        {
            asked += 1;
            let shortest = client.lane.shortest.get().min(record.len());
            client.lane.shortest.set(shortest);
            out = record;
        }
        let is_done = out.is_empty() && (replies.count == asked || !habit.takes);
        if is_done || replies.count >= leaves_after {
            return;
        }
        let moved = poll_fn(|context| {
            let mut any = false;
            if !out.is_empty() {
                let piece = [IoSlice::new(&out[..out.len().min(habit.step)])];
                match client.pipe.poll_write(context, &piece) {
                    Poll::Ready(Ok(length)) => {
                        out.advance(length);
                        any = true;
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(false),
                    Poll::Pending => {}
                }
            }
            if habit.takes {
                match client.pipe.poll_read(context, [&mut buffer, &mut []]) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(false),
                    Poll::Ready(Ok(length)) => {
                        replies.feed(&buffer[..length]);
                        any = true;
                    }
                    Poll::Pending => {}
                }
            }
            if any { Poll::Ready(true) } else { Poll::Pending }
        });
        if !moved.await {
            return;
        }
        if !habit.pause.is_zero() {
            clock.sleep(habit.pause).await;
        }
    }
}
