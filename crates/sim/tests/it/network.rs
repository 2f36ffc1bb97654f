//! The network keeps its fault model: arrivals, and the notifications of ends.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use sim::{
    Death, Executor, Host, Machine, Mishaps, Network, NetworkEvent, NetworkOptions, Prng, Stream,
};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PORT: u16 = 2049;

struct Two {
    executor: Executor,
    network: Network,
    machine: Machine,
    client: Host,
    server: Host,
}

impl Two {
    fn new(seed: u64, options: NetworkOptions) -> Self {
        let executor = Executor::new(seed);
        let network = Network::new(&executor, options);
        let machine = Machine::new(&executor);
        let (client, server) = (network.host(CLIENT, None), network.host(SERVER, Some(&machine)));
        Self { executor, network, machine, client, server }
    }

    fn connect(&self, port: u16) -> std::io::Result<Stream> {
        self.executor.block_on(self.client.connect(port, SocketAddr::new(SERVER, PORT)))
    }

    /// Both ends of a new connection; the accepting one is held by a task of the machine.
    fn pair(&self) -> (Stream, Rc<RefCell<Option<Stream>>>) {
        let listener = self.server.listen(PORT).expect("the port is free");
        let held = Rc::new(RefCell::new(None));
        let holder = held.clone();
        let runtime = self.machine.runtime();
        let drops = Forgets(held.clone());
        let task = async move {
            *holder.borrow_mut() = Some(listener.accept().await);
            let _drops = drops;
            std::future::pending().await
        };
        runtime.tasks.spawn(task.boxed_local());
        let asking = self.connect(0).expect("somebody listens");
        assert!(held.borrow().is_some(), "it was accepted before that was known");
        (asking, held)
    }
}

/// Drops the stream when the task that it belongs to is dropped.
struct Forgets(Rc<RefCell<Option<Stream>>>);

