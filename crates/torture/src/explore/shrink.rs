//! Makes a violation as small as possible: fewer operations, then simpler ones, then fewer
//! surviving writes.

use std::ops::Range;

use super::case::{Case, Violation};
use super::nested::Further;
use super::op::{Mode, Op, Part, Stable};
use super::{Explorer, Style};
use crate::shrink::{Smaller, shrink};

/// Most workloads to explore.
const ATTEMPTS: usize = 300;

impl Violation {
    /// The smallest violation found from this one, for any reason: a bug shows in many ways.
    pub fn shrunk(self) -> Self {
        let least = |case: Case| {
            let least = nested(&case).least(&case.ops, case.style)?;
            Some((least.case, least.reason))
        };
        let (case, reason) = shrink(self.case, self.reason, ATTEMPTS, least);
        let (case, reason) = least(case.clone()).unwrap_or((case, reason));
        Self { case, reason }
    }
}

/// One operation fewer may need a simpler style to fail, so leaving it out is among the simpler
/// variants.
impl Smaller for Case {
    fn parts(&self) -> usize {
        0
    }

    fn without(&self, _: Range<usize>) -> Option<Self> {
        None
    }

    fn simpler(&self) -> Vec<Self> {
        let smaller = |(ops, style)| Self { ops, style, ..self.clone() };
        workloads_below(self).into_iter().map(smaller).collect()
    }
}

/// An explorer that can find a case with as many cuts.
fn nested(case: &Case) -> Explorer {
    Explorer::nested(case.design, case.steps.len().saturating_sub(1), Further::All)
}

impl Explorer {
    /// The simplest of all violations of a workload.
    fn least(mut self, ops: &[Op], style: Style) -> Option<Violation> {
        self.goes_on = true;
        self.explore(ops, style);
        self.violations.into_iter().min_by_key(|violation| {
            let steps = &violation.case.steps;
            let weights = steps.iter().map(|step| step.loss.weight());
            let sum = weights.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            (steps.len(), sum, steps.iter().map(|step| step.position).sum::<usize>())
        })
    }
}

/// Workloads that are smaller by one step.
fn workloads_below(case: &Case) -> Vec<(Vec<Op>, Style)> {
    let Case { ops, style, .. } = case;
    let mut below = Vec::new();
    for index in 0..ops.len() {
        let mut fewer = ops.clone();
        fewer.remove(index);
        if !fewer.is_empty() {
            below.extend(
                Style::ALL.iter().filter(|one| *one <= style).map(|&one| (fewer.clone(), one)),
            );
        }
    }
    below.extend(Style::ALL.iter().filter(|one| *one < style).map(|&one| (ops.clone(), one)));
    for (index, op) in ops.iter().enumerate() {
        for simpler in simpler(op) {
            let mut other = ops.clone();
            other[index] = simpler;
            below.push((other, *style));
        }
    }
    below
}

/// Operations that are simpler in one respect.
fn simpler(op: &Op) -> Vec<Op> {
    match *op {
        Op::Create(path, Mode::Guarded | Mode::Exclusive) => {
            vec![Op::Create(path, Mode::Unchecked)]
        }
        Op::Write(path, part, stable) => {
            let mut list = Vec::new();
            if stable != Stable::FileSync {
                list.push(Op::Write(path, part, Stable::FileSync));
            }
            if part == Part::Extend {
                list.push(Op::Write(path, Part::Append, stable));
            }
            if path == "A/foo" {
                list.push(Op::Write("foo", part, stable));
            }
            list
        }
        Op::Symlink(path, 200) => vec![Op::Symlink(path, 20)],
        _ => Vec::new(),
    }
}
