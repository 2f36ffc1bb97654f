//! The owner and the mode of a new volume's root directory, as words of a command line.

use rustix::process::{getegid, geteuid};
use vfs::RootDirectory;

/// A user and a group, by number.
pub(crate) type Owner = (u32, u32);

/// Parses a user and a group, such as `1000:1000`.
///
/// # Errors
/// A sentence about the error, for clap to print behind the option.
pub(crate) fn parse_owner(text: &str) -> Result<Owner, String> {
    // The largest number means "no change" to chown(2), and is no user.
    let id = |text: &str| text.parse().ok().filter(|&id| id != u32::MAX);
    let owner = text.split_once(':').and_then(|(uid, gid)| Some((id(uid)?, id(gid)?)));
    let sentence = "write a user and a group as numbers, such as 1000:1000; 'id' prints yours";
    owner.ok_or_else(|| sentence.to_owned())
}

/// Parses permission bits in octal, such as `755` or `1777`.
///
/// # Errors
/// As for [`parse_owner`].
pub(crate) fn parse_mode(text: &str) -> Result<u16, String> {
    let is_octal = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let mode = u16::from_str_radix(text, 8).ok().filter(|&mode| is_octal && mode <= 0o7777);
    mode.ok_or_else(|| "write permissions in octal, such as 755 or 1777".to_owned())
}

/// The root directory of a new volume. It belongs to the user who makes the volume, unless the
/// command line names another one.
pub(crate) fn root_directory(owner: Option<Owner>, mode: Option<u16>) -> RootDirectory {
    let (uid, gid) = owner.unwrap_or_else(|| (geteuid().as_raw(), getegid().as_raw()));
    RootDirectory { uid, gid, mode: mode.unwrap_or(RootDirectory::default().mode) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_two_numbers() {
        assert_eq!(parse_owner("1000:100"), Ok((1000, 100)));
        assert_eq!(parse_owner("0:4294967294"), Ok((0, 4_294_967_294)));
        for text in ["", "1000", "1000:", ":", "root:root", "-1:0", "0:4294967295", "1:2:3"] {
            assert!(parse_owner(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_mode_is_octal() {
        for (text, mode) in [("755", 0o755), ("0755", 0o755), ("1777", 0o1777), ("0", 0)] {
            assert_eq!(parse_mode(text), Ok(mode), "{text}");
        }
        for text in ["", "789", "10000", "-1", "+755", "rwx", "0o755", "00000755"] {
            assert!(parse_mode(text).is_err(), "{text}");
        }
    }
}
