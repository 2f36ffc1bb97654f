//! Checks the head of a request before HTTP parses it: an invalid one is refused with a sentence.
//!
//! A head that passes has at most [`LONGEST`] bytes, is complete and can be parsed, and announces a
//! body of at most [`LONGEST_BODY`] bytes. That leaves hyper nothing to refuse by itself, which it
//! would do without a message.

use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::Answer;

/// Maximum size of a head, in bytes.
const LONGEST: usize = 8 << 10;
/// Maximum number of lines of a head.
const MOST_LINES: usize = 64;
/// Maximum size of a body, in bytes.
const LONGEST_BODY: u64 = 64 << 10;

/// Reads a head and the bytes behind it; returns nothing if the client closes without sending any.
///
/// # Errors
/// The answer to an invalid request.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Option<Vec<u8>>, Answer> {
    let mut head = Vec::with_capacity(LONGEST);
    loop {
        match from.read_buf(&mut head).await {
            Ok(0) | Err(_) if head.is_empty() => return Ok(None),
            Ok(0) | Err(_) => return Err(bad("the request ends before its head does")),
            Ok(_) => {}
        }
        if is_whole(&head)? {
            return Ok(Some(head));
        }
        if head.len() >= LONGEST {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            let why = format!("the head of a request has at most {LONGEST} bytes");
            return Err(Answer::refusal(status, why));
        }
    }
}

fn bad(why: impl Into<String>) -> Answer {
    Answer::refusal(StatusCode::BAD_REQUEST, why)
}

/// Whether the head is complete.
fn is_whole(head: &[u8]) -> Result<bool, Answer> {
    let mut lines = [httparse::EMPTY_HEADER; MOST_LINES];
    let mut request = httparse::Request::new(&mut lines);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return Ok(false),
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            let why = format!("the head of a request has at most {MOST_LINES} lines");
            return Err(Answer::refusal(status, why));
        }
        Err(error) => return Err(bad(format!("this is no request of HTTP/1.1: {error}"))),
    }
    let path = request.path.unwrap_or_default();
    if path.parse::<hyper::Uri>().is_err() {
        return Err(bad("the path of the request makes no sense"));
    }
    let named = |name: &'static str| {
        let lines = request.headers.iter();
        lines.filter(move |line| line.name.eq_ignore_ascii_case(name))
    };
    if named("transfer-encoding").next().is_some() {
        let why = "a body is sent whole here: say its Content-Length";
        return Err(Answer::refusal(StatusCode::LENGTH_REQUIRED, why));
    }
    let mut lengths = named("content-length").map(|line| length(line.value));
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(true),
        (Some(Some(0..=LONGEST_BODY)), None) => Ok(true),
        (Some(Some(_)), None) => {
            let why = format!("the body of a request has at most {LONGEST_BODY} bytes");
            Err(Answer::refusal(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        _ => Err(bad("Content-Length is one number")),
    }
}

fn length(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    /// A head with these lines behind the first, and one line that fills it to `length` bytes.
    fn head(length: usize, lines: &str) -> Vec<u8> {
        let text = format!("GET /v1/info HTTP/1.1\r\n{lines}X: ");
        let fill = "x".repeat(length - text.len() - 4);
        format!("{text}{fill}\r\n\r\n").into_bytes()
    }

    /// The status of the refusal, 200 if there is none.
    fn status_of(head: &[u8]) -> u16 {
        match block_on(read(&mut &*head)) {
            Ok(read) => {
                assert_eq!(read.as_deref(), Some(head));
                200
            }
            Err(refusal) => refusal.status,
        }
    }

    #[test]
    fn a_head_has_as_many_bytes_as_it_may_and_not_one_more() {
        let lengths = [LONGEST - 1, LONGEST, LONGEST + 1];
        assert_eq!(lengths.map(|length| status_of(&head(length, ""))), [200, 200, 431]);
    }

    #[test]
    fn a_head_has_as_many_lines_as_it_may_and_not_one_more() {
        // The filling line counts as well.
        let lines =
            [MOST_LINES - 2, MOST_LINES - 1, MOST_LINES].map(|count| "Y: y\r\n".repeat(count));
        assert_eq!(lines.map(|lines| status_of(&head(1_000, &lines))), [200, 200, 431]);
    }

    #[test]
    fn a_body_has_as_many_bytes_as_it_may_and_not_one_more() {
        let lengths = [LONGEST_BODY - 1, LONGEST_BODY, LONGEST_BODY + 1];
        let status = |length| status_of(&head(1_000, &format!("Content-Length: {length}\r\n")));
        assert_eq!(lengths.map(status), [200, 200, 413]);
    }
}
