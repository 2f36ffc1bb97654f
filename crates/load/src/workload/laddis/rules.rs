//! The numbers of SPECsfs.
//!
//! The percentages are those of "Metadata Logging in an NFS Server", section 7 (SFS 1.1, which is
//! LADDIS), and of SPEC's own description of SFS 2.0 for NFS version 3. Sizes of files and of
//! transfers, the block of 8 KiB, the average file of 136 KiB and 30 files a directory are the
//! defaults that SPEC published with the benchmark's documentation. The used share of the files
//! (20 %, later 10 %), the file set for each op/s (5, later 10 MB) and 70 % of writes at the end of
//! a file are from the SFS 3.0 User's Guide. SFS 2.0 favours some files by groups whose popularity
//! follows Poisson's law; we could not find the number of its groups, and use 16.

use nfs::nfs3::Procedure;

/// The unit of transfers, in bytes.
pub const BLOCK: u64 = 8 << 10;

/// The unit of partial blocks, in bytes.
pub const KIB: u64 = 1 << 10;

/// Percentage of writes that are at the end of a file.
pub const APPENDS_PER_CENT: u64 = 70;

/// Files in a directory.
pub const FILES_PER_DIRECTORY: u64 = 30;

/// Files that are looked up, made and removed, and never read.
pub const PLAIN_FILES: u64 = 100;

/// Symbolic links.
pub const SYMLINKS: u64 = 20;

/// A transfer: whole blocks, and perhaps a partial one after them.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Percentage of the requests.
    pub per_cent: u64,
    /// Whole blocks.
    pub blocks: u64,
    /// Whether 1 to 7 KiB follow the blocks.
    pub has_fragment: bool,
}

const fn transfer(per_cent: u64, blocks: u64, has_fragment: bool) -> Transfer {
    Transfer { per_cent, blocks, has_fragment }
}

/// Sizes of READ requests.
pub const READS: [Transfer; 5] = [
    transfer(85, 1, false),
    transfer(8, 2, true),
    transfer(4, 4, true),
    transfer(2, 8, true),
    transfer(1, 16, true),
];

/// Sizes of WRITE requests.
pub const WRITES: [Transfer; 6] = [
    transfer(49, 0, true),
    transfer(36, 1, true),
    transfer(8, 2, true),
    transfer(4, 4, true),
    transfer(2, 8, true),
    transfer(1, 16, true),
];

impl Transfer {
    /// The number of its calls.
    pub fn calls(self) -> u64 {
        self.blocks + u64::from(self.has_fragment)
    }
}

/// The average number of calls of a request.
pub fn calls_per_request(transfers: &[Transfer]) -> f64 {
    transfers.iter().map(|transfer| (transfer.per_cent * transfer.calls()) as f64 / 100.0).sum()
}

/// One of the two benchmarks.
#[derive(Debug)]
pub struct Rules {
    /// Percentage of calls of each procedure.
    pub mix: &'static [(Procedure, u64)],
    /// Sizes of files in KiB, and the percentage of files of each.
    pub file_sizes_kib: &'static [(u64, u64)],
    /// Bytes of the file set for each call per second.
    pub bytes_per_rate: u64,
    /// Percentage of files that are used.
    pub used_per_cent: u64,
    /// Groups of files of different popularity.
    pub groups: u64,
    /// Whether writes are stable at once, as those of NFS version 2 are.
    pub writes_are_stable: bool,
}

/// SFS 1.1.
pub static LADDIS: Rules = Rules {
    mix: &[
        (Procedure::Lookup, 34),
        (Procedure::Read, 22),
        (Procedure::Write, 15),
        (Procedure::Getattr, 13),
        (Procedure::Readlink, 8),
        (Procedure::Readdir, 3),
        (Procedure::Create, 2),
        (Procedure::Remove, 1),
        (Procedure::Setattr, 1),
        (Procedure::Fsstat, 1),
    ],
    file_sizes_kib: &[(136, 100)],
    bytes_per_rate: 5_000_000,
    used_per_cent: 20,
    groups: 1,
    writes_are_stable: true,
};

/// SFS 2.0, NFS version 3.
pub static SFS2: Rules = Rules {
    mix: &[
        (Procedure::Lookup, 27),
        (Procedure::Read, 18),
        (Procedure::Getattr, 11),
        (Procedure::Write, 9),
        (Procedure::Readdirplus, 9),
        (Procedure::Readlink, 7),
        (Procedure::Access, 7),
        (Procedure::Commit, 5),
        (Procedure::Readdir, 2),
        (Procedure::Create, 1),
        (Procedure::Remove, 1),
        (Procedure::Setattr, 1),
        (Procedure::Fsstat, 1),
        (Procedure::Fsinfo, 1),
    ],
    file_sizes_kib: &[
        (1, 33),
        (2, 21),
        (4, 13),
        (8, 10),
        (16, 8),
        (32, 5),
        (64, 4),
        (128, 3),
        (256, 2),
        (1024, 1),
    ],
    bytes_per_rate: 10_000_000,
    used_per_cent: 10,
    groups: 16,
    writes_are_stable: false,
};

impl Rules {
    /// The average size of a file, in bytes.
    pub fn average_file(&self) -> u64 {
        self.file_sizes_kib.iter().map(|(kib, per_cent)| kib * KIB * per_cent).sum::<u64>() / 100
    }

    /// The frequency of requests of each procedure such that its *calls* match the mix: a request
    /// to read or write may take several.
    pub fn requests(&self) -> impl Iterator<Item = (Procedure, f64)> + Clone {
        self.mix.iter().map(|&(procedure, per_cent)| {
            let calls = match procedure {
                Procedure::Read => calls_per_request(&READS),
                Procedure::Write => calls_per_request(&WRITES),
                _ => 1.0,
            };
            (procedure, per_cent as f64 / calls)
        })
    }

    /// The average number of calls of a request.
    pub fn calls_per_turn(&self) -> f64 {
        let calls: u64 = self.mix.iter().map(|(_, per_cent)| per_cent).sum();
        calls as f64 / self.requests().map(|(_, weight)| weight).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_of_a_hundred() {
        for rules in [&LADDIS, &SFS2] {
            assert_eq!(rules.mix.iter().map(|(_, per_cent)| per_cent).sum::<u64>(), 100);
            assert_eq!(rules.file_sizes_kib.iter().map(|(_, share)| share).sum::<u64>(), 100);
        }
        assert_eq!(READS.iter().map(|transfer| transfer.per_cent).sum::<u64>(), 100);
        assert_eq!(WRITES.iter().map(|transfer| transfer.per_cent).sum::<u64>(), 100);
    }

    #[test]
    fn requests_take_as_many_calls_as_the_benchmark_says() {
        assert!((calls_per_request(&READS) - 1.64).abs() < 1e-9);
        assert!((calls_per_request(&WRITES) - 2.0).abs() < 1e-9);
    }
}
