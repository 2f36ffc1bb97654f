//! Checks replies to calls that make, move and remove names.

use nfs3_types::nfs3 as wire;

use super::attributes::Before;
use super::judge::{Context, Made, Verdict};
use super::reference::Reference;
use super::step::{Act, Object};
use super::tree::{Reasons, Tree, Why};
use crate::protocol::Response;

/// A directory of a call before the call.
#[derive(Clone, Copy)]
struct Side {
    node: Option<usize>,
    was: Option<Before>,
}

/// The results of the four procedures that make a file: alike but for their names.
macro_rules! made {
    ($reply:expr, $done:expr) => {
        match Reference::granted($done, $reply)? {
            Ok(ok) => {
                Ok(Made { handle: &ok.obj, attributes: &ok.obj_attributes, directory: &ok.dir_wcc })
            }
            Err(fail) => Err(&fail.dir_wcc),
        }
    };
}

/// The results of the two that remove a name.
macro_rules! taken {
    ($reply:expr, $done:expr) => {
        match Reference::granted($done, $reply)? {
            Ok(ok) => Ok(&ok.dir_wcc),
            Err(fail) => Err(&fail.dir_wcc),
        }
    };
}

impl Reference {
    fn side(&self, object: Object) -> Side {
        let node = self.find(object).ok();
        Side { node, was: node.map(|node| Before::of(self.at(node))) }
    }

    fn check_side(
        &mut self,
        side: Side,
        seen: Result<&wire::wcc_data, &wire::wcc_data>,
    ) -> Verdict {
        match (seen, side) {
            (Ok(seen), Side { node: Some(node), was: Some(was) }) => {
                self.tree.check_wcc(node, was, seen)
            }
            (Ok(_), _) => Ok(()),
            (Err(seen), Side { node, .. }) => self.tree.check_unchanged(node, seen),
        }
    }

    /// The rest of [`Reference::judge`].
    pub(super) fn judge_names(
        &mut self,
        context: &Context<'_>,
        act: &Act,
        reply: &Response,
    ) -> Verdict {
        let (who, slot) = (context.who, context.number);
        match (act, reply) {
            (Act::Create(o, name, how), Response::Create(reply)) => {
                let side = self.side(*o);
                let done = self.with_name(*o, name, |tree, directory| {
                    tree.create(who, (directory, name), how, slot)
                });
                let reply = made!(reply, &done.clone().map(drop));
                self.check_making(context, side, done, reply)
            }
            (Act::Mkdir(o, name, changes), Response::Mkdir(reply)) => {
                let side = self.side(*o);
                let done = self.with_name(*o, name, |tree, directory| {
                    tree.mkdir(who, (directory, name), changes, slot)
                });
                let reply = made!(reply, &done.clone().map(drop));
                self.check_making(context, side, done, reply)
            }
            (Act::Symlink(o, name, target, changes), Response::Symlink(reply)) => {
                let side = self.side(*o);
                let done = self.with_name(*o, name, |tree, directory| {
                    tree.symlink(who, (directory, name), target, changes, slot)
                });
                let reply = made!(reply, &done.clone().map(drop));
                self.check_making(context, side, done, reply)
            }
            (Act::Mknod(o, name, kind, device, changes), Response::Mknod(reply)) => {
                let side = self.side(*o);
                let mut done = self.with_name(*o, name, |tree, directory| {
                    tree.mknod(who, (directory, name), (*kind, *device), changes, slot)
                });
                if let (Err(why), None) = (&mut done, side.node) {
                    why.extend(not_special(*kind)); // the file system is not asked for such a file
                }
                let reply = made!(reply, &done.clone().map(drop));
                self.check_making(context, side, done, reply)
            }
            (act, reply) => self.judge_moves(context, act, reply),
        }
    }

