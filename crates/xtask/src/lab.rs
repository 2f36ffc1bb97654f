//! The figures of docs/lab.md: written by the lab, and compared with its current results.
//!
//! Virtual time is exact, so the page either matches the code's results to the last digit, or it is
//! out of date. A change in the number or the times of an engine's writes changes the page as well.

use std::fs;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::failure::While;
use crate::temporary::TemporaryFolder;
use crate::{Failure, Repository, Result, Totals, command, program};

const PAGE: &str = "docs/lab.md";
const PICTURES: &str = "docs/lab";

/// The papers, each with extra arguments for the lab.
const PAPERS: [(&str, &[&str]); 3] =
    [("calaveras", &[]), ("softupdates", &["--short"]), ("acacia", &["--short"])];

/// First line of a paper's figures on the page.
fn begin(paper: &str) -> String {
    format!("<!-- figures of {paper}: written by cargo xtask lab -->\n```text\n")
}
const END: &str = "```\n<!-- end of figures -->";

/// Runs the lab, and rewrites the page's figures and pictures.
pub fn write(repository: &Repository) -> Result<()> {
    let path = repository.root().join(PAGE);
    let mut page = fs::read_to_string(&path).while_doing(PAGE)?;
    let lab = program::built(repository, "duramen-lab")?;
    for paper in PAPERS {
        let figures = run(&lab, paper, &repository.root().join(PICTURES))?;
        page = with_figures(&page, paper.0, &figures)?;
    }
    fs::write(&path, page).while_doing(PAGE)
}

/// Runs the lab, and checks that the page matches its results. Every figure of the paper must be
/// reproduced, or a note must explain it: otherwise the lab fails. Without `full` only the papers
/// with a short form are played. They are run in parallel, which does not affect virtual time.
pub(crate) fn test(repository: &Repository, lab: &Path, full: bool) -> Result<Totals> {
    let new = TemporaryFolder::new("lab")?;
    let page = fs::read_to_string(repository.root().join(PAGE)).while_doing(PAGE)?;
    let mut stale = Vec::new();
    let papers: Vec<_> =
        PAPERS.into_iter().filter(|(_, words)| full || !words.is_empty()).collect();
    let figures = thread::scope(|scope| {
        let pictures = new.path();
        let run = |paper| scope.spawn(move || run(lab, paper, pictures));
        let running: Vec<_> = papers.iter().copied().map(run).collect();
        let ended =
            running.into_iter().map(|run| run.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.collect::<Result<Vec<_>>>()
    })?;
    for (paper, figures) in papers.into_iter().zip(figures) {
        if with_figures(&page, paper.0, &figures)? != page {
            stale.push(format!("{PAGE} ({})", paper.0));
        }
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

fn run(lab: &Path, (paper, options): (&str, &[&str]), pictures: &Path) -> Result<String> {
    let mut lab = Command::new(lab);
    lab.args(["paper", paper]).args(options).args(["--check", "--svg"]).arg(pictures);
    command::capture(&mut lab)
}

/// The page with a paper's figures replaced by these.
fn with_figures(page: &str, paper: &str, figures: &str) -> Result<String> {
    let begin = begin(paper);
    let parts = page.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) =
        parts.ok_or_else(|| Failure::new(format!("{PAGE} has no place for figures of {paper}")))?;
    Ok(format!("{before}{begin}{figures}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_where_the_page_has_a_place_for_those_of_their_paper() {
        let page = |first: &str, second: &str| {
            let places = [("a", first), ("b", second)]
                .map(|(paper, figures)| format!("{}{figures}\n{END}\n", begin(paper)));
            places.concat()
        };
        let new = with_figures(&page("old", "old"), "b", "new\n").expect("there is a place");
        assert_eq!(new, page("old", "new"));
        assert!(with_figures(&page("old", "old"), "c", "new\n").is_err());
    }
}
