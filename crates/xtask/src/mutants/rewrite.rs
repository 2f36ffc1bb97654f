//! Sources with all their mutants in them, each behind a switch.
//!
//! 1. Between what is inserted the source is as it was, and every line keeps its number.
//! 2. Where no mutant is switched on, the source does what it did.
//! 3. A mutant holds the source around it without other mutants: a source grows by what is broken
//!    times how deep it is nested, not by more.
//!
//! Not asserted: 1 and 3, which the finder's insertions keep; 2, which tests show.

use std::cmp::Reverse;
use std::ops::Range;

use super::finder::{Edit, Mutant, SWITCH};

/// Tells a process which mutant is switched on.
pub(super) const NUMBER: &str = "MUTANT";
/// Tells a process where to note which mutants it has reached.
pub(super) const FOLDER: &str = "MUTANTS_REACHED";

/// What asks for a mutant: a module at the end of a crate.
const MODULE: &str = r#"
#[allow(missing_docs)]
pub mod mutant_switch {
    use std::io::Write;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    const UNKNOWN: u32 = u32::MAX;
    const NOTED: u32 = u32::MAX - 1;
    const NONE: u32 = u32::MAX - 2;
    static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
    static REACHED: [AtomicU32; COUNT] = [const { AtomicU32::new(0) }; COUNT];
    static FILE: Mutex<()> = Mutex::new(());

    #[inline]
    pub fn is(number: u32) -> bool {
        match CHOSEN.load(Ordering::Relaxed) {
            NOTED => reach(number),
            UNKNOWN => ask(number),
            chosen => chosen == number,
        }
    }

    #[cold]
    #[inline(never)]
    fn ask(number: u32) -> bool {
        let chosen = std::env::var("MUTANT").ok().and_then(|text| text.parse().ok());
        let is_noted = std::env::var_os("MUTANTS_REACHED").is_some();
        let chosen = if is_noted { NOTED } else { chosen.unwrap_or(NONE) };
        CHOSEN.store(chosen, Ordering::Relaxed);
        is(number)
    }

    #[cold]
    #[inline(never)]
    fn reach(number: u32) -> bool {
        if REACHED[number as usize].swap(1, Ordering::Relaxed) == 0
            && let Some(folder) = std::env::var_os("MUTANTS_REACHED")
        {
            note(number, &folder);
        }
        false
    }

    fn note(number: u32, folder: &std::ffi::OsStr) {
        let _one = FILE.lock();
        let path = std::path::Path::new(folder).join(std::process::id().to_string());
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes()));
    }
}
"#;

/// The module for a crate, if there are `count` mutants in all.
pub(super) fn module(count: usize) -> String {
    MODULE.replace("COUNT", &count.max(1).to_string())
}

/// A source with mutants in it.
#[derive(Debug, Default)]
pub(super) struct Rewritten {
    pub(super) text: String,
    places: Vec<Place>,
}

/// Where one mutant has come to stand.
#[derive(Debug)]
struct Place {
    number: usize,
    /// What is inserted.
    inserted: Vec<Range<usize>>,
    /// The function around it.
    function: Range<usize>,
}

impl Place {
    /// From its first insertion to its last.
    fn whole(&self) -> Range<usize> {
        let [first, .., last] = &self.inserted[..] else { return self.inserted[0].clone() };
        first.start..last.end
    }
}

/// One insertion. They are sorted: at one place what ends comes first, the innermost before all
/// others; then what only stands there; then what begins, the outermost first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Insertion {
    at: usize,
    order: Order,
    text: String,
    number: usize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Ends { start: Reverse<usize>, turn: Reverse<usize> },
    Stands { turn: usize },
    Begins { end: Reverse<usize>, turn: usize },
}

