//! Directory chunks: entries fill 512 bytes exactly, before and after one is added.
//!
//! The first byte is the length of the name to add, the second marks the slots with a pending
//! delta; the name and the chunk follow.

use directory::chunk::{BadChunk, Entry, Place, entries, place, slack};
use directory::entry::{CHUNK_SIZE, minimum_record_length};
use sim::Prng;

use super::Target;
use crate::input::Input;
use crate::templates;

pub(super) const TARGET: Target =
    Target { name: "directory-chunk", check, generate, longest: 800, memory: 256 << 10 };

fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let length = usize::from(input.u8()).max(1);
    let pending = input.u8();
    let mut name = input.bytes(length).to_vec();
    name.resize(length, b'n');
    name.iter_mut().filter(|byte| [0, b'/'].contains(byte)).for_each(|byte| *byte = b'_');
    let mut chunk = input.rest().to_vec();
    chunk.resize(CHUNK_SIZE, 0);

    let Ok(found) = all_entries(&chunk) else {
        assert!(place(&chunk, &name, |_| false).is_err(), "a broken chunk takes no name");
        assert!(slack(&chunk, None).is_err(), "and has no room");
        return check_turning_of_anything(&chunk);
    };
    check_entries(&found);
    check_turning(&found, &chunk);
    check_slack(&chunk, &found);
    check_place(&chunk, &found, &name, pending);
}

fn all_entries(chunk: &[u8]) -> Result<Vec<Entry<'_>>, BadChunk> {
    entries(chunk).collect()
}

fn slack_of(chunk: &[u8], dropped: Option<usize>) -> u16 {
    slack(chunk, dropped).expect("a whole chunk")
}

fn check_entries(entries: &[Entry<'_>]) {
    let mut offset = 0;
    for entry in entries {
        assert_eq!(entry.offset, offset, "no gap");
        assert!(entry.record_length >= 12 && entry.record_length.is_multiple_of(4));
        if entry.ino != 0 {
            assert!(!entry.name.is_empty(), "a live entry has a name");
            assert!(!entry.name.iter().any(|byte| [0, b'/'].contains(byte)));
            assert!(minimum_record_length(entry.name.len()) <= entry.record_length);
        }
        offset += entry.record_length;
    }
    assert_eq!(offset, CHUNK_SIZE, "entries fill their chunk");
}

fn check_slack(chunk: &[u8], entries: &[Entry<'_>]) {
    let now = slack_of(chunk, None);
    assert!(usize::from(now) <= CHUNK_SIZE);
    for entry in entries.iter().filter(|entry| entry.ino != 0) {
        let without = slack_of(chunk, Some(entry.offset));
        assert!(without >= now, "dropping makes room");
        assert!(usize::from(without) >= entry.minimum().min(entry.record_length));
    }
}

/// Adds the name, if there is room, and checks the chunk again.
fn check_place(chunk: &[u8], before: &[Entry<'_>], name: &[u8], pending: u8) {
    let is_pending = |range: std::ops::Range<usize>| pending >> (range.start / 64) & 1 == 1;
    let needed = minimum_record_length(name.len());
    let Place { offset, record_length, layout, slack: left } =
        match place(chunk, name, is_pending).expect("a whole chunk") {
            Ok(place) => place,
            Err(room) => {
                assert!(usize::from(room) < needed, "there was room: {room} for {needed}");
                assert!(pending != 0 || room == slack_of(chunk, None));
                return;
            }
        };
    let mut after = chunk.to_vec();
    for (at, bytes) in &layout {
        after[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    after[offset..offset + 4].copy_from_slice(&77_u32.to_le_bytes());
    let entries = all_entries(&after).expect("a whole chunk again");
    check_entries(&entries);
    let new = entries.iter().find(|entry| entry.offset == offset).expect("an entry is there");
    assert_eq!((new.ino, new.name, new.record_length), (77, name, record_length));
    for old in before.iter().filter(|old| old.ino != 0) {
        let kept = entries.iter().find(|entry| entry.offset == old.offset);
        let kept = kept.expect("an entry stays where it is");
        assert_eq!((kept.ino, kept.name, kept.kind), (old.ino, old.name, old.kind));
    }
    for slot in before.iter().filter(|slot| slot.ino == 0 && is_pending(slot.offset..CHUNK_SIZE)) {
        let kept = entries.iter().find(|entry| entry.offset == slot.offset);
        assert_eq!(kept.map(|kept| kept.name), Some(slot.name), "a pending slot keeps its name");
    }
    assert!(pending != 0 || left == slack_of(&after, None), "the room that is left is told");
}

/// A chunk of the other byte order is the same after conversion.
fn check_turning(entries: &[Entry<'_>], chunk: &[u8]) {
    let mut big = chunk.to_vec();
    for entry in entries {
        let at = entry.offset;
        templates::turn(&mut big, &[(4, at, at + 4), (2, at + 4, at + 6)]);
    }
    templates::all()[0].big.turn_directory(&mut big);
    assert_eq!(big, chunk);
}

fn check_turning_of_anything(chunk: &[u8]) {
    let mut turned = chunk.to_vec();
    templates::all()[0].big.turn_directory(&mut turned);
    let _ = all_entries(&turned);
    templates::all()[0].geometry.turn_directory(&mut turned);
}

/// A chunk with some entries, some of them removed.
fn generate(prng: &mut Prng) -> Vec<u8> {
    let most = if prng.chance(1, 4) { 255 } else { 20 };
    let length = 1 + prng.index(most);
    let pending = if prng.chance(1, 2) { 0 } else { prng.next_u64() as u8 };
    let mut input = vec![length as u8, pending];
    input.extend((0..length).map(|at| b'a' + (at % 26) as u8));
    let mut left = CHUNK_SIZE;
    while left > 0 {
        let most = if prng.chance(1, 6) { 200 } else { 14 };
        let name = 1 + prng.index(most);
        let minimum = minimum_record_length(name);
        let record = if left < minimum + 12 || prng.chance(1, 12) {
            left
        } else {
            (minimum + 4 * prng.index(8)).min(left - 12)
        };
        let name = if minimum > record { record - 9 } else { name };
        let ino = if prng.chance(1, 4) { 0 } else { prng.below(500) as u32 };
        input.extend(ino.to_le_bytes());
        input.extend((record as u16).to_le_bytes());
        input.extend([8, name as u8]);
        input.extend((0..name).map(|at| b'A' + (at % 26) as u8));
        input.resize(input.len() + record - 8 - name, 0);
        left -= record;
    }
    input
}
