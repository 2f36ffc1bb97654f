//! A crate with the feature plants one bug at a time, each thread its own.

mod planted {
    planted::bugs! {
        /// One of them.
        First,
        /// Another one.
        Second,
    }
}

use planted::{Bug, is_planted, plant};

#[test]
fn a_bug_is_planted_in_one_thread_and_in_the_place_of_another() {
    plant(Some(Bug::First));
    assert!(is_planted(Bug::First) && !is_planted(Bug::Second));
    plant(Some(Bug::Second));
    assert!(is_planted(Bug::Second) && !is_planted(Bug::First));
    let elsewhere = std::thread::spawn(|| Bug::ALL.iter().any(|&bug| is_planted(bug)));
    assert!(!elsewhere.join().expect("it looks and ends"));
    plant(None);
    assert!(!Bug::ALL.iter().any(|&bug| is_planted(bug)));
}
