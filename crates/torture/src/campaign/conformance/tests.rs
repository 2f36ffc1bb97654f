//! Falsifies replies, word by word: a check that passes wrong replies proves nothing.

use std::collections::BTreeMap;

use sim::Prng;

use super::Setting;
use super::generate::Generator;
use super::session::{Session, users};
use super::step::Act;
use crate::explore::design::Design;
use crate::protocol::{Answer, Response};

/// The most words of a reply to falsify.
const WORDS: usize = 200;
/// Steps in which the reference learns the values that the server chooses once.
const LEARNING: usize = 200;

/// Falsified replies, and those of them that passed.
#[derive(Clone, Copy, Debug, Default)]
struct Believed {
    falsified: u64,
    believed: u64,
}

/// Falsifies each word of the replies to some steps; counts by procedure.
fn falsify(seed: u64, steps: usize, mask: u32) -> BTreeMap<u32, Believed> {
    let setting = Setting { seed, design: Design::default() };
    let mut session = Session::new(seed, setting.options(), users()).expect("it starts");
    let prng = &mut Prng::new(seed);
    let mut counts = BTreeMap::<u32, Believed>::new();
    for number in 1..=steps {
        let step = Generator { prng, reference: &session.reference }.step(number);
        if step.act == Act::Restart {
            continue;
        }
        let Some(request) = session.reference.request(&step) else { continue };
        let target = request.target();
        let reply = session.ask(&step).expect("it is answered").expect("it can be asked");
        let Answer::Results(results) = &reply.answer else { panic!("{:?}", reply.answer) };
        let words = if number > LEARNING { (results.len() / 4).min(WORDS) } else { 0 };
        for word in 0..words {
            let mut false_one = results.to_vec();
            let bytes = &mut false_one[4 * word..4 * word + 4];
            let value = u32::from_be_bytes(bytes.try_into().expect("four of them"));
            bytes.copy_from_slice(&(value ^ mask).to_be_bytes());
            let Some(response) = Response::decode(target, &false_one) else { continue };
            let mut reference = session.reference.clone();
            let count = counts.entry(target.procedure).or_default();
            count.falsified += 1;
            count.believed += u64::from(reference.judge(&step, &response, reply.window).is_ok());
        }
        let verdict = session.reference.judge(&step, &reply.response, reply.window);
        verdict.unwrap_or_else(|reason| panic!("seed {seed}, {step}: {reason}"));
    }
    counts
}

/// Procedures with no word that the server may choose. The others return handles and file numbers
/// seen for the first time, sizes of directories, cookies, free space.
const WITHOUT_CHOICES: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 19, 20, 21];
/// Turns a time into an invalid one, or into one of another year.
const FAR: u32 = 1 << 30;
/// Turns a time into one that may belong to the same call.
const NEAR: u32 = 1;

#[test]
fn a_reply_that_is_wrong_in_one_word_is_noticed() {
    for mask in [FAR, NEAR] {
        let counts = falsify(7, 800, mask);
        assert!(counts.len() >= 20, "{counts:?}");
        for (procedure, Believed { falsified, believed }) in counts {
            let none = mask == FAR && WITHOUT_CHOICES.contains(&procedure);
            let most = if none { 0 } else { falsified / 5 };
            assert!(
                believed <= most,
                "of {falsified} false replies of procedure {procedure} {believed} were believed"
            );
        }
    }
}
