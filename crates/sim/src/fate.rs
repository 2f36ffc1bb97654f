//! Fates of the writes that a disk has not made durable at a power cut.

use std::fmt;
use std::str::FromStr;

use crate::image::{Image, SECTOR_SIZE};
use crate::prng::Prng;

/// A set of sectors of one write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sectors(Vec<bool>);

impl Sectors {
    /// Each of `total` sectors with a chance of `part` in `whole`.
    pub fn some(total: usize, (part, whole): (u64, u64), prng: &mut Prng) -> Self {
        Self((0..total).map(|_| prng.chance(part, whole)).collect())
    }

    /// None of `total` sectors.
    pub fn none(total: usize) -> Self {
        Self(vec![false; total])
    }

    /// All of `total` sectors.
    pub fn all(total: usize) -> Self {
        Self(vec![true; total])
    }

    /// The first `count` of `total` sectors.
    pub fn first(count: usize, total: usize) -> Self {
        Self((0..total).map(|index| index < count).collect())
    }

    /// All of `total` sectors but the first `count`.
    pub fn but_first(count: usize, total: usize) -> Self {
        Self((0..total).map(|index| index >= count).collect())
    }

    /// Each of `total` sectors with an even chance.
    pub fn random(total: usize, prng: &mut Prng) -> Self {
        Self::some(total, (1, 2), prng)
    }

    /// Whether the sector at `index` belongs to the set.
    pub fn contains(&self, index: usize) -> bool {
        self.0.get(index).copied().unwrap_or(false)
    }

    /// Those that belong to both.
    pub fn intersection(&self, other: &Self) -> Self {
        Self((0..self.0.len()).map(|index| self.0[index] && other.contains(index)).collect())
    }

    /// The number of sectors in the set.
    pub fn count(&self) -> usize {
        self.0.iter().filter(|&&survives| survives).count()
    }
}

/// The fate of a pending write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Lost.
    Lost,
    /// Survives whole.
    Whole,
    /// These sectors survive.
    Torn(Sectors),
}

/// A fate for every pending write of a [`Platter`], in its order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice(pub(crate) Vec<Fate>);

impl Choice {
    /// The choice of these fates.
    pub fn new(fates: Vec<Fate>) -> Self {
        Self(fates)
    }

    /// The fates.
    pub fn fates(&self) -> &[Fate] {
        &self.0
    }
}

impl Fate {
    /// A random fate of a write of this many sectors.
    pub fn random(sectors: usize, prng: &mut Prng) -> Self {
        match prng.below(8) {
            0..3 => Fate::Lost,
            3..6 => Fate::Whole,
            6 => Fate::Torn(Sectors::first(prng.index(sectors + 1), sectors)),
            _ => Fate::Torn(Sectors::random(sectors, prng)),
        }
    }

    /// Applies the surviving part of `data` to `image` at `offset`.
    pub(crate) fn apply(&self, image: &mut Image, offset: u64, data: &[u8]) {
        match self {
            Fate::Lost => {}
            Fate::Whole => image.write(offset, data),
            Fate::Torn(survive) => {
                for (index, sector) in data.chunks(SECTOR_SIZE).enumerate() {
                    if survive.contains(index) {
                        image.write(offset + (index * SECTOR_SIZE) as u64, sector);
                    }
                }
            }
        }
    }
}

/// For the line that repeats a failure: `1 0 [1100]` is one whole write, one lost and one torn.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fate) in self.0.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            match fate {
                Fate::Lost => write!(f, "{space}0")?,
                Fate::Whole => write!(f, "{space}1")?,
                Fate::Torn(sectors) => {
                    let bits: String =
                        sectors.0.iter().map(|&bit| if bit { '1' } else { '0' }).collect();
                    write!(f, "{space}[{bits}]")?;
                }
            }
        }
        Ok(())
    }
}

/// A text that is not a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoChoice(String);

impl NoChoice {
    /// The error for this text.
    pub fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for NoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fate is 0, 1 or bits in brackets, and not '{}'", self.0)
    }
}

impl std::error::Error for NoChoice {}

/// Parses the displayed form of [`Choice`].
impl FromStr for Choice {
    type Err = NoChoice;

    fn from_str(text: &str) -> Result<Self, NoChoice> {
        let bits = |word: &str| {
            let inside = word.strip_prefix('[')?.strip_suffix(']')?;
            let bit = |digit| match digit {
                '0' => Some(false),
                '1' => Some(true),
                _ => None,
            };
            Some(Fate::Torn(Sectors(inside.chars().map(bit).collect::<Option<_>>()?)))
        };
        let fate = |word: &str| match word {
            "0" => Ok(Fate::Lost),
            "1" => Ok(Fate::Whole),
            torn => bits(torn).ok_or_else(|| NoChoice(torn.to_owned())),
        };
        text.split_whitespace().map(fate).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displayed_is_read_again() {
        let choice = Choice::new(vec![Fate::Whole, Fate::Torn(Sectors::first(2, 4)), Fate::Lost]);
        assert_eq!(choice.to_string(), "1 [1100] 0");
        assert_eq!("1 [1100] 0".parse(), Ok(choice));
        assert_eq!("".parse(), Ok(Choice::new(Vec::new())));
        assert_eq!("1 [12]".parse::<Choice>(), Err(NoChoice("[12]".to_owned())));
        assert_eq!("2".parse::<Choice>(), Err(NoChoice("2".to_owned())));
    }
}
