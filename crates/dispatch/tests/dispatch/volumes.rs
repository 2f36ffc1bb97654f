//! Volumes that can be served together, and those that cannot.

use dispatch::{Fsid, Volume, Volumes, VolumesError};

use crate::memory::MemoryFileSystem;

fn refusal(volumes: &[(&str, u64)]) -> Option<VolumesError> {
    let volume = |&(name, fsid): &(&str, u64)| Volume {
        name: name.into(),
        fsid: Fsid(fsid),
        file_system: MemoryFileSystem::new(),
    };
    Volumes::new(volumes.iter().map(volume).collect()).err()
}

#[test]
fn names_and_numbers_tell_volumes_apart() {
    assert_eq!(refusal(&[("a", 1), ("b", 2)]), None);
    assert_eq!(refusal(&[("a", 1), ("a", 2)]), Some(VolumesError::SameName("a".into())));
    let copies = VolumesError::SameFsid("a".into(), "b".into());
    assert_eq!(refusal(&[("a", 1), ("b", 1)]), Some(copies));
}

#[test]
fn a_name_is_one_component_of_a_path() {
    for name in ["", ".", "..", "a/b", "/a", "a\0b", "a\nb"] {
        assert_eq!(refusal(&[(name, 1)]), Some(VolumesError::Name(name.into())), "{name:?}");
    }
    assert_eq!(refusal(&[("an ordinary name", 1)]), None);
}
