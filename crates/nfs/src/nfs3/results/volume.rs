//! FSSTAT, FSINFO, PATHCONF.

use crate::nfs3::{Outcome, PostOp, Time};
use crate::xdr::{Encode, Encoder};

/// Results of FSSTAT (RFC 1813, section 3.3.18).
pub type FsstatResult = Outcome<FsstatOk, PostOp>;

/// Results of FSINFO (section 3.3.19).
pub type FsinfoResult = Outcome<FsinfoOk, PostOp>;

/// Results of PATHCONF (section 3.3.20).
pub type PathconfResult = Outcome<PathconfOk, PostOp>;

/// `FSSTAT3resok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsstatOk {
    /// The file that was named.
    pub attributes: PostOp,
    /// `tbytes`: bytes in all.
    pub total_bytes: u64,
    /// `fbytes`: bytes free.
    pub free_bytes: u64,
    /// `abytes`: bytes that the caller may take.
    pub available_bytes: u64,
    /// `tfiles`: files in all.
    pub total_files: u64,
    /// `ffiles`: files free.
    pub free_files: u64,
    /// `afiles`: files that the caller may make.
    pub available_files: u64,
    /// `invarsec`: seconds for which this is not expected to change.
    pub invariant_seconds: u32,
}

/// `FSINFO3resok`. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsinfoOk {
    /// The file that was named.
    pub attributes: PostOp,
    /// `rtmax`: the most that a READ may request.
    pub read_max: u32,
    /// `rtpref`: the preferred size of a READ.
    pub read_preferred: u32,
    /// `rtmult`: the factor of its size.
    pub read_multiple: u32,
    /// `wtmax`: the most that a WRITE may bring.
    pub write_max: u32,
    /// `wtpref`: the preferred size of a WRITE.
    pub write_preferred: u32,
    /// `wtmult`: the factor of its size.
    pub write_multiple: u32,
    /// `dtpref`: the preferred size of a READDIR.
    pub readdir_preferred: u32,
    /// `maxfilesize`: the largest file.
    pub max_file_size: u64,
    /// The resolution of timestamps.
    pub time_delta: Time,
    /// The capabilities of the volume.
    pub properties: Properties,
}

/// `properties` of FSINFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// FSF3_LINK: hard links.
    pub hard_links: bool,
    /// FSF3_SYMLINK: symbolic links.
    pub symbolic_links: bool,
    /// FSF3_HOMOGENEOUS: PATHCONF returns the same for every file.
    pub homogeneous: bool,
    /// FSF3_CANSETTIME: SETATTR can set times exactly.
    pub can_set_time: bool,
}

/// `PATHCONF3resok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathconfOk {
    /// The file that was named.
    pub attributes: PostOp,
    /// The most names that a file may have.
    pub link_max: u32,
    /// The longest name, in bytes.
    pub name_max: u32,
    /// Whether longer names are refused instead of cut.
    pub no_trunc: bool,
    /// Whether only the superuser may give a file away.
    pub chown_restricted: bool,
    /// Whether "A" and "a" are one name.
    pub case_insensitive: bool,
    /// Whether names keep their case.
    pub case_preserving: bool,
}

impl Encode for FsstatOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.attributes);
        to.u64(self.total_bytes);
        to.u64(self.free_bytes);
        to.u64(self.available_bytes);
        to.u64(self.total_files);
        to.u64(self.free_files);
        to.u64(self.available_files);
        to.u32(self.invariant_seconds);
    }
}

impl Encode for FsinfoOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.attributes);
        to.u32(self.read_max);
        to.u32(self.read_preferred);
        to.u32(self.read_multiple);
        to.u32(self.write_max);
        to.u32(self.write_preferred);
        to.u32(self.write_multiple);
        to.u32(self.readdir_preferred);
        to.u64(self.max_file_size);
        to.value(&self.time_delta);
        to.value(&self.properties);
    }
}

impl Encode for Properties {
    fn encode(&self, to: &mut Encoder) {
        let bits = [
            (self.hard_links, 0x01),
            (self.symbolic_links, 0x02),
            (self.homogeneous, 0x08),
            (self.can_set_time, 0x10),
        ];
        to.u32(bits.iter().map(|&(set, bit)| if set { bit } else { 0 }).sum());
    }
}

impl Encode for PathconfOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.attributes);
        to.u32(self.link_max);
        to.u32(self.name_max);
        to.bool(self.no_trunc);
        to.bool(self.chown_restricted);
        to.bool(self.case_insensitive);
        to.bool(self.case_preserving);
    }
}
