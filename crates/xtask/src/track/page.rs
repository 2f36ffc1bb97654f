//! A page with parts that are written by several races.
//!
//! A part begins with a title, a line that begins with `# `, and ends where the next one begins.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::Result;
use crate::failure::While;

/// Writes a part into a page, replacing the one with the same title, or at the end.
pub(crate) fn write_part(path: &Path, part: &str) -> Result<()> {
    let page = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        page => page.while_doing(path.display())?,
    };
    fs::write(path, with_part(&page, part)).while_doing(path.display())
}

fn with_part(page: &str, part: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for line in page.split_inclusive('\n') {
        match parts.last_mut() {
            Some(last) if !line.starts_with("# ") => last.push_str(line),
            _ => parts.push(line.to_owned()),
        }
    }
    let title = part.lines().next();
    match parts.iter_mut().find(|old| old.lines().next() == title) {
        Some(old) => part.clone_into(old),
        None => parts.push(part.to_owned()),
    }
    let parts: Vec<_> = parts.iter().map(|part| part.trim_end()).collect();
    parts.join("\n\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_takes_its_own_place_and_no_other() {
        let page = "# One\n\n## Below\n\nold\n\n# Two\n\nstays\n";
        let page = with_part(page, "# One\n\nnew\n");
        assert_eq!(page, "# One\n\nnew\n\n# Two\n\nstays\n");
        let page = with_part(&page, "# Three\n\nlast\n");
        assert_eq!(page, "# One\n\nnew\n\n# Two\n\nstays\n\n# Three\n\nlast\n");
        assert_eq!(with_part("", "# One\n"), "# One\n");
    }
}
