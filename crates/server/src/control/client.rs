//! The other end: what a command asks of a volume that is served.

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

/// How long a server may take. It gives up itself before that, and says so.
const PATIENCE: Duration = Duration::from_secs(35);
/// Bytes of an answer.
const LONGEST: usize = 16 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No server listens there.
    #[error("no server listens on {}", .0.display())]
    Nobody(PathBuf),
    /// It cannot be asked.
    #[error("cannot ask the server at {}: {source}", path.display())]
    Failed {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Reads what is at this route.
///
/// # Errors
/// [`AskError`].
pub fn get(path: &Path, route: &str) -> Result<Answer, AskError> {
    ask(path, Method::GET, route, String::new())
}

/// Changes what is at this route, with this body.
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
        // Nothing is there, a killed server left it, or there is no folder.
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
    Ok(Answer { status, body, allow: None })
}
