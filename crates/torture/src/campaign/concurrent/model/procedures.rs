//! The effect of each procedure, and the statuses with which it fails.

use std::collections::BTreeMap;

use nfs3_types::nfs3::nfsstat3::*;

use super::super::content::Content;
use super::super::words::{File, How, Kind, Op, Place};
use super::{Body, Done, Failure, Id, Node, ROOT, State, Verifier};

impl State {
    pub(super) fn carry_out(
        &mut self,
        execution: usize,
        op: &Op,
        stable: bool,
    ) -> Result<Done, Failure> {
        match op {
            Op::Getattr(file) | Op::Access(file) => Ok(Done::about(self.find(*file)?)),
            Op::Lookup(place) => {
                let parent = self.directory(place.0)?;
                let found = self.names(parent).get(&place.1).copied();
                let object = found.ok_or(Failure::Status(NFS3ERR_NOENT, [Some(parent), None]))?;
                Ok(Done { object: Some(object), ..Done::about(parent) })
            }
            Op::List(file) => Ok(Done::about(self.directory(*file)?)),
            Op::Read(file) => Ok(Done::about(self.regular(*file)?)),
            Op::Commit(file) => self.change_content(*file, Content::commit),
            Op::Resize(file, length) => {
                self.touch(*file);
                self.change_content(*file, |file| file.resize(*length))
            }
            Op::Write { file, at, count, value, .. } => {
                self.touch(*file);
                self.change_content(*file, |file| file.write(*at, *count, *value, stable))
            }
            Op::Chmod(file, mode) => {
                self.touch(*file);
                let id = self.find(*file)?;
                self.nodes.get_mut(&id).expect("it was found").mode = *mode;
                Ok(Done::about(id))
            }
            Op::Create(place, how, mode) => self.create(execution, place, *how, *mode),
            Op::Mkdir(place, mode) => {
                let parent = self.directory(place.0)?;
                let body = Body::Directory { names: BTreeMap::new(), parent };
                let done = self.make(execution, place, body, *mode)?;
                self.nodes.get_mut(&parent).expect("it was found").links += 1;
                Ok(done)
            }
            Op::Symlink(place) => self.make(execution, place, Body::Other(Kind::Symlink), 0o777),
            Op::Mkfifo(place, mode) => self.make(execution, place, Body::Other(Kind::Fifo), *mode),
            Op::Remove(place) => self.remove(place),
            Op::Rmdir(place) => self.rmdir(place),
            Op::Rename(from, to) => self.rename(from, to),
            Op::Link(file, place) => self.link(*file, place),
        }
    }

    /// A change of a file may overwrite its verifier.
    fn touch(&mut self, file: File) {
        let node = self.find(file).ok().and_then(|id| self.nodes.get_mut(&id));
        if let Some(verifier) = node.and_then(|node| node.verifier.as_mut()) {
            verifier.may_be_gone = true;
        }
    }

    fn change_content(
        &mut self,
        file: File,
        change: impl FnOnce(&mut Content),
    ) -> Result<Done, Failure> {
        let id = self.regular(file)?;
        let content = self.content(id).expect("it is a regular file");
        let size_before = content.size();
        change(content);
        Ok(Done { size_before, ..Done::about(id) })
    }

    fn make(
        &mut self,
        execution: usize,
        place: &Place,
        body: Body,
        mode: u32,
    ) -> Result<Done, Failure> {
        let parent = self.directory(place.0)?;
        if self.names(parent).contains_key(&place.1) {
            return Err(Failure::Status(NFS3ERR_EXIST, [Some(parent), None]));
        }
        let (id, links) =
            (execution + 1, if matches!(body, Body::Directory { .. }) { 2 } else { 1 });
        self.nodes.insert(id, Node { body, mode, links, file: None, verifier: None });
        self.names_mut(parent).insert(place.1.clone(), id);
        Ok(Done { object: Some(id), ..Done::about(parent) })
    }

    fn create(
        &mut self,
        execution: usize,
        place: &Place,
        how: How,
        mode: u32,
    ) -> Result<Done, Failure> {
        let parent = self.directory(place.0)?;
        let Some(&there) = self.names(parent).get(&place.1) else {
            let done = self.make(execution, place, Body::Regular(Content::default()), mode)?;
            if let How::Exclusive(verifier) = how {
                let made = done.object.and_then(|id| self.nodes.get_mut(&id));
                let verifier = Verifier { number: verifier, may_be_gone: false };
                made.expect("it was made").verifier = Some(verifier);
            }
            return Ok(done);
        };
        let refused = |status| Err(Failure::Status(status, [Some(parent), None]));
        let node = self.nodes.get_mut(&there).expect("a name has a file");
        match how {
            How::Guarded => return refused(NFS3ERR_EXIST),
            How::Exclusive(verifier)
                if node.verifier.is_none_or(|known| known.number != verifier) =>
            {
                return refused(NFS3ERR_EXIST);
            }
            How::Exclusive(_) | How::Unchecked { .. } => {}
        }
        match &mut node.body {
            Body::Directory { .. } => return refused(NFS3ERR_ISDIR),
            Body::Other(_) => return refused(NFS3ERR_EXIST),
            Body::Regular(content) if how == How::Unchecked { empty: true } => {
                content.resize(0);
                node.verifier.iter_mut().for_each(|verifier| verifier.may_be_gone = true);
            }
            Body::Regular(_) => {}
        }
        Ok(Done { object: Some(there), ..Done::about(parent) })
    }

