//! 10,000 clients use no more memory than the window allows.

use dispatch::Window;
use peak_alloc::PeakAlloc;
use sim::Executor;
use torture::calls;

use crate::fixture::{Fixture, client};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const CLIENTS: u32 = 10_000;

/// Calls of every client in turn, each with names of its own.
async fn call_all(fixture: &Fixture, rounds: u32) {
    for round in 0..rounds {
        for number in 0..CLIENTS {
            let name = format!("name-of-{number}");
            let xid = round * 2;
            let create = calls::create(&fixture.root, &name);
            fixture.call(client(number), xid, &create).await.unwrap();
            let remove = calls::remove(&fixture.root, &name);
            fixture.call(client(number), xid + 1, &remove).await.unwrap();
        }
    }
}

#[test]
fn ten_thousand_clients_take_no_more_memory_than_the_window_says() {
    let bytes = 8 << 20;
    let window = Window { bytes, ..Window::default() };
    let executor = Executor::new(3);
    executor.block_on(async {
        // A large log, so that the window is the limit for the answers in it.
        let fixture = Fixture::new(&executor, 64 << 20, 257 << 20, window).await;
        let rounds = if cfg!(debug_assertions) { 1 } else { 4 };
        // The memory of the volume itself is in use after as many calls as are remembered.
        let none = Window { calls: 0, ..window };
        let without = {
            let fixture = Fixture::new(&executor, 64 << 20, 257 << 20, none).await;
            let before = ALLOCATED.current_usage();
            call_all(&fixture, rounds).await;
            ALLOCATED.current_usage().saturating_sub(before)
        };
        let before = ALLOCATED.current_usage();
        call_all(&fixture, rounds).await;
        let with = ALLOCATED.current_usage().saturating_sub(before);
        let taken = with.saturating_sub(without);
        let (answers, weight) = fixture.dispatcher.remembered();
        let kept = fixture.engine.engine().log_statistics().expect("there is a log").answers_held;
        println!(
            "{answers} answers, {kept} of them in the log: counted as {weight} bytes, and taken \
             {taken}; the window has {bytes}"
        );
        assert!(weight <= bytes, "the window is kept");
        assert!(answers > 3_000 && kept >= answers as u64, "many are remembered");
        assert!(taken <= bytes, "{taken} bytes for answers");
    });
}
