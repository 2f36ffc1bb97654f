//! The file system as it should be: a tree in memory, small enough to be read in one sitting.
//!
//! It knows nothing of disks, caches or crashes. Each operation is applied or refused; a [`View`]
//! is the result that a client sees.

use std::collections::BTreeMap;
use std::rc::Rc;

use vfs::{FsError, ObjectId};

use super::design::Design;
use super::op::{BEFORE, HELD, Mode, Op, REWRITTEN, extent, held_bytes, payload};

/// A file under one name, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Kind and contents.
    pub what: What,
    /// Permission bits.
    pub mode: u16,
    /// The link count.
    pub links: u32,
    /// Identity of the file: the same number stands for the same file.
    pub file: usize,
}

/// The kinds of files, with their contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A directory.
    Directory,
    /// A regular file with its bytes.
    Regular(Rc<Vec<u8>>),
    /// A symbolic link with its target.
    Symlink(Rc<Vec<u8>>),
    /// A pipe.
    Fifo,
}

/// All names, by their paths.
pub type View = BTreeMap<String, Seen>;

/// Contents of snapshots, by their names.
pub type Held<T> = BTreeMap<String, T>;

/// A view of a tree, and the ids in handles, by the numbers of its files.
pub type Shown = (View, Vec<ObjectId>);

#[derive(Clone, Debug)]
enum Body {
    Directory(BTreeMap<String, usize>),
    Regular(Rc<Vec<u8>>),
    Symlink(Rc<Vec<u8>>),
}

#[derive(Clone, Debug)]
struct Node {
    body: Body,
    mode: u16,
    links: u32,
    /// The number of the operation that made it, if one did.
    maker: Option<usize>,
}

/// A file system.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: Vec<Node>,
    /// The trees of snapshots, which have no snapshots themselves.
    held: Held<Rc<Self>>,
}

/// An operation as a client makes it: with handles for existing files.
#[derive(Clone, Debug)]
pub struct Act {
    /// Its number in the workload.
    pub number: usize,
    /// The operation.
    pub op: Op,
    /// See [`Model::subject`].
    pub subject: usize,
    /// See [`Model::destination`].
    pub destination: Option<usize>,
    /// The length of the subject when the client made the call.
    pub size: u64,
}

impl Act {
    /// Resolves an operation against the tree that a client sees.
    ///
    /// # Errors
    /// The error of a LOOKUP on the way.
    pub fn new(model: &Model, number: usize, op: &Op) -> Result<Self, FsError> {
        let subject = model.subject(op)?;
        let (destination, size) = (model.destination(op)?, model.size(subject));
        Ok(Self { number, op: op.clone(), subject, destination, size })
    }
}

/// The root directory.
pub const ROOT: usize = 0;
/// The permissions of a file after an exclusive creation.
const EXCLUSIVE_MODE: u16 = 0;

impl Model {
    /// The tree before every workload.
    pub fn before(design: Design) -> Self {
        let body = Body::Directory(BTreeMap::new());
        let root = Node { body, mode: 0o755, links: 2, maker: None };
        let mut model = Self { nodes: vec![root], held: Held::new() };
        for &(path, size) in BEFORE {
            let (parent, name) =
                model.parent(path.trim_end_matches('/')).expect("the list is in order");
            let made = if path.ends_with('/') {
                model.make_directory(parent, name)
            } else {
                let bytes = Rc::new(original(path, size));
                model.make(parent, name, Body::Regular(bytes), 0o644)
            };
            made.expect("the list makes sense");
        }
        if design.has_snapshots() {
            let mut held = model.clone();
            let file = held.find(REWRITTEN).expect("it is in the list");
            held.set_bytes(file, held_bytes(held.size(file) as usize));
            model.held.insert(HELD.to_owned(), Rc::new(held));
        }
        model
    }

    /// A tree with this view, and snapshots with these.
    pub fn with(view: &View, held: &Held<Shown>) -> Self {
        let of = |(name, (view, _)): (&String, &Shown)| (name.clone(), Rc::new(Self::of(view)));
        Self { held: held.iter().map(of).collect(), ..Self::of(view) }
    }

