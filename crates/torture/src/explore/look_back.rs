//! Further calls after the operations have been answered: late repetitions, and calls with the
//! clients' handles; and calls to a failing disk.

use block::Verb;
use bytes::Bytes;
use nfs3_types::nfs3::{GETATTR3args, Nfs3Result, nfs_fh3};
use sim::{Effect, Fault};
use vfs::FsError;

use super::Style;
use super::caller::{Answer, Call, call, exclusive_verifier, outcome};
use super::model::{Act, ROOT, What};
use super::op::{Mode, Op, Stable};
use super::run::Client;
use super::server;
use crate::calls;

impl Client {
    /// Repeats a call over another connection: it gets the same answer, and changes nothing.
    pub(super) async fn repeat(&self, call: &Call, reply: &Bytes) -> Result<(), String> {
        if call.change.is_some() {
            return Ok(()); // no client has made it, and none repeats it
        }
        let before = self.server.witness.done();
        let again = self.server.connect().call(&call.record).await?;
        if again != *reply {
            let (first, second) = ((call.read)(reply)?.result, (call.read)(&again)?.result);
            return Err(format!("a call was answered with {first:?}, and repeated {second:?}"));
        }
        if self.server.witness.done() == before {
            Ok(())
        } else {
            Err("a call was carried out twice".to_owned())
        }
    }

    /// Checks after all operations: late repetitions, handles, exclusive creations.
    pub(super) async fn look_back(&self) -> Result<(), String> {
        if self.server.witness.done() != self.verbs {
            return Err("a call that was repeated while it ran was carried out twice".to_owned());
        }
        for (call, reply) in &self.answered {
            self.repeat(call, reply).await?;
        }
        self.reuse_a_number().await?;
        if self.history.style == Style::AtOnce {
            return Ok(()); // only the judge can find the order, and so the state
        }
        for (&node, handle) in &self.handles {
            self.look_at_handle(node, handle).await?;
        }
        for (index, (act, told)) in self.history.acts.iter().enumerate() {
            if let (Op::Create(_, Mode::Exclusive), Ok(())) = (&act.op, told) {
                self.create_again(index, act).await?;
            }
        }
        Ok(())
    }

    /// A restarted client may reuse a number for another call.
    async fn reuse_a_number(&self) -> Result<(), String> {
        let root = &self.handles[&ROOT];
        let mut replies = Vec::new();
        for name in [".", ".."] {
            let record = server::record(u32::MAX, &calls::rmdir(root, name));
            replies.push(self.server.connect().call(&record).await?);
        }
        if replies[0] == replies[1] {
            Err("a call was taken for another of the same number".to_owned())
        } else {
            Ok(())
        }
    }

    /// A handle names its file as long as that exists, and then none.
    async fn look_at_handle(&self, node: usize, handle: &nfs_fh3) -> Result<(), String> {
        let reply =
            self.server.connect().call(&self.server.record(&calls::getattr(handle))).await?;
        let found = outcome::<GETATTR3args, _, _>(&reply)?;
        let found = found.map(|ok| (ok.obj_attributes.size, ok.obj_attributes.nlink));
        if self.model.is_gone(node) {
            return match found {
                Err(FsError::Stale) => Ok(()),
                _ => Err("the handle of a file that is gone names something".to_owned()),
            };
        }
        let view = self.model.view();
        let Some(seen) = view.values().find(|seen| seen.file == node) else { return Ok(()) };
        let (size, links) = found.map_err(|error| format!("a file that is there: {error}"))?;
        let wrong_size = matches!(&seen.what, What::Regular(bytes) if bytes.len() as u64 != size);
        if wrong_size || seen.links != links {
            Err("the handle of a file names another one".to_owned())
        } else {
            Ok(())
        }
    }

    /// An exclusive creation finds its own file again, and no other.
    async fn create_again(&self, index: usize, act: &Act) -> Result<(), String> {
        let Ok(node) = self.model.child(act.subject, act.op.last_name()) else { return Ok(()) };
        if self.model.is_made_by(node) != Some(act.number) {
            return Ok(()); // it was removed or renamed, and this is another one
        }
        let own = exclusive_verifier(act.number);
        let answer = self.create_with(act, own).await?;
        if answer.result.is_err() || answer.file != self.history.given[index] {
            return Err("an exclusive creation does not know its own file".to_owned());
        }
        for byte in 0..own.len() {
            let mut other = own;
            other[byte] ^= 0xff;
            if self.create_with(act, other).await?.result != Err(FsError::Exists) {
                return Err(format!("byte {byte} of an exclusive creation is not looked at"));
            }
        }
        Ok(())
    }

    async fn create_with(&self, act: &Act, verifier: [u8; 8]) -> Result<Answer, String> {
        let (subject, last) = (&self.handles[&act.subject], act.op.last_name());
        let read = call(&self.server, act, &self.handles).read;
        let record = self.server.record(&calls::create_exclusive(subject, last, verifier));
        read(&self.server.connect().call(&record).await?)
    }

    /// The last operation is an UNSTABLE write, and the disk fails when its data is to land: the
    /// client must learn that its bytes are lost. Data that a log takes is not written to its place
    /// yet.
    pub(super) async fn failing(&mut self, ops: &[Op]) -> Result<(), String> {
        let Some((&Op::Write(path, part, Stable::Commit), first)) = ops.split_last() else {
            return Ok(());
        };
        if !self.one_by_one(first).await? {
            return Ok(());
        }
        self.engine.quiesce().await.map_err(|error| error.to_string())?;
        let unstable = Op::Write(path, part, Stable::Unstable);
        let Some((node, before)) = self.write(first.len(), &unstable).await? else {
            return Ok(()); // the file is gone
        };
        let disk = self.disks.volume().clone();
        let writes = disk.counters().writes;
        disk.inject(Fault::on(Verb::Write, Effect::Eio));
        let committed = self.server.ask(&calls::commit(&self.handles[&node])).await?;
        disk.heal();
        if disk.counters().writes == writes {
            return Ok(());
        }
        if matches!(committed, Nfs3Result::Ok(ok) if ok.verf.0 == before) {
            return Err("COMMIT succeeded although the disk failed".to_owned());
        }
        match self.write(first.len() + 1, &unstable).await? {
            Some((_, after)) if after == before => {
                Err("data was lost, and the verifier is still the same".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Makes an UNSTABLE write; returns the file and the verifier, if the file exists.
    async fn write(&mut self, number: usize, op: &Op) -> Result<Option<(usize, [u8; 8])>, String> {
        let seen = self.model.clone();
        let Some((_, act, call)) = self.begin(number, op, &seen) else { return Ok(None) };
        let answer = (call.read)(&self.server.connect().call(&call.record).await?)?;
        Ok(answer.written.map(|(_, verifier)| (act.subject, verifier)))
    }
}
