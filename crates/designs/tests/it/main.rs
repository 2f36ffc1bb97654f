//! Tests of the table of designs through its public interface.

mod aged;
mod anchors;
mod entries;
mod lost_starts;
mod second;
mod stripes;
mod table;
mod unrepaired;

/// An entry without special properties.
const PLAIN: designs::Design = designs::Design {
    engine: "",
    policy: None,
    mark: None,
    disks: &[],
    work: None,
    about: "",
    after_crash: "",
    retry: "",
    keeps_intents: false,
    remembers: true,
    may_stop_between: false,
    keeps_order: true,
    keeps_history: true,
    checks_first: false,
    repairs: true,
    counts_all: true,
    waits: false,
    has_snapshots: false,
};
