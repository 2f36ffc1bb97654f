//! A network in virtual time: named hosts, ports, and connections that carry bytes.
//!
//! # Layers
//! * [`NetworkOptions`]: delay, speed, loss, and the death of connections. [`Mishaps`]: losses and
//!   delays of messages, for a caller that splits the bytes of connections into messages.
//! * `Connection`: two flows of bytes, and the notifications of each end.
//! * [`Stream`], [`Listener`]: the handles of tasks. [`Host`]: where they get them.
//! * [`Network`]: all hosts, and the interventions of a test: splits, deaths, counters and traces.
//!
//! The fault model is described at [`Network`], where users of the crate find it.

mod connection;
mod options;
mod stream;
mod trace;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};
use std::time::Duration;

use futures::channel::oneshot;
use runtime::Clock;

use crate::world::{Power, World};
use crate::{Executor, Machine, Prng};
use connection::{Connection, Place};
pub use options::{Death, Delay, Mishaps, NetworkCounters, NetworkOptions};
use stream::Backlog;
pub use stream::{Listener, Stream};
pub use trace::{NetworkEvent, NetworkTraced};

/// The first of the ports that a host assigns itself.
const EPHEMERAL: u16 = 49_152;

/// A network of one world.
///
/// # The fault model
/// It is that of TCP over an IP network. Bytes arrive in order, each once. Loss shows as delay, and
/// delays the segments behind. An end that sends to an unreachable host retries at doubling
/// intervals, and finally gives up. A host that has recovered from a power loss does not know its
/// old connections, and resets them when the other end sends; an end that sends nothing never
/// notices. Bytes that a host sent before its power loss may still arrive. The kernel closes the
/// connections of a killed process.
///
/// A connection may also die between its ends, as when a device on the path forgets it: it carries
/// nothing any more, and each end is notified at a time of its own, or never.
///
/// Not simulated: congestion, damaged bytes (checksums find them), messages duplicated by a
/// connection (impossible).
#[derive(Clone)]
pub struct Network(Rc<Inner>);

struct Inner {
    world: Rc<World>,
    options: Cell<NetworkOptions>,
    prng: RefCell<Prng>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    hosts: BTreeMap<IpAddr, (Power, u64)>,
    listeners: BTreeMap<SocketAddr, Rc<RefCell<Backlog>>>,
    connections: BTreeMap<u64, Weak<Connection>>,
    splits: BTreeSet<[IpAddr; 2]>,
    ports: BTreeMap<IpAddr, u16>,
    next: u64,
    counters: NetworkCounters,
    trace: Option<Vec<NetworkTraced>>,
}

impl Network {
    /// A network without hosts.
    pub fn new(executor: &Executor, options: NetworkOptions) -> Self {
        let world = executor.world().clone();
        let prng = RefCell::new(world.fork_for_device());
        let options = Cell::new(options);
        Self(Rc::new(Inner { world, options, prng, state: RefCell::default() }))
    }

    /// The network's options.
    pub fn options(&self) -> NetworkOptions {
        self.0.options.get()
    }

    /// Changes the options for all later traffic.
    pub fn set_options(&self, options: NetworkOptions) {
        self.0.options.set(options);
    }

    /// Puts a machine on the network under an address: it stays until it loses its power, and must
    /// be put there again after that. A host without a machine stays for ever.
    pub fn host(&self, address: IpAddr, machine: Option<&Machine>) -> Host {
        let power = machine.map_or_else(|| self.0.world.new_power(), Machine::power);
        let hosts = &mut self.0.state.borrow_mut().hosts;
        let incarnation = hosts.get(&address).map_or(0, |(_, incarnation)| *incarnation) + 1;
        hosts.insert(address, (power.clone(), incarnation));
        Host { network: self.0.clone(), address, power, incarnation }
    }

    /// Blocks all traffic between two hosts from now on. Neither is notified.
    pub fn split(&self, one: IpAddr, other: IpAddr) {
        let hosts = pair(one, other);
        self.0.state.borrow_mut().splits.insert(hosts);
        self.0.happen(NetworkEvent::Split { hosts, healed: false });
    }

    /// Unblocks the traffic.
    pub fn heal(&self, one: IpAddr, other: IpAddr) {
        let hosts = pair(one, other);
        self.0.state.borrow_mut().splits.remove(&hosts);
        self.0.happen(NetworkEvent::Split { hosts, healed: true });
    }

    /// Kills a connection. The ends that requested and accepted it are notified after their times,
    /// or never.
    pub fn kill(&self, connection: u64, heard: [Option<Duration>; 2]) {
        let found = self.0.state.borrow().connections.get(&connection).and_then(Weak::upgrade);
        if let Some(connection) = found {
            connection.die(heard.map(|time| time.map(|time| time.as_nanos() as u64)));
        }
    }

    /// The connections with at least one live end.
    pub fn connections(&self) -> Vec<u64> {
        let state = self.0.state.borrow();
        let live = |weak: &Weak<Connection>| weak.upgrade().is_some_and(|it| !it.is_over());
        let live = state.connections.iter().filter(|(_, connection)| live(connection));
        live.map(|(&id, _)| id).collect()
    }

