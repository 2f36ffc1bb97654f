//! An actor's view of its part of the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use vfs::ObjectId;

use super::content::Content;

#[derive(Clone)]
pub(crate) enum Kind {
    Directory(BTreeMap<String, ObjectId>),
    File(Content),
    Symlink(String),
}

#[derive(Clone)]
pub(crate) struct Thing {
    pub(crate) mode: u16,
    pub(crate) kind: Kind,
}

/// The names of one actor, and their files. Its roots are directories that it may share with
/// others: of them only its own names count.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) roots: Vec<ObjectId>,
    things: BTreeMap<ObjectId, Rc<Thing>>,
}

/// A name and its file.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) directory: ObjectId,
    pub(crate) name: String,
    pub(crate) id: ObjectId,
}

impl Model {
    pub(crate) fn new(roots: &[ObjectId]) -> Self {
        let root = || Rc::new(Thing { mode: 0o755, kind: Kind::Directory(BTreeMap::new()) });
        let things = roots.iter().map(|&id| (id, root())).collect();
        Self { roots: roots.to_vec(), things }
    }

    pub(crate) fn thing(&self, id: ObjectId) -> &Thing {
        &self.things[&id]
    }

    pub(crate) fn get(&self, id: ObjectId) -> Option<&Thing> {
        self.things.get(&id).map(|thing| &**thing)
    }

    pub(crate) fn change(&mut self, id: ObjectId) -> &mut Thing {
        Rc::make_mut(self.things.get_mut(&id).expect("it is in the model"))
    }

    pub(crate) fn content(&mut self, id: ObjectId) -> &mut Content {
        match &mut self.change(id).kind {
            Kind::File(content) => content,
            _ => panic!("only files have content"),
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ObjectId> {
        self.things.keys().copied()
    }

    pub(crate) fn directories(&self) -> Vec<ObjectId> {
        self.ids().filter(|&id| self.is_directory(id)).collect()
    }

    pub(crate) fn is_directory(&self, id: ObjectId) -> bool {
        matches!(self.thing(id).kind, Kind::Directory(_))
    }

    pub(crate) fn entries(&self, directory: ObjectId) -> &BTreeMap<String, ObjectId> {
        match &self.thing(directory).kind {
            Kind::Directory(entries) => entries,
            _ => panic!("only directories have entries"),
        }
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for directory in self.directories() {
            for (name, &id) in self.entries(directory) {
                places.push(Place { directory, name: name.clone(), id });
            }
        }
        places
    }

    pub(crate) fn names_of(&self, id: ObjectId) -> usize {
        self.places().iter().filter(|place| place.id == id).count()
    }

    /// Whether `directory` is `other` or lies below it.
    pub(crate) fn is_below(&self, directory: ObjectId, other: ObjectId) -> bool {
        let mut seen = BTreeSet::from([other]);
        let mut open = vec![other];
        while let Some(here) = open.pop() {
            for &id in self.entries(here).values() {
                if self.is_directory(id) && seen.insert(id) {
                    open.push(id);
                }
            }
        }
        seen.contains(&directory)
    }

    pub(crate) fn add(&mut self, directory: ObjectId, name: &str, id: ObjectId) {
        match &mut self.change(directory).kind {
            Kind::Directory(entries) => entries.insert(name.to_owned(), id),
            _ => panic!("only directories have entries"),
        };
    }

    pub(crate) fn add_new(&mut self, place: Place, thing: Thing) {
        self.things.insert(place.id, Rc::new(thing));
        self.add(place.directory, &place.name, place.id);
    }

    /// Removes a name, and its file if that was the last name.
    pub(crate) fn drop_name(&mut self, directory: ObjectId, name: &str) {
        let id = match &mut self.change(directory).kind {
            Kind::Directory(entries) => entries.remove(name).expect("it is there"),
            _ => panic!("only directories have entries"),
        };
        if self.names_of(id) == 0 {
            self.things.remove(&id);
        }
    }
}
