//! Work of the guests in the mount.

use super::mounted;
use super::report::Report;
use super::{Plan, Site, exactly_once, full_host, nvram, raid, snapshots, zeros};
use crate::guest;
use crate::servers::duramen::Server;
use crate::{Failure, Repository, Result};

/// A scenario on the shared volume, which is judged at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Together {
    name: &'static str,
    what: What,
}

/// The kind of such a scenario.
#[derive(Clone, Copy, Debug)]
enum What {
    /// Runs a script of the guest.
    Script(Script),
    /// See [`exactly_once`].
    ExactlyOnce,
}

/// A scenario that creates its own volumes, and judges them itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    pub(super) name: &'static str,
    pub(super) test: fn(Site<'_>, &Plan, &mut Report),
}

/// A script of the guest.
#[derive(Clone, Copy, Debug)]
struct Script {
    file: &'static str,
    /// Its arguments in short and in full.
    arguments: [&'static [&'static str]; 2],
    /// Number of server kills meanwhile, in short and in full.
    crashes: [usize; 2],
}

const TOGETHER: &[Together] = &[
    script("semantics", "semantics.py", [&[], &[]], [0, 0]),
    script("copy", "copy_tree.py", [&["5000"], &["50000"]], [0, 0]),
    script("git", "git.sh", [&["/usr/include/linux"], &["/usr/include"]], [0, 0]),
    script("directory", "directory.py", [&["20000"], &["200000"]], [0, 0]),
    script("crash", "crash_copy.py", [&["1000", "64"], &["10000", "640"]], [3, 30]),
    Together { name: exactly_once::NAME, what: What::ExactlyOnce },
];

const APART: &[Apart] = &[
    Apart { name: zeros::NAME, test: zeros::test },
    Apart { name: full_host::NAME, test: full_host::test },
    Apart { name: raid::NAME, test: raid::test },
    Apart { name: raid::MIRROR_NAME, test: raid::test_mirror },
    Apart { name: nvram::NAME, test: nvram::test },
    Apart { name: snapshots::NAME, test: snapshots::test },
];

const fn script(
    name: &'static str,
    file: &'static str,
    arguments: [&'static [&'static str]; 2],
    crashes: [usize; 2],
) -> Together {
    Together { name, what: What::Script(Script { file, arguments, crashes }) }
}

/// The scenarios of a sample: those that only a real client can judge, and one drawn by the seed.
pub(crate) fn sample(seed: u64) -> Vec<String> {
    let always = [exactly_once::NAME, zeros::NAME];
    let all = TOGETHER.iter().map(|one| one.name).chain(APART.iter().map(|one| one.name));
    let others: Vec<&str> = all.filter(|name| !always.contains(name)).collect();
    let drawn = others[seed as usize % others.len()];
    always.into_iter().chain([drawn]).map(ToOwned::to_owned).collect()
}

/// The scenarios of `plan`.
pub(super) fn chosen(plan: &Plan) -> Result<(Vec<Together>, Vec<Apart>)> {
    if plan.scenarios.is_empty() {
        return Ok((TOGETHER.to_vec(), APART.to_vec()));
    }
    let (mut together, mut apart) = (Vec::new(), Vec::new());
    for name in &plan.scenarios {
        if let Some(found) = TOGETHER.iter().find(|scenario| scenario.name == name) {
            together.push(*found);
        } else if let Some(found) = APART.iter().find(|scenario| scenario.name == name) {
            apart.push(*found);
        } else {
            let names = TOGETHER.iter().map(|scenario| scenario.name);
            let names = names.chain(APART.iter().map(|scenario| scenario.name));
            let names = names.collect::<Vec<_>>().join(", ");
            return Err(Failure::new(format!("no scenario {name}; there are {names}")));
        }
    }
    Ok((together, apart))
}

impl Together {
    /// Runs the scenario, and reports.
    pub(super) fn run(
        &self,
        repository: &Repository,
        server: &mut Server,
        plan: &Plan,
        report: &mut Report,
    ) {
        match self.what {
            What::Script(script) => script.run(self.name, repository, server, plan, report),
            What::ExactlyOnce => exactly_once::test(repository, server, plan, report),
        }
    }
}

impl Script {
    fn run(
        self,
        name: &str,
        repository: &Repository,
        server: &mut Server,
        plan: &Plan,
        report: &mut Report,
    ) {
        let size = usize::from(plan.full);
        let mut guest = mounted::guest(repository, server, self.file);
        guest.arguments = self.arguments[size].iter().map(ToString::to_string).collect();
        guest.time_limit *= if plan.full { 10 } else { 1 };
        let crashes = self.crashes[size];
        report.script(name, |transcript| {
            let mut running = guest::start(&guest)?;
            let mut crashed = 0;
            while let Some(line) = running.next_line()? {
                transcript.hear(&line);
                // Spread the deaths over the script's progress, none at its very end.
                let progress = line.strip_prefix("progress ").and_then(|text| text.parse().ok());
                if progress.is_some_and(|done: usize| done * (crashes + 1) >= (crashed + 1) * 100)
                    && crashed < crashes
                {
                    server.crash()?;
                    crashed += 1;
                }
            }
            if crashed < crashes {
                let sentence = format!("the server was killed {crashed} times, not {crashes}");
                return Err(Failure::new(sentence));
            }
            running.finish()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &[&str]) -> Result<(Vec<&'static str>, Vec<&'static str>)> {
        let scenarios = wanted.iter().map(|&name| name.to_owned()).collect();
        let (together, apart) = chosen(&Plan { scenarios, ..Plan::default() })?;
        let together = together.iter().map(|scenario| scenario.name).collect();
        Ok((together, apart.iter().map(|scenario| scenario.name).collect()))
    }

    #[test]
    fn a_sample_comes_by_every_scenario_and_always_has_the_indispensable_ones() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let sample = sample(seed);
            assert_eq!((sample.len(), &*sample[0], &*sample[1]), (3, "exactly-once", "zeros"));
            let names: Vec<&str> = sample.iter().map(String::as_str).collect();
            names_exist(&names);
            seen.extend(sample);
        }
        assert_eq!(seen.len(), TOGETHER.len() + APART.len());
    }

    fn names_exist(wanted: &[&str]) {
        let (together, apart) = names(wanted).expect("they are scenarios");
        assert_eq!(together.len() + apart.len(), wanted.len());
    }

    #[test]
    fn scenarios_are_chosen_by_their_names_and_all_without_one() {
        let (together, apart) = names(&[]).expect("all are there");
        assert_eq!((together.len(), apart.len()), (TOGETHER.len(), APART.len()));
        assert_eq!(names(&["raid", "git", "copy"]), Ok((vec!["git", "copy"], vec!["raid"])));
        let failure = names(&["git", "gti"]).expect_err("there is none of this name").to_string();
        assert!(failure.starts_with("no scenario gti; there are semantics, "), "{failure}");
        assert!(failure.ends_with(", snapshots"), "{failure}");
    }
}
