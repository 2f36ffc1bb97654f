//! Steps that may or may not have been carried out: applied to the tree, with no reply to compare.

use super::reference::Reference;
use super::step::{Act, Object, Step, payload};
use super::tree::{Tree, Why};

impl Reference {
    /// Applies a step to the tree, if that is possible. The caller lets time pass.
    pub(crate) fn carry_out(&mut self, step: &Step) {
        let who = &self.users[step.user].clone();
        let slot = step.number;
        // A refusal changes nothing, and that is all that matters here.
        let _ = match &step.act {
            Act::Setattr(object, changes, _) => {
                self.at_object(*object, |tree, node| tree.setattr(who, node, changes, false))
            }
            Act::Write(object, offset, length, _, _) => self.at_object(*object, |tree, node| {
                tree.write(who, node, *offset, &payload(slot, *length))
            }),
            Act::Create(object, name, how) => self.at_object(*object, |tree, directory| {
                tree.create(who, (directory, name), how, slot).map(drop)
            }),
            Act::Mkdir(object, name, changes) => self.at_object(*object, |tree, directory| {
                tree.mkdir(who, (directory, name), changes, slot).map(drop)
            }),
            Act::Symlink(object, name, target, changes) => {
                self.at_object(*object, |tree, directory| {
                    tree.symlink(who, (directory, name), target, changes, slot).map(drop)
                })
            }
            Act::Mknod(object, name, kind, device, changes) => {
                self.at_object(*object, |tree, directory| {
                    let what = (*kind, *device);
                    tree.mknod(who, (directory, name), what, changes, slot).map(drop)
                })
            }
            Act::Remove(object, name) => {
                self.at_object(*object, |tree, directory| tree.remove(who, directory, name))
            }
            Act::Rmdir(object, name) => {
                self.at_object(*object, |tree, directory| tree.rmdir(who, directory, name))
            }
            Act::Link(file, object, name) => {
                let file = self.find(*file);
                self.at_object(*object, |tree, directory| tree.link(who, file?, (directory, name)))
            }
            Act::Rename(from, from_name, to, to_name) => {
                let from = self.find(*from);
                self.at_object(*to, |tree, to| tree.rename(who, (from?, from_name), (to, to_name)))
            }
            _ => Ok(()),
        };
    }

    fn at_object(
        &mut self,
        object: Object,
        verb: impl FnOnce(&mut Tree, usize) -> Result<(), Why>,
    ) -> Result<(), Why> {
        let node = self.find(object)?;
        verb(&mut self.tree, node)
    }
}
