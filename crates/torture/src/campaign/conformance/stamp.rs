//! A time of a file, known or narrowed to an interval.
//!
//! A call that sets a time to the server's own sets it to some moment of the call. The first reply
//! that shows the time fixes it.

/// Seconds and nanoseconds.
pub(crate) type Time = (u32, u32);

/// A time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// The call in progress sets it.
    Now,
    /// It was set between these two.
    Within(Time, Time),
    /// A reply has shown it, or a client set it.
    Known(Time),
}

impl Stamp {
    /// Ends the call in progress.
    pub(crate) fn settle(&mut self, from: Time, to: Time) {
        if *self == Stamp::Now {
            *self = Stamp::Within(from, to);
        }
    }

    /// Whether the time can be the server's value, which it is from now on.
    pub(crate) fn agrees(&mut self, seen: Time) -> bool {
        let agrees = match *self {
            Stamp::Now => panic!("a reply is compared when its call has ended"),
            Stamp::Within(from, to) => from <= seen && seen <= to,
            Stamp::Known(time) => time == seen,
        };
        if agrees {
            *self = Stamp::Known(seen);
        }
        agrees
    }

    /// The time, if a reply has shown it.
    pub(crate) fn known(&self) -> Option<Time> {
        match *self {
            Stamp::Known(time) => Some(time),
            Stamp::Now | Stamp::Within(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_of_its_call_and_then_stays() {
        let mut stamp = Stamp::Now;
        stamp.settle((5, 10), (6, 0));
        assert!(!stamp.agrees((5, 9)) && !stamp.agrees((6, 1)));
        assert!(stamp.agrees((5, 999)));
        assert!(!stamp.agrees((5, 998)) && stamp.agrees((5, 999)));
    }
}