    /// A tree with this view.
    fn of(view: &View) -> Self {
        let count = view.values().map(|seen| seen.file + 1).max().unwrap_or(0);
        let empty = || Body::Directory(BTreeMap::new());
        let node = |_| Node { body: empty(), mode: 0o755, links: 2, maker: None };
        let nodes = (0..=count).map(node).collect();
        let mut model = Self { nodes, held: Held::new() };
        for (path, seen) in view {
            let (parent, name) =
                model.parent(path).expect("a directory comes before what is in it");
            let node = Self::node_of(seen.file);
            model.names(parent).expect("it is one").insert(name.to_owned(), node);
            let body = match &seen.what {
                What::Directory => {
                    model.nodes[ROOT].links += u32::from(parent == ROOT);
                    empty()
                }
                What::Regular(bytes) => Body::Regular(bytes.clone()),
                What::Symlink(target) => Body::Symlink(target.clone()),
                What::Fifo => unreachable!("no operation of the lists makes a pipe"),
            };
            model.nodes[node] = Node { body, mode: seen.mode, links: seen.links, maker: None };
        }
        model
    }

    /// The number in a model of a file in that model's initial view.
    pub fn node_of(file: usize) -> usize {
        file + 1
    }

    /// The file or directory that an operation is applied to: a client holds a handle of it,
    /// whatever becomes of its name.
    ///
    /// # Errors
    /// The error of a LOOKUP of the path.
    pub fn subject(&self, op: &Op) -> Result<usize, FsError> {
        match *op {
            Op::Create(path, _)
            | Op::Mkdir(path)
            | Op::Rmdir(path)
            | Op::Symlink(path, _)
            | Op::Remove(path)
            | Op::Rename(path, _) => self.parent(path).map(|(parent, _)| parent),
            Op::Write(path, ..) | Op::Resize(path, _) | Op::Chmod(path, _) | Op::Link(path, _) => {
                self.find(path)
            }
            Op::Pin(_) | Op::Unpin(_) | Op::RollBack(_) => Ok(ROOT),
        }
    }

    /// The directory into which a file is linked or renamed, for operations with two paths.
    ///
    /// # Errors
    /// The error of a LOOKUP of the path.
    pub fn destination(&self, op: &Op) -> Result<Option<usize>, FsError> {
        match *op {
            Op::Link(_, to) | Op::Rename(_, to) => self.parent(to).map(|(parent, _)| Some(parent)),
            _ => Ok(None),
        }
    }

    /// The length of a regular file.
    pub fn size(&self, node: usize) -> u64 {
        match &self.nodes[node].body {
            Body::Regular(bytes) => bytes.len() as u64,
            _ => 0,
        }
    }

    /// Applies an operation.
    ///
    /// # Errors
    /// The error for the client; then nothing has changed.
    pub fn apply(&mut self, act: &Act) -> Result<(), FsError> {
        let known = self.nodes.len();
        let done = self.carry_out(act);
        let new = self.nodes.iter_mut().skip(known);
        new.for_each(|node| node.maker = Some(act.number));
        done
    }

    /// Whether a file has lost its last name.
    pub fn is_gone(&self, node: usize) -> bool {
        self.nodes[node].links == 0
    }

    /// The number of the operation that made a file, if one did.
    pub fn is_made_by(&self, node: usize) -> Option<usize> {
        self.nodes[node].maker
    }

