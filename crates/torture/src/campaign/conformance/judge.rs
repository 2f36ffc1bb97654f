//! Checks replies against the tree, procedure by procedure.
//!
//! Each function applies its verb to the tree, lets the time of the call pass, and compares the
//! whole reply.

use nfs3_types::nfs3::{self as wire, nfsstat3};
use nfs3_types::xdr_codec::Pack;

use super::attributes::{Before, time};
use super::listing::{Listed, Room, Scan};
use super::reference::Reference;
use super::rights;
use super::stamp::Time;
use super::step::{Act, Changes, Guard, Object, Step, payload};
use super::tree::{Reasons, Tree, Why};
use super::verbs::check_listing;
use crate::protocol::{Response, User};

/// Bytes reserved from users, at most: four blocks, for files that become shorter.
const MOST_KEPT: u64 = 4 * (64 << 10);

/// Whether a reply is right, or what is wrong with it.
pub(crate) type Verdict = Result<(), String>;

/// An answered call: its user, its number, and when it was under way.
pub(crate) struct Context<'a> {
    pub who: &'a User,
    pub number: usize,
    pub from: Time,
    pub to: Time,
}

/// The arguments of READDIR and READDIRPLUS that matter here.
#[derive(Clone, Copy)]
struct Listing {
    directory: Object,
    from: super::step::From,
    room: Room,
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, expected: T) -> Verdict {
    if seen == expected { Ok(()) } else { Err(format!("{what} {seen:?}, expected {expected:?}")) }
}

fn short(bytes: &[u8]) -> String {
    format!("{} bytes", bytes.len())
}

impl Reference {
    /// Applies a step and compares the reply.
    ///
    /// # Errors
    /// The first difference in the reply.
    pub(crate) fn judge(
        &mut self,
        step: &Step,
        reply: &Response,
        (from, to): (Time, Time),
    ) -> Verdict {
        let who = &self.users[step.user].clone();
        let context = &Context { who, number: step.number, from, to };
        let verdict = match (&step.act, reply) {
            (Act::Null, Response::Null(_)) => Ok(()),
            (Act::Getattr(object), Response::Getattr(reply)) => {
                let found = self.find(*object);
                let outcome = Self::granted(&found.clone().map(drop), reply)?;
                match (outcome, found) {
                    (Ok(ok), Ok(node)) => self.tree.check_attributes(node, &ok.obj_attributes),
                    _ => Ok(()),
                }
            }
            (Act::Setattr(o, changes, guard), Response::Setattr(reply)) => {
                self.setattr(context, *o, changes, *guard, reply)
            }
            (Act::Lookup(o, name), Response::Lookup(reply)) => {
                self.lookup(context, *o, name, reply)
            }
            (Act::Access(o, asked), Response::Access(reply)) => {
                self.access(context, *o, *asked, reply)
            }
            (Act::Readlink(o), Response::Readlink(reply)) => self.readlink(*o, reply),
            (Act::Read(o, offset, count), Response::Read(reply)) => {
                self.read(context, *o, (*offset, *count), reply)
            }
            (act @ Act::Write(..), Response::Write(reply)) => self.write(context, act, reply),
            (Act::Commit(o, ..), Response::Commit(reply)) => self.commit(context, *o, reply),
            (Act::Readdir(directory, from, count), Response::Readdir(reply)) => {
                let room = Room { bytes: *count as usize, plus: false };
                let listing = Listing { directory: *directory, from: *from, room };
                self.readdir(context, listing, reply)
            }
            (Act::Readdirplus(directory, from, names, count), Response::Readdirplus(reply)) => {
                let room = Room { bytes: *count as usize, plus: true };
                let listing = Listing { directory: *directory, from: *from, room };
                self.readdirplus(context, listing, *names as usize, reply)
            }
            (Act::Fsstat(o), Response::Fsstat(reply)) => self.fsstat(context, *o, reply),
            (Act::Fsinfo(o), Response::Fsinfo(reply)) => self.fsinfo(*o, reply),
            (Act::Pathconf(o), Response::Pathconf(reply)) => self.pathconf(*o, reply),
            (act, reply) => self.judge_names(context, act, reply),
        };
        self.follow();
        verdict
    }

