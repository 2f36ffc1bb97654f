//! Requests to the server of a volume through its control channel, and the wait for their jobs.

use std::path::Path;
use std::thread;
use std::time::Duration;

use block::file::OpenError;
use indicatif::{ProgressBar, ProgressStyle};
use serde::de::DeserializeOwned;
use serde_json::Value;
use server::control::Answer;
use server::control::client::{self, AskError};

use crate::failure::Failure;
use crate::volume::Volume;

/// Interval at which the server is asked for the progress of a job.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(200);

/// HTTP status of a job that the server does not know.
pub(crate) const UNKNOWN: u16 = 404;

/// Sends a request for the volume at this path. `None` if no server serves it.
///
/// # Errors
/// With the server's explanation, [`Failure::Usage`] for an invalid request, and
/// [`Failure::NotDone`] for one that the server refuses for now; [`Failure::Control`].
pub(crate) fn post(
    socket: &Path,
    volume: &Path,
    route: &str,
    said: &Value,
) -> Result<Option<Value>, Failure> {
    let refused = |why: String| Failure::Control { path: socket.to_owned(), why };
    match client::post(socket, route, said.to_string()) {
        Err(AskError::Nobody(_)) => Ok(None),
        Err(error) => Err(refused(error.to_string())),
        Ok(answer) if answer.status == 400 => {
            let why = answer.error().unwrap_or_default();
            Err(Failure::Usage(format!("{}: {why}", volume.display())))
        }
        Ok(answer) if answer.status == 409 => {
            let why = answer.error().unwrap_or_default();
            Err(Failure::NotDone { path: volume.to_owned(), why })
        }
        Ok(answer) => body(socket, &answer).map(Some),
    }
}

/// The body of an answer from this socket.
///
/// # Errors
/// [`Failure::Control`], with the explanation of a server that refuses the request.
pub(crate) fn body<T: DeserializeOwned>(socket: &Path, answer: &Answer) -> Result<T, Failure> {
    let refused = |why: String| Failure::Control { path: socket.to_owned(), why };
    if answer.status != 200 {
        return Err(refused(answer.error().unwrap_or_else(|| "it does not say why".to_owned())));
    }
    let body = serde_json::from_str(&answer.body);
    body.map_err(|_| refused("its answer is of another version".to_owned()))
}

/// Sends an order to the server of a volume. `None` if there is no server.
///
/// # Errors
/// As for [`post`].
pub(crate) fn ask(volume: &Volume, route: &str, said: &Value) -> Result<Option<Value>, Failure> {
    let Some(socket) = volume.socket() else { return Ok(None) };
    post(&socket, &volume.path, route, said)
}

/// A part of what the server of a volume says of it, if there is a server and such a part.
pub(crate) fn told<T: DeserializeOwned>(volume: &Volume, part: &str) -> Option<T> {
    let info: Value = info_from_server(volume)?;
    serde_json::from_value(info.get(part)?.clone()).ok()
}

/// Description of a volume by its server, if there is one.
pub(crate) fn info_from_server<T: DeserializeOwned>(volume: &Volume) -> Option<T> {
    let answer = client::get(volume.socket().as_deref()?, "/v1/info").ok()?;
    serde_json::from_str(&answer.body).ok().filter(|_| answer.status == 200)
}

/// Completes the failure to open a volume whose server could have been asked. The server of a bare
/// disk is found only by its `--control` path.
pub(crate) fn or_ask(failure: Failure, volume: &Volume, socket: Option<&Path>) -> Failure {
    match failure {
        Failure::Open(OpenError::Locked(_) | OpenError::Busy(_)) if socket.is_none() => {
            let why = "it is in use by another program; if that is a server with '--control PATH', \
                       say the same here, else stop it first";
            Failure::NotDone { path: volume.path.clone(), why: why.to_owned() }
        }
        other => other,
    }
}

/// Asks the server of the volume at this path, which was running a moment ago.
///
/// # Errors
/// [`Failure::ServerEnded`] if it has ended; [`Failure::Control`].
pub(crate) fn get(socket: &Path, volume: &Path, route: &str) -> Result<Answer, Failure> {
    client::get(socket, route).map_err(|error| match error {
        AskError::Nobody(_) => Failure::ServerEnded { path: volume.to_owned() },
        error => Failure::Control { path: socket.to_owned(), why: error.to_string() },
    })
}

/// Waits for the end of a job of the server, with a progress bar, and runs `look` after each poll.
///
/// # Errors
/// [`Failure`] if the job did not complete.
pub(crate) fn follow(
    socket: &Path,
    volume: &Path,
    answer: &Value,
    doing: &'static str,
    mut look: impl FnMut(),
) -> Result<(), Failure> {
    let refused = |why: &str| Failure::Control { path: socket.to_owned(), why: why.to_owned() };
    let job = answer["job"].as_u64().ok_or_else(|| refused("it names no job"))?;
    let bar = bar(doing);
    loop {
        let told = get(socket, volume, &format!("/v1/jobs/{job}"))?;
        if told.status == UNKNOWN {
            return Err(refused("it knows nothing of the job: it may be a server that came later"));
        }
        let view: Value = serde_json::from_str(&told.body).unwrap_or_default();
        if is_done(&view, &bar).map_err(refused)? {
            return Ok(());
        }
        look();
        pause();
    }
}

/// Waits until the server is to be asked again.
#[expect(clippy::disallowed_methods, reason = "a command that waits for a server")]
pub(crate) fn pause() {
    thread::sleep(ASK_AGAIN);
}

/// Whether the job of this status is done. Updates its progress bar.
///
/// # Errors
/// The reason why the job will never be done.
pub(crate) fn is_done(view: &Value, bar: &ProgressBar) -> Result<bool, &'static str> {
    bar.set_length(view["total"].as_u64().unwrap_or_default());
    bar.set_position(view["done"].as_u64().unwrap_or_default());
    match view["state"].as_str() {
        Some("running" | "cancelling") => Ok(false),
        Some("done") => Ok(true),
        Some("cancelled") => Err("it was cancelled"),
        _ => Err("it has failed; the server's log says why"),
    }
}

/// A progress bar for bytes.
pub(crate) fn bar(doing: &'static str) -> ProgressBar {
    let template = "{msg} {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::no_length().with_style(style).with_message(doing)
}
