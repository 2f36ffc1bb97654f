//! What is said of clients that no rule admits: enough to mend the configuration, and never so much
//! that a stranger fills the log.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use runtime::{Clock, Instant};

/// For so long nothing is said again of the same client and volume.
const PERIOD: Duration = Duration::from_secs(60);
/// Lines in this time, at most.
const MAX_LINES: usize = 10;

/// What was said of refusals lately.
pub(crate) struct Refusals {
    clock: Rc<dyn Clock>,
    period: RefCell<Period>,
}

#[derive(Default)]
struct Period {
    begun: Instant,
    reported: Vec<(IpAddr, String)>,
    /// Refusals of which nothing was said, for want of lines.
    unreported: u64,
}

impl Refusals {
    /// Nothing was said yet.
    pub(crate) fn new(clock: Rc<dyn Clock>) -> Self {
        Self { clock, period: RefCell::default() }
    }

    /// A `what` of a client was refused, since no rule of the volume's export admits it.
    pub(crate) fn note(&self, what: &str, client: IpAddr, volume: &str) {
        let (mut period, now) = (self.period.borrow_mut(), self.clock.now());
        if now.since(period.begun) >= PERIOD {
            let unreported = std::mem::take(&mut *period).unreported;
            period.begun = now;
            if unreported > 0 {
                tracing::warn!(unreported, "more was refused to clients that no rule admits");
            }
        }
        if period.reported.iter().any(|(who, which)| *who == client && which == volume) {
            return;
        }
        if period.reported.len() >= MAX_LINES {
            period.unreported += 1;
            return;
        }
        period.reported.push((client, volume.to_owned()));
        let rule = format!("{{ network = \"{client}\", access = \"ro\" }}");
        tracing::warn!(
            %client,
            volume,
            "refused a {what}, since no rule admits the client; {rule} among the clients of \
             [exports.{volume}] would"
        );
    }
}
