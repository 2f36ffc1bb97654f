//! Renames that do more than move a name.

use vfs::FileSystem;

use crate::common::World;
use crate::common::cutting::sizes;
use crate::common::volume::{fresh, reopen};

/// A new name may make the directory longer, and that may move it to another place on the disk.
#[test]
fn the_old_name_goes_when_the_directory_moves_for_the_new_one() {
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = fresh(&world, 8 << 20, &sizes(4096, 512)).await;
        let mut expected = vec![".".to_owned(), "..".to_owned()];
        let mut directories = Vec::new();
        for index in 0..2 {
            let text = format!("directory-{index}");
            directories.push(volume.mkdir(volume.files.root(), &text).await.expect("new"));
        }
        // Both grow in turn, so that each blocks the other; every rename needs another chunk.
        for round in 0..6 {
            for &directory in &directories {
                let short = format!("{round}");
                volume.create(directory, &short).await.expect("new");
                let long = format!("{round}").repeat(250);
                volume.rename((directory, &short), (directory, &long)).await.expect("there");
            }
            expected.push(format!("{round}").repeat(250));
        }
        volume.files.shutdown().await.expect("it stops");
        let volume = reopen(&world, &disk).await;
        for directory in directories {
            let mut names = volume.list(directory).await.expect("a directory");
            names.sort();
            let mut expected = expected.clone();
            expected.sort();
            assert_eq!(names, expected);
        }
    });
}