/// A source with these mutants in it, each of which has its number.
pub(super) fn rewrite(text: &str, mutants: &[(usize, &Mutant)]) -> Rewritten {
    let mut insertions = Vec::new();
    for (turn, (number, mutant)) in mutants.iter().enumerate() {
        let mut insert = |at: usize, order: Order, text: &str| {
            let text = text.replace(SWITCH, &format!("crate::mutant_switch::is({number})"));
            insertions.push(Insertion { at, order, text, number: *number });
        };
        for edit in &mutant.edits {
            match edit {
                Edit::At { at, text } => insert(*at, Order::Stands { turn }, text),
                Edit::Around { range, before, after } => {
                    let begins = Order::Begins { end: Reverse(range.end), turn };
                    insert(range.start, begins, before);
                    let ends = Order::Ends { start: Reverse(range.start), turn: Reverse(turn) };
                    insert(range.end, ends, after);
                }
            }
        }
    }
    insertions.sort();
    let moved = |at: usize, with_those_there: bool| {
        let is_before = |one: &&Insertion| one.at < at || with_those_there && one.at == at;
        at + insertions.iter().filter(is_before).map(|one| one.text.len()).sum::<usize>()
    };
    let place = |(number, mutant): &(usize, &Mutant)| Place {
        number: *number,
        inserted: Vec::new(),
        function: moved(mutant.function.start, false)..moved(mutant.function.end, true),
    };
    let mut places = mutants.iter().map(place).collect::<Vec<_>>();
    let mut rewritten = String::with_capacity(text.len() * 4);
    let mut done = 0;
    for insertion in &insertions {
        rewritten.push_str(&text[done..insertion.at]);
        done = insertion.at;
        let range = rewritten.len()..rewritten.len() + insertion.text.len();
        rewritten.push_str(&insertion.text);
        let place = places.iter_mut().find(|place| place.number == insertion.number);
        let place = place.expect("every insertion is one of a mutant that has a place");
        place.inserted.push(range);
    }
    rewritten.push_str(&text[done..]);
    Rewritten { text: rewritten, places }
}