    /// The delays of the copies of one message: none, one or two.
    pub fn fate(&self, mishaps: &Mishaps) -> Vec<Duration> {
        mishaps.draw(&mut self.0.prng.borrow_mut())
    }

    /// The traffic so far.
    pub fn counters(&self) -> NetworkCounters {
        self.0.state.borrow().counters
    }

    /// Starts recording, and drops any earlier recording.
    pub fn start_trace(&self) {
        self.0.state.borrow_mut().trace = Some(Vec::new());
    }

    /// The recording.
    ///
    /// # Panics
    /// When [`Network::start_trace`] was not called.
    pub fn trace(&self) -> Vec<NetworkTraced> {
        self.0.state.borrow().trace.clone().expect("start_trace comes first")
    }
}

/// A machine on the network.
#[derive(Clone)]
pub struct Host {
    network: Rc<Inner>,
    address: IpAddr,
    power: Power,
    incarnation: u64,
}

impl Host {
    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The host's number among those that have had its address, counted from 1.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Accepts connections to a port.
    ///
    /// # Errors
    /// When the port has a listener already.
    pub fn listen(&self, port: u16) -> io::Result<Listener> {
        let address = SocketAddr::new(self.address, port);
        let state = &mut *self.network.state.borrow_mut();
        if state.listeners.contains_key(&address) {
            return Err(ErrorKind::AddrInUse.into());
        }
        let backlog = Rc::new(RefCell::new(Backlog::default()));
        state.listeners.insert(address, backlog.clone());
        Ok(Listener { network: self.network.clone(), address, backlog })
    }

    /// Connects from a port, or from any free one if it is 0.
    ///
    /// # Errors
    /// `AddrInUse` when the port has a connection to that address, `ConnectionRefused` when no
    /// listener accepts it, `TimedOut` when the host cannot be reached.
    pub async fn connect(&self, port: u16, to: SocketAddr) -> io::Result<Stream> {
        let port = match port {
            0 => self.network.free_port(self.address),
            port => port,
        };
        let from = SocketAddr::new(self.address, port);
        if self.network.is_connected(from, to) {
            return Err(ErrorKind::AddrInUse.into());
        }
        let (sender, answer) = oneshot::channel();
        let place =
            Place { address: from, power: self.power.clone(), incarnation: self.incarnation };
        Attempt { network: self.network.clone(), from: place, to, waited_ns: 0, losses: 0, sender }
            .depart();
        match answer.await {
            Ok(answer) => answer,
            Err(oneshot::Canceled) => std::future::pending().await, // the power was cut
        }
    }
}

/// A connection attempt of a host.
struct Attempt {
    network: Rc<Inner>,
    from: Place,
    to: SocketAddr,
    waited_ns: u64,
    losses: u32,
    sender: oneshot::Sender<io::Result<Stream>>,
}

impl Attempt {
    fn depart(mut self) {
        let delay_ns = self.network.draw_delay();
        self.waited_ns = self.waited_ns.saturating_add(delay_ns);
        self.network.world.clone().after(delay_ns, move || self.arrive());
    }

    fn arrive(mut self) {
        let (network, to) = (self.network.clone(), self.to);
        let (here, there) = (self.from.address.ip(), to.ip());
        if !network.has_kernel(&self.from.power) {
            return;
        }
        if network.draw_losses() == 0 && !network.is_split(here, there) && network.is_up(there) {
            let backlog = network.state.borrow().listeners.get(&to).cloned();
            return match backlog {
                Some(backlog) => self.accepted(&backlog),
                None => self.answer(Err(ErrorKind::ConnectionRefused.into())),
            };
        }
        let options = network.options.get();
        let again_ns = options.retransmit_ns << self.losses.min(20);
        self.losses += 1;
        self.waited_ns = self.waited_ns.saturating_add(again_ns);
        network.state.borrow_mut().counters.retransmissions += 1;
        if self.waited_ns > options.give_up_ns {
            return self.answer(Err(ErrorKind::TimedOut.into()));
        }
        network.world.clone().after(again_ns, move || self.depart());
    }

    fn accepted(self, backlog: &RefCell<Backlog>) {
        let network = self.network.clone();
        let (power, incarnation) = {
            let hosts = &network.state.borrow().hosts;
            hosts.get(&self.to.ip()).cloned().expect("a host that is up is known")
        };
        let Self { from, to, sender, .. } = self;
        let id = network.next();
        network.happen(NetworkEvent::Connected { connection: id, from: from.address, to });
        let ends = [from, Place { address: to, power, incarnation }];
        let connection = Connection::new(id, network.clone(), ends);
        network.add(&connection);
        let [asking, accepting] = [0, 1].map(|end| Stream { connection: connection.clone(), end });
        let waker = {
            let backlog = &mut *backlog.borrow_mut();
            backlog.waiting.push_back(accepting);
            backlog.waker.take()
        };
        waker.inspect(|waker| waker.wake_by_ref());
        network.world.after(network.draw_delay(), move || {
            let _ = sender.send(Ok(asking)); // a caller that has gone closes it
        });
    }

