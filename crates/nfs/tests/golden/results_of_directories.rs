//! READDIR and READDIRPLUS: their bytes, and budgets that count exactly those.

use bytes::Bytes;
use nfs::nfs3::results::{
    Entry, EntryPlus, ReaddirOk, ReaddirResult, ReaddirplusOk, ReaddirplusResult,
};
use nfs::nfs3::{Handle, ReaddirBudget, ReaddirplusBudget, Verifier};

use crate::{HANDLE, assert_encodes, attributes, encoded, handle, some_attributes};

const VERIFIER: Verifier = Verifier(*b"\x11\x22\x33\x44\x55\x66\x77\x88");

fn entry(name: &str) -> Entry {
    Entry { fileid: 3, name: Bytes::copy_from_slice(name.as_bytes()), cookie: 0xc0 }
}

fn entry_plus(name: &str, handle: Handle) -> EntryPlus {
    EntryPlus { entry: entry(name), attributes: Some(attributes()), handle: Some(handle) }
}

fn list(entries: Vec<Entry>) -> ReaddirOk {
    let directory = Some(attributes());
    ReaddirOk { directory, cookie_verifier: VERIFIER, entries, eof: true }
}

fn list_plus(entries: Vec<EntryPlus>) -> ReaddirplusOk {
    let directory = Some(attributes());
    ReaddirplusOk { directory, cookie_verifier: VERIFIER, entries, eof: false }
}

#[test]
fn readdir() {
    let result: ReaddirResult = Ok(list(vec![entry("."), entry("name1")]));
    let text = format!(
        "00000000 {}
        11223344 55667788                       # cookieverf
        00000001                                # an entry follows
        00000000 00000003 00000001 2e000000 00000000 000000c0
        00000001                                # another
        00000000 00000003 00000005 6e616d65 31 000000 00000000 000000c0
        00000000                                # no more
        00000001                                # eof",
        some_attributes()
    );
    assert_encodes(&result, &text);
}

#[test]
fn readdirplus() {
    let bare = EntryPlus { entry: entry("b"), attributes: None, handle: None };
    let result: ReaddirplusResult = Ok(list_plus(vec![entry_plus("a", handle()), bare]));
    let text = format!(
        "00000000 {attributes}
        11223344 55667788                       # cookieverf
        00000001                                # an entry follows
        00000000 00000003 00000001 61000000 00000000 000000c0
        {attributes}
        00000001 {HANDLE}                       # handle follows
        00000001                                # another
        00000000 00000003 00000001 62000000 00000000 000000c0
        00000000 00000000                       # neither attributes nor handle
        00000000                                # no more
        00000000                                # not the end",
        attributes = some_attributes()
    );
    assert_encodes(&result, &text);
}

#[test]
fn count_is_the_size_of_the_whole_readdir_result() {
    let names = ["a", "four", "seven77", ""];
    let result = list(names.map(entry).into());
    let size = u32::try_from(encoded(&result).len()).expect("a short reply");
    let admits_all = |count| {
        let mut budget = ReaddirBudget::new(count);
        names.iter().all(|name| budget.admit(name.len()))
    };
    assert!(admits_all(size));
    assert!(!admits_all(size - 1));
}

#[test]
fn maxcount_is_the_size_of_the_whole_readdirplus_result() {
    let longest = Handle::new(&[7; 64]).expect("64 bytes are a handle");
    let entries = [("a", handle()), ("four", longest), ("seven77", handle())];
    let result = list_plus(entries.map(|(name, handle)| entry_plus(name, handle)).into());
    let size = u32::try_from(encoded(&result).len()).expect("a short reply");
    let admits_all = |maxcount| {
        let mut budget = ReaddirplusBudget::new(u32::MAX, maxcount);
        entries.iter().all(|(name, handle)| budget.admit(name.len(), handle.as_bytes().len()))
    };
    assert!(admits_all(size));
    assert!(!admits_all(size - 1));
}

#[test]
fn dircount_is_the_size_of_ids_names_and_cookies() {
    // 8 for the id, 4 for the length, 4 for "a" or 8 for "longer", 8 for the cookie.
    let admits_both = |dircount| {
        let mut budget = ReaddirplusBudget::new(dircount, u32::MAX);
        budget.admit(1, 28) && budget.admit(6, 28)
    };
    assert!(admits_both(24 + 28));
    assert!(!admits_both(24 + 28 - 1));
}

#[test]
fn dircount_lets_the_first_entry_in_and_maxcount_does_not() {
    let mut budget = ReaddirplusBudget::new(0, 4096);
    assert!(budget.admit(255, 64));
    assert!(!budget.admit(1, 28));
    assert!(!ReaddirplusBudget::new(4096, 128).admit(1, 28));
}

#[test]
fn a_count_below_an_empty_list_admits_nothing() {
    assert!(!ReaddirBudget::new(0).admit(1));
    assert!(!ReaddirplusBudget::new(0, 0).admit(1, 28));
}
