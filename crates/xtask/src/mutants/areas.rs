//! The parts of the workspace that keep the promise, each with the tests that should see what is
//! broken there.
//!
//! The tests of a part come in stages, the quickest first: only what one stage has missed goes on
//! to the next. So the slow tests run for few mutants.

use crate::{Failure, Result};

/// A part whose mutants share their tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    /// Name on the command line. The part in front of a `/` names all areas that begin with it.
    pub(super) name: &'static str,
    /// Its files, as patterns from the top of the repository.
    pub(super) files: &'static [&'static str],
    /// The tests that should notice.
    pub(super) stages: &'static [Stage],
}

impl Area {
    /// Whether a file is one of its files.
    pub(super) fn has(&self, file: &str) -> bool {
        self.files.iter().any(|pattern| match pattern.split_once("**/*") {
            Some((folder, ending)) => file.starts_with(folder) && file.ends_with(ending),
            None => file == *pattern,
        })
    }
}

/// Some tests of one package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    /// The package.
    pub(super) package: &'static str,
    /// Which of its programs, and in them which tests, as `cargo test` takes it.
    pub(super) which: &'static [&'static str],
}

impl Stage {
    /// Its programs, as cargo takes them.
    pub(super) fn programs(&self) -> &'static [&'static str] {
        self.which.split(|word| *word == "--").next().unwrap_or_default()
    }

    /// Parts of the names of its tests. Where there are none, all tests are meant.
    pub(super) fn parts(&self) -> &'static [&'static str] {
        self.which.split(|word| *word == "--").nth(1).unwrap_or_default()
    }
}

/// All parts. Those of `ffs` that are not here are held by the checker, whose tests damage a disk
/// byte by byte: `crates/ffs/tests/it/mutations.rs`.
pub(super) const AREAS: &[Area] = &[
    Area {
        name: "journal",
        files: &["crates/journal/src/**/*.rs"],
        stages: &[tests("journal", UNITS), LOG],
    },
    Area { name: "ffs/policy", files: &["crates/ffs/src/policy/**/*.rs"], stages: ENGINE },
    Area {
        name: "ffs/leftovers",
        files: &["crates/ffs/src/leftovers.rs", "crates/ffs/src/reclaim.rs"],
        stages: &[tests("ffs", &["--lib"]), SOFT, CUTS, CAMPAIGNS],
    },
    Area {
        name: "ffs/replay",
        files: &["crates/ffs/src/replay.rs", "crates/ffs/src/logged/**/*.rs"],
        stages: &[tests("ffs", &["--lib"]), LOG, CUTS, LOST],
    },
    Area {
        name: "ffs/data",
        files: &["crates/ffs/src/content.rs", "crates/ffs/src/shrink.rs"],
        stages: ENGINE,
    },
    Area {
        name: "cow",
        files: &["crates/cow/src/**/*.rs"],
        stages: &[
            tests("cow", UNITS),
            tests("shadow", &["--lib"]),
            tests("shadow", &["--test", "it"]),
            CAMPAIGNS,
        ],
    },
    Area {
        name: "shadow",
        files: &["crates/shadow/src/**/*.rs"],
        stages: &[tests("shadow", &["--lib"]), tests("shadow", &["--test", "it"]), CAMPAIGNS],
    },
    Area {
        name: "lfs",
        files: &["crates/lfs/src/**/*.rs"],
        stages: &[tests("lfs", &["--lib"]), tests("lfs", &["--test", "it"]), CAMPAIGNS],
    },
    Area {
        name: "vnode",
        files: &["crates/vnode/src/**/*.rs"],
        stages: &[tests("vnode", UNITS), tests("ram", UNITS), MEMORY, LOG, SOFT, CUTS, CAMPAIGNS],
    },
    Area {
        name: "cache",
        files: &["crates/cache/src/**/*.rs"],
        stages: &[tests("cache", UNITS), MEMORY, LOG, CUTS],
    },
    Area {
        name: "namespace",
        files: &["crates/namespace/src/**/*.rs"],
        stages: &[tests("namespace", UNITS), WHOLE, REPLIES],
    },
    Area {
        name: "dispatch",
        files: &["crates/dispatch/src/**/*.rs"],
        stages: &[tests("dispatch", UNITS), WHOLE, REPLIES],
    },
    Area {
        name: "door",
        files: &["crates/door/src/**/*.rs"],
        stages: &[tests("door", UNITS), CROWDS],
    },
    Area {
        name: "nfs",
        files: &["crates/nfs/src/**/*.rs"],
        stages: &[tests("nfs", UNITS), tests("dispatch", UNITS), WHOLE],
    },
    Area {
        name: "server",
        files: &["crates/server/src/**/*.rs"],
        stages: &[tests("server", UNITS), PROGRAM],
    },
    Area {
        name: "cli",
        files: &["crates/cli/src/**/*.rs"],
        stages: &[tests("duramen", &["--lib", "--bins"]), PROGRAM],
    },
    Area {
        name: "runtime",
        files: &["crates/runtime/src/**/*.rs"],
        stages: &[tests("runtime", UNITS), tests("dispatch", UNITS), tests("door", UNITS)],
    },
    Area {
        name: "nvram",
        files: &["crates/nvram/src/**/*.rs"],
        stages: &[tests("nvram", UNITS), NVRAM],
    },
    Area {
        name: "vfs",
        files: &["crates/vfs/src/**/*.rs"],
        stages: &[tests("vfs", UNITS), tests("dispatch", UNITS)],
    },
    Area {
        name: "block",
        files: &["crates/block/src/**/*.rs"],
        stages: &[tests("block", UNITS), tests("journal", UNITS)],
    },
    Area {
        name: "client",
        files: &["crates/client/src/**/*.rs"],
        stages: &[tests("client", UNITS)],
    },
    Area {
        name: "raid",
        files: &["crates/raid/src/**/*.rs"],
        stages: &[tests("raid", UNITS), SETS],
    },
];