    fn settle(&mut self, context: &Context<'_>) {
        self.tree.settle(context.from, context.to);
    }

    fn setattr(
        &mut self,
        context: &Context<'_>,
        object: Object,
        changes: &Changes,
        guard: Guard,
        reply: &wire::SETATTR3res,
    ) -> Verdict {
        let mut found = self.find(object);
        let was = found.as_ref().ok().map(|&node| Before::of(self.at(node)));
        let guarded = self.guard(object, guard);
        if let (Err(why), true) = (&mut found, changes.has_bad_time()) {
            why.push(nfsstat3::NFS3ERR_INVAL);
        }
        let done = found.clone().and_then(|node| {
            let ctime = self.at(node).ctime.known();
            let off = guarded.is_some_and(|guard| ctime != Some(guard));
            self.tree.setattr(context.who, node, changes, off)
        });
        self.settle(context);
        match (Self::granted(&done, reply)?, found, was) {
            (Ok(ok), Ok(node), Some(was)) => self.tree.check_wcc(node, was, &ok.obj_wcc),
            (Err(fail), found, _) => self.tree.check_unchanged(found.ok(), &fail.obj_wcc),
            _ => Ok(()),
        }
    }

    fn lookup(
        &mut self,
        context: &Context<'_>,
        directory: Object,
        name: &[u8],
        reply: &wire::LOOKUP3res,
    ) -> Verdict {
        let parent = self.find(directory);
        let found =
            self.with_name(directory, name, |tree, parent| tree.lookup(context.who, parent, name));
        match (Self::granted(&found.clone().map(drop), reply)?, parent.ok(), found) {
            (Ok(ok), Some(parent), Ok(node)) => {
                self.tree.check_handle(node, &ok.object)?;
                self.tree.check_given(node, &ok.obj_attributes)?;
                self.tree.check_given(parent, &ok.dir_attributes)
            }
            (Err(fail), parent, _) => self.tree.check_any(parent, &fail.dir_attributes),
            _ => Ok(()),
        }
    }

    /// Applies a verb in a directory; if the handle is bad, the server may report a bad name first.
    pub(super) fn with_name<T>(
        &mut self,
        directory: Object,
        name: &[u8],
        verb: impl FnOnce(&mut Tree, usize) -> Result<T, Why>,
    ) -> Result<T, Why> {
        match self.find(directory) {
            Ok(node) => verb(&mut self.tree, node),
            Err(mut why) => {
                why.extend(Reasons::default().name(name).judge().err().unwrap_or_default());
                Err(why)
            }
        }
    }

    fn access(
        &mut self,
        context: &Context<'_>,
        object: Object,
        asked: u32,
        reply: &wire::ACCESS3res,
    ) -> Verdict {
        let found = self.find(object);
        match (Self::granted(&found.clone().map(drop), reply)?, found) {
            (Ok(ok), Ok(node)) => {
                let granted = rights::access(context.who, self.at(node)) & asked;
                same("access", ok.access, granted)?;
                self.tree.check_given(node, &ok.obj_attributes)
            }
            (Err(fail), found) => self.tree.check_any(found.ok(), &fail.obj_attributes),
            _ => Ok(()),
        }
    }

    fn readlink(&mut self, object: Object, reply: &wire::READLINK3res<'static>) -> Verdict {
        let found = self.find(object);
        let target = found.clone().and_then(|node| self.tree.readlink(node));
        match (Self::granted(&target.clone().map(drop), reply)?, found, target) {
            (Ok(ok), Ok(node), Ok(target)) => {
                same("target", &ok.data.0.to_vec(), &target)?;
                self.tree.check_given(node, &ok.symlink_attributes)
            }
            (Err(fail), found, _) => self.tree.check_any(found.ok(), &fail.symlink_attributes),
            _ => Ok(()),
        }
    }