    fn answer(self, answer: io::Result<Stream>) {
        let network = self.network;
        network.happen(NetworkEvent::Refused { from: self.from.address, to: self.to });
        network.world.clone().after(network.draw_delay(), move || {
            let _ = self.sender.send(answer); // the caller may have gone
        });
    }
}

impl Inner {
    fn has_kernel(&self, power: &Power) -> bool {
        self.world.has_kernel(power)
    }

    /// Whether a host has this address now.
    fn is_up(&self, address: IpAddr) -> bool {
        let state = self.state.borrow();
        state.hosts.get(&address).is_some_and(|(power, _)| self.has_kernel(power))
    }

    fn is_split(&self, one: IpAddr, other: IpAddr) -> bool {
        self.state.borrow().splits.contains(&pair(one, other))
    }

    fn draw_delay(&self) -> u64 {
        self.options.get().delay.draw(&mut self.prng.borrow_mut())
    }

    /// The number of times a segment is lost before it arrives.
    fn draw_losses(&self) -> u32 {
        let (prng, per_mille) = (&mut self.prng.borrow_mut(), self.options.get().loss_per_mille);
        let losses = (0..8).take_while(|_| prng.chance(per_mille, 1000)).count();
        self.state.borrow_mut().counters.retransmissions += losses as u64;
        losses as u32
    }

    /// The length of the next segment of `rest` bytes.
    fn draw_segment(&self, rest: usize) -> usize {
        let most = rest.min(self.options.get().segment_max).max(1);
        let prng = &mut self.prng.borrow_mut();
        if prng.chance(3, 4) { most } else { 1 + prng.index(most) }
    }

    fn free_port(&self, address: IpAddr) -> u16 {
        let state = &mut *self.state.borrow_mut();
        let port = state.ports.entry(address).or_insert(EPHEMERAL);
        *port = port.checked_add(1).unwrap_or(EPHEMERAL);
        *port
    }

    /// Whether the end that requests a connection has one between these two addresses.
    fn is_connected(&self, from: SocketAddr, to: SocketAddr) -> bool {
        let state = self.state.borrow();
        let mut live = state.connections.values().filter_map(Weak::upgrade);
        live.any(|it| [it.ends[0].address, it.ends[1].address] == [from, to] && !it.is_over_at(0))
    }

    fn add(self: &Rc<Self>, connection: &Rc<Connection>) {
        let connections = &mut self.state.borrow_mut().connections;
        connections.retain(|_, connection| connection.strong_count() > 0);
        connections.insert(connection.id, Rc::downgrade(connection));
        if let Some(death) = self.options.get().death {
            let prng = &mut *self.prng.borrow_mut();
            let after_ns = prng.between(death.after_ns.0, death.after_ns.1);
            let mut heard = || {
                let heard_ns = prng.between(death.heard_ns.0, death.heard_ns.1);
                (!prng.chance(death.unheard_per_mille, 1000)).then_some(heard_ns)
            };
            let (heard_ns, connection) = ([heard(), heard()], Rc::downgrade(connection));
            self.world.after(after_ns, move || {
                if let Some(connection) = connection.upgrade() {
                    connection.die(heard_ns);
                }
            });
        }
    }

    fn unlisten(&self, address: SocketAddr, backlog: &Rc<RefCell<Backlog>>) {
        let listeners = &mut self.state.borrow_mut().listeners;
        if listeners.get(&address).is_some_and(|listening| Rc::ptr_eq(listening, backlog)) {
            listeners.remove(&address);
        }
    }

    fn next(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.next += 1;
        state.next
    }

    /// Counts, traces and hashes an event: every event passes here.
    fn happen(&self, event: NetworkEvent) {
        self.world.record(|digest| event.add_to(digest));
        let (serial, at) = (self.world.next_serial(), self.world.now());
        let state = &mut *self.state.borrow_mut();
        state.counters.note(&event);
        if let Some(trace) = &mut state.trace {
            trace.push(NetworkTraced { serial, at, event });
        }
    }
}

impl NetworkCounters {
    fn note(&mut self, event: &NetworkEvent) {
        match event {
            NetworkEvent::Connected { .. } => self.connections += 1,
            NetworkEvent::Refused { .. } => self.refused += 1,
            NetworkEvent::Sent { length, .. } => {
                self.segments += 1;
                self.bytes += *length as u64;
            }
            NetworkEvent::Unreachable { .. } => self.retransmissions += 1,
            NetworkEvent::Died { .. } => self.deaths += 1,
            NetworkEvent::Failed { .. } => self.failures += 1,
            NetworkEvent::Arrived { .. } | NetworkEvent::Split { .. } => {}
        }
    }
}

fn pair(one: IpAddr, other: IpAddr) -> [IpAddr; 2] {
    [one.min(other), one.max(other)]
}
