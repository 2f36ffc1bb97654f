//! A future that is polled only when it was woken itself.

use std::future::Future;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

/// Polls `rare` only when it was woken itself, and not whenever the futures waited for beside it
/// were: that happens for every call.
pub fn seldom<F: Future>(rare: F) -> impl Future<Output = F::Output> {
    let mut alone = FuturesUnordered::from_iter([rare]);
    async move { alone.next().await.expect("the one has not ended before") }
}
