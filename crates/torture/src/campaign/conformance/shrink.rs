//! Fewer steps that fail all the same.

use super::Mismatch;
use super::step::Step;

/// So many repetitions at most.
const ATTEMPTS: usize = 400;

/// Leaves out steps, many at a time and then fewer, as long as what is left fails.
pub(crate) fn shrink(found: Mismatch, run: impl Fn(&[Step]) -> Result<(), Mismatch>) -> Mismatch {
    let mut fewest = found;
    let mut attempts = 0;
    let mut size = fewest.steps.len().div_ceil(2);
    while size > 0 && attempts < ATTEMPTS {
        let mut start = 0;
        while start < fewest.steps.len() && attempts < ATTEMPTS {
            let mut fewer = fewest.steps.clone();
            fewer.drain(start..(start + size).min(fewest.steps.len()));
            attempts += 1;
            match run(&fewer) {
                Err(still) => fewest = still,
                Ok(()) => start += size,
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    fewest
}

#[cfg(test)]
mod tests {
    use super::super::step::Act;
    use super::*;

    #[test]
    fn only_the_steps_that_matter_are_left() {
        let step = |number| Step { number, user: 0, act: Act::Null };
        let fails = |steps: &[Step]| {
            let has = |wanted| steps.iter().any(|step| step.number == wanted);
            if has(3) && has(77) {
                Err(Mismatch { steps: steps.to_vec(), reason: String::new() })
            } else {
                Ok(())
            }
        };
        let all: Vec<Step> = (1..=100).map(step).collect();
        let fewest = shrink(fails(&all).expect_err("all of them fail"), fails);
        assert_eq!(fewest.steps, [step(3), step(77)]);
    }
}