    fn read(
        &mut self,
        context: &Context<'_>,
        object: Object,
        range: (u64, u32),
        reply: &wire::READ3res<'static>,
    ) -> Verdict {
        let found = self.find(object);
        let bytes = found.clone().and_then(|node| self.tree.read(context.who, node, range));
        self.settle(context);
        match (Self::granted(&bytes.clone().map(drop), reply)?, found, bytes) {
            (Ok(ok), Ok(node), Ok(bytes)) => {
                let end = range.0.saturating_add(range.1.into());
                same("count", ok.count as usize, bytes.len())?;
                same("length", short(&ok.data), short(&bytes))?;
                if let Some(at) = ok.data.iter().zip(&bytes).position(|(one, two)| one != two) {
                    let (seen, expected) = (ok.data[at], bytes[at]);
                    return Err(format!("byte {at} is {seen}, expected {expected}"));
                }
                same("eof", ok.eof, Some(end) >= self.at(node).size())?;
                self.tree.check_given(node, &ok.file_attributes)
            }
            (Err(fail), found, _) => self.tree.check_any(found.ok(), &fail.file_attributes),
            _ => Ok(()),
        }
    }

    fn write(&mut self, context: &Context<'_>, act: &Act, reply: &wire::WRITE3res) -> Verdict {
        let Act::Write(object, offset, length, more, stable) = *act else { return Ok(()) };
        let found = self.find(object);
        let was = found.as_ref().ok().map(|&node| Before::of(self.at(node)));
        let data = payload(context.number, length);
        let mut reasons = Reasons::default();
        reasons.when(more > 0, &[nfsstat3::NFS3ERR_INVAL]);
        reasons.when(offset.checked_add(length.into()).is_none(), &[nfsstat3::NFS3ERR_FBIG]);
        let done = match (reasons.judge(), found.clone()) {
            (Ok(()), Ok(node)) => self.tree.write(context.who, node, offset, &data),
            (one, two) => {
                let (one, two) = (one.err(), two.err());
                Err(one.into_iter().chain(two).flatten().collect())
            }
        };
        self.settle(context);
        match (Self::granted(&done, reply)?, found, was) {
            (Ok(ok), Ok(node), Some(was)) => {
                same("count", ok.count, length)?;
                let enough = ok.committed as u32 >= stable as u32;
                same("is as stable as was asked", enough, true)?;
                self.check_verifier(ok.verf.0)?;
                self.tree.check_wcc(node, was, &ok.file_wcc)
            }
            (Err(fail), found, _) => self.tree.check_unchanged(found.ok(), &fail.file_wcc),
            _ => Ok(()),
        }
    }

    /// One verifier for each start of the server (RFC 1813, section 3.3.7).
    fn check_verifier(&mut self, seen: [u8; 8]) -> Verdict {
        if self.known.old_verifiers.contains(&seen) {
            return Err("the write verifier is that of an earlier start".into());
        }
        same("write verifier", seen, *self.known.verifier.get_or_insert(seen))
    }

    fn commit(
        &mut self,
        context: &Context<'_>,
        object: Object,
        reply: &wire::COMMIT3res,
    ) -> Verdict {
        let found = self.find(object);
        let was = found.as_ref().ok().map(|&node| Before::of(self.at(node)));
        let done = found.clone().and_then(|node| self.tree.commit(context.who, node));
        match (Self::granted(&done, reply)?, found, was) {
            (Ok(ok), Ok(node), Some(was)) => {
                self.check_verifier(ok.verf.0)?;
                self.tree.check_wcc(node, was, &ok.file_wcc)
            }
            (Err(fail), found, _) => self.tree.check_unchanged(found.ok(), &fail.file_wcc),
            _ => Ok(()),
        }
    }