impl Rewritten {
    /// The mutants to which an error belongs that the compiler finds in these bytes, the most
    /// important ones first: those that inserted some of them; else those next around; else those
    /// of the function; else all that there are.
    pub(super) fn blamed(&self, found: &[Range<usize>]) -> Vec<usize> {
        let has = |outer: &Range<usize>, inner: &Range<usize>| {
            outer.start <= inner.start && inner.end <= outer.end
        };
        let those = |is: &dyn Fn(&Place) -> bool| {
            self.places.iter().filter(|place| is(place)).map(|place| place.number).collect()
        };
        let is_in = |place: &Place| {
            found.iter().any(|found| place.inserted.iter().any(|range| has(range, found)))
        };
        let inserted: Vec<usize> = those(&is_in);
        if !inserted.is_empty() {
            return inserted;
        }
        let Some(first) = found.first() else { return Vec::new() };
        let around = |range: fn(&Place) -> Range<usize>| {
            let around = self.places.iter().map(range).filter(|range| has(range, first));
            around.min_by_key(ExactSizeIterator::len)
        };
        if let Some(whole) = around(Place::whole) {
            return those(&|place| place.whole() == whole);
        }
        if let Some(function) = around(|place| place.function.clone()) {
            return those(&|place| place.function == function);
        }
        those(&|_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finder::find;
    use super::*;

    /// The source with only those mutants whose names begin so, and `is(N)` short.
    fn only(text: &str, what: &str) -> String {
        let found = find("a.rs", text).expect("it is Rust").mutants;
        let chosen = found.iter().filter(|mutant| mutant.what.starts_with(what));
        let chosen = chosen.enumerate().collect::<Vec<_>>();
        assert!(!chosen.is_empty(), "{:?}", found.iter().map(|one| &one.what).collect::<Vec<_>>());
        rewrite(text, &chosen).text.replace("crate::mutant_switch::", "")
    }

    fn what(text: &str) -> Vec<String> {
        let found = find("a.rs", text).expect("it is Rust").mutants;
        found.into_iter().map(|mutant| mutant.what).collect()
    }

    #[test]
    fn an_operator_has_another_beside_it() {
        assert_eq!(
            only("fn f(a: u8) -> u16 { g(a as u16 > b) }", "replace >"),
            "fn f(a: u8) -> u16 { g((if is(0) { ((a as u16) >= (b)) } else { (a as u16 > b) })) }"
        );
        assert_eq!(
            what("fn f() -> A { a &= b; }"),
            ["delete a &= b; in f", "replace &= with |= in f"]
        );
    }

    #[test]
    fn a_verb_has_another_beside_it() {
        assert_eq!(
            only("fn f() -> A { a.b().div_ceil(c + 1) }", "replace div_ceil"),
            "fn f() -> A { (if is(0) { ((a . b ()) / (c + 1)) } else { (a.b().div_ceil(c + 1)) }) }"
        );
        assert_eq!(
            what("fn f() -> A { g(a.min(b), Durability::Through) }"),
            [
                "replace min with max in f",
                "replace Durability::Through with Durability::Plain in f"
            ]
        );
        assert_eq!(what("fn f() -> A { a.iter().max() }"), Vec::<String>::new());
    }

    #[test]
    fn mutants_stand_in_each_other() {
        assert_eq!(
            only("fn f() -> A { !(a && b) }", ""),
            "fn f() -> A { (if is(0) { ((a && b)) } else { (!((if is(1) { ((a) || (b)) } else { \
             (a && b) }))) }) }"
        );
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = "fn f() {\n    if a // why\n        && b\n    {\n        g();\n    }\n}\n";
        let rewritten = only(text, "");
        assert_eq!(rewritten.lines().count(), text.lines().count(), "{rewritten}");
        assert!(rewritten.lines().nth(4).is_some_and(|line| line.contains("g();")), "{rewritten}");
    }

    #[test]
    fn a_statement_is_left_out_or_comes_later() {
        let text = "async fn f() -> A { a.flush().await?; b(); c }";
        assert_eq!(
            only(text, "delete a"),
            "async fn f() -> A { if !is(0) { a.flush().await?; } b(); c }"
        );
        assert_eq!(
            only(text, "put"),
            "async fn f() -> A { if !is(0) { a.flush().await?; } b(); if is(0) { a . flush () . \
             await ?; } c }"
        );
        assert_eq!(what("fn f() -> A { a(); b(); c }"), ["delete a(); in f", "delete b(); in f"]);
        assert_eq!(what("fn f() -> A { let _ = a(); b }"), ["delete let _ = a(); in f"]);
        assert_eq!(what("fn f() -> Result<()> { a; Ok(()) }").len(), 1, "its body alone");
    }

    #[test]
    fn a_last_call_without_a_value_is_left_out() {
        let text = "fn f() { match a { A => b(), B => { c; d() } } }";
        assert_eq!(
            only(text, "delete"),
            "fn f() { match a { A => (if !is(0) { b() }), B => { c; (if !is(1) { d() }) } } }"
        );
        assert_eq!(
            only("fn f() -> Result<()> { a; b.flush() }", "replace b"),
            "fn f() -> Result<()> { a; (if is(0) { (Ok(())) } else { (b.flush()) }) }"
        );
    }

    #[test]
    fn a_condition_is_always_the_same() {
        assert_eq!(
            what("fn f() -> A { match a { B if c => d, _ => e } }"),
            ["replace match guard c with true in f", "replace match guard c with false in f"]
        );
        assert_eq!(
            only("fn f() -> A { if let B = c && d { e } else { g } }", "replace"),
            "fn f() -> A { if let B = c && (if is(1) { (true) } else { (d) }) && !is(0) { e } else \
             { g } }"
        );
        assert_eq!(what("fn f() -> A { while a {} }"), ["replace condition a with false in f"]);
    }

    #[test]
    fn an_end_moves_by_a_step() {
        assert_eq!(
            what("fn f() -> A { g(0..=a, x > 2) }"),
            [
                "replace 0 with 1 in f",
                "replace ..= with .. in f",
                "replace > with >= in f",
                "replace 2 with 3 in f"
            ]
        );
        assert_eq!(
            only("fn f() -> A { g(b..a) }", "replace .."),
            "fn f() -> A { g(b..(if is(0) { ((a) + 1) } else { (a) })) }"
        );
    }

    #[test]
    fn a_function_gives_back_something_else() {
        assert_eq!(
            only("impl A<'_> {\n fn f(&self) -> io::Result<bool> { g }\n}", ""),
            "impl A<'_> {\n fn f(&self) -> io::Result<bool> { if is(0) { return Ok(true); } if \
             is(1) { return Ok(false); } g }\n}"
        );
        assert_eq!(
            what("impl Drop for A<'_> { fn drop(&mut self) { g!() } }"),
            ["replace <impl Drop for A<'_>>::drop with ()"]
        );
        assert_eq!(what("fn f() -> Option<u8> { None }"), Vec::<String>::new());
    }

    #[test]
    fn what_must_not_be_broken_is_left_alone() {
        let left = [
            "#[cfg(test)] mod tests { fn f() -> u8 { a() + b } }",
            "const A: u8 = 1 + 2; static B: bool = 1 < 2;",
            "const fn f() -> u8 { 1 + 2 }",
            "fn f() -> A { let a: [u8; 1 + 2] = [c; 3 - 1]; d }",
            "fn f(a: [u8; 1 + 2]) -> A { assert!(a < b); B::<{ 1 + 2 }>::c }",
            "fn f() -> A { unsafe { a() + b } }",
            "unsafe fn f() -> bool { a < b }",
            "impl fmt::Debug for A { fn fmt(&self) -> Result<()> { a(); b } }",
            "fn f() -> A { let a = is_planted(B) || c; d }",
            "fn f() -> A { if is_planted(B) { c(); d < e } else { g } }",
            "fn f() -> A { match a { 1..3 => b, _ => c } }",
            "fn f() -> A { let a = Vec::with_capacity(b + c); d }",
        ];
        for text in left {
            assert_eq!(what(text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(what("fn f() -> A { if !is_planted(B) { c(); } d }"), ["delete c(); in f"]);
    }

    #[test]
    fn modules_that_only_tests_have_are_told() {
        let found = find("a.rs", "#[cfg(test)]\nmod tests;\nmod b;\n").expect("it is Rust");
        assert_eq!(found.tests, ["tests"]);
    }

    #[test]
    fn an_error_belongs_to_what_was_inserted_or_to_what_is_around_it() {
        let text = "fn f() -> A { g(a + (b - c)) }\nfn h() -> A { a * b }\n";
        let found = find("a.rs", text).expect("it is Rust").mutants;
        let chosen = found.iter().enumerate().collect::<Vec<_>>();
        let rewritten = rewrite(text, &chosen);
        let at = |what: &str| {
            let at = rewritten.text.find(what).expect("it is there");
            at..at + what.len()
        };
        assert_eq!(rewritten.blamed(&[at("(a) - ((b - c))")]), [0]);
        assert_eq!(rewritten.blamed(&[at("g("), at("(b) + (c)")]), [1]);
        assert_eq!(rewritten.blamed(&[at("b - c)")]), [0], "the first is what was inserted");
        assert_eq!(rewritten.blamed(&[at("g(")]), [0, 1]);
        assert_eq!(rewritten.blamed(&[at("fn h")]), [2]);
        assert_eq!(rewritten.blamed(&[at("\nfn")]), [0, 1, 2]);
        assert_eq!(rewritten.blamed(&[]), Vec::<usize>::new());
    }
}
