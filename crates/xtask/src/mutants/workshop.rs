//! The copy of the sources in which they are broken, and the program that breaks them.
//!
//! 1. The work tree is never changed: the copy is `target/mutants/tree`. Only files that differ are
//!    written to it, so that what was built from it stays good from one run to the next. Building
//!    from nothing, or a copy for each run, would cost more than most tests.
//! 2. One mutant at a time, and everything is nice to all else that uses the machine.
//! 3. There is one at a time in a work tree: two would break each other's sources.
//! 4. No test lives longer than five times what all of them take without a mutant, and none has
//!    more memory than [`MEMORY`]: a mutant may ask for ever more of both. That time is taken here:
//!    cargo-mutants would take that of the broken package, whichever has the tests.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::areas::{Area, Stage};
use super::choose::Mutant;
use super::outcomes::{self, Fate};
use crate::failure::While;
use crate::{Failure, Repository, Result, clock, command};

/// What a process of tests may write to of its memory, in bytes.
const MEMORY: u64 = 4 << 30;
/// No limit of time is shorter: the machine may be busy with something else.
const SHORTEST_LIMIT: Duration = Duration::from_secs(30);
/// How many times the time of the tests without a mutant is the limit with one.
const TIMES: u32 = 5;
/// Names of mutants that are not tried: those of words for people.
const WORDS: &str = "impl (Debug|Display) for|impl fmt::(Debug|Display) for";
/// Files with bugs that are planted by hand.
const PLANTED: &str = "**/planted.rs";

/// Where mutants are tried.
#[derive(Debug)]
pub(super) struct Workshop {
    folder: PathBuf,
    /// Locked, as long as the workshop is open.
    _lock: File,
}

impl Workshop {
    /// Brings the copy up to date.
    pub(super) fn open(repository: &Repository) -> Result<Workshop> {
        let folder = repository.target().join("mutants");
        fs::create_dir_all(folder.join("tree")).while_doing(folder.display())?;
        let lock = lock(&folder)?;
        let workshop = Workshop { folder, _lock: lock };
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = command::capture(git.current_dir(repository.root()))?;
        let listed = listed.split('\0').filter(|path| !path.is_empty());
        let listed = listed.filter(|path| repository.root().join(path).is_file());
        let listed = listed.map(PathBuf::from).collect::<BTreeSet<_>>();
        for path in &listed {
            bring(&repository.root().join(path), &workshop.tree().join(path))?;
        }
        remove_others(&workshop.tree(), Path::new(""), &listed)?;
        Ok(workshop)
    }

    /// The copy.
    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// A line of a source, from 1.
    pub(super) fn line(&self, mutant: &Mutant) -> String {
        let text = fs::read_to_string(self.tree().join(&mutant.file)).unwrap_or_default();
        text.lines().nth(mutant.line.wrapping_sub(1)).unwrap_or_default().to_owned()
    }

    /// The mutants of a part; with a difference, those in what it has changed.
    pub(super) fn list(&self, area: &Area, difference: Option<&str>) -> Result<Vec<Mutant>> {
        let mut list = self.cargo_mutants();
        list.args(["--no-config", "--list", "--json", "--exclude", PLANTED, "--exclude-re", WORDS]);
        list.args(area.files.iter().flat_map(|files| ["--file", files]));
        if let Some(difference) = difference {
            let path = self.folder.join("difference");
            fs::write(&path, difference).while_doing(path.display())?;
            list.arg("--in-diff").arg(path);
        }
        Mutant::list(&command::capture(&mut list)?)
    }

    /// Tries these mutants with these tests.
    pub(super) fn try_out(&self, stage: &Stage, mutants: &[Mutant]) -> Result<Vec<(Mutant, Fate)>> {
        let limit = self.limit(stage)?.as_secs_f64().ceil().to_string();
        let found = self.folder.join("mutants.out");
        // What another run has found must not be taken for what this one has.
        let _ = fs::remove_dir_all(&found);
        let configuration = self.folder.join("mutants.toml");
        fs::write(&configuration, configure(mutants)).while_doing(configuration.display())?;
        let mut run = self.cargo_mutants();
        run.arg("--config").arg(configuration).args(["--in-place", "--cap-lints", "true"]);
        run.args(["--output".as_ref(), self.folder.as_os_str()]);
        let files = mutants.iter().map(|mutant| &mutant.file[..]).collect::<BTreeSet<_>>();
        run.args(files.into_iter().flat_map(|file| ["--file", file]));
        run.args(["--test-package", stage.package, "--all-features"]);
        run.args(["--baseline", "skip", "--timeout", &limit, "--colors", "never", "--no-times"]);
        run.args(build_arguments(stage).into_iter().map(|word| format!("--cargo-arg={word}")));
        let tests = stage.which.iter().skip_while(|word| **word != "--");
        run.args(tests.map(|word| format!("--cargo-test-arg={word}")));
        // Its status tells of missed mutants too: what counts is what it has written.
        command::watch(&mut run, |_| ())?;
        let outcomes = found.join("outcomes.json");
        let fates = fs::read_to_string(&outcomes).while_doing(outcomes.display())?;
        let mut fates = outcomes::read(&fates)?;
        // It tries every field that can be left out in these files, whatever it is told to try.
        fates.retain(|(mutant, _)| mutants.contains(mutant));
        if fates.len() != mutants.len() {
            let (found, wanted) = (fates.len(), mutants.len());
            return Err(Failure::new(format!("{found} of {wanted} mutants were tried")));
        }
        Ok(fates)
    }

