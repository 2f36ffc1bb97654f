//! Counts the records of a stream by their marks, and looks at nothing else in them.

const LENGTH: u32 = 0x7fff_ffff;

/// Position in a stream of records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Records {
    mark: [u8; 4],
    /// Bytes of the mark received so far.
    marked: usize,
    /// Bytes of the record after it that are missing.
    left: usize,
    /// Whole records.
    pub(super) count: u64,
}

impl Records {
    /// Advances by these bytes.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left == 0 {
                let part = bytes.len().min(self.mark.len() - self.marked);
                self.mark[self.marked..self.marked + part].copy_from_slice(&bytes[..part]);
                (self.marked, bytes) = (self.marked + part, &bytes[part..]);
                if self.marked == self.mark.len() {
                    self.marked = 0;
                    self.left = (u32::from_be_bytes(self.mark) & LENGTH) as usize;
                    self.count += u64::from(self.left == 0);
                }
            } else {
                let part = bytes.len().min(self.left);
                (self.left, bytes) = (self.left - part, &bytes[part..]);
                self.count += u64::from(self.left == 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_however_their_bytes_come() {
        let record = |length: usize| {
            let mark = (1 << 31 | length as u32).to_be_bytes();
            [&mark[..], &vec![0xff; length]].concat()
        };
        let stream = [record(3), record(0), record(70), record(1)].concat();
        for step in 1..20 {
            let mut records = Records::default();
            stream.chunks(step).for_each(|bytes| records.feed(bytes));
            assert_eq!(records.count, 4, "{step}");
            records.feed(&record(9)[..12]);
            assert_eq!(records.count, 4, "{step}: a byte is missing");
        }
    }
}
