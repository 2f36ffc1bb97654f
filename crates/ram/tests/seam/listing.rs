//! Listings of directories that have many chunks and few names.

use std::pin::pin;

use futures::FutureExt;
use ram::Disk;
use runtime::sync::STEPS_OF_A_TURN;
use vfs::{DirectoryEntry, FileSystem, Requester};

use crate::{Fixture, NOW};

/// Chunks without a name that a listing passes before it yields.
const TURN: usize = STEPS_OF_A_TURN as usize;

/// The first listing reads from the disk, and the second finds everything in memory.
#[test]
fn a_listing_of_an_emptied_directory_gives_way() {
    let fixture = Fixture::on(Disk::new(16 << 20, NOW));
    // Two names fill a chunk, and one behind all others stays.
    let text = |number: usize| format!("{number:0200}");
    let emptied = 0..2 * (3 * TURN);
    (0..=emptied.end).for_each(|number| fixture.create(&text(number)));
    emptied.for_each(|number| fixture.remove(&text(number)));
    fixture.make_all_durable();
    let (who, root) = (Requester::root().who, fixture.files.root());
    let list = || {
        let mut every = |_: &DirectoryEntry| true;
        let mut listed = pin!(fixture.files.readdir(&who, root, 0, false, &mut every));
        let mut pauses = 0;
        loop {
            if let Some(sealed) = listed.as_mut().now_or_never() {
                let opened = fixture.executor.block_on(sealed.open()).expect("it runs");
                return (opened.into_inner().result.expect("it is listed").entries.len(), pauses);
            }
            pauses += 1;
        }
    };
    list();
    assert_eq!(list(), (3, 3), "entries with the two dots, and pauses");
}
