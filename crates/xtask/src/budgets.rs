//! Time budgets of the steps of a full test run: 25 minutes in total on two processors, part of
//! which is reserved for future tests.
//!
//! A campaign draws workloads until its seconds are spent. Any other step has to end by itself, and
//! is reported if it takes a quarter more than its seconds. It does not fail: shared machines
//! differ more than steps do, and a run of one tree took 1,115 seconds on one of them and 2,016 on
//! another. `cargo xtask tidy` checks the sums.

/// Seconds of a full run.
pub(crate) const RUN_SECONDS: u64 = 1_500;
/// Seconds reserved for future policies and devices: a policy, the full form of one paper and a
/// kind of disks have 130 together.
pub(crate) const FREE_SECONDS: u64 = 140;

/// Maximum seconds of all campaigns of an engine, a policy, and a kind of disks.
pub(crate) const ENGINE_SECONDS: u64 = 60;
pub(crate) const POLICY_SECONDS: u64 = 40;
pub(crate) const DEVICE_SECONDS: u64 = 30;

/// A step that is not a campaign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) seconds: u64,
}

impl Step {
    /// Whether a run of `seconds` exceeds the budget by a quarter.
    pub(crate) fn is_exceeded(self, seconds: f64) -> bool {
        seconds > self.seconds as f64 * 1.25
    }
}

const fn step(name: &'static str, seconds: u64) -> Step {
    Step { name, seconds }
}

pub(crate) const FORMAT: Step = step("format", 5);
pub(crate) const TIDY: Step = step("tidy", 6);
/// Builds take at most 600 seconds together.
pub(crate) const LINT: Step = step("build: lint", 85);
pub(crate) const BUILD: Step = step("build: tests and programs", 430);
pub(crate) const UNIT: Step = step("unit and integration tests", 340);
pub(crate) const DOCS: Step = step("examples of the documentation", 7);
pub(crate) const ALONE: Step = step("tests that look for the folder of references, without it", 3);
pub(crate) const PLANTED: Step = step("planted bugs", 60);
pub(crate) const LAB: Step = step("the papers' figures", 14);
pub(crate) const BENCH: Step = step("measuring our own server", 8);
pub(crate) const CLIENT: Step = step("the real client", 84);

/// Every step that is not a campaign.
pub(crate) const STEPS: [Step; 11] =
    [FORMAT, TIDY, LINT, BUILD, UNIT, DOCS, ALONE, PLANTED, LAB, BENCH, CLIENT];

