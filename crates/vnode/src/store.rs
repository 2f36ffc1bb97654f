//! The verbs that the namespace asks for.

use std::pin::pin;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{Either, join, select};
use namespace::{AttributeChange, Listed, NewFile, ReadySnapshots, Stat, Store, Witness};
use runtime::sync::{Permit, Steps, Walks};
use vfs::{
    Credentials, Depends, FileKind, FsError, FsInfo, FsStat, LoggedReply, Name, ObjectId, PathConf,
    Receipt, Sealed, Sequence, SnapshotNumber, Snapshots, Stability, Timestamp, Verifier,
};

use crate::change::{Change, Ready};
use crate::engine::{Engine, File, Plan, Space};
use crate::files::Files;
use crate::planted::{Bug, is_planted};
use crate::vnode::Facts;

impl<E: Engine> Store for Files<E> {
    type Node = File<E>;
    type Update = Change<E>;
    type Ready = Ready<E>;

    fn root(&self) -> ObjectId {
        self.engine.limits().root
    }

    fn verifier(&self) -> Verifier {
        Files::verifier(self)
    }

    fn is_read_only(&self) -> bool {
        Files::is_read_only(self)
    }

    fn now(&self) -> Timestamp {
        Files::now(self)
    }

    fn receipt(&self, on: Depends) -> Receipt {
        Files::receipt(self, on)
    }

    fn newest(&self) -> Sequence {
        Files::newest(self)
    }

    fn check_running(&self) -> Result<(), FsError> {
        Files::check_running(self)
    }

    async fn node(&self, id: ObjectId) -> Result<File<E>, FsError> {
        let node = Files::node(self, id).await?;
        self.check_found(&node).await?;
        Ok(node)
    }

    async fn node_of(&self, ino: u64) -> Result<File<E>, FsError> {
        let node = Files::node_of(self, ino).await?;
        self.engine.note_found(ino);
        Ok(node)
    }

    async fn peek(&self, directory: &File<E>, ino: u64) -> Result<Stat, FsError> {
        if !directory.id().is_live() {
            return Box::pin(self.peek_held(directory.tree, ino)).await;
        }
        let peek = Files::peek(self, ino).await?;
        self.engine.note_found(ino);
        Ok(peek)
    }

    fn check_usable(&self, node: &File<E>) -> Result<(), FsError> {
        if node.id().is_live() { self.check_not_stuck(node.ino) } else { Ok(()) }
    }

    fn removal(&self, id: ObjectId) -> Depends {
        Files::removal(self, id)
    }

    async fn find(&self, directory: &File<E>, name: &Name) -> Result<Option<u64>, FsError> {
        Files::find(self, directory, name).await
    }

    fn may_have_second_names(&self) -> bool {
        self.engine.may_have_second_names()
    }

    async fn settle_names(&self, node: &File<E>) -> Result<(), FsError> {
        Files::settle_names(self, node).await
    }

    async fn ensure_named(&self, id: ObjectId) -> Result<(), FsError> {
        Files::ensure_named(self, id).await
    }

    async fn is_empty(&self, directory: &File<E>) -> Result<bool, FsError> {
        Files::is_empty(self, directory).await
    }

    async fn list(
        &self,
        directory: &File<E>,
        cookie: u64,
        steps: &mut Steps<'_>,
    ) -> Result<Vec<Listed>, FsError> {
        Files::list(self, directory, cookie, steps).await
    }

    fn walks(&self) -> &Walks {
        &self.walks
    }

    fn begin(&self, who: &Credentials) -> Change<E> {
        self.plan(Space::of(who))
    }

    fn rest_on(&self, update: &mut Change<E>, changes: &Depends) {
        if !self.engine.horizon().is_in_order() {
            update.update.manner().rests_on.join(changes);
        }
    }

    async fn reserve(&self, update: Change<E>) -> Result<Ready<E>, FsError> {
        Files::reserve(self, update).await
    }

    fn apply(&self, update: Ready<E>, witness: &mut dyn Witness) {
        Files::apply(self, update, witness);
    }

    async fn wait_for_space(&self) -> bool {
        if is_planted(Bug::AbandonedLandings) {
            let comes = async { self.more_space().await || self.write_back_idle().await };
            return match select(pin!(comes), self.engine.no_room_comes()).await {
                Either::Left((comes, _)) => comes,
                Either::Right(_) => false,
            };
        }
        // The space that is about to be given back may itself wait for room in the log. Only that
        // wait is abandoned, never a landing: it has writes under way.
        match select(pin!(self.more_space()), self.engine.no_room_comes()).await {
            Either::Left((true, _)) => true,
            Either::Left((false, no_room_comes)) => {
                no_room_comes.now_or_never().is_none() && self.write_back_idle().await
            }
            Either::Right(_) => false,
        }
    }

    async fn create(
        &self,
        update: &mut Change<E>,
        parent: &File<E>,
        new: NewFile<'_>,
    ) -> Result<File<E>, FsError> {
        let node = self.engine.create(&mut update.update, parent, &new).await?;
        if new.kind == FileKind::Directory {
            self.begin_names(&node, parent.ino);
        }
        update.follows.lives.push((node.clone(), true));
        Ok(node)
    }

    fn add_link(&self, update: &mut Change<E>, node: &File<E>) -> Result<(), FsError> {
        self.engine.add_link(&mut update.update, node)
    }

    fn drop_link(&self, update: &mut Change<E>, node: &File<E>) {
        self.engine.drop_link(&mut update.update, node);
    }

    async fn destroy(&self, update: &mut Change<E>, node: &File<E>) -> Result<bool, FsError> {
        Files::destroy(self, update, node).await
    }

