//! What the guests do in the mount.

use super::mounted;
use super::report::Report;
use super::{Plan, exactly_once, full_host, raid, zeros};
use crate::guest;
use crate::servers::duramen::Server;
use crate::{Failure, Repository, Result};

/// One scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    name: &'static str,
    what: What,
}

/// What happens in a scenario.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A script of the guest runs.
    Script(Script),
    /// See [`exactly_once`].
    ExactlyOnce,
    /// See [`zeros`].
    Zeros,
    /// See [`full_host`].
    FullHost,
    /// See [`raid`].
    Raid,
}

/// A script of the guest.
#[derive(Clone, Copy, Debug)]
struct Script {
    file: &'static str,
    /// Its arguments in short and in full.
    arguments: [&'static [&'static str]; 2],
    /// How often the server is killed meanwhile, in short and in full.
    crashes: [usize; 2],
}

const SCENARIOS: &[Scenario] = &[
    script("semantics", "semantics.py", [&[], &[]], [0, 0]),
    script("copy", "copy_tree.py", [&["5000"], &["50000"]], [0, 0]),
    script("git", "git.sh", [&["/usr/include/linux"], &["/usr/include"]], [0, 0]),
    script("directory", "directory.py", [&["20000"], &["200000"]], [0, 0]),
    script("crash", "crash_copy.py", [&["1000", "64"], &["10000", "640"]], [3, 30]),
    Scenario { name: exactly_once::NAME, what: What::ExactlyOnce },
    Scenario { name: zeros::NAME, what: What::Zeros },
    Scenario { name: full_host::NAME, what: What::FullHost },
    Scenario { name: raid::NAME, what: What::Raid },
];

const fn script(
    name: &'static str,
    file: &'static str,
    arguments: [&'static [&'static str]; 2],
    crashes: [usize; 2],
) -> Scenario {
    Scenario { name, what: What::Script(Script { file, arguments, crashes }) }
}

/// The scenarios of `plan`.
pub(super) fn chosen(plan: &Plan) -> Result<Vec<Scenario>> {
    if plan.scenarios.is_empty() {
        return Ok(SCENARIOS.to_vec());
    }
    let find = |name: &String| {
        let found = SCENARIOS.iter().find(|scenario| scenario.name == name).copied();
        let names = SCENARIOS.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| Failure::new(format!("no scenario {name}; there are {names}")))
    };
    plan.scenarios.iter().map(find).collect()
}

impl Scenario {
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
            What::Zeros => zeros::test(repository, server, plan, report),
            What::FullHost => full_host::test(repository, server, plan, report),
            What::Raid => raid::test(repository, server, plan, report),
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
                // The deaths are spread over the script's progress, none at its very end.
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
