//! Names of files for people.

/// Escapes a name so that it neither controls a terminal nor misleads a reader: only plain text
/// stays as it is.
pub(crate) fn show_name(name: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() || letter == '\\' {
                shown.extend(letter.escape_default());
            } else {
                shown.push(letter);
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_fool_a_terminal() {
        assert_eq!(show_name("grün.txt".as_bytes()), "grün.txt");
        assert_eq!(show_name(b"a\nb\x1b[2J\\"), "a\\nb\\u{1b}[2J\\\\");
        assert_eq!(show_name(b"\xff\xfe"), "\\xff\\xfe");
    }
}