/// The share of the budget that a campaign belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// A policy of engine `ffs`.
    Policy(&'static str),
    /// Another engine.
    Engine(&'static str),
    /// A kind of disks.
    Device(&'static str),
}

impl Share {
    pub(crate) const fn limit(self) -> u64 {
        match self {
            Self::Policy(_) => POLICY_SECONDS,
            Self::Engine(_) => ENGINE_SECONDS,
            Self::Device(_) => DEVICE_SECONDS,
        }
    }
}

/// A campaign on a design, with its seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) share: Share,
    /// Arguments of its command line.
    pub(crate) words: &'static str,
    pub(crate) seconds: u64,
}

const fn policy(policy: &'static str, words: &'static str, seconds: u64) -> Row {
    Row { share: Share::Policy(policy), words, seconds }
}

const fn engine(engine: &'static str, words: &'static str, seconds: u64) -> Row {
    Row { share: Share::Engine(engine), words, seconds }
}

const fn device(device: &'static str, words: &'static str, seconds: u64) -> Row {
    Row { share: Share::Device(device), words, seconds }
}

/// All campaigns, those first that find most bugs a second.
pub(crate) const ROWS: &[Row] = &[
    policy("log", "seq1 --policy log", 2),
    policy("sync", "seq1 --policy sync", 2),
    policy("softdep", "seq1 --policy softdep", 2),
    engine("shadow", "seq1 --engine shadow", 4),
    engine("lfs", "seq1 --engine lfs", 3),
    policy("log", "faults --policy log", 3),
    policy("sync", "faults --policy sync", 3),
    policy("softdep", "faults --policy softdep", 3),
    engine("shadow", "faults --engine shadow", 4),
    engine("lfs", "faults --engine lfs", 3),
    policy("log", "retry --policy log", 4),
    policy("sync", "retry --policy sync", 2),
    policy("softdep", "retry --policy softdep", 2),
    engine("shadow", "retry --engine shadow", 4),
    engine("lfs", "retry --engine lfs", 3),
    engine("ram", "retry --engine ram", 2),
    policy("log", "concurrent --policy log", 3),
    policy("sync", "concurrent --policy sync", 2),
    policy("softdep", "concurrent --policy softdep", 3),
    engine("shadow", "concurrent --engine shadow", 3),
    engine("lfs", "concurrent --engine lfs", 3),
    engine("ram", "concurrent --engine ram", 4),
    policy("log", "crowd --policy log", 2),
    policy("sync", "crowd --policy sync", 1),
    policy("softdep", "crowd --policy softdep", 1),
    engine("shadow", "crowd --engine shadow", 1),
    engine("lfs", "crowd --engine lfs", 1),
    engine("ram", "crowd --engine ram", 1),
    policy("log", "seq1 --policy log --durability delayed", 2),
    policy("sync", "seq1 --policy sync --durability delayed", 2),
    policy("softdep", "seq1 --policy softdep --durability delayed", 2),
    policy("sync", "conformance --policy sync", 4),
    engine("shadow", "conformance --engine shadow", 3),
    engine("lfs", "conformance --engine lfs", 2),
    engine("ram", "conformance --engine ram", 2),
    policy("log", "data --policy log", 4),
    policy("sync", "data --policy sync", 4),
    policy("softdep", "data --policy softdep", 4),
    engine("shadow", "data --engine shadow", 4),
    engine("lfs", "data --engine lfs", 3),
    policy("log", "space --policy log", 4),
    engine("shadow", "space --engine shadow", 4),
    engine("lfs", "space --engine lfs", 4),
    policy("log", "ways --policy log", 5),
    policy("sync", "ways --policy sync", 3),
    policy("softdep", "ways --policy softdep", 4),
    engine("shadow", "ways --engine shadow", 4),
    engine("lfs", "ways --engine lfs", 3),
    policy("log", "seq2 --policy log", 4),
    policy("sync", "seq2 --policy sync", 4),
    policy("softdep", "seq2 --policy softdep", 4),
    engine("shadow", "seq2 --engine shadow", 5),
    engine("lfs", "seq2 --engine lfs", 4),
    policy("log", "nested --policy log", 5),
    policy("sync", "nested --policy sync", 4),
    policy("softdep", "nested --policy softdep", 4),
    policy("softdep", "nested --policy softdep --durability delayed", 3),
    engine("shadow", "nested --engine shadow", 5),
    engine("lfs", "nested --engine lfs", 4),
    policy("log", "rot --policy log", 2),
    policy("sync", "rot --policy sync", 2),
    policy("softdep", "rot --policy softdep", 2),
    engine("shadow", "rot --engine shadow", 6),
    engine("lfs", "rot --engine lfs", 3),
    device("plain", "contract", 1),
    device("raid5", "contract --device raid5", 5),
    device("raid5", "two-faults --device raid5", 10),
    device("raid5", "seq1 --policy log --device raid5", 4),
    device("raid5", "faults --policy log --device raid5", 4),
    device("raid5", "conformance --engine shadow --device raid5", 3),
    device("nvram", "contract --device nvram", 4),
    device("nvram", "contract --device raid5+nvram", 4),
    device("nvram", "seq1 --policy log --device nvram", 3),
    device("nvram", "seq1 --engine shadow --device nvram", 3),
    device("nvram", "conformance --policy sync --device nvram", 2),
    device("nvram", "seq1 --policy sync --device raid5+nvram", 4),
    device("nvram", "seq1 --engine shadow --device raid5+nvram", 4),
    device("nvram", "conformance --policy softdep --device raid5+nvram", 2),
    device("raid1", "contract --device raid1", 4),
    device("raid1", "two-faults --device raid1", 6),
    device("raid1", "seq1 --policy sync --device raid1", 3),
    device("raid1", "faults --policy sync --device raid1", 3),
    device("raid1", "conformance --policy sync --device raid1", 3),
    device("raid1", "rot --engine shadow --device raid1", 3),
];

/// Violations of the budgets: each sentence names a sum and its limit.
pub(crate) fn excesses(steps: &[Step], rows: &[Row]) -> Vec<String> {
    let mut excesses = Vec::new();
    let mut hold = |what: String, sum: u64, limit: u64| {
        if sum > limit {
            excesses.push(format!("{what}: {sum} s of {limit} s"));
        }
    };
    let of_steps: u64 = steps.iter().map(|step| step.seconds).sum();
    let of_rows: u64 = rows.iter().map(|row| row.seconds).sum();
    hold("a run".to_owned(), of_steps + of_rows, RUN_SECONDS - FREE_SECONDS);
    let mut shares: Vec<Share> = Vec::new();
    for row in rows {
        if !shares.contains(&row.share) {
            shares.push(row.share);
        }
    }
    for share in shares {
        let sum = rows.iter().filter(|row| row.share == share).map(|row| row.seconds).sum();
        hold(format!("{share:?}"), sum, share.limit());
    }
    excesses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_exceeds_its_budget_by_more_than_a_quarter() {
        let step = step("a step", 100);
        assert_eq!([125.0, 126.0].map(|seconds| step.is_exceeded(seconds)), [false, true]);
    }

    #[test]
    fn a_share_that_is_exceeded_and_a_run_that_is_are_named() {
        let limit = POLICY_SECONDS;
        let rows = [policy("log", "data", limit), policy("sync", "data", limit)];
        assert_eq!(excesses(&[], &rows), Vec::<String>::new());
        let more = [&rows[..], &[policy("log", "retry", 1)]].concat();
        assert_eq!(
            excesses(&[], &more),
            [format!("Policy(\"log\"): {} s of {limit} s", limit + 1)]
        );
        let long = [step("build", RUN_SECONDS - FREE_SECONDS)];
        assert_eq!(excesses(&long, &[]), Vec::<String>::new());
        assert!(excesses(&long, &more[2..])[0].starts_with("a run: "));
    }
}
