//! Damage like that of broken machines and of attackers.

use sim::Prng;

/// Boundary values of numbers.
const NUMBERS: [u64; 20] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    64,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffc,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// Damages `input` in one to eight places; pieces of `other` may get into it. It does not grow
/// beyond `longest`.
pub fn mutate(prng: &mut Prng, input: &mut Vec<u8>, other: &[u8], longest: usize) {
    let most = 2 << prng.below(3);
    for _ in 0..1 + prng.below(most) {
        damage(prng, input, other);
    }
    input.truncate(longest);
}

fn damage(prng: &mut Prng, input: &mut Vec<u8>, other: &[u8]) {
    if input.is_empty() {
        input.extend(other);
        return;
    }
    let at = prng.index(input.len());
    match prng.below(12) {
        0..3 => input[at] ^= 1 << prng.below(8),
        3 => input[at] = [0, 1, 0x7f, 0x80, 0xff][prng.index(5)],
        4 => input[at] = prng.next_u64() as u8,
        5..8 => put_number(prng, input, at),
        8 => input.truncate(at),
        9 => duplicate(prng, input, at),
        10 => drop(input.drain(at..(at + run(prng)).min(input.len()))),
        _ => splice(prng, input, at, other),
    }
}

/// The length of a piece: mostly a few units of the encodings.
fn run(prng: &mut Prng) -> usize {
    match prng.below(3) {
        0 => 4,
        1 => 8,
        _ => 1 + prng.index(64),
    }
}

/// Overwrites a number, at a place that is usual in the encodings, in either byte order: with a
/// boundary value, with about the length of the input, or with a neighbouring value.
fn put_number(prng: &mut Prng, input: &mut [u8], at: usize) {
    let width = [2, 4, 4, 8][prng.index(4)];
    let at = if prng.chance(7, 8) { at - at % width } else { at };
    let Some(field) = input.len().checked_sub(width).filter(|last| at <= *last) else { return };
    let length = field as u64 + width as u64;
    let big = prng.chance(2, 3);
    let field = &mut input[at..at + width];
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(field);
    if big {
        bytes[..width].reverse();
    }
    let old = u64::from_le_bytes(bytes);
    let new = match prng.below(6) {
        0 => length.wrapping_sub(at as u64),
        1 => old.wrapping_add(1),
        2 => old.wrapping_sub(1),
        3 => old ^ 1 << prng.below(8 * width as u64),
        _ => NUMBERS[prng.index(NUMBERS.len())],
    };
    let mut bytes = new.to_le_bytes();
    if big {
        bytes[..width].reverse();
    }
    field.copy_from_slice(&bytes[..width]);
}

fn duplicate(prng: &mut Prng, input: &mut Vec<u8>, at: usize) {
    let piece = input[at..(at + run(prng)).min(input.len())].to_vec();
    let to = prng.index(input.len());
    input.splice(to..to, piece);
}

/// Inserts a piece of another input into this one, or overwrites a part with it.
fn splice(prng: &mut Prng, input: &mut Vec<u8>, at: usize, other: &[u8]) {
    if other.is_empty() {
        return;
    }
    let from = prng.index(other.len());
    let piece = &other[from..(from + run(prng)).min(other.len())];
    let end = if prng.chance(1, 2) { at } else { (at + piece.len()).min(input.len()) };
    input.splice(at..end, piece.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_the_same_under_the_same_seed_and_keeps_the_bound() {
        let damaged = |seed| {
            let mut input = vec![7; 100];
            mutate(&mut Prng::new(seed), &mut input, &[9; 300], 120);
            input
        };
        let all: Vec<_> = (0..200).map(damaged).collect();
        assert_eq!(all, (0..200).map(damaged).collect::<Vec<_>>());
        assert!(all.iter().all(|input| input.len() <= 120));
        let changed = all.iter().filter(|input| ***input != [7; 100]).count();
        assert!(changed > 190, "{changed} of 200 were damaged");
    }

    #[test]
    fn an_empty_input_can_be_damaged() {
        let mut input = Vec::new();
        mutate(&mut Prng::new(1), &mut input, &[], 10);
        assert!(input.is_empty());
    }
}