    async fn place_for_steps(&self) -> Result<Permit, FsError> {
        self.place_among_chains().await
    }

    fn give_place(&self, update: &mut Change<E>, place: Option<Permit>) {
        update.follows.place = place;
    }

    fn set_attributes(&self, update: &mut Change<E>, node: &File<E>, change: &AttributeChange) {
        self.engine.set_attributes(&mut update.update, node, change);
    }

    async fn add_entry(
        &self,
        update: &mut Change<E>,
        directory: &File<E>,
        name: &Name,
        target: &File<E>,
    ) -> Result<(), FsError> {
        Files::add_entry(self, update, directory, name, target).await
    }

    async fn drop_entry(
        &self,
        update: &mut Change<E>,
        directory: &File<E>,
        name: &Name,
    ) -> Result<(), FsError> {
        Files::drop_entry(self, update, directory, name).await
    }

    async fn retarget_entry(
        &self,
        update: &mut Change<E>,
        directory: &File<E>,
        name: &Name,
        target: &File<E>,
    ) -> Result<(), FsError> {
        Files::retarget_entry(self, update, directory, name, target).await
    }

    async fn retarget_parent(
        &self,
        update: &mut Change<E>,
        directory: &File<E>,
        parent: &File<E>,
    ) -> Result<(), FsError> {
        Files::retarget_parent(self, update, directory, parent).await
    }

    async fn read(
        &self,
        node: &File<E>,
        offset: u64,
        count: u64,
    ) -> Result<(Vec<Bytes>, bool), FsError> {
        let read = self.read_data(node, offset, count);
        let (data, ()) = join(read, self.read_ahead(node, offset, count)).await;
        let data = data?;
        if !self.is_read_only() && node.id().is_live() && count > 0 {
            self.engine.touch_access_time(node, self.now());
        }
        Ok(data)
    }

    async fn buffer_write(
        &self,
        who: &Credentials,
        node: &File<E>,
        offset: u64,
        data: &[Bytes],
        witness: &mut dyn Witness,
    ) -> Result<bool, FsError> {
        self.keep_data(node, offset, data, Space::of(who), witness).await
    }

    async fn write(
        &self,
        who: &Credentials,
        node: &File<E>,
        data: (u64, &[Bytes]),
        stability: Stability,
        change: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<Stability, FsError> {
        // Attributes change when they are durable, and the data with them.
        let is_alone = *change == AttributeChange::default();
        let stability = if is_alone { stability } else { stability.max(Stability::FileSync) };
        self.write_data(node, data, (stability, Space::of(who)), change, witness).await
    }

    async fn resize(
        &self,
        who: &Credentials,
        node: &File<E>,
        size: u64,
        change: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<(), FsError> {
        if !is_planted(Bug::KeepsPages) {
            Files::write_back(self, node, 0, u64::MAX).await?;
        }
        node.promise_written_back();
        self.set_size(node, (size, Space::of(who)), change, witness).await.map(|_| ())
    }

    async fn write_back(&self, node: &File<E>, offset: u64, count: u64) -> Result<(), FsError> {
        let first = offset / self.block_size();
        let end = match count {
            0 if !is_planted(Bug::EmptyCommit) => u64::MAX,
            count => end_of_commit(self.block_size(), offset.saturating_add(count)),
        };
        Files::write_back(self, node, first, end).await?;
        self.settle_doubts(node, first..end).await?;
        if node.take_refusal() {
            return Err(FsError::NoSpace); // for data that is gone: its writer must learn why
        }
        node.promise_written_back();
        Ok(())
    }

    async fn link_target(&self, node: &File<E>) -> Result<Bytes, FsError> {
        if node.kind != FileKind::Symlink {
            return Err(FsError::Invalid);
        }
        if let Some(target) = node.look(Facts::inline_target) {
            return Ok(target);
        }
        if node.stored_size() > self.block_size() {
            return Err(FsError::Corrupt);
        }
        self.block_data(node, 0).await
    }

    fn max_target(&self) -> usize {
        self.engine.limits().max_target
    }

    fn fsstat(&self, who: &Credentials) -> FsStat {
        let orphans = self.orphans.borrow();
        let used = orphans.values().map(|node| node.attributes().used).sum();
        self.engine.space(who, (orphans.len() as u64, used))
    }

    fn fsinfo(&self) -> FsInfo {
        self.engine.limits().fsinfo
    }

    fn pathconf(&self) -> PathConf {
        self.engine.limits().pathconf
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        self.snapshots.as_ref().map(|_| self as &dyn Snapshots)
    }

    fn ready_snapshots(&self) -> ReadySnapshots {
        Files::ready_snapshots(self)
    }

    fn snapshot_behind(&self, number: SnapshotNumber) -> Option<(SnapshotNumber, Name)> {
        self.snapshots.as_ref()?.shown_behind(number)
    }

    fn snapshot_named(&self, name: &Name) -> Option<SnapshotNumber> {
        self.snapshots.as_ref()?.shown_named(name)
    }

    fn take_remembered(&self) -> Sealed<Vec<LoggedReply>> {
        Sealed::new(self.remembered.take(), Files::receipt(self, Depends::NOTHING))
    }

    fn count_repetition(&self, over_a_start: bool) {
        self.engine.count_repetition(over_a_start);
    }

    fn ask_to_end(&self) {
        self.engine.ask_to_end();
    }

    async fn shutdown(&self) -> Result<(), FsError> {
        self.close().await
    }
}

/// The block behind the last that a range ending at this byte touches.
fn end_of_commit(block_size: u64, end: u64) -> u64 {
    if is_planted(Bug::ShortCommits) { end / block_size } else { end.div_ceil(block_size) }
}
