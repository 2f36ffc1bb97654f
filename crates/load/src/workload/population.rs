//! The cost of calls among many files: `--count` files are made, unmeasured, and then, for the same
//! time each, further ones are made, random names are looked up, directories are listed, and files
//! are removed in the order in which they were made.
//!
//! All names have the same length, so that listings of few files and of many carry the same number
//! of bytes an entry.

use std::cell::RefCell;
use std::io::Write;

use nfs::nfs3::arguments::{CreateArgs, CreateHow, LookupArgs, ReaddirplusArgs, RemoveArgs};
use nfs::nfs3::{FileKind, Handle, Procedure, SetAttributes, Verifier};

use super::{directories, in_turn};
use crate::names::{LISTING, at};
use crate::run::{Measured, Pace, Play, paced, prepare};
use crate::stage::{Stage, Trouble};
use crate::worker::{Step, Worker};

/// Bytes of a name.
const NAME: usize = 10;

/// The measured phases, in this order.
const PHASES: [(&str, Phase); 4] = [
    ("CREATE", Phase::Create),
    ("LOOKUP", Phase::Lookup),
    ("READDIRPLUS", Phase::Readdirplus),
    ("REMOVE", Phase::Remove),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Populate,
    Create,
    Lookup,
    Readdirplus,
    Remove,
}

/// The files: number after number, in one directory after the other.
struct Population {
    directories: Vec<Handle>,
    count: u64,
    /// The position of each worker in its directory.
    places: RefCell<Vec<Place>>,
}

/// A listing that continues with the next turn.
#[derive(Clone, Copy, Default)]
struct Place {
    directory: u64,
    cookie: u64,
    verifier: Verifier,
}

struct Playing<'a>(&'a Population, Phase);

pub(super) async fn play(stage: &Stage, name: &str) -> Result<Vec<Measured>, Trouble> {
    let count = stage.plan.count;
    let directories = directories(stage, name, stage.plan.directories).await?;
    let place = |worker| Place { directory: worker as u64, ..Place::default() };
    let places = RefCell::new((0..stage.workers()).map(place).collect());
    let population = Population { directories, count, places };
    let populate = Playing(&population, Phase::Populate);
    prepare(stage, &format!("preparing {name}"), count, &populate).await?;
    stage.watch.prepared(name).map_err(Trouble::Refused)?;
    let pace = Pace { duration: stage.plan.duration, rate: stage.plan.rate, ..Pace::default() };
    let mut phases = Vec::new();
    for (title, phase) in PHASES {
        let most = if phase == Phase::Remove { count } else { pace.count };
        let pace = Pace { count: most, ..pace };
        let playing = Playing(&population, phase);
        phases.push(paced(stage, &format!("{name} {title}"), pace, &playing).await);
    }
    Ok(phases)
}

fn file_name(letter: char, number: u64) -> [u8; NAME] {
    let mut name = [0; NAME];
    let width = NAME - 1;
    write!(&mut name[..], "{letter}{number:0width$}").expect("fewer than a thousand million files");
    name
}

impl Play for Playing<'_> {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        let Playing(population, phase) = self;
        let (letter, number) = match phase {
            Phase::Readdirplus => return population.list(worker).await,
            Phase::Create => ('m', turn),
            Phase::Populate => ('n', turn),
            Phase::Lookup => ('n', worker.chance.below(population.count)),
            Phase::Remove => ('n', turn),
        };
        let name = file_name(letter, number);
        let location = at(in_turn(&population.directories, number), &name);
        match phase {
            Phase::Lookup => {
                let found = worker.call(&LookupArgs { what: location }).await?;
                match found.attributes.map(|attributes| attributes.kind) {
                    Some(FileKind::Regular) | None => Ok(()),
                    Some(_) => Err(worker.wrong(Procedure::Lookup, "a file is something else")),
                }
            }
            Phase::Remove => worker.call(&RemoveArgs { object: location }).await.map(drop),
            _ => {
                let how = CreateHow::Unchecked(SetAttributes::default());
                worker.call(&CreateArgs { location, how }).await.map(drop)
            }
        }
    }
}

impl Population {
    /// Reads the next page of a listing. Its payload is names; so their bytes give the number of
    /// entries.
    async fn list(&self, worker: &mut Worker) -> Step {
        let Place { directory, cookie, verifier } = self.places.borrow()[worker.index];
        let arguments = ReaddirplusArgs {
            directory: in_turn(&self.directories, directory).as_bytes(),
            cookie,
            cookie_verifier: verifier,
            dircount: LISTING,
            maxcount: LISTING,
        };
        let page = worker.call(&arguments).await?;
        let next = match page.entries.last() {
            Some(last) if !page.eof => {
                Place { directory, cookie: last.entry.cookie, verifier: page.cookie_verifier }
            }
            _ => {
                let step = self.places.borrow().len() as u64;
                Place { directory: directory + step, ..Place::default() }
            }
        };
        let whole = |attributes: &Option<_>| attributes.is_some();
        if !page.entries.iter().all(|entry| whole(&entry.attributes)) {
            return Err(worker.wrong(Procedure::Readdirplus, "an entry without attributes"));
        }
        worker.moved((page.entries.len() * NAME) as u64);
        self.places.borrow_mut()[worker.index] = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_one_length() {
        assert_eq!(&file_name('n', 0), b"n000000000");
        assert_eq!(&file_name('n', 1_999_999), b"n001999999");
    }
}
