//! A flash disk: many chips that work in parallel, behind one command path and one bus.
//!
//! No answer depends on later calls, so every answer is known when its call arrives. Pages go to
//! the channels round robin by their address. Reads go before programs; a program that arrives
//! after a read on its channel waits for it, one in progress is not delayed. Deliberately absent:
//! garbage collection, wear, and the slowness of a full disk.

use std::collections::VecDeque;

use super::agenda::Agenda;
use super::{Kind, Machine, Request, duration_ns};

/// The parameters of a flash disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flash {
    /// The overhead of each call.
    pub command_ns: u64,
    /// The speed of the bus to the host.
    pub bus_bytes_per_second: u64,
    /// Channels that work in parallel.
    pub channels: u32,
    /// The unit that a channel reads or programs, in bytes.
    pub page_bytes: u32,
    /// To read a page.
    pub read_ns: u64,
    /// To program a page.
    pub program_ns: u64,
    /// Plain writes are answered once they are in a cache of this size.
    pub cache_bytes: u64,
    /// Whether that cache survives a power loss: then a flush and a through write need not wait for
    /// a program. This affects time alone; a cut may take the same as always.
    pub protected: bool,
    /// The cost of a flush beside the programs that it waits for.
    pub flush_ns: u64,
}

impl Flash {
    pub(super) fn machine(&self) -> Box<dyn Machine> {
        let free = vec![Channel::default(); self.channels as usize];
        let (bus_free_ns, programs) = (0, VecDeque::new());
        let agenda = Agenda::default();
        Box::new(Chips { spec: *self, channels: free, bus_free_ns, programs, cached: 0, agenda })
    }
}

/// The times until when a channel is busy.
#[derive(Clone, Copy, Default)]
struct Channel {
    reads_ns: u64,
    programs_ns: u64,
}

struct Chips {
    spec: Flash,
    channels: Vec<Channel>,
    bus_free_ns: u64,
    /// Writes in the cache: the time when each has been programmed, and its bytes. Ordered by time.
    programs: VecDeque<(u64, u64)>,
    cached: u64,
    agenda: Agenda,
}

impl Chips {
    fn bus(&mut self, from_ns: u64, bytes: u64) -> u64 {
        let start_ns = from_ns.max(self.bus_free_ns);
        self.bus_free_ns = start_ns + duration_ns(bytes, self.spec.bus_bytes_per_second);
        self.bus_free_ns
    }

    /// The channels of the pages of a range.
    fn pages(&self, request: &Request) -> impl Iterator<Item = usize> + use<> {
        let (page, channels) = (u64::from(self.spec.page_bytes), self.channels.len() as u64);
        let pages = request.offset / page..(request.offset + request.length).div_ceil(page);
        pages.map(move |page| (page % channels) as usize)
    }

    fn read(&mut self, from_ns: u64, request: &Request) -> u64 {
        let mut last_ns = from_ns;
        for channel in self.pages(request) {
            let channel = &mut self.channels[channel];
            channel.reads_ns = channel.reads_ns.max(from_ns) + self.spec.read_ns;
            last_ns = last_ns.max(channel.reads_ns);
        }
        // The bus runs in parallel with the chips. It is reserved from the start on, not from when
        // the chips are done: otherwise a call that arrives meanwhile would wait for an idle bus.
        let page_bytes = request.length.min(u64::from(self.spec.page_bytes));
        let last_page_ns = duration_ns(page_bytes, self.spec.bus_bytes_per_second);
        self.bus(from_ns, request.length).max(last_ns + last_page_ns)
    }

    /// The time when all pages of a write have been programmed, if it can start at `from_ns`.
    fn program(&mut self, from_ns: u64, request: &Request) -> u64 {
        let mut last_ns = from_ns;
        for channel in self.pages(request) {
            let channel = &mut self.channels[channel];
            let start_ns = channel.programs_ns.max(channel.reads_ns).max(from_ns);
            channel.programs_ns = start_ns + self.spec.program_ns;
            last_ns = last_ns.max(channel.programs_ns);
        }
        last_ns
    }

    /// The time from `now_ns` on when there is room for this many bytes.
    fn room_at(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let mut at_ns = now_ns;
        while let Some(&(done_ns, done_bytes)) = self.programs.front() {
            if done_ns > now_ns && self.cached + bytes <= self.spec.cache_bytes {
                break;
            }
            at_ns = at_ns.max(done_ns);
            self.cached -= done_bytes;
            self.programs.pop_front();
        }
        at_ns
    }

    fn write(&mut self, from_ns: u64, request: &Request) -> u64 {
        let through = request.kind == Kind::Through && !self.spec.protected;
        if through || request.length > self.spec.cache_bytes {
            let bus_ns = self.bus(from_ns, request.length);
            return self.program(bus_ns, request);
        }
        let room_ns = self.room_at(from_ns, request.length);
        let taken_ns = self.bus(room_ns, request.length);
        let programmed_ns = self.program(taken_ns, request);
        let at = self.programs.partition_point(|&(other_ns, _)| other_ns <= programmed_ns);
        self.programs.insert(at, (programmed_ns, request.length));
        self.cached += request.length;
        taken_ns
    }

    fn flush(&self, from_ns: u64) -> u64 {
        let last_ns = self.programs.back().map_or(0, |&(done_ns, _)| done_ns);
        let wait_ns = if self.spec.protected { 0 } else { last_ns };
        from_ns.max(wait_ns) + self.spec.flush_ns
    }
}

impl Machine for Chips {
    fn submit(&mut self, now_ns: u64, request: Request) {
        let from_ns = now_ns + self.spec.command_ns;
        let answer_ns = match request.kind {
            Kind::Read => self.read(from_ns, &request),
            Kind::Write | Kind::Through => self.write(from_ns, &request),
            Kind::Flush => self.flush(from_ns),
            Kind::Discard => from_ns,
        };
        self.agenda.add(answer_ns, request.ticket);
    }

    fn advance(&mut self, now_ns: u64) -> Vec<u64> {
        self.agenda.due(now_ns)
    }

    fn next_at(&self) -> Option<u64> {
        self.agenda.next_at()
    }
}
