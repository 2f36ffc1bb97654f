//! Memory that survives a power loss: a board with a battery, or a module with a capacitor.
//!
//! Calls run one after the other, each at the speed of the memory. A write is durable when it is
//! answered, so that a flush has nothing to do. It is torn at sectors of 512 bytes like any other
//! while it is in flight: a device that tears at smaller units is not modelled.

use super::agenda::Agenda;
use super::{Kind, Machine, Request, duration_ns};

/// The parameters of such a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nvram {
    /// The overhead of each call.
    pub command_ns: u64,
    /// The speed of the memory.
    pub bytes_per_second: u64,
}

impl Nvram {
    pub(super) fn machine(&self) -> Box<dyn Machine> {
        Box::new(Memory { spec: *self, free_ns: 0, agenda: Agenda::default() })
    }
}

struct Memory {
    spec: Nvram,
    free_ns: u64,
    agenda: Agenda,
}

impl Machine for Memory {
    fn submit(&mut self, now_ns: u64, request: Request) {
        let bytes = match request.kind {
            Kind::Read | Kind::Write | Kind::Through => request.length,
            Kind::Flush | Kind::Discard => 0,
        };
        let busy_ns = self.spec.command_ns + duration_ns(bytes, self.spec.bytes_per_second);
        self.free_ns = self.free_ns.max(now_ns) + busy_ns;
        self.agenda.add(self.free_ns, request.ticket);
    }

    fn advance(&mut self, now_ns: u64) -> Vec<u64> {
        self.agenda.due(now_ns)
    }

    fn next_at(&self) -> Option<u64> {
        self.agenda.next_at()
    }
}
