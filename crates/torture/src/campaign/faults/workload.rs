//! The trace in which faults are injected: 200 operations of every procedure that changes
//! something, with UNSTABLE writes, COMMITs, and reads that go to the disk.
//!
//! Each of ten rounds makes a directory and works in it, on the files of the round before, and in
//! the root. Before them come a few files that no later step touches: bystanders.

use nfs3_types::nfs3::{ftype3, stable_how};

use super::super::conformance::step::{Act, Changes, From, Guard, How, Object, Step, Text, When};

/// Operations of the trace.
pub(super) const OPERATIONS: usize = ROUNDS * ROUND;
const ROUNDS: usize = 10;
const ROUND: usize = 20;
/// Steps before the trace.
pub(super) const BEFORE: usize = 2 * BYSTANDERS + 1;
const BYSTANDERS: usize = 6;

const ROOT: Object = Object::Of(0);

fn text(name: &str) -> Text {
    Text(name.as_bytes().to_vec())
}

fn mode(mode: u32) -> Changes {
    Changes { mode: Some(mode), ..Changes::default() }
}

fn size(size: u64) -> Changes {
    Changes { size: Some(size), ..Changes::default() }
}

fn numbered(first: usize, acts: Vec<Act>) -> Vec<Step> {
    let step = |(index, act)| Step { number: first + index, user: 0, act };
    acts.into_iter().enumerate().map(step).collect()
}

/// Makes the bystanders.
pub(super) fn before() -> Vec<Step> {
    let mut acts = vec![Act::Mkdir(ROOT, text("quiet"), mode(0o755))];
    let directory = Object::Of(1);
    for index in 0..BYSTANDERS {
        let name = text(&format!("bystander {index}"));
        acts.push(Act::Create(directory, name, How::Guarded(mode(0o644))));
        let length = 3000 + 9000 * index as u32;
        let file = Object::Of(2 + 2 * index);
        acts.push(Act::Write(file, 0, length, 0, stable_how::FILE_SYNC));
    }
    numbered(1, acts)
}

/// The bystanders, by the steps that made them.
pub(super) fn bystanders() -> impl Iterator<Item = usize> {
    (0..BYSTANDERS).map(|index| 2 + 2 * index)
}

/// The 200 operations.
pub(super) fn operations() -> Vec<Step> {
    numbered(BEFORE + 1, (0..ROUNDS).flat_map(round).collect())
}

/// The number of the first step of a round.
fn first(round: usize) -> usize {
    BEFORE + 1 + round * ROUND
}

fn round(round: usize) -> Vec<Act> {
    use stable_how::{FILE_SYNC, UNSTABLE};
    let this = first(round);
    let (directory, f, g) = (Object::Of(this), Object::Of(this + 1), Object::Of(this + 5));
    let own = text(&format!("d{round}"));
    let times = Changes { mtime: When::At((77, 7)), ..mode(0o600) };
    let mut acts = vec![
        Act::Mkdir(ROOT, own, mode(0o755)),
        Act::Create(directory, text("f"), How::Unchecked(mode(0o644))),
        Act::Write(f, 0, 20_000, 0, UNSTABLE),
        Act::Write(f, 15_000, 9000, 0, UNSTABLE),
        Act::Commit(f, 0, 0),
        Act::Create(directory, text("g"), How::Exclusive([round as u8 + 1; 8])),
        Act::Write(g, 0, 3000, 0, FILE_SYNC),
        Act::Setattr(g, times, Guard::Right),
        Act::Link(g, directory, text("h")),
        Act::Symlink(directory, text("s"), Text(vec![b't'; 200]), Changes::default()),
        Act::Mknod(directory, text("p"), ftype3::NF3FIFO, (0, 0), mode(0o600)),
        // Behind the twelve direct blocks of an inode, with a hole before.
        Act::Write(f, 100_000 + 8192 * round as u64, 5000, 0, UNSTABLE),
        Act::Read(f, 0, 30_000),
        Act::Rename(directory, text("g"), ROOT, text(&format!("x{}", round % 3))),
        Act::Setattr(f, size(if round.is_multiple_of(2) { 10_000 } else { 190_000 }), Guard::None),
        Act::Readdirplus(directory, From::Start, 8192, 32_768),
        Act::Write(f, 2000, 3000, 0, UNSTABLE),
    ];
    acts.extend(behind(round));
    acts
}

/// The last three steps of a round, on the files of the round before.
fn behind(round: usize) -> [Act; 3] {
    use stable_how::DATA_SYNC;
    let this = Object::Of(first(round));
    let Some(before) = round.checked_sub(1) else {
        let inner = text("e");
        let made = Act::Mkdir(this, inner.clone(), mode(0o700));
        return [made, Act::Rmdir(this, inner), Act::Readdir(this, From::Start, 4096)];
    };
    let (there, f) = (Object::Of(first(before)), Object::Of(first(before) + 1));
    match round % 3 {
        0 => [
            Act::Commit(f, 0, 0),
            Act::Remove(there, text("h")),
            Act::Rename(ROOT, text(&format!("d{before}")), this, text("moved")),
        ],
        1 => [
            Act::Write(f, 500, 9000, 0, DATA_SYNC),
            Act::Remove(there, text("f")),
            Act::Rename(there, text("p"), there, text("s")),
        ],
        _ => [
            Act::Read(f, 0, 60_000),
            Act::Mkdir(this, text("e"), mode(0o700)),
            Act::Rmdir(this, text("e")),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_two_hundred_and_they_find_their_files() {
        assert_eq!(operations().len(), OPERATIONS);
        assert_eq!(OPERATIONS, 200);
        assert_eq!(before().len(), BEFORE);
        assert_eq!(operations()[0].number, BEFORE + 1);
    }
}
