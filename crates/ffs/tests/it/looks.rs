//! A name leads to its file, and reported attributes are never older than an answer about the file.

use crate::common::looks::{
    a_change_that_waits_is_told, a_file_has_no_more_names_than_it_may, names_lead_to_their_files,
    what_is_told_is_never_stale,
};

#[test]
fn names_that_are_made_and_moved_lead_to_their_files() {
    names_lead_to_their_files().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_change_that_is_not_at_home_is_told_however_much_was_looked_at_since() {
    a_change_that_waits_is_told().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn files_that_nobody_keeps_are_told_as_they_are() {
    what_is_told_is_never_stale().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_file_takes_no_name_beyond_the_most_that_it_may_have() {
    a_file_has_no_more_names_than_it_may().unwrap_or_else(|wrong| panic!("{wrong}"));
}
