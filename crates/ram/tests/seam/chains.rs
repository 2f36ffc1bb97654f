//! Chains whose files are gone.

use std::time::Duration;

use ram::Disk;
use vfs::FileSystem;
use vnode::chain::Chain;

use crate::{Fixture, NOW};

#[test]
fn a_chain_whose_file_is_gone_ends_and_keeps_no_volume_from_opening() {
    let disk = Disk::new(1 << 20, NOW);
    let fixture = Fixture::on(disk.clone());
    let a = fixture.make_directory(fixture.files.root(), "a");
    drop(fixture);
    let chain = |ino, size| Chain { ino, generation: a.generation + 1, size };
    // Of a number that no file has, and of one that another file has by now.
    disk.add_chain(chain(a.ino.0 + 1_000, None));
    disk.add_chain(chain(a.ino.0, Some(0)));
    let fixture = Fixture::on(disk.clone());
    fixture.executor.run_for(Duration::from_millis(10));
    fixture.make_all_durable();
    assert_eq!(disk.chains(), []);
    fixture.create("b");
    fixture.make_all_durable();
}
