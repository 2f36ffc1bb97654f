//! A damaged log beside a volume after a cut: it is refused, or replayed and the volume then used.
//!
//! The first byte says whether the damage is sealed, as an attacker would, and how far the volume
//! is used; the rest are patches of slots, of headers, records and data of entries, of any byte of
//! the log, and of the volume's groups. There must be no panic, no endless walk, and no more memory
//! than the log can justify; invalid data is an error.

mod patch;
mod sample;

use std::rc::Rc;

use block::BlockDevice;
use ffs::policy::log::LogOptions;
use ffs::policy::log::record::{read_records, write_records};
use ffs::{Disks, OpenOptions, PolicyKind};
use journal::format::{HEADER_SIZE, Header, SEGMENT, Slot, State, UNIT};
use journal::{JournalError, Walker, find, peek};
use namespace::Namespace;
use sim::{Disk, Executor, Prng};
use vfs::FileSystem;

use super::{Target, disk};
use crate::input::Input;

pub(super) const TARGET: Target =
    Target { name: "log", check, generate, longest: 512, memory: 32 << 20 };

fn check(bytes: &[u8]) {
    read_alone(bytes);
    let _ = replays(bytes);
}

/// Damages the log and opens the volume with it; returns whether it opened.
fn replays(bytes: &[u8]) -> bool {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let (mut home, mut log, epoch) =
        sample::with(|sample| (sample.home.clone(), sample.log.clone(), sample.epoch));
    while !input.is_empty() {
        sample::with(|sample| patch::apply(sample, &mut home, &mut log, &mut input));
    }
    if choice & 1 == 1 {
        sample::with(|sample| patch::seal(sample, &mut log));
    }
    let executor = Executor::new(choice.into());
    let (home, log) = (Disk::new(&executor, home), Disk::new(&executor, log));
    executor.block_on(async {
        let _ = peek(&*log).await;
        if let Err(error) = walk(&*log, epoch).await {
            assert!(error.to_string().len() > 10, "{error}");
        }
        use_it(&executor, home, log, choice).await
    })
}

/// Runs the decoders on the raw bytes.
fn read_alone(bytes: &[u8]) {
    if let Some(slot) = Slot::read(bytes) {
        assert!(slot.curhead.get() >= slot.start.get());
    }
    if let Some(header) = Header::read(bytes) {
        let (length, size) = (header.length.get() as usize, u64::from(header.size.get()));
        assert!(HEADER_SIZE <= length && length as u64 <= size && size <= SEGMENT);
        let _ = header.fits(bytes);
    }
    let count = u16::from(bytes.first().copied().unwrap_or_default());
    check_records(count, &bytes.to_vec().into());
}

/// Decoded records are encoded, and decoded again as the same.
fn check_records(count: u16, body: &bytes::Bytes) {
    if let Ok(records) = read_records(count, body) {
        let again = write_records(&records).into();
        assert_eq!(read_records(count, &again), Ok(records));
    }
}

async fn walk(log: &dyn BlockDevice, epoch: u64) -> Result<(), JournalError> {
    let Some(live) = find(log, epoch).await? else { return Ok(()) };
    assert!(live.head <= live.tail && live.bytes() <= live.slot.capacity.get());
    let mut walker = Walker::new(log, live.slot, live.head);
    let mut end = live.head;
    while let Some(entry) = walker.next().await? {
        assert_eq!(entry.recno(), end, "entries follow each other");
        end += u64::from(entry.header.size.get()) / UNIT;
        // At rest, the log may contain more than changes.
        let is_open = live.slot.state() == State::Open;
        assert!(end <= live.tail || !is_open, "the walk ends");
        check_records(entry.header.records.get(), &entry.body);
    }
    Ok(())
}

/// Replays the log, and uses the volume as far as possible.
async fn use_it(executor: &Executor, home: Rc<Disk>, log: Rc<Disk>, choice: u8) -> bool {
    let log_options = LogOptions { sync_bytes: 64 << 10, ..LogOptions::default() };
    let options = OpenOptions { cache_bytes: 2 << 20, log: log_options, ..OpenOptions::default() };
    let runtime = executor.runtime();
    let disks = Disks::with_log(home, log);
    let opened = ffs::open(PolicyKind::Log, disks, runtime, &options, &mut |_| ()).await;
    match opened {
        Err(error) => {
            assert!(error.to_string().len() > 10, "{error}");
            false
        }
        Ok(opened) => {
            let files = Namespace::new(opened.files);
            if choice & 2 == 2 {
                disk::walk::all(&files).await;
            } else {
                let _ = files.shutdown().await;
            }
            true
        }
    }
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let mut input = vec![prng.below(4) as u8];
    for _ in 0..1 + prng.below(4) {
        patch::generate(prng, &mut input);
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_without_damage_is_replayed() {
        assert!(replays(&[0]) && replays(&[1]) && replays(&[2]));
    }

    #[test]
    fn damage_is_refused_or_replayed() {
        let mut prng = Prng::new(2);
        let [mut sealed, mut broken] = [[0; 2]; 2];
        for _ in 0..400 {
            let input = generate(&mut prng);
            let counts = if input[0] & 1 == 1 { &mut sealed } else { &mut broken };
            counts[usize::from(replays(&input))] += 1;
        }
        println!("refused and replayed: {sealed:?} with checksums that fit, {broken:?} without");
        assert!(sealed.into_iter().chain(broken).all(|count| count > 20));
    }
}
