//! What can be asked, and the answers. docs/admin.md tells it to people.

use std::time::Duration;

use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::Incoming;
use hyper::{Method, StatusCode};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::jobs::{Jobs, NotCancelled, View};
use super::{Answer, Ask, Info, Question, Refused};

/// How long the thread that serves may take for a moment's work. It is busy, or waits for a disk.
const LIVE_PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that may be said with an order.
const MOST_SAID: usize = 64 << 10;

/// What is told to those who ask for something else.
const ROUTES: &str = "GET /v1/info, GET /v1/jobs, GET /v1/jobs/ID, POST /v1/jobs/ID/cancel, POST \
                      /v1/raid/ORDER";

/// A desk, as its clients see it.
pub(super) struct Front {
    /// Its number.
    pub(super) desk: usize,
    /// To the thread that serves.
    pub(super) ask: mpsc::Sender<Question>,
    /// See [`super::Desk::info`].
    pub(super) info: Info,
    /// Its long work.
    pub(super) jobs: Jobs,
}

enum Route<'a> {
    Info,
    Jobs,
    Job(&'a str),
    Cancel(&'a str),
    Act(&'a str),
}

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix("/v1/")?.split('/').collect();
        match parts[..] {
            ["info"] => Some(Self::Info),
            ["jobs"] => Some(Self::Jobs),
            ["jobs", id] => Some(Self::Job(id)),
            ["jobs", id, "cancel"] => Some(Self::Cancel(id)),
            ["raid", order] => Some(Self::Act(order)),
            _ => None,
        }
    }

    /// Reading is GET, changing is POST.
    fn method(&self) -> Method {
        match self {
            Self::Info | Self::Jobs | Self::Job(_) => Method::GET,
            Self::Cancel(_) | Self::Act(_) => Method::POST,
        }
    }
}

impl Front {
    /// Answers a request.
    pub(super) async fn answer(&self, method: &Method, path: &str, body: Incoming) -> Answer {
        let Some(route) = Route::of(path) else {
            let why = format!("there is no such route; there are these: {ROUTES}");
            return Answer::refusal(StatusCode::NOT_FOUND, why);
        };
        let wanted = route.method();
        if *method != wanted {
            let allow = Some(if wanted == Method::GET { "GET" } else { "POST" });
            let why = format!("{path} is asked for with {wanted}");
            return Answer { allow, ..Answer::refusal(StatusCode::METHOD_NOT_ALLOWED, why) };
        }
        match route {
            Route::Info => self.info().await,
            Route::Jobs => Answer::good(&json!(self.jobs.list())),
            Route::Job(id) => self.job(id, |id| self.jobs.find(id).ok_or(NotCancelled::Unknown)),
            Route::Cancel(id) => self.job(id, |id| self.jobs.cancel(id)),
            Route::Act(order) => self.act(order, body).await,
        }
    }

    async fn info(&self) -> Answer {
        let live = match self.ask_server(Ask::Live).await {
            Ok(live) => live,
            Err(refusal) => return refusal,
        };
        let info = self.info.clone();
        match spawn_blocking(move || info(live)).await {
            Ok(Ok(body)) => Answer { status: 200, body, allow: None },
            Ok(Err(why)) => Answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, why),
            Err(_) => Answer::refusal(StatusCode::SERVICE_UNAVAILABLE, "the server ends"),
        }
    }

    /// Asks the thread that serves.
    async fn ask_server<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<T>) -> Ask,
    ) -> Result<T, Answer> {
        let (reply, answer) = oneshot::channel();
        let question = Question { desk: self.desk, ask: ask(reply) };
        let asked = async {
            self.ask.send(question).await.ok()?;
            answer.await.ok()
        };
        timeout(LIVE_PATIENCE, asked).await.ok().flatten().ok_or_else(|| {
            let why = "the server does not answer: it is busy, or ends";
            Answer::refusal(StatusCode::SERVICE_UNAVAILABLE, why)
        })
    }

    async fn act(&self, order: &str, body: Incoming) -> Answer {
        let body = Limited::new(body, MOST_SAID).collect().await;
        let body = body.map(Collected::to_bytes).unwrap_or_default(); // which makes no sense
        let Ok(said) = serde_json::from_slice(&body) else {
            let why = "what is said with an order is JSON";
            return Answer::refusal(StatusCode::BAD_REQUEST, why);
        };
        let acted = self.ask_server(|reply| Ask::Act(order.to_owned(), said, reply)).await;
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
