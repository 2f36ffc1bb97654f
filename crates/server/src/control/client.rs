//! The client of the control channel, which commands use to ask the server of a volume.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::HOST;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{Answer, socket};

/// Time that a server may take. The server itself gives up earlier, and says so.
const PATIENCE: Duration = Duration::from_secs(35);
/// Maximum size of an answer, in bytes.
const LONGEST: usize = 16 << 20;

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No server listens there.
    #[error("no server listens on {}", .0.display())]
    Nobody(PathBuf),
    /// The request failed.
    #[error("cannot ask the server at {}: {source}", path.display())]
    Failed {
        /// Path of the socket.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Sends a GET to this route.
///
/// # Errors
/// [`AskError`].
pub fn get(path: &Path, route: &str) -> Result<Answer, AskError> {
    ask(path, Method::GET, route, String::new())
}

/// Sends a POST to this route, with this body.
///
/// # Errors
/// [`AskError`].
pub fn post(path: &Path, route: &str, body: String) -> Result<Answer, AskError> {
    ask(path, Method::POST, route, body)
}

fn ask(path: &Path, method: Method, route: &str, body: String) -> Result<Answer, AskError> {
    let failed = |source| AskError::Failed { path: path.to_owned(), source };
    let stream = match socket::connect(path) {
        Ok(stream) => stream,
        // The socket does not exist, a killed server left it, or there is no folder.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::NotADirectory
            ) =>
        {
            return Err(AskError::Nobody(path.to_owned()));
        }
        Err(error) => return Err(failed(error)),
    };
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    reactor.map_err(failed)?.block_on(async {
        let answer = timeout(PATIENCE, converse(stream, method, route, body));
        answer.await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())).map_err(failed)
    })
}

async fn converse(
    stream: std::os::unix::net::UnixStream,
    method: Method,
    route: &str,
    body: String,
) -> io::Result<Answer> {
    let io = TokioIo::new(UnixStream::from_std(stream)?);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let request = Request::builder().method(method).uri(route).header(HOST, "localhost");
    let request = request.body(Full::new(Bytes::from(body))).map_err(io::Error::other)?;
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), LONGEST);
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    connection.abort();
    let body = String::from_utf8(body.to_vec()).map_err(io::Error::other)?;
    Ok(Answer { status, body, ..Answer::default() })
}