impl Drop for Forgets {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

fn quiet() -> NetworkOptions {
    NetworkOptions::default()
}

fn lossy() -> NetworkOptions {
    NetworkOptions { death: None, ..NetworkOptions::bad() }
}

/// Sends `length` bytes and ends; returns the received bytes, and the time.
fn transfer(two: &Two, length: usize) -> (Vec<u8>, Duration) {
    let mut sent = vec![0; length];
    Prng::new(length as u64).fill(&mut sent);
    let (asking, accepting) = two.pair();
    let accepting = accepting.take().expect("it is accepted");
    let start = two.executor.now();
    let arrived = two.executor.block_on(async {
        let sending = async {
            asking.write_all(&sent).await.expect("nobody breaks it");
            asking.shutdown();
        };
        let receiving = async {
            let (mut all, mut part) = (Vec::new(), [0; 999]);
            loop {
                match accepting.read(&mut part).await.expect("nobody breaks it") {
                    0 => return all,
                    length => all.extend(&part[..length]),
                }
            }
        };
        futures::join!(sending, receiving).1
    });
    assert!(arrived == sent, "seed {}: other bytes arrived", two.executor.seed());
    (arrived, two.executor.now().since(start))
}

#[test]
fn bytes_arrive_once_and_in_order_whatever_is_lost() {
    let losses = (0..50).map(|seed| {
        let two = Two::new(seed, lossy());
        transfer(&two, 200_000);
        two.network.counters().retransmissions
    });
    assert!(losses.sum::<u64>() > 100, "something was lost");
}

#[test]
fn loss_shows_as_delay() {
    let time = |loss_per_mille| {
        let two = Two::new(7, NetworkOptions { loss_per_mille, segment_max: 1500, ..quiet() });
        transfer(&two, 100_000).1
    };
    assert!(time(0) < Duration::from_millis(10), "{:?}", time(0));
    assert!(time(200) > Duration::from_millis(200), "{:?}", time(200));
}

#[test]
fn a_line_carries_no_more_than_its_speed() {
    let two = Two::new(1, quiet());
    let time = transfer(&two, 1 << 20).1;
    assert!(time >= Duration::from_nanos((1 << 20) * 8), "{time:?}");
}

#[test]
fn the_same_seed_sends_the_same_segments() {
    let run = |seed| {
        let two = Two::new(seed, NetworkOptions { death: None, ..NetworkOptions::bad() });
        two.network.start_trace();
        transfer(&two, 30_000);
        (two.executor.digest(), two.network.counters(), two.network.trace())
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
        assert_ne!(run(seed).0, run(seed + 1).0, "seed {seed}");
    }
    let (_, counters, trace) = run(3);
    let sent = trace.iter().filter(|traced| matches!(traced.event, NetworkEvent::Sent { .. }));
    assert_eq!(sent.count() as u64, counters.segments);
    assert!(trace.windows(2).all(|two| two[0].serial < two[1].serial));
}

#[test]
fn who_does_not_read_is_not_sent_more_than_the_window() {
    let two = Two::new(0, quiet());
    let (asking, accepting) = two.pair();
    let bytes = vec![1; 1 << 20];
    let sending = asking.write_all(&bytes);
    assert!(two.executor.block_on_for(Duration::from_secs(60), sending).is_none());
    assert_eq!(two.network.counters().bytes, two.network.options().window as u64);
    let accepting = accepting.take().expect("it is accepted");
    let read = two.executor.block_on(accepting.read(&mut [0; 5])).expect("there is something");
    assert_eq!(read, 5);
}

#[test]
fn a_connection_to_nobody_is_refused_or_given_up() {
    let two = Two::new(0, quiet());
    assert_eq!(two.connect(0).err().map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
    let start = two.executor.now();
    two.network.split(CLIENT, SERVER);
    assert_eq!(two.connect(0).err().map(|error| error.kind()), Some(ErrorKind::TimedOut));
    assert!(two.executor.now().since(start) >= Duration::from_secs(60));
    two.network.heal(CLIENT, SERVER);
    let _listener = two.server.listen(PORT).expect("the port is free");
    let first = two.connect(700).expect("somebody listens");
    let again = two.connect(700).err().map(|error| error.kind());
    assert_eq!(again, Some(ErrorKind::AddrInUse));
    assert_ne!(two.connect(0).expect("another port").local(), first.local());
    drop(first);
    two.connect(700).expect("the port is free again");
}

#[test]
fn a_split_holds_bytes_up_and_loses_none() {
    let two = Two::new(0, quiet());
    let (asking, accepting) = two.pair();
    let accepting = accepting.take().expect("it is accepted");
    two.network.split(CLIENT, SERVER);
    two.executor.block_on(asking.write_all(b"late")).expect("there is room");
    let mut part = [0; 8];
    let read = two.executor.block_on_for(Duration::from_secs(5), accepting.read(&mut part));
    assert!(read.is_none(), "nothing passes a split");
    two.network.heal(CLIENT, SERVER);
    assert_eq!(two.executor.block_on(accepting.read(&mut part)).expect("it arrives"), 4);
}

#[test]
fn a_machine_that_came_back_knows_nothing_of_its_connections() {
    let two = Two::new(0, quiet());
    let (asking, _held) = two.pair();
    two.machine.crash();
    let hour = Duration::from_secs(3600);
    let heard = two.executor.block_on_for(hour, asking.read(&mut [0; 8]));
    assert!(heard.is_none(), "who sends nothing never hears of it");
    let server = two.network.host(SERVER, Some(&two.machine));
    assert_eq!(server.incarnation(), two.server.incarnation() + 1);
    let heard = two.executor.block_on_for(hour, asking.read(&mut [0; 8]));
    assert!(heard.is_none(), "still");
    two.executor.block_on(asking.write_all(b"hello")).expect("there is room");
    let heard = two.executor.block_on(asking.read(&mut [0; 8]));
    assert_eq!(heard.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_machine_that_does_not_come_back_is_given_up_by_who_sends() {
    let two = Two::new(0, quiet());
    let (asking, _held) = two.pair();
    two.machine.crash();
    two.executor.block_on(asking.write_all(b"hello")).expect("there is room");
    let start = two.executor.now();
    let heard = two.executor.block_on(asking.read(&mut [0; 8]));
    assert_eq!(heard.map_err(|error| error.kind()), Err(ErrorKind::TimedOut));
    assert!(two.executor.now().since(start) >= Duration::from_secs(30));
}

#[test]
fn what_was_sent_before_the_power_went_arrives() {
    let two = Two::new(0, quiet());
    let (asking, held) = two.pair();
    let accepting = held.take().expect("it is accepted");
    two.executor.block_on(accepting.write_all(b"the last words")).expect("there is room");
    two.executor.run_for(Duration::from_micros(1)); // they are in transit
    let sent = two.network.counters().bytes;
    two.machine.crash();
    drop(accepting);
    assert_eq!(sent, 14);
    assert_eq!(two.executor.block_on(asking.read(&mut [0; 99])).expect("they arrive"), 14);
}

#[test]
fn a_process_that_is_killed_closes_its_connections() {
    let two = Two::new(0, quiet());
    let (asking, _held) = two.pair();
    two.machine.kill();
    assert_eq!(two.executor.block_on(asking.read(&mut [0; 8])).expect("it ends"), 0);
    let refused = two.connect(0).err().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::ConnectionRefused), "its port is free");
}

#[test]
fn who_closes_with_bytes_unread_breaks_the_connection() {
    let two = Two::new(0, quiet());
    let (asking, held) = two.pair();
    two.executor.block_on(asking.write_all(b"hello")).expect("there is room");
    two.executor.run_for(Duration::from_millis(1));
    drop(held.take());
    let heard = two.executor.block_on(asking.read(&mut [0; 8]));
    assert_eq!(heard.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
}

#[test]
fn the_ends_of_a_dead_connection_hear_of_it_at_their_times_or_never() {
    let two = Two::new(0, quiet());
    let (asking, held) = two.pair();
    let accepting = held.take().expect("it is accepted");
    two.network.kill(asking.connection(), [Some(Duration::from_secs(2)), None]);
    two.executor.block_on(asking.write_all(b"lost")).expect("nobody knows");
    let start = two.executor.now();
    let heard = two.executor.block_on(asking.read(&mut [0; 8]));
    assert_eq!(heard.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
    assert_eq!(two.executor.now().since(start), Duration::from_secs(2));
    let week = Duration::from_secs(7 * 24 * 3600);
    assert!(two.executor.block_on_for(week, accepting.read(&mut [0; 8])).is_none());
    assert_eq!(two.network.counters().deaths, 1);
}

#[test]
fn connections_die_by_themselves_when_they_are_to() {
    let death = Death {
        after_ns: (1_000_000, 2_000_000_000),
        heard_ns: (0, 1_000_000),
        unheard_per_mille: 0,
    };
    let two = Two::new(0, NetworkOptions { death: Some(death), ..quiet() });
    let (asking, _held) = two.pair();
    let heard = two.executor.block_on(asking.read(&mut [0; 8]));
    assert_eq!(heard.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
    two.executor.run_for(Duration::from_secs(1));
    assert!(two.network.connections().is_empty(), "both ends have heard of it");
    assert_eq!(two.network.counters().failures, 2);
}

#[test]
fn messages_are_dropped_and_doubled_as_often_as_was_said() {
    let two = Two::new(9, quiet());
    let mishaps = Mishaps::many();
    let fates: Vec<_> = (0..10_000).map(|_| two.network.fate(&mishaps)).collect();
    let many = |copies| fates.iter().filter(|fate| fate.len() == copies).count();
    assert!((400..600).contains(&many(0)), "{} of 500 dropped", many(0));
    assert!((850..1150).contains(&many(2)), "{} of 1000 doubled", many(2));
    let late = fates.iter().flatten().filter(|wait| !wait.is_zero()).count();
    assert!((850..1300).contains(&late), "{late} of about 1050 late");
    assert!(two.network.fate(&Mishaps::default()) == [Duration::ZERO]);
}