    /// Deletes a file or directory.
    pub(super) fn end(&mut self, id: Id) {
        let node = self.nodes.remove(&id).expect("it ends once");
        self.retired.extend(node.file);
    }

    /// Drops a name of a file that is not a directory.
    fn drop_link(&mut self, id: Id) {
        let node = self.nodes.get_mut(&id).expect("it has a name");
        node.links -= 1;
        if node.links == 0 {
            self.end(id);
        }
    }

    fn remove(&mut self, place: &Place) -> Result<Done, Failure> {
        let parent = self.directory(place.0)?;
        let refused = |status| Failure::Status(status, [Some(parent), None]);
        let id = self.names(parent).get(&place.1).copied().ok_or(refused(NFS3ERR_NOENT))?;
        if self.is_directory(id) {
            return Err(refused(NFS3ERR_ISDIR));
        }
        self.names_mut(parent).remove(&place.1);
        self.drop_link(id);
        Ok(Done::about(parent))
    }

    fn rmdir(&mut self, place: &Place) -> Result<Done, Failure> {
        let parent = self.directory(place.0)?;
        let refused = |status| Failure::Status(status, [Some(parent), None]);
        let id = self.names(parent).get(&place.1).copied().ok_or(refused(NFS3ERR_NOENT))?;
        if !self.is_directory(id) {
            return Err(refused(NFS3ERR_NOTDIR));
        }
        if !self.names(id).is_empty() {
            return Err(refused(NFS3ERR_NOTEMPTY));
        }
        self.names_mut(parent).remove(&place.1);
        self.nodes.get_mut(&parent).expect("a directory").links -= 1;
        self.end(id);
        Ok(Done::about(parent))
    }

    fn link(&mut self, file: File, place: &Place) -> Result<Done, Failure> {
        let id = self.find(file).map_err(|failure| self.beside(failure, place.0))?;
        let parent = self.directory(place.0).map_err(|failure| match failure {
            Failure::Status(status, _) => Failure::Status(status, [Some(id), None]),
            Failure::TooEarly => Failure::TooEarly,
        })?;
        let about = [Some(id), Some(parent)];
        if self.is_directory(id) {
            return Err(Failure::Status(NFS3ERR_PERM, about));
        }
        if self.names(parent).contains_key(&place.1) {
            return Err(Failure::Status(NFS3ERR_EXIST, about));
        }
        self.names_mut(parent).insert(place.1.clone(), id);
        self.nodes.get_mut(&id).expect("it was found").links += 1;
        Ok(Done { about, ..Done::default() })
    }

    /// A failure about one of two files, with the attributes of the other if it exists.
    fn beside(&self, failure: Failure, other: File) -> Failure {
        match failure {
            Failure::Status(status, [about, None]) => {
                Failure::Status(status, [about, self.find(other).ok()])
            }
            failure => failure,
        }
    }

    fn rename(&mut self, from: &Place, to: &Place) -> Result<Done, Failure> {
        // The directory may have gone while the call waited for it: then the reply carries the
        // other one all the same.
        let source = self.directory(from.0).map_err(|failure| self.beside(failure, to.0))?;
        let goal = self.directory(to.0).map_err(|failure| match failure {
            Failure::Status(status, _) => Failure::Status(status, [Some(source), None]),
            Failure::TooEarly => Failure::TooEarly,
        })?;
        let about = [Some(source), Some(goal)];
        let refused = |status| Err(Failure::Status(status, about));
        let Some(&id) = self.names(source).get(&from.1) else { return refused(NFS3ERR_NOENT) };
        let is_directory = self.is_directory(id);
        if is_directory && source != goal && self.is_below(goal, id) {
            return refused(NFS3ERR_INVAL);
        }
        let target = self.names(goal).get(&to.1).copied();
        match target {
            Some(target) if target == id => return Ok(Done { about, ..Done::default() }),
            Some(target) => match (is_directory, self.is_directory(target)) {
                (true, false) => return refused(NFS3ERR_NOTDIR),
                (false, true) => return refused(NFS3ERR_ISDIR),
                (true, true) if !self.names(target).is_empty() => return refused(NFS3ERR_NOTEMPTY),
                (true, true) => {
                    self.nodes.get_mut(&goal).expect("a directory").links -= 1;
                    self.end(target);
                }
                (false, false) => self.drop_link(target),
            },
            None => {}
        }
        self.names_mut(source).remove(&from.1);
        self.names_mut(goal).insert(to.1.clone(), id);
        if is_directory {
            self.nodes.get_mut(&source).expect("a directory").links -= 1;
            self.nodes.get_mut(&goal).expect("a directory").links += 1;
            if let Body::Directory { parent, .. } = &mut self.nodes.get_mut(&id).expect("it").body {
                *parent = goal;
            }
        }
        Ok(Done { about, ..Done::default() })
    }

    fn is_below(&self, mut directory: Id, above: Id) -> bool {
        loop {
            if directory == above {
                return true;
            }
            match self.nodes[&directory].body {
                Body::Directory { parent, .. } if directory != ROOT => directory = parent,
                _ => return false,
            }
        }
    }
}
