//! Work on a thread of its own.

use std::thread;

use futures::channel::oneshot;

/// Does on a thread of its own what may wait for a disk: one that dies takes its time, and clients
/// are served meanwhile, and signals are heard.
pub(crate) async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answered) = oneshot::channel();
    thread::spawn(move || drop(answer.send(work()))); // who asked may be gone
    answered.await.expect("a thread that panics ends the process, or what waits for it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_wait_for_a_disk_holds_up_no_one() {
        let there = elsewhere(|| thread::current().id());
        assert_ne!(futures::executor::block_on(there), thread::current().id());
    }
}
