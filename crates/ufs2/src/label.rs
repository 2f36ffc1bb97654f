//! The label of a file system: a name for people, in its superblock.

/// The most bytes of a label.
pub const MOST: usize = 31;

/// Whether a label is legal: at most 31 letters, digits, `-` and `_`.
pub fn is_legal(label: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    label.len() <= MOST && label.bytes().all(legal)
}