    /// Whether a listing is allowed, and its scan: a known one, or none.
    fn begin_listing(
        &self,
        context: &Context<'_>,
        listing: Listing,
    ) -> (Result<(), Why>, Option<Scan>) {
        let Listing { directory, from, room } = listing;
        let (cookie, verifier, is_known) = self.resume(directory, from, room.plus);
        let foreign = cookie != 0 && verifier == *b"another!";
        let mut reasons = Reasons::default();
        reasons.when(foreign, &[nfsstat3::NFS3ERR_BAD_COOKIE]);
        let allowed = match (reasons.judge(), self.find(directory)) {
            (Ok(()), Ok(node)) => check_listing(context.who, self.at(node)),
            (one, two) => Err(one.err().into_iter().chain(two.err()).flatten().collect()),
        };
        let scan = match self.find(directory) {
            Ok(node) if cookie == 0 => Some(Scan::new(&self.tree, node)),
            _ => self.scans[usize::from(room.plus)].clone().filter(|_| is_known),
        };
        (allowed, scan)
    }

    /// With too little room, or with an arbitrary cookie, a refusal is right as well.
    fn may_refuse(&self, listing: Listing, status: nfsstat3) -> bool {
        let Ok(node) = self.find(listing.directory) else { return false };
        let (_, _, is_known) = self.resume(listing.directory, listing.from, listing.room.plus);
        match status {
            nfsstat3::NFS3ERR_TOOSMALL => !listing.room.is_enough(&self.tree, node),
            nfsstat3::NFS3ERR_BAD_COOKIE => !is_known,
            _ => false,
        }
    }