    /// Checks calls that remove, move and add names.
    fn judge_moves(&mut self, context: &Context<'_>, act: &Act, reply: &Response) -> Verdict {
        let who = context.who;
        match (act, reply) {
            (Act::Remove(o, name), Response::Remove(reply)) => {
                let side = self.side(*o);
                let done = self.with_name(*o, name, |tree, parent| tree.remove(who, parent, name));
                self.settle_names(context);
                self.check_side(side, taken!(reply, &done))
            }
            (Act::Rmdir(o, name), Response::Rmdir(reply)) => {
                let side = self.side(*o);
                let done = self.with_name(*o, name, |tree, parent| tree.rmdir(who, parent, name));
                self.settle_names(context);
                self.check_side(side, taken!(reply, &done))
            }
            (Act::Link(file, o, name), Response::Link(reply)) => {
                let (node, side) = (self.find(*file), self.side(*o));
                let done = self.with_two((*file, *o), (&[*o], &[name]), |tree, node, directory| {
                    tree.link(who, node, (directory, name))
                });
                self.settle_names(context);
                match Self::granted(&done, reply)? {
                    Ok(ok) => {
                        let node = node.expect("it was allowed");
                        self.tree.check_given(node, &ok.file_attributes)?;
                        self.check_side(side, Ok(&ok.linkdir_wcc))
                    }
                    Err(fail) => {
                        self.tree.check_any(node.ok(), &fail.file_attributes)?;
                        self.check_side(side, Err(&fail.linkdir_wcc))
                    }
                }
            }
            (Act::Rename(from, from_name, to, to_name), Response::Rename(reply)) => {
                let sides = [self.side(*from), self.side(*to)];
                let names: &[&[u8]] = &[from_name, to_name];
                let done = self.with_two((*from, *to), (&[*from, *to], names), |tree, from, to| {
                    tree.rename(who, (from, from_name), (to, to_name))
                });
                self.settle_names(context);
                match Self::granted(&done, reply)? {
                    Ok(ok) => {
                        self.check_side(sides[0], Ok(&ok.fromdir_wcc))?;
                        self.check_side(sides[1], Ok(&ok.todir_wcc))
                    }
                    Err(fail) => {
                        self.check_side(sides[0], Err(&fail.fromdir_wcc))?;
                        self.check_side(sides[1], Err(&fail.todir_wcc))
                    }
                }
            }
            (act, reply) => Err(format!("{act:?} was answered with {reply:?}")),
        }
    }

    fn is_no_directory(&self, object: Object) -> bool {
        self.find(object).is_ok_and(|node| !self.at(node).is_directory())
    }

    fn settle_names(&mut self, context: &Context<'_>) {
        self.tree.settle(context.from, context.to);
    }

    fn check_making(
        &mut self,
        context: &Context<'_>,
        side: Side,
        done: Result<usize, Why>,
        reply: Result<Made<'_>, &wire::wcc_data>,
    ) -> Verdict {
        self.settle_names(context);
        match (reply, done) {
            (Ok(made), Ok(node)) => {
                self.tree.check_made(node, made.handle, made.attributes)?;
                self.check_side(side, Ok(made.directory))
            }
            (Ok(_), Err(_)) => Ok(()),
            (Err(seen), _) => self.check_side(side, Err(seen)),
        }
    }

    /// As [`Reference::with_name`], with two handles, and one or two names.
    fn with_two(
        &mut self,
        (one, two): (Object, Object),
        (directories, names): (&[Object], &[&[u8]]),
        verb: impl FnOnce(&mut Tree, usize, usize) -> Result<(), Why>,
    ) -> Result<(), Why> {
        match (self.find(one), self.find(two)) {
            (Ok(one), Ok(two)) => verb(&mut self.tree, one, two),
            (first, second) => {
                let mut why: Why = first.err().into_iter().chain(second.err()).flatten().collect();
                for name in names {
                    why.extend(Reasons::default().name(name).judge().err().unwrap_or_default());
                }
                // If both handles are bad, the server may check either first.
                if directories.iter().any(|&object| self.is_no_directory(object)) {
                    why.push(wire::nfsstat3::NFS3ERR_NOTDIR);
                }
                if one == Object::Elsewhere || two == Object::Elsewhere {
                    why.push(wire::nfsstat3::NFS3ERR_XDEV);
                }
                Err(why)
            }
        }
    }
}

/// Why such a file cannot be made.
fn not_special(kind: wire::ftype3) -> Option<wire::nfsstat3> {
    use wire::ftype3::{NF3DIR, NF3LNK, NF3REG};
    matches!(kind, NF3REG | NF3DIR | NF3LNK).then_some(wire::nfsstat3::NFS3ERR_BADTYPE)
}
