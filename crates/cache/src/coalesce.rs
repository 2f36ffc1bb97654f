//! Merges writes that are adjacent on the disk.

use bytes::Bytes;

/// An extent that goes out with one write.
pub struct Run {
    /// The first byte of the disk.
    pub start: u64,
    /// Its data, one piece behind the other.
    pub pieces: Vec<Bytes>,
    end: u64,
}

/// Merges adjacent pieces into runs of at most `most` bytes. `pieces` are in the order of the disk,
/// each with its first byte, and do not overlap.
pub fn runs(pieces: impl IntoIterator<Item = (u64, Bytes)>, most: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (start, data) in pieces {
        let end = start + data.len() as u64;
        match runs.last_mut() {
            Some(last) if last.end == start && end - last.start <= most => {
                last.pieces.push(data);
                last.end = end;
            }
            _ => runs.push(Run { start, pieces: vec![data], end }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_go_out_together() {
        let piece = |start: u64, length: u64| (start, Bytes::from(vec![7; length as usize]));
        let pieces = [(0, 4), (4, 4), (8, 4), (16, 4), (20, 4), (100, 12), (112, 4)];
        let runs = runs(pieces.map(|(start, length)| piece(start, length)), 12);
        let ends: Vec<_> = runs.iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(ends, [(0, 12), (16, 24), (100, 112), (112, 116)]);
        assert_eq!(runs[0].pieces.len(), 3);
    }
}