    fn carry_out(&mut self, act: &Act) -> Result<(), FsError> {
        let (subject, last) = (act.subject, act.op.last_name());
        match act.op {
            Op::Create(_, mode) => self.create(subject, last, mode),
            Op::Mkdir(_) => self.make_directory(subject, last),
            Op::Rmdir(_) => self.rmdir(subject, last),
            Op::Write(_, part, _) => {
                let (offset, length) = extent(part, act.size);
                let mut bytes = self.bytes_of(subject)?.to_vec();
                let end = offset as usize + length;
                bytes.resize(bytes.len().max(end), 0);
                bytes[offset as usize..end].copy_from_slice(&payload(act.number, length));
                self.set_bytes(subject, bytes);
                Ok(())
            }
            Op::Resize(_, size) => {
                let mut bytes = self.bytes_of(subject)?.to_vec();
                bytes.resize(size as usize, 0);
                self.set_bytes(subject, bytes);
                Ok(())
            }
            Op::Chmod(_, mode) => {
                self.check_alive(subject)?;
                self.nodes[subject].mode = mode;
                Ok(())
            }
            Op::Link(_, to) => {
                self.link(subject, act.destination.expect("LINK has one"), name_of(to))
            }
            Op::Symlink(_, length) => {
                let target = Rc::new(vec![b't'; length]);
                self.make(subject, last, Body::Symlink(target), 0o777)
            }
            Op::Rename(_, to) => {
                let destination = act.destination.expect("RENAME has one");
                self.rename((subject, last), (destination, name_of(to)))
            }
            Op::Remove(_) => self.remove(subject, last),
            Op::Pin(name) => self.pin(name),
            Op::Unpin(name) => self.held.remove(name).map(drop).ok_or(FsError::NoEntry),
            Op::RollBack(name) => {
                let held = self.held.get(name).ok_or(FsError::NoEntry)?;
                self.nodes = held.nodes.clone();
                Ok(())
            }
        }
    }

    fn pin(&mut self, name: &str) -> Result<(), FsError> {
        if self.held.contains_key(name) {
            return Err(FsError::Exists);
        }
        let held = Self { nodes: self.nodes.clone(), held: Held::new() };
        self.held.insert(name.to_owned(), Rc::new(held));
        Ok(())
    }

    /// The views of all snapshots.
    pub fn held(&self) -> Held<View> {
        self.held.iter().map(|(name, model)| (name.clone(), model.view())).collect()
    }

    /// A client's view.
    pub fn view(&self) -> View {
        let mut view = View::new();
        self.show(ROOT, "", &mut view);
        view
    }

    /// The names of a file and of the directories above it: each with its directory.
    pub fn names_above(&self, node: usize) -> Vec<(usize, String)> {
        let (mut names, mut nodes) = (Vec::new(), vec![node]);
        while let Some(node) = nodes.pop() {
            for (parent, other) in self.nodes.iter().enumerate() {
                let Body::Directory(below) = &other.body else { continue };
                for (name, _) in below.iter().filter(|(_, child)| **child == node) {
                    names.push((parent, name.clone()));
                    nodes.push(parent);
                }
            }
        }
        names
    }

    /// The path of a directory, with a trailing slash unless it is the root; `None` if it is gone.
    pub fn path_of(&self, directory: usize) -> Option<String> {
        if directory == ROOT {
            return Some(String::new());
        }
        let named = |(parent, node): (usize, &Node)| match &node.body {
            Body::Directory(names) if node.links > 0 => {
                let (name, _) = names.iter().find(|(_, child)| **child == directory)?;
                Some(format!("{}{name}/", self.path_of(parent)?))
            }
            _ => None,
        };
        self.nodes.iter().enumerate().find_map(named)
    }

    fn show(&self, directory: usize, prefix: &str, view: &mut View) {
        let Body::Directory(names) = &self.nodes[directory].body else { return };
        for (name, &file) in names {
            let node = &self.nodes[file];
            let path = format!("{prefix}{name}");
            let what = match &node.body {
                Body::Directory(_) => What::Directory,
                Body::Regular(bytes) => What::Regular(bytes.clone()),
                Body::Symlink(target) => What::Symlink(target.clone()),
            };
            self.show(file, &format!("{path}/"), view);
            view.insert(path, Seen { what, mode: node.mode, links: node.links, file });
        }
    }

    /// The file or directory of a path.
    ///
    /// # Errors
    /// The error of a LOOKUP.
    pub fn find(&self, path: &str) -> Result<usize, FsError> {
        path.split('/').try_fold(ROOT, |node, name| self.child(node, name))
    }

