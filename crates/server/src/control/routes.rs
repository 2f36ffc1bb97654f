//! The answers to requests. docs/admin.md describes them.

use std::time::Duration;

use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::Incoming;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::inside::{ServerClients, ServerCopy};
use super::jobs::{Jobs, NotCancelled, View};
use super::table::{self, Deed, LIST, Lookup};
use super::{Answer, Ask, Info, Part, Question, Refused};

/// Time that the thread that serves may take for a short task. It may be busy, or wait for a disk.
const LIVE_PATIENCE: Duration = Duration::from_secs(10);
/// Time that it may take for an order, which waits for disks. The whole request has its own bound,
/// too.
const ORDER_PATIENCE: Duration = Duration::from_secs(15);

/// Message if there is no answer.
const BUSY: &str = "the server does not answer: it is busy, or ends";
/// Maximum size of an order's arguments, in bytes.
const MOST_SAID: usize = 64 << 10;

/// A desk from the view of its clients.
pub(super) struct Front {
    /// Index of the desk.
    pub(super) desk: usize,
    /// Name of its volume.
    pub(super) volume: String,
    /// Queue to the thread that serves.
    pub(super) ask: mpsc::Sender<Question>,
    /// See [`super::Desk::info`].
    pub(super) info: Info,
    /// Jobs of the volume.
    pub(super) jobs: Jobs,
}

impl Part {
    /// Message if an order was begun and takes longer.
    fn goes_on(self) -> String {
        let command = match self {
            Self::Raid => "duramen raid status",
            Self::Nvram => "duramen nvram status",
            Self::Snapshots => "duramen snapshot list",
        };
        format!(
            "the server has the order, and is not done with it yet: it goes on; '{command}' tells \
             what has become of it"
        )
    }
}

impl Front {
    /// Answers a request.
    pub(super) async fn answer(&self, method: &Method, path: &str, body: Incoming) -> Answer {
        let (deed, word) = match table::find(method, path) {
            Lookup::Deed(deed, word) => (deed, word),
            Lookup::OtherMethod(wanted) => {
                let why = format!("{path} is asked for with {wanted}");
                let refusal = Answer::refusal(StatusCode::METHOD_NOT_ALLOWED, why);
                return Answer { allow: Some(wanted), ..refusal };
            }
            Lookup::NoRoute => {
                let why = format!("there is no such route; there are these: {}", table::list());
                return Answer::refusal(StatusCode::NOT_FOUND, why);
            }
        };
        match deed {
            Deed::Info => self.info().await,
            Deed::Jobs => Answer::good(&self.jobs.told()),
            Deed::Job => self.job(word, |id| self.jobs.find(id).ok_or(NotCancelled::Unknown)),
            Deed::Cancel => self.job(word, |id| self.jobs.cancel(id)),
            Deed::Scrub => ordered("scrub", self.ask_server(Ask::Scrub, LIVE_PATIENCE, BUSY).await),
            Deed::Snapshots => self.act(Part::Snapshots, LIST, Value::Null).await,
            Deed::Metrics => self.inside(|copy| Answer::text(copy.metrics())).await,
            Deed::Healthz => self.inside(|copy| Answer::of(copy.healthz())).await,
            Deed::Status => {
                self.inside(|copy| Answer::good(&json!(copy.status(&self.volume)))).await
            }
            Deed::Clients => self.clients().await,
            Deed::Act(part) => match said(body).await {
                Ok(said) => self.act(part, word, said).await,
                Err(refusal) => refusal,
            },
        }
    }

