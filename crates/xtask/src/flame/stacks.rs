//! Samples of `perf script`, grouped by frames.

use std::collections::BTreeMap;

/// A function on one call path, with its callees.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    samples: u64,
    is_kernel: bool,
    callees: BTreeMap<String, Frame>,
}

impl Frame {
    /// Samples in the function and in its callees.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Whether it is a kernel function.
    pub(super) fn is_kernel(&self) -> bool {
        self.is_kernel
    }

    /// Its callees, by name.
    pub(super) fn callees(&self) -> impl Iterator<Item = (&str, &Frame)> {
        self.callees.iter().map(|(name, frame)| (name.as_str(), frame))
    }

    /// Adds a sample, given as frames from the outermost on.
    fn add<'a>(&mut self, frames: impl Iterator<Item = &'a (String, bool)>) {
        self.samples += 1;
        let mut here = self;
        for (name, is_kernel) in frames {
            here = here.callees.entry(name.clone()).or_default();
            here.is_kernel = *is_kernel;
            here.samples += 1;
        }
    }
}

/// Parses output of `perf script -F comm,ip,sym`: for each sample the thread's name, then a line
/// with address and function for each frame, the innermost first, then an empty line. Threads are
/// the outermost frames.
pub(super) fn parse(text: &str) -> Frame {
    let mut root = Frame::default();
    let mut frames: Vec<(String, bool)> = Vec::new();
    let mut thread = None;
    for line in text.lines().chain([""]) {
        let is_frame = line.starts_with(['\t', ' ']) && thread.is_some();
        match (line.trim(), is_frame) {
            ("", _) => {
                if let Some(thread) = thread.take() {
                    frames.push((thread, false));
                    root.add(frames.iter().rev());
                }
                frames.clear();
            }
            (line, true) => {
                let (address, name) = line.split_once(' ').unwrap_or((line, ""));
                frames.push((function(name), is_of_kernel(address)));
            }
            (line, false) => thread = Some(thread_name(line)),
        }
    }
    root
}

/// Addresses in the upper half are the kernel's.
fn is_of_kernel(address: &str) -> bool {
    u64::from_str_radix(address, 16).is_ok_and(|address| address >> 63 == 1)
}

/// Kernel threads of one kind count together.
fn thread_name(line: &str) -> String {
    line.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '-').to_owned()
}

/// The name without the part that distinguishes instances of a generic function.
fn function(name: &str) -> String {
    let whole = name.trim();
    let parts = whole.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16);
    parts.map_or(whole, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_with_the_same_frames_are_one_stack() {
        let text = "duramen\n\tffffffff81000010 copy\n\t  55d1 ffs::read::h0123456789abcdef\n\t  \
                    55d0 main\n\nduramen\n\t  55d1 ffs::read\n\t  55d0 main\n\niou-wrk-1234\n\t\
                    ffffffff81000020 write\n\n";
        let root = parse(text);
        assert_eq!(root.samples(), 3);
        let threads: Vec<_> = root.callees().map(|(name, frame)| (name, frame.samples())).collect();
        assert_eq!(threads, [("duramen", 2), ("iou-wrk", 1)]);
        let read = &root.callees["duramen"].callees["main"].callees["ffs::read"];
        assert_eq!((read.samples(), read.is_kernel()), (2, false));
        assert!(read.callees["copy"].is_kernel() && read.callees["copy"].samples() == 1);
    }

    #[test]
    fn nothing_is_no_sample() {
        assert_eq!(parse(""), Frame::default());
        assert_eq!(parse("\n\n"), Frame::default());
    }
}