    /// The file under a name in a directory.
    ///
    /// # Errors
    /// The error of a LOOKUP.
    pub fn child(&self, node: usize, name: &str) -> Result<usize, FsError> {
        self.check_alive(node)?;
        match &self.nodes[node].body {
            Body::Directory(names) => names.get(name).copied().ok_or(FsError::NoEntry),
            _ => Err(FsError::NotDirectory),
        }
    }

    /// The directory of a path, and the last name.
    fn parent<'p>(&self, path: &'p str) -> Result<(usize, &'p str), FsError> {
        match path.rsplit_once('/') {
            None => Ok((ROOT, path)),
            Some((above, name)) => self.find(above).map(|node| (node, name)),
        }
    }

    /// The names in a directory.
    fn names(&mut self, directory: usize) -> Result<&mut BTreeMap<String, usize>, FsError> {
        let node = &mut self.nodes[directory];
        match &mut node.body {
            // A removed directory is stale for a client that still has a handle.
            Body::Directory(_) if node.links == 0 => Err(FsError::Stale),
            Body::Directory(names) => Ok(names),
            _ => Err(FsError::NotDirectory),
        }
    }

    /// A removed file is stale for a client that still has a handle.
    fn check_alive(&self, node: usize) -> Result<(), FsError> {
        if self.is_gone(node) { Err(FsError::Stale) } else { Ok(()) }
    }

    fn is_directory(&self, node: usize) -> bool {
        matches!(self.nodes[node].body, Body::Directory(_))
    }

    fn is_empty(&self, node: usize) -> bool {
        matches!(&self.nodes[node].body, Body::Directory(names) if names.is_empty())
    }

    fn make(&mut self, parent: usize, name: &str, body: Body, mode: u16) -> Result<(), FsError> {
        if self.names(parent)?.contains_key(name) {
            return Err(FsError::Exists);
        }
        let links = if matches!(body, Body::Directory(_)) { 2 } else { 1 };
        self.nodes.push(Node { body, mode, links, maker: None });
        let node = self.nodes.len() - 1;
        self.names(parent)?.insert(name.to_owned(), node);
        Ok(())
    }

    fn make_directory(&mut self, parent: usize, name: &str) -> Result<(), FsError> {
        self.make(parent, name, Body::Directory(BTreeMap::new()), 0o755)?;
        self.nodes[parent].links += 1;
        Ok(())
    }

    fn create(&mut self, parent: usize, name: &str, mode: Mode) -> Result<(), FsError> {
        // An exclusive CREATE sets no attributes: a SETATTR has to do that.
        let permissions = if mode == Mode::Exclusive { EXCLUSIVE_MODE } else { 0o644 };
        let made = self.make(parent, name, Body::Regular(Rc::default()), permissions);
        match (made, mode) {
            (Err(FsError::Exists), Mode::Unchecked) => {
                // An existing file will do, if it is of the right kind.
                let node = self.child(parent, name)?;
                let regular = matches!(self.nodes[node].body, Body::Regular(_));
                if regular { Ok(()) } else { Err(FsError::Exists) }
            }
            (made, _) => made,
        }
    }

    fn bytes_of(&self, node: usize) -> Result<Rc<Vec<u8>>, FsError> {
        match &self.nodes[node].body {
            _ if self.nodes[node].links == 0 => Err(FsError::Stale),
            Body::Regular(bytes) => Ok(bytes.clone()),
            Body::Directory(_) => Err(FsError::IsDirectory),
            Body::Symlink(_) => Err(FsError::Invalid),
        }
    }

    fn set_bytes(&mut self, node: usize, bytes: Vec<u8>) {
        self.nodes[node].body = Body::Regular(Rc::new(bytes));
    }

    fn link(&mut self, node: usize, parent: usize, name: &str) -> Result<(), FsError> {
        if self.is_directory(node) {
            return Err(FsError::IsDirectory);
        }
        if self.nodes[node].links == 0 {
            return Err(FsError::Stale);
        }
        if self.names(parent)?.contains_key(name) {
            return Err(FsError::Exists);
        }
        self.names(parent)?.insert(name.to_owned(), node);
        self.nodes[node].links += 1;
        Ok(())
    }

    fn remove(&mut self, parent: usize, name: &str) -> Result<(), FsError> {
        let node = self.child(parent, name)?;
        if self.is_directory(node) {
            return Err(FsError::IsDirectory);
        }
        self.names(parent)?.remove(name);
        self.nodes[node].links -= 1;
        Ok(())
    }

    fn rmdir(&mut self, parent: usize, name: &str) -> Result<(), FsError> {
        let node = self.child(parent, name)?;
        if !self.is_directory(node) {
            return Err(FsError::NotDirectory);
        }
        if !self.is_empty(node) {
            return Err(FsError::NotEmpty);
        }
        self.names(parent)?.remove(name);
        self.nodes[node].links = 0;
        self.nodes[parent].links -= 1;
        Ok(())
    }

    fn rename(&mut self, from: (usize, &str), to: (usize, &str)) -> Result<(), FsError> {
        self.check_alive(to.0)?;
        let node = self.child(from.0, from.1)?;
        let directory = self.is_directory(node);
        self.names(to.0)?;
        match self.child(to.0, to.1) {
            Ok(target) if target == node => return Ok(()),
            Ok(target) => match (directory, self.is_directory(target)) {
                (true, false) | (false, true) => return Err(FsError::Exists),
                (true, true) if !self.is_empty(target) => return Err(FsError::NotEmpty),
                (true, true) => {
                    self.nodes[target].links = 0;
                    self.nodes[to.0].links -= 1;
                }
                (false, false) => self.nodes[target].links -= 1,
            },
            Err(_) => {}
        }
        self.names(from.0)?.remove(from.1);
        self.names(to.0)?.insert(to.1.to_owned(), node);
        if directory {
            self.nodes[from.0].links -= 1;
            self.nodes[to.0].links += 1;
        }
        Ok(())
    }
}