/// All programs of tests, but none of a page's examples.
const UNITS: &[&str] = &["--tests"];
/// The engine's own tests: first those of single parts, which are built soonest, then those of its
/// log, which see most of it, last those that cut it off, and those of what it may never do. Those
/// that try the checker are not among them.
const ENGINE: &[Stage] = &[tests("ffs", &["--lib"]), LOG, SOFT, CUTS, CAMPAIGNS];
/// Tests of an engine's log.
const LOG: Stage = tests("ffs", &["--test", "it", "--", "log_", "answers", "shared_log", "rounds"]);
/// Tests of soft updates, and of reclaiming the leaks of a cut under them.
const SOFT: Stage = tests("ffs", &["--test", "it", "--", "soft_", "softdep", "reclaim"]);
/// What cuts an engine off, under every policy, what breaks its disk or leaves it no room, and what
/// holds it to its rules.
const CUTS: Stage = tests(
    "ffs",
    &[
        "--test",
        "it",
        "--",
        "cuts",
        "faults",
        "write_behind",
        "overtaking",
        "refused",
        "zeros::",
        "rule_five::",
        "settling::",
        "stuck::",
        "returns::",
        "planted_log::",
        "check_log::",
        "doubts::",
        "full::",
        "given_up::",
        "writes::",
    ],
);
/// Tests that fill an engine's memory and read its cache.
const MEMORY: Stage = tests("ffs", &["--test", "it", "--", "memory::", "readers::", "looks::"]);
/// Tests that lose logs, move them and give them up by commands.
const LOST: Stage =
    tests("duramen", &["--test", "it", "--", "lost_log::", "leftovers::", "logged::", "saved::"]);
