//! A call waits in the queue of an old connection, is repeated on a new one, and gets its turn when
//! its caller has long moved on: it must not be carried out any more.
//!
//! The old connection takes one call at a time, and has slow ones queued before the call in
//! question. On the new connection that call is answered first, and then a newer write to the same
//! file. The final contents of the file must be the newer write's.

use bytes::Bytes;
use dispatch::Window;
use nfs3_types::nfs3::{Nfs3Result, READ3args, WRITE3args, nfs_fh3, stable_how};
use torture::calls;
use torture::campaign::retry::stage::{exchange, receive, send};
use torture::client::ClientOptions;
use torture::explore::design::Design;
use torture::explore::server::{record, results};
use torture::world::{SERVER, Status, VOLUME, World, WorldOptions, client_address};

/// Calls before the late one.
const SLOW: u32 = 12;
const LATE: u32 = 1_000;

/// The late call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    Truncation,
    Write,
}

impl Late {
    const ALL: [Self; 2] = [Self::Truncation, Self::Write];

    fn record(self, file: &nfs_fh3) -> Bytes {
        match self {
            Self::Truncation => record(LATE, &calls::setattr(file, calls::size(0))),
            Self::Write => {
                record(LATE, &calls::write(file, 0, vec![b'o'; 5_000], stable_how::FILE_SYNC))
            }
        }
    }

    /// The contents of the file if the call is carried out once: before the newer write.
    fn expected(self) -> Vec<u8> {
        let mut bytes = vec![b'n'; 3_000];
        if self == Self::Write {
            bytes.resize(5_000, b'o');
        }
        bytes
    }
}

/// The contents of the file after a late call.
fn after(late: Late, window: Window, design: Design) -> Vec<u8> {
    let (connection_calls, log_size) = (1, 4 << 20);
    let options =
        WorldOptions { design, connection_calls, window, log_size, ..WorldOptions::default() };
    let world = World::new(7, options);
    world.start();
    assert_eq!(world.run(world.serving()), Status::Serving);
    let client = world.client(2, ClientOptions::default());
    world.run(async {
        let root = client.mount(VOLUME).await.expect("the volume is exported");
        let make = async |name| {
            let made = client.call(&calls::create(&root, name)).await.expect("a call").unwrap();
            made.obj.unwrap()
        };
        let (file, other) = (make("file").await, make("other").await);
        let late = late.record(&file);
        let host = world.network().host(client_address(1), None);
        let old = host.connect(0, SERVER).await.expect("it listens");
        for number in 0..SLOW {
            let data = vec![number as u8; 200_000];
            let at = u64::from(number) * 200_000;
            let slow = record(number, &calls::write(&other, at, data, stable_how::FILE_SYNC));
            send(&old, &slow).await.expect("a healthy network");
        }
        send(&old, &late).await.expect("a healthy network");
        receive(&old).await.expect("the first of the slow ones is answered");
        let new = host.connect(0, SERVER).await.expect("it listens");
        let answer = exchange(&new, &late).await.expect("a reply");
        let newer = calls::write(&file, 0, vec![b'n'; 3_000], stable_how::FILE_SYNC);
        let newer = exchange(&new, &record(LATE + 1, &newer)).await.expect("a reply");
        results::<WRITE3args>(&newer).expect("results").unwrap();
        for _ in 1..SLOW {
            receive(&old).await.expect("the slow ones are answered after that");
        }
        assert_eq!(receive(&old).await.expect("a late reply"), answer, "and then the late one");
        read(&new, &file).await
    })
}

async fn read(stream: &sim::Stream, file: &nfs_fh3) -> Vec<u8> {
    let read = record(LATE + 2, &calls::read(file, 0, 10_000));
    let reply = exchange(stream, &read).await.expect("a reply");
    match results::<READ3args>(&reply).expect("results") {
        Nfs3Result::Ok(read) => read.data.to_vec(),
        Nfs3Result::Err((status, _)) => panic!("{status}"),
    }
}

#[test]
fn a_call_that_comes_late_harms_nothing_newer() {
    for late in Late::ALL {
        for design in Design::all() {
            assert!(
                after(late, Window::default(), design) == late.expected(),
                "{late:?} {design:?}"
            );
        }
    }
}

/// The answers' bytes are the same; only the file shows the difference.
#[test]
fn without_a_memory_it_would() {
    let nothing = Window { calls: 0, ..Window::default() };
    for late in Late::ALL {
        let found = std::panic::catch_unwind(|| after(late, nothing, Design::SYNC));
        assert!(found.ok() != Some(late.expected()), "the late call is carried out");
    }
}