/// The last name of a path.
fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The bytes of a file before every workload, which no operation writes.
pub fn original(path: &str, size: usize) -> Vec<u8> {
    let first = if path.contains('/') { 0xf1 } else { 0xf8 };
    (0..size).map(|index| first + (index / 512 % 7) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::op::{Part, Stable, operations};

    fn apply(model: &mut Model, number: usize, op: Op) -> Result<(), FsError> {
        let act = Act::new(model, number, &op)?;
        model.apply(&act)
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        for op in operations(Design::RAM) {
            let mut model = Model::before(Design::RAM);
            let before = model.view();
            if apply(&mut model, 0, op.clone()).is_err() {
                assert_eq!(model.view(), before, "{op}");
                assert_eq!(model.held().len(), 1, "{op}");
            }
        }
    }

    #[test]
    fn most_operations_do_something() {
        let does = |op: Op| apply(&mut Model::before(Design::RAM), 0, op).is_ok();
        assert_eq!(operations(Design::RAM).into_iter().filter(|op| !does(op.clone())).count(), 3);
    }

    #[test]
    fn links_and_bytes_follow_the_operations() {
        let mut model = Model::before(Design::RAM);
        apply(&mut model, 0, Op::Link("foo", "A/bar")).expect("a new name");
        let extend = Op::Write("foo", Part::Extend, Stable::FileSync);
        apply(&mut model, 1, extend).expect("a file");
        apply(&mut model, 2, Op::Rename("A", "B")).expect("an empty target");
        let view = model.view();
        assert_eq!(view["B/bar"], view["foo"]);
        assert_eq!(view["foo"].links, 2);
        let What::Regular(bytes) = &view["foo"].what else { panic!("a regular file") };
        assert_eq!(
            (bytes.len(), bytes[10_999], bytes[12_000]),
            (13_000, 0, payload(1, 2000)[1000])
        );
        assert!(!view.contains_key("A"));
    }
}
