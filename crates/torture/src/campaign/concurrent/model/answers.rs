//! Whether a state may have given an answer, and what the answer reveals of the state.

use nfs3_types::nfs3::nfsstat3::NFS3_OK;

use super::super::words::{Attributes, CELL, File, Kind, Op, Told};
use super::{Body, Done, Id, State, TARGET};

impl State {
    /// Whether a successful call may be answered like this; notes what the answer reveals.
    pub(super) fn fits(&mut self, op: &Op, done: &Done, told: &Told) -> bool {
        let object = done.object.is_none_or(|id| self.shows(id, told.object));
        told.status == NFS3_OK
            && object
            && done.object.is_none_or(|id| self.has(id, told.attributes))
            && self.fits_about(done.about, told)
            && (done.size_before.is_none()
                || told.size_before.is_none_or(|size| Some(size) == done.size_before))
            && told.verifier.is_none_or(|verifier| self.has_verifier(verifier))
            && match op {
                Op::Read(_) => {
                    done.about[0].and_then(|id| self.content(id)).is_some_and(|content| {
                        told.data.as_ref().is_some_and(|data| content.reads(data))
                    })
                }
                Op::List(_) => self.lists(done.about[0].expect("it was found"), told),
                Op::Write { count, stable, .. } => {
                    let all = *count as u64 * CELL;
                    told.written.is_none_or(|written| written == all) && (told.is_stable || !stable)
                }
                _ => true,
            }
    }

    pub(super) fn fits_about(&self, about: [Option<Id>; 2], told: &Told) -> bool {
        about.iter().zip(told.about).all(|(&id, told)| match (id, told) {
            (_, None) => true,
            (Some(id), told) => self.has(id, told),
            (None, Some(_)) => false,
        })
    }

    /// Whether a file may have this handle, which it keeps from then on.
    fn shows(&mut self, id: Id, file: Option<File>) -> bool {
        let Some(file) = file else { return true };
        let known = self.nodes[&id].file;
        if known.is_none() && self.find(file).is_ok() || self.retired.contains(&file) {
            return false;
        }
        self.nodes.get_mut(&id).expect("it was found").file = Some(file);
        known.is_none_or(|known| known == file)
    }

    fn has(&self, id: Id, told: Option<Attributes>) -> bool {
        let Some(told) = told else { return true };
        let Some(node) = self.nodes.get(&id) else { return false };
        let (kind, size) = match &node.body {
            Body::Directory { .. } => (Kind::Directory, None),
            Body::Regular(content) => (Kind::Regular, content.size()),
            Body::Other(Kind::Symlink) => (Kind::Symlink, Some(TARGET.len() as u64)),
            Body::Other(kind) => (*kind, Some(0)),
        };
        kind == told.kind
            && size.is_none_or(|size| size == told.size)
            && (node.mode, node.links) == (told.mode, told.links)
            && node.file.is_none_or(|file| file.0 == told.inode)
    }

    fn has_verifier(&mut self, verifier: [u8; 8]) -> bool {
        let known = *self.verifier.get_or_insert(verifier);
        known == verifier && !self.old_verifiers.contains(&verifier)
    }

    /// Whether a listing of a directory may be like this.
    fn lists(&mut self, id: Id, told: &Told) -> bool {
        let Some(told) = &told.names else { return false };
        let names = self.names(id).clone();
        let told = told.iter().filter(|(name, ..)| name != "." && name != "..");
        let mut count = 0;
        told.inspect(|_| count += 1).all(|(name, inode, file)| {
            let Some(&id) = names.get(name) else { return false };
            let known = self.nodes[&id].file;
            known.is_none_or(|known| known.0 == *inode) && self.shows(id, *file)
        }) && count == names.len()
    }
}
