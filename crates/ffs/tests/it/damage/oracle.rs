//! The independent checker, in one process for many disks.
//!
//! A disk is sent as the pages in which it differs from its base; the reply is a line with the
//! error, or empty.

use super::base::Base;
use crate::common::MemoryDisk;
use crate::common::foreign::Checker;

const DRIVER: &str = r#"
import importlib.util, struct, sys
spec = importlib.util.spec_from_file_location("judge", sys.argv[1])
judge = importlib.util.module_from_spec(spec)
spec.loader.exec_module(judge)
source = sys.stdin.buffer
def number():
    head = source.read(8)
    return struct.unpack("<Q", head)[0] if head else None
def pages(image):
    for _ in range(number()):
        at, length = number(), number()
        yield at, length, source.read(length)
base = bytearray(number())
for at, length, content in pages(base):
    base[at:at + length] = content
while True:
    end = source.peek(1)
    if not end:
        break
    image = base[:]
    for at, length, content in pages(image):
        image[at:at + length] = content
    report = judge.Checker(image).run()
    wrong = report.errors(True) if report.usable else ["no file system"]
    print(str(wrong[:3]) if wrong else "", flush=True)
"#;

/// A process of the checker.
pub(crate) struct Oracle(Checker);

impl Oracle {
    /// Starts a process for the disks of a base, if the checker is there.
    pub(crate) fn new(base: &Base) -> Option<Self> {
        let mut oracle = Self(Checker::start(DRIVER)?);
        let size = base.geometry.size * base.geometry.fragment_size;
        oracle.0.send(&size.to_le_bytes());
        oracle.send(&base.disk, &MemoryDisk::new(0));
        Some(oracle)
    }

    fn send(&mut self, disk: &MemoryDisk, base: &MemoryDisk) {
        let pages = disk.differences(base);
        let mut message = (pages.len() as u64).to_le_bytes().to_vec();
        for (at, content) in pages {
            message.extend(at.to_le_bytes());
            message.extend((content.len() as u64).to_le_bytes());
            message.extend(content);
        }
        self.0.send(&message);
    }

    /// The error of a disk; empty if there is none.
    pub(crate) fn ask(&mut self, base: &Base, disk: &MemoryDisk) -> String {
        self.send(disk, &base.disk);
        self.0.receive_line()
    }
}
