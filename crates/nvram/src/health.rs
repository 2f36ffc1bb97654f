//! Health of an NVRAM: what the host says of its battery, read every second.
//!
//! A reading that hangs is a bad one, and no other begins before it has ended.

use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, LocalBoxFuture, select};
use runtime::{Instant, Runtime};

use crate::Nvram;

/// Time between two readings.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a reading that has not ended is a bad one.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of a reading.
pub const MAX_BYTES: u64 = 64;

/// A reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The battery holds the memory through a power cut.
    Good,
    /// It does not, or not for long.
    Low,
    /// Nothing is known, for this reason.
    Bad(String),
}

impl Health {
    /// Understands the bytes of a reading.
    pub fn parse(bytes: &[u8]) -> Self {
        match bytes.trim_ascii() {
            b"ok" => Self::Good,
            b"low" => Self::Low,
            b"" => Self::Bad("it is empty, and says neither 'ok' nor 'low'".to_owned()),
            // Without its words: each change of the reason is a line in a log.
            _ => Self::Bad("it says neither 'ok' nor 'low'".to_owned()),
        }
    }
}

/// Where readings come from.
pub trait HealthSource {
    /// Begins a reading. It may never end.
    fn read(&self) -> LocalBoxFuture<'static, Health>;
}

/// Reads the health of an NVRAM, one reading at a time.
pub struct Monitor {
    source: Rc<dyn HealthSource>,
    runtime: Runtime,
    /// The reading that is under way, and its begin.
    pending: Option<(Instant, LocalBoxFuture<'static, Health>)>,
}

impl Monitor {
    /// A monitor that has read nothing yet.
    pub fn new(source: Rc<dyn HealthSource>, runtime: Runtime) -> Self {
        Self { source, runtime, pending: None }
    }

    /// The result of a reading, or that it hangs: [`TIMEOUT`] after its begin at the latest.
    pub async fn next(&mut self) -> Health {
        let now = self.runtime.clock.now();
        let (begun, reading) = self.pending.take().unwrap_or_else(|| (now, self.source.read()));
        let left = TIMEOUT.saturating_sub(now.since(begun));
        match select(reading, self.runtime.clock.sleep(left)).await {
            Either::Left((health, _)) => health,
            Either::Right(((), reading)) => {
                self.pending = Some((begun, reading));
                Health::Bad(format!("it has not answered for {} s", TIMEOUT.as_secs()))
            }
        }
    }

    /// Starts a task that reports each reading to the NVRAM, until that is dropped.
    pub fn watch(mut self, nvram: &Rc<Nvram>) {
        let (nvram, runtime) = (Rc::downgrade(nvram), self.runtime.clone());
        let work = async move {
            loop {
                self.runtime.clock.sleep(INTERVAL).await;
                let health = self.next().await;
                let Some(nvram) = nvram.upgrade() else { return };
                nvram.heed(health);
            }
        };
        runtime.tasks.spawn(work.boxed_local());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_words_say_something() {
        assert_eq!(Health::parse(b"ok\n"), Health::Good);
        assert_eq!(Health::parse(b" low"), Health::Low);
        for bytes in [&b""[..], b"\n", b"okay", b"OK", b"ok low", b"\xff\0"] {
            assert!(matches!(Health::parse(bytes), Health::Bad(_)), "{bytes:?}");
        }
        let told = Health::Bad("it says neither 'ok' nor 'low'".to_owned());
        assert_eq!(Health::parse(b"o\nk"), told);
    }
}
