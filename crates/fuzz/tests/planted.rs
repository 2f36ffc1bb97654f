//! Decoders with bugs that the harness must find: otherwise its silence would prove nothing.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use fuzz::Target;
use fuzz::harness::{self, Fault, Plan};

const fn planted(name: &'static str, check: fn(&[u8])) -> Target {
    let generate = |prng: &mut sim::Prng| {
        // A correct length, and as many bytes.
        let length = prng.below(40) as u8;
        std::iter::once(length).chain((0..length).map(|byte| byte.wrapping_mul(3))).collect()
    };
    Target { name, check, generate, longest: 100, memory: 64 << 10 }
}

/// Trusts a length, and so reads behind the end.
fn reads_behind_the_end(input: &[u8]) {
    if let Some((&length, rest)) = input.split_first() {
        black_box(&rest[..length.into()]);
    }
}

/// Loses a byte when it encodes.
fn forgets_a_byte(input: &[u8]) {
    let Some((&length, rest)) = input.split_first() else { return };
    let Some(decoded) = rest.get(..length.into()) else { return };
    let encoded = if decoded.contains(&0x7f) { &decoded[1..] } else { decoded };
    assert_eq!(decoded, encoded, "what was decoded is encoded again");
}

static GIVE_UP: AtomicBool = AtomicBool::new(false);

/// Steps over entries by their lengths, and a length may be 0.
fn goes_round(input: &[u8]) {
    let mut at = 0;
    while at < input.len() && !GIVE_UP.load(Ordering::Relaxed) {
        at += usize::from(input[at]);
    }
}

/// Allocates room for as many entries as a count says.
fn takes_what_it_is_told(input: &[u8]) {
    let Some(count) = input.first_chunk::<4>() else { return };
    let count = u32::from_be_bytes(*count) as usize % (64 << 20);
    black_box(Vec::<u8>::with_capacity(count));
}

static READS: Target = planted("planted-read", reads_behind_the_end);
static FORGETS: Target = planted("planted-loss", forgets_a_byte);
static HANGS: Target = planted("planted-hang", goes_round);
static GROWS: Target = planted("planted-growth", takes_what_it_is_told);

/// The first failure of 5000 cases, which the same case reproduces.
fn found(target: &'static Target) -> Fault {
    let plan = Plan { seed: 3, first: 0, cases: 5000, time: None };
    let report = harness::run(target, Vec::new(), plan, |_| ());
    let failure = report.failure.expect("a planted bug is found");
    assert_eq!(failure.input, harness::input_of(target, &[], plan.seed, failure.case));
    failure.fault
}

#[test]
fn a_panic_is_caught_with_its_words() {
    let Fault::Panicked(words) = found(&READS) else { panic!("another fault") };
    assert!(words.contains("out of range"), "{words}");
    assert!(words.contains("planted.rs"), "{words}");
}

#[test]
fn a_broken_property_is_caught() {
    let Fault::Panicked(words) = found(&FORGETS) else { panic!("another fault") };
    assert!(words.contains("encoded again"), "{words}");
}

#[test]
fn a_case_that_does_not_end_is_caught() {
    assert_eq!(found(&HANGS), Fault::Hung);
    GIVE_UP.store(true, Ordering::Relaxed); // otherwise its thread keeps a processor busy
}

#[test]
fn a_case_that_grows_is_caught() {
    let Fault::Grew { peak, allowed } = found(&GROWS) else { panic!("another fault") };
    assert!(peak > allowed && allowed >= 64 << 10, "{peak} of {allowed}");
}

#[test]
fn a_failing_input_fails_again_when_it_is_replayed() {
    let inputs = vec![vec![2, 1, 1], vec![3, 1, 1]];
    let failure = harness::replay(&READS, inputs).failure.expect("the second is too short");
    assert_eq!(failure.case, 1);
}