    /// The checks that listings of both kinds share. Returns the listed entries, if a listing was
    /// due, and the earlier position of the scan.
    fn listed<'a, T: Pack, E>(
        &mut self,
        context: &Context<'_>,
        listing: Listing,
        reply: &'a wire::Nfs3Result<T, E>,
        attributes: &wire::post_op_attr,
    ) -> Result<Option<(&'a T, Option<Scan>)>, String> {
        let (mut allowed, scan) = self.begin_listing(context, listing);
        let found = self.find(listing.directory).ok();
        if let (Ok(()), wire::Nfs3Result::Err((status, _))) = (&allowed, reply)
            && self.may_refuse(listing, *status)
        {
            allowed = Err(vec![*status]);
        }
        let Ok(ok) = Self::granted(&allowed, reply)? else {
            self.tree.check_any(found, attributes)?;
            return Ok(None);
        };
        let node = found.expect("it was allowed");
        same("fits", ok.packed_size() <= listing.room.bytes, true)?;
        self.tree.check_given(node, attributes)?;
        Ok(Some((ok, scan)))
    }

    fn readdir(
        &mut self,
        context: &Context<'_>,
        listing: Listing,
        reply: &wire::READDIR3res<'static>,
    ) -> Verdict {
        let attributes = match reply {
            wire::Nfs3Result::Ok(ok) => &ok.dir_attributes,
            wire::Nfs3Result::Err((_, fail)) => &fail.dir_attributes,
        };
        let Some((ok, scan)) = self.listed(context, listing, reply, attributes)? else {
            return Ok(());
        };
        let Some(mut scan) = scan else { return Ok(()) };
        let entries = &ok.reply.entries.0;
        for entry in entries {
            let (fileid, name, cookie) = (entry.fileid, entry.name.as_ref(), entry.cookie);
            scan.take(&mut self.tree, &Listed { fileid, name, cookie })?;
        }
        scan.end((entries.len(), ok.reply.eof), &ok.cookieverf)?;
        self.scans[0] = Some(scan);
        Ok(())
    }

    fn readdirplus(
        &mut self,
        context: &Context<'_>,
        listing: Listing,
        names: usize,
        reply: &wire::READDIRPLUS3res<'static>,
    ) -> Verdict {
        let attributes = match reply {
            wire::Nfs3Result::Ok(ok) => &ok.dir_attributes,
            wire::Nfs3Result::Err((_, fail)) => &fail.dir_attributes,
        };
        let Some((ok, scan)) = self.listed(context, listing, reply, attributes)? else {
            return Ok(());
        };
        let entries = &ok.reply.entries.0;
        let all: usize = entries.iter().map(|entry| 16 + entry.name.packed_size()).sum();
        same("names fit", all <= names || entries.len() == 1, true)?;
        let Some(mut scan) = scan else { return Ok(()) };
        for entry in entries {
            let (fileid, name, cookie) = (entry.fileid, entry.name.as_ref(), entry.cookie);
            let node = scan.take(&mut self.tree, &Listed { fileid, name, cookie })?;
            self.tree.check_made(node, &entry.name_handle, &entry.name_attributes)?;
        }
        scan.end((entries.len(), ok.reply.eof), &ok.cookieverf)?;
        self.scans[1] = Some(scan);
        Ok(())
    }

    fn fsstat(
        &mut self,
        context: &Context<'_>,
        object: Object,
        reply: &wire::FSSTAT3res,
    ) -> Verdict {
        let found = self.find(object);
        match (Self::granted(&found.clone().map(drop), reply)?, found) {
            (Ok(ok), Ok(node)) => {
                let totals = (ok.tbytes, ok.tfiles);
                same("totals", totals, *self.known.totals.get_or_insert(totals))?;
                let files = ok.ffiles + self.tree.live().count() as u64;
                same("free and used files", files, *self.known.files.get_or_insert(files))?;
                let bytes = ok.abytes <= ok.fbytes && ok.fbytes <= ok.tbytes;
                same("available, free and all bytes are in order", bytes, true)?;
                same("available files", ok.afiles, ok.ffiles)?;
                let most = !rights::is_root(context.who) || ok.fbytes - ok.abytes <= MOST_KEPT;
                same("the superuser may take all but a few blocks", most, true)?;
                same("invarsec", ok.invarsec, 0)?;
                self.tree.check_given(node, &ok.obj_attributes)
            }
            (Err(fail), found) => self.tree.check_any(found.ok(), &fail.obj_attributes),
            _ => Ok(()),
        }
    }

    fn fsinfo(&mut self, object: Object, reply: &wire::FSINFO3res) -> Verdict {
        let found = self.find(object);
        match (Self::granted(&found.clone().map(drop), reply)?, found) {
            (Ok(ok), Ok(node)) => {
                let sizes = (ok.rtmax, ok.rtpref, ok.wtmax, ok.wtpref);
                same("transfers", sizes, (1 << 20, 1 << 20, 1 << 20, 1 << 20))?;
                let multiples = (ok.rtmult, ok.wtmult, ok.dtpref);
                let known = *self.known.multiples.get_or_insert(multiples);
                same("multiples", multiples, known)?;
                same("largest file", ok.maxfilesize, self.tree.max_file_size)?;
                same("step of time", time(&ok.time_delta), (0, 1))?;
                same("properties", ok.properties, 0x1b)?; // links of both kinds, one for all, times
                self.tree.check_given(node, &ok.obj_attributes)
            }
            (Err(fail), found) => self.tree.check_any(found.ok(), &fail.obj_attributes),
            _ => Ok(()),
        }
    }

    fn pathconf(&mut self, object: Object, reply: &wire::PATHCONF3res) -> Verdict {
        let found = self.find(object);
        match (Self::granted(&found.clone().map(drop), reply)?, found) {
            (Ok(ok), Ok(node)) => {
                same("name_max", ok.name_max, 255)?;
                let flags = (ok.no_trunc, ok.chown_restricted);
                same("no_trunc, chown_restricted", flags, (true, true))?;
                let cases = (ok.case_insensitive, ok.case_preserving);
                same("case_insensitive, case_preserving", cases, (false, true))?;
                same("linkmax", ok.linkmax, self.max_links)?;
                self.tree.check_given(node, &ok.obj_attributes)
            }
            (Err(fail), found) => self.tree.check_any(found.ok(), &fail.obj_attributes),
            _ => Ok(()),
        }
    }
}

/// A new file and its directory.
pub(super) struct Made<'a> {
    pub(super) handle: &'a wire::post_op_fh3,
    pub(super) attributes: &'a wire::post_op_attr,
    pub(super) directory: &'a wire::wcc_data,
}