/// Tests of the program from outside.
const PROGRAM: Stage = tests("duramen", &["--test", "it"]);
/// Commands on a volume with an NVRAM.
const NVRAM: Stage = tests("duramen", &["--test", "it", "--", "nvram"]);
/// Campaigns that cut a set of disks and lose one.
const SETS: Stage = campaigns(&["--test", "campaigns", "--", "sets_of_disks"]);
/// Tests of a whole server.
const WHOLE: Stage =
    tests("duramen-torture", &["--test", "it", "--", "procedures", "late", "linearizable"]);
/// Campaigns that compare replies with a reference, and repeat calls.
const REPLIES: Stage = campaigns(&["--test", "campaigns", "--", "reference", "repetitions"]);
/// Campaigns that cut a whole server, break its disk and fill it.
const CAMPAIGNS: Stage = campaigns(&[
    "--test",
    "campaigns",
    "--",
    "sequences",
    "errors",
    "bytes",
    "full_volumes",
    "repetitions",
]);

/// Campaigns with many clients.
const CROWDS: Stage = campaigns(&["--test", "campaigns", "--", "crowds"]);

const fn campaigns(which: &'static [&'static str]) -> Stage {
    tests("duramen-torture", which)
}

const fn tests(package: &'static str, which: &'static [&'static str]) -> Stage {
    Stage { package, which }
}

/// The parts that these names name; all of them if there is no name.
pub(super) fn chosen(names: &[String]) -> Result<Vec<Area>> {
    if names.is_empty() {
        return Ok(AREAS.to_vec());
    }
    let mut chosen = Vec::new();
    for name in names {
        let is_named = |area: &&Area| {
            area.name == name || area.name.split_once('/').is_some_and(|(first, _)| first == name)
        };
        let before = chosen.len();
        chosen.extend(AREAS.iter().filter(is_named));
        if chosen.len() == before {
            let names = AREAS.iter().map(|area| area.name).collect::<Vec<_>>().join(", ");
            return Err(Failure::new(format!("no part {name} is mutated; there are {names}")));
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: &[&str]) -> Vec<&'static str> {
        let asked = asked.iter().map(ToString::to_string).collect::<Vec<_>>();
        chosen(&asked).expect("there are such parts").iter().map(|area| area.name).collect()
    }

    #[test]
    fn a_part_is_named_alone_or_with_its_neighbours() {
        assert_eq!(names(&["journal", "ffs/data"]), ["journal", "ffs/data"]);
        assert_eq!(names(&["ffs"]), ["ffs/policy", "ffs/leftovers", "ffs/replay", "ffs/data"]);
        assert_eq!(names(&[]).len(), AREAS.len());
    }

    #[test]
    fn a_file_is_of_the_part_whose_patterns_it_fits() {
        let part = |file| AREAS.iter().find(|area| area.has(file)).map(|area| area.name);
        assert_eq!(part("crates/ffs/src/policy/log/mod.rs"), Some("ffs/policy"));
        assert_eq!(part("crates/ffs/src/shrink.rs"), Some("ffs/data"));
        assert_eq!(part("crates/vnode/src/data/write.rs"), Some("vnode"));
        assert_eq!(part("crates/shadow/src/format/log.rs"), Some("shadow"));
        assert_eq!(part("crates/cow/src/format/inode.rs"), Some("cow"));
        assert_eq!(part("crates/fsck/src/lib.rs"), None);
    }

    #[test]
    fn a_stage_names_programs_and_their_tests() {
        assert_eq!((SETS.programs(), SETS.parts()), (&SETS.which[..2], &["sets_of_disks"][..]));
        let units = tests("a", UNITS);
        assert_eq!((units.programs(), units.parts()), (UNITS, &[][..]));
    }

    #[test]
    fn a_part_that_is_not_there_is_refused_with_those_that_are() {
        let failure = chosen(&["jurnal".to_owned()]).expect_err("there is none");
        assert!(failure.to_string().contains("no part jurnal is mutated; there are journal,"));
    }
}
