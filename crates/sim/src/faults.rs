//! Failures that a test orders in advance.

use block::Verb;

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// One call fails, the next one succeeds.
    Once,
    /// Every call from then on fails.
    Forever,
}

#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Planned>);

#[derive(Debug)]
struct Planned {
    verb: Verb,
    /// Calls until it strikes, that one included; 1 is the next. 0 has struck.
    calls_left: u64,
    persistence: Persistence,
}

impl Faults {
    pub(crate) fn plan(&mut self, verb: Verb, nth: u64, persistence: Persistence) {
        assert!(nth > 0, "the first call is number 1");
        self.0.push(Planned { verb, calls_left: nth, persistence });
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts a call and says whether it fails.
    pub(crate) fn strike(&mut self, verb: Verb) -> bool {
        let mut strikes = false;
        for planned in self.0.iter_mut().filter(|planned| planned.verb == verb) {
            planned.calls_left = planned.calls_left.saturating_sub(1);
            strikes |= planned.calls_left == 0;
        }
        let over =
            |planned: &Planned| planned.calls_left == 0 && planned.persistence == Persistence::Once;
        self.0.retain(|planned| !over(planned));
        strikes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(faults: &mut Faults, verb: Verb) -> Vec<bool> {
        (0..5).map(|_| faults.strike(verb)).collect()
    }

    #[test]
    fn the_nth_call_of_its_verb_fails_once_or_from_then_on() {
        let mut faults = Faults::default();
        faults.plan(Verb::Read, 2, Persistence::Once);
        faults.plan(Verb::Flush, 3, Persistence::Forever);
        assert_eq!(calls(&mut faults, Verb::Write), [false; 5]);
        assert_eq!(calls(&mut faults, Verb::Read), [false, true, false, false, false]);
        assert_eq!(calls(&mut faults, Verb::Flush), [false, false, true, true, true]);
        faults.clear();
        assert_eq!(calls(&mut faults, Verb::Flush), [false; 5]);
    }
}
