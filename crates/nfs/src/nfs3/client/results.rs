//! Decoding of results. Payload and names share the memory of the record where it is
//! reference-counted.

use crate::nfs3::results::{
    AccessOk, CommitOk, CreateOk, Entry, EntryPlus, FsinfoOk, FsstatOk, LinkWcc, LookupOk,
    PathconfOk, Properties, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk, RenameWcc, WriteOk,
};
use crate::xdr::{Decode, DecodeError, Decoder};

/// Types whose fields are read one after the other: each by a method of the decoder.
macro_rules! fields {
    ($($results:ident: $($field:ident $method:ident),+;)+) => {$(
        impl Decode<'_> for $results {
            fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                Ok(Self { $($field: fields!(@$method from)?),+ })
            }
        }
    )+};
    (@payload $from:ident) => { $from.payload(usize::MAX) }; // the record bounds it
    (@$method:ident $from:ident) => { $from.$method() };
}

fields! {
    LookupOk: object value, attributes value, directory value;
    AccessOk: attributes value, access u32;
    ReadlinkOk: attributes value, target payload;
    WriteOk: wcc value, count u32, committed value, verifier value;
    CommitOk: wcc value, verifier value;
    CreateOk: object value, attributes value, directory value;
    RenameWcc: from value, to value;
    LinkWcc: file value, directory value;
    Entry: fileid u64, name payload, cookie u64;
    EntryPlus: entry value, attributes value, handle value;
    FsstatOk:
        attributes value, total_bytes u64, free_bytes u64, available_bytes u64, total_files u64,
        free_files u64, available_files u64, invariant_seconds u32;
    FsinfoOk:
        attributes value, read_max u32, read_preferred u32, read_multiple u32, write_max u32,
        write_preferred u32, write_multiple u32, readdir_preferred u32, max_file_size u64,
        time_delta value, properties value;
    PathconfOk:
        attributes value, link_max u32, name_max u32, no_trunc bool, chown_restricted bool,
        case_insensitive bool, case_preserving bool;
}

impl Decode<'_> for ReadOk {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let attributes = from.value()?;
        let count = from.u32()?;
        let eof = from.bool()?;
        let data = from.payload(usize::MAX)?; // the record bounds it
        if data.len() != count as usize {
            return Err(DecodeError::BadValue { of: "count of a READ", value: count });
        }
        Ok(Self { attributes, eof, data: vec![data] })
    }
}

impl Decode<'_> for Properties {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let bits = from.u32()?;
        let has = |bit| bits & bit != 0;
        Ok(Self {
            hard_links: has(0x01),
            symbolic_links: has(0x02),
            homogeneous: has(0x08),
            can_set_time: has(0x10),
        })
    }
}

impl Decode<'_> for ReaddirOk {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (directory, cookie_verifier) = (from.value()?, from.value()?);
        let (entries, eof) = decode_list(from)?;
        Ok(Self { directory, cookie_verifier, entries, eof })
    }
}

impl Decode<'_> for ReaddirplusOk {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (directory, cookie_verifier) = (from.value()?, from.value()?);
        let (entries, eof) = decode_list(from)?;
        Ok(Self { directory, cookie_verifier, entries, eof })
    }
}

/// Each entry takes some bytes of the record, so that the record bounds the list.
fn decode_list<T: for<'b> Decode<'b>>(
    from: &mut Decoder<'_>,
) -> Result<(Vec<T>, bool), DecodeError> {
    let mut entries = Vec::new();
    while from.bool()? {
        entries.push(from.value()?);
    }
    Ok((entries, from.bool()?))
}