    /// How long the tests of a stage may take. Fails if they fail where nothing is broken.
    fn limit(&self, stage: &Stage) -> Result<Duration> {
        let tests = |more: &[&str]| {
            let mut cargo = self.cargo();
            cargo.args(["test", "--quiet", "--package", stage.package, "--all-features"]);
            cargo.args(more).args(build_arguments(stage));
            cargo.args(stage.which.iter().skip_while(|word| **word != "--"));
            command::capture(&mut cargo)
        };
        tests(&["--no-run"])?;
        let start = clock::now();
        tests(&[])?;
        Ok((TIMES * (clock::now() - start)).max(SHORTEST_LIMIT))
    }

    /// cargo-mutants, at work in the copy.
    fn cargo_mutants(&self) -> Command {
        let mut cargo = self.cargo();
        cargo.args(["mutants", "--dir"]).arg(self.tree());
        cargo
    }

    /// cargo, in the copy, and nice.
    fn cargo(&self) -> Command {
        let mut nice = Command::new("nice");
        nice.args(["-n", "10", "cargo"]).current_dir(self.tree());
        nice.env("CARGO_TARGET_DIR", self.folder.join("build"));
        // No reader looks at a trace, and little changes from one mutant to the next.
        nice.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
        nice
    }
}

/// Keeps others out as long as the file that it gives is open.
fn lock(folder: &Path) -> Result<File> {
    let lock = File::create(folder.join("lock")).while_doing(folder.display())?;
    lock.try_lock().while_doing("mutants are being tried in this work tree already")?;
    Ok(lock)
}

/// What is built for the tests of a stage, and how they are run.
fn build_arguments(stage: &Stage) -> Vec<String> {
    let programs = stage.which.iter().take_while(|word| **word != "--");
    let runner =
        format!(r#"--config=target."cfg(unix)".runner=["prlimit","--data={MEMORY}","--core=0"]"#);
    programs.map(ToString::to_string).chain([runner]).collect()
}

/// A configuration that names exactly these mutants.
fn configure(mutants: &[Mutant]) -> String {
    let names = mutants.iter().map(|mutant| format!("  '''^{}$''',\n", escape(&mutant.name)));
    format!("examine_re = [\n{}]\n", names.collect::<String>())
}

/// The text as a pattern that it alone fits.
fn escape(text: &str) -> String {
    let special = |letter: char| !letter.is_alphanumeric() && letter.is_ascii() && letter != ' ';
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // One that would end the text of the configuration.
            '\'' => pattern.push('.'),
            '<' | '>' | '_' | '/' | ':' | '"' | ',' | ';' | '=' | '!' | '%' | '@' | '`' => {
                pattern.push(letter);
            }
            _ => {
                pattern.extend(special(letter).then_some('\\'));
                pattern.push(letter);
            }
        }
    }
    pattern
}

/// Copies a file, if the other is not the same.
fn bring(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).while_doing(from.display())?;
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let folder = to.parent().expect("a file has a folder");
    fs::create_dir_all(folder).while_doing(folder.display())?;
    // A copy, not what was read: a script can be executed there, too.
    fs::copy(from, to).while_doing(to.display()).map(drop)
}

/// Removes what is not listed.
fn remove_others(tree: &Path, folder: &Path, listed: &BTreeSet<PathBuf>) -> Result<()> {
    let whole = tree.join(folder);
    for entry in fs::read_dir(&whole).while_doing(whole.display())? {
        let entry = entry.while_doing(whole.display())?;
        let path = folder.join(entry.file_name());
        if entry.file_type().while_doing(path.display())?.is_dir() {
            remove_others(tree, &path, listed)?;
        } else if !listed.contains(&path) {
            fs::remove_file(entry.path()).while_doing(path.display())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    #[test]
    fn a_name_is_a_pattern_that_nothing_else_fits() {
        let name = "a/b.rs:7:13: replace <impl Deref for A<'_>>::f -> (u8, &[u8]) with (0, x) || *";
        assert_eq!(
            escape(name),
            "a/b\\.rs:7:13: replace <impl Deref for A<._>>::f \\-> \\(u8, \\&\\[u8\\]\\) with \
             \\(0, x\\) \\|\\| \\*"
        );
    }

    #[test]
    fn there_is_one_workshop_at_a_time() {
        let folder = TemporaryFolder::new("workshop").expect("there is room");
        let first = lock(folder.path()).expect("nobody else is there");
        assert!(lock(folder.path()).is_err());
        drop(first);
        lock(folder.path()).expect("the first has gone");
    }

    #[test]
    fn the_copy_becomes_what_the_work_tree_is() {
        let folder = TemporaryFolder::new("workshop").expect("there is room");
        let (from, to) = (folder.path().join("from"), folder.path().join("to/below/file"));
        fs::write(&from, "now").expect("there is room");
        bring(&from, &to).expect("it is copied");
        fs::write(to.with_file_name("other"), "left over").expect("there is room");
        let tree = folder.path().join("to");
        let listed = BTreeSet::from([PathBuf::from("below/file")]);
        remove_others(&tree, Path::new(""), &listed).expect("it is removed");
        assert_eq!(fs::read_to_string(&to).expect("it stays"), "now");
        assert!(!to.with_file_name("other").exists());
    }

    #[test]
    fn programs_are_named_when_they_are_built_and_tests_when_they_are_run() {
        let stage = Stage { package: "ffs", which: &["--test", "it", "--", "log_"] };
        let arguments = build_arguments(&stage);
        assert_eq!(&arguments[..2], ["--test", "it"]);
        assert!(arguments[2].contains("prlimit"), "{arguments:?}");
    }
}
