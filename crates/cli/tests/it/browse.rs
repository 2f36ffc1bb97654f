//! Runs `duramen ls` and `duramen cat` as people do.

use crate::common::{Folder, duramen, freebsd_disk, on};

#[test]
fn the_names_in_a_directory_are_listed_in_order() {
    let folder = Folder::new();
    let Some(image) = freebsd_disk("little", &folder) else { return };
    let said = on("ls", &image, &[]).good();
    assert!(said.starts_with(".snap\ndir1\nfile1\nfile3\nlink1\n"), "{said}");
    let said = on("ls", &image, &["dir1", "--all"]).good();
    assert_eq!(said, ".\n..\ndir2\n");
}

#[test]
fn the_long_form_shows_what_ls_shows() {
    let folder = Folder::new();
    let Some(image) = freebsd_disk("little", &folder) else { return };
    let said = on("ls", &image, &["-l"]).good();
    let line = |name: &str| {
        let line = said.lines().find(|line| line.contains(&format!(" {name}")));
        let words = line.unwrap_or_else(|| panic!("no {name} in:\n{said}")).split_whitespace();
        words.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("dir1"), "drwxr-xr-x 3 0 0 512 2024-08-04 15:39:55 dir1");
    assert_eq!(line("file1"), "-rw-r--r-- 1 0 0 23 2024-08-04 15:39:55 file1");
    assert!(line("link1").ends_with("link1 -> dir1/dir2/dir3/file2"));
}

#[test]
fn a_file_is_written_to_standard_output() {
    let folder = Folder::new();
    let Some(image) = freebsd_disk("little", &folder) else { return };
    assert_eq!(on("cat", &image, &["/file1"]).good(), "This is a simple file.\n");
}

#[test]
fn symbolic_links_are_followed() {
    let folder = Folder::new();
    let Some(image) = freebsd_disk("little", &folder) else { return };
    let target = on("cat", &image, &["dir1/dir2/dir3/file2"]).good();
    assert_eq!(on("cat", &image, &["link1"]).good(), target);
    // The target is longer than fits into an inode.
    assert_eq!(on("cat", &image, &["long-link"]).good(), "This is a simple file.\n");
}

#[test]
fn a_disk_of_the_other_byte_order_is_read_alike() {
    let (folder, other) = (Folder::new(), Folder::new());
    let (Some(little), Some(big)) = (freebsd_disk("little", &folder), freebsd_disk("big", &other))
    else {
        return;
    };
    for (command, path) in
        [("ls", "/"), ("ls", "dir1/dir2/dir3"), ("cat", "link1"), ("cat", "long-link")]
    {
        assert_eq!(on(command, &little, &[path]).good(), on(command, &big, &[path]).good());
    }
}

#[test]
fn a_disk_that_is_looked_at_does_not_change() {
    let folder = Folder::new();
    let Some(image) = freebsd_disk("little", &folder) else { return };
    let before = std::fs::read(&image).expect("it is there");
    on("ls", &image, &["-l"]).good();
    on("cat", &image, &["file3"]).good();
    assert!(std::fs::read(&image).expect("it is there") == before, "it has changed");
}

#[test]
fn a_path_that_is_wrong_is_named() {
    let folder = Folder::new();
    let Some(image) = freebsd_disk("little", &folder) else { return };
    on("cat", &image, &["dir1/nothing"]).failed(1, "dir1/nothing: no such file");
    on("cat", &image, &["dir1"]).failed(1, "dir1: is a directory");
    on("ls", &image, &["file1/below"]).failed(1, "file1/below: not a directory");
}

#[test]
fn what_is_no_volume_is_named() {
    let folder = Folder::new();
    on("ls", &folder.path("nothing"), &[]).failed(1, "nothing is no volume");
    assert_eq!(duramen(&["ls"]).code, 2);
}