    async fn info(&self) -> Answer {
        let live = match self.ask_server(Ask::Live, LIVE_PATIENCE, BUSY).await {
            Ok(live) => live,
            Err(refusal) => return refusal,
        };
        let info = self.info.clone();
        match spawn_blocking(move || info(live.json())).await {
            Ok(Ok(body)) => Answer { body, ..Answer::default() },
            Ok(Err(why)) => Answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, why),
            Err(_) => Answer::refusal(StatusCode::SERVICE_UNAVAILABLE, "the server ends"),
        }
    }

    /// Makes an answer of a copy of the server's counters.
    async fn inside(&self, answer: impl FnOnce(&ServerCopy) -> Answer) -> Answer {
        match self.ask_server(Ask::Server, LIVE_PATIENCE, BUSY).await {
            Ok(copy) => answer(&copy),
            Err(refusal) => refusal,
        }
    }

    async fn clients(&self) -> Answer {
        match self.ask_server(Ask::Clients, LIVE_PATIENCE, BUSY).await {
            Ok((connected, names)) => Answer::good(&json!(ServerClients::new(connected, &names))),
            Err(refusal) => refusal,
        }
    }

    /// Sends a request to the thread that serves. `late` is the message if that has received the
    /// request but not replied in time.
    async fn ask_server<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<T>) -> Ask,
        patience: Duration,
        late: &str,
    ) -> Result<T, Answer> {
        let (reply, answer) = oneshot::channel();
        let question = Question { desk: self.desk, ask: ask(reply) };
        match timeout(LIVE_PATIENCE, self.ask.send(question)).await {
            Ok(Ok(())) => wait_for(answer, patience, late).await,
            _ => Err(Answer::refusal(StatusCode::SERVICE_UNAVAILABLE, BUSY)),
        }
    }

    async fn act(&self, part: Part, order: &str, said: Value) -> Answer {
        let ask = |reply| Ask::Act(part, order.to_owned(), said, reply);
        ordered(order, self.ask_server(ask, ORDER_PATIENCE, &part.goes_on()).await)
    }

    fn job(&self, id: &str, look: impl Fn(u64) -> Result<View, NotCancelled>) -> Answer {
        match id.parse().map_err(|_| NotCancelled::Unknown).and_then(look) {
            Ok(view) => Answer::good(&json!(view)),
            Err(NotCancelled::Unknown) => {
                let known = self.jobs.list();
                let known = known.iter().map(|view| view.id.to_string());
                let known = known.collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "none".into() } else { known };
                let why = format!("there is no such job; there are these: {known}");
                Answer::refusal(StatusCode::NOT_FOUND, why)
            }
            Err(NotCancelled::Ended) => {
                Answer::refusal(StatusCode::CONFLICT, "the job has ended already")
            }
            Err(NotCancelled::Unsafe) => {
                let why = "this kind of job cannot be cancelled without harm";
                Answer::refusal(StatusCode::CONFLICT, why)
            }
        }
    }
}

/// Answer to an order.
fn ordered(order: &str, acted: Result<Result<Value, Refused>, Answer>) -> Answer {
    match acted {
        Ok(Ok(done)) => Answer::good(&done),
        Ok(Err(Refused::Unknown)) => {
            let why = format!("there is no order '{order}'");
            Answer::refusal(StatusCode::NOT_FOUND, why)
        }
        Ok(Err(Refused::Senseless(why))) => Answer::refusal(StatusCode::BAD_REQUEST, why),
        Ok(Err(Refused::Conflict(why))) => Answer::refusal(StatusCode::CONFLICT, why),
        Err(refusal) => refusal,
    }
}

/// Parses the arguments of an order.
async fn said(body: Incoming) -> Result<Value, Answer> {
    let body = Limited::new(body, MOST_SAID).collect().await;
    let body = body.map(Collected::to_bytes).unwrap_or_default(); // empty text is invalid
    let why = "what is said with an order is JSON";
    serde_json::from_slice(&body).map_err(|_| Answer::refusal(StatusCode::BAD_REQUEST, why))
}

/// Waits for a reply of the thread that serves.
async fn wait_for<T>(
    answer: oneshot::Receiver<T>,
    patience: Duration,
    late: &str,
) -> Result<T, Answer> {
    let why = match timeout(patience, answer).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(_)) => "the server ends",
        Err(_) => late,
    };
    Err(Answer::refusal(StatusCode::SERVICE_UNAVAILABLE, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_takes_long_is_not_told_as_failed() {
        let reactor = tokio::runtime::Builder::new_current_thread().enable_time().build();
        reactor.expect("a reactor").block_on(async {
            let (reply, answer) = oneshot::channel::<u8>();
            let goes_on = Part::Raid.goes_on();
            let late = wait_for(answer, Duration::ZERO, &goes_on).await.expect_err("it is late");
            assert!(late.status == 503 && late.body.contains("it goes on"), "{late:?}");
            assert!(reply.is_closed(), "nobody waits any more");
            let (reply, answer) = oneshot::channel::<u8>();
            drop(reply);
            let ended = wait_for(answer, ORDER_PATIENCE, &goes_on).await.expect_err("it is gone");
            assert!(ended.body.contains("the server ends"), "{ended:?}");
        });
    }
}
