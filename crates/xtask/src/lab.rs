//! The figures of docs/lab.md: written by the lab, and compared with what it gives now.
//!
//! Virtual time is exact, so the page either shows what the code does, to the last digit, or it is
//! out of date. What changes how many writes an engine makes, or when, changes the page as well.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::While;
use crate::temporary::TemporaryFolder;
use crate::{Failure, Repository, Result, Totals, command};

const PAGE: &str = "docs/lab.md";
const PICTURES: &str = "docs/lab";

/// Between these lines of the page stand the figures.
const BEGIN: &str = "<!-- figures of calaveras: written by cargo xtask lab -->\n```text\n";
const END: &str = "```\n<!-- end of figures -->";

/// Runs the lab, and writes the page's figures and pictures anew.
pub fn write(repository: &Repository) -> Result<()> {
    let path = repository.root().join(PAGE);
    let figures = run(repository, &repository.root().join(PICTURES))?;
    let page = fs::read_to_string(&path).while_doing(PAGE)?;
    fs::write(&path, with_figures(&page, &figures)?).while_doing(PAGE)
}

/// Runs the lab, and says whether the page shows what it gives. Every figure of the paper is
/// reproduced, or it is said why not: else the lab fails.
pub(crate) fn test(repository: &Repository) -> Result<Totals> {
    let new = TemporaryFolder::new("lab")?;
    let figures = run(repository, new.path())?;
    let page = fs::read_to_string(repository.root().join(PAGE)).while_doing(PAGE)?;
    let mut stale = Vec::new();
    if with_figures(&page, &figures)? != page {
        stale.push(PAGE.to_owned());
    }
    for entry in fs::read_dir(new.path()).while_doing(new.path().display())? {
        let name = entry.while_doing(new.path().display())?.file_name();
        let old = repository.root().join(PICTURES).join(&name);
        let now = fs::read(new.path().join(&name)).while_doing(name.display())?;
        if fs::read(&old).ok() != Some(now) {
            stale.push(format!("{PICTURES}/{}", name.display()));
        }
    }
    if stale.is_empty() {
        Ok(Totals { passed: 1, failed: 0 })
    } else {
        Err(Failure::new(format!(
            "{} no longer shows what the lab gives: look at the difference that 'cargo xtask lab' \
             makes",
            stale.join(", ")
        )))
    }
}

fn run(repository: &Repository, pictures: &Path) -> Result<String> {
    let mut lab = Command::new("cargo");
    lab.args(["run", "--quiet", "--release", "--package", "duramen-lab", "--"]);
    lab.args(["paper", "calaveras", "--check", "--svg"]).arg(pictures);
    command::capture(lab.current_dir(repository.root()))
}

/// The page with these figures in the place of its own.
fn with_figures(page: &str, figures: &str) -> Result<String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) =
        parts.ok_or_else(|| Failure::new(format!("{PAGE} has no place for figures")))?;
    Ok(format!("{before}{BEGIN}{figures}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_where_the_page_has_a_place_for_them() {
        let page = format!("before\n{BEGIN}old\n{END}\nafter\n");
        let new = with_figures(&page, "new\n").expect("there is a place");
        assert_eq!(new, format!("before\n{BEGIN}new\n{END}\nafter\n"));
        assert!(with_figures("no place", "new\n").is_err());
    }
}
