//! The verbs of [`vnode::Engine`] that are the same for all engines on a floor.

use vnode::Vnode;

/// The result of a verb.
pub type Done<T> = Result<T, vfs::FsError>;
/// A file.
pub type Of<E> = Vnode<<E as vnode::Engine>::Inode>;

/// Verbs that the floor has by the same name.
#[doc(hidden)]
#[macro_export]
macro_rules! forward {
    (fn: $(fn $name:ident($($it:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($it: $type),*) $(-> $result)? {
            self.floor.$name($($it),*)
        })*
    };
    (async: $(fn $name:ident($($it:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(async fn $name(&self, $($it: $type),*) $(-> $result)? {
            self.floor.$name($($it),*).await
        })*
    };
}

/// In an `impl vnode::Engine`: those verbs, of an engine with this layout whose field `floor` is
/// its [`Floor`](crate::floor::Floor). The others are the engine's: space, claims, steps of
/// snapshots, and how a change is applied, staged and becomes durable.
#[macro_export]
macro_rules! verbs {
    ($layout:ty) => {
        type Inode = $crate::Inode;
        type Update = $crate::update::Update<$layout>;
        type Ready = $crate::update::Update<$layout>;
        type Freed = $crate::files::Freed;
        type Chunk = $crate::update::Chunk;
        type Payload = $crate::content::Payload;

        $crate::forward! { fn:
            fn add_link(it: &mut Self::Update, file: &$crate::floor::File)
                -> $crate::verbs::Done<()>;
            fn drop_link(it: &mut Self::Update, file: &$crate::floor::File);
            fn set_attributes(
                it: &mut Self::Update, file: &$crate::floor::File,
                change: &::namespace::AttributeChange
            );
            fn touch_access_time(file: &$crate::verbs::Of<Self>, time: ::vfs::Timestamp);
            fn set_entry(
                it: &mut Self::Update, directory: &$crate::floor::File, chunk: &Self::Chunk,
                entry: ::vnode::EntryChange
            );
            fn end_blocks(
                it: &mut Self::Update, file: &$crate::floor::File, size: u64,
                change: &::namespace::AttributeChange
            );
            fn begin(kind: ::vnode::Space) -> Self::Update;
            fn no_room_comes() -> ::futures::future::LocalBoxFuture<'static, ()>;
        }

        $crate::forward! { async:
            fn load(ino: u64) -> $crate::verbs::Done<$crate::floor::File>;
            fn create(
                it: &mut Self::Update, parent: &$crate::floor::File, new: &::namespace::NewFile<'_>
            ) -> $crate::verbs::Done<$crate::floor::File>;
            fn free(it: &mut Self::Update, file: &$crate::floor::File)
                -> $crate::verbs::Done<bool>;
            fn free_step(it: &mut Self::Update, file: &$crate::floor::File)
                -> $crate::verbs::Done<bool>;
            fn chunk(it: Option<&Self::Update>, directory: &$crate::verbs::Of<Self>, start: u64)
                -> $crate::verbs::Done<Self::Chunk>;
            fn add_chunk(it: &mut Self::Update, directory: &$crate::floor::File)
                -> $crate::verbs::Done<Self::Chunk>;
            fn place(file: &$crate::verbs::Of<Self>, block: u64)
                -> $crate::verbs::Done<::vnode::Place>;
            fn settle() -> Result<(), ::vfs::Lost>;
        }

        fn limits(&self) -> &::vnode::Limits {
            &self.floor.limits
        }

        fn budget(&self) -> &::cache::Budget {
            &self.floor.budget
        }

        fn evict(&self) {
            self.floor.nodes.evict();
        }

        fn data(&self) -> Option<&::cache::DataPath> {
            Some(&self.floor.path)
        }

        async fn shrink_step(
            &self,
            update: &mut Self::Update,
            file: &$crate::floor::File,
            size: u64,
        ) -> $crate::verbs::Done<u64> {
            self.floor.plan_shorter(update, file, size).await
        }

        async fn page_cost(
            &self,
            file: &$crate::verbs::Of<Self>,
            block: u64,
            has_neighbour: bool,
        ) -> $crate::verbs::Done<u64> {
            Ok(self.floor.claim_for(file, block, has_neighbour))
        }

        fn moves_blocks(&self) -> bool {
            true
        }

        fn takes_parts(&self) -> bool {
            true
        }

        fn keeps_chains(&self) -> bool {
            true
        }

        fn needed(
            &self,
            block: u64,
            place: &::vnode::Place,
            new: ::std::ops::Range<usize>,
            (old_size, _): (u64, u64),
        ) -> ::std::ops::Range<usize> {
            self.floor.needed(block, place, new, old_size)
        }

        async fn plan_blocks(
            &self,
            update: &mut Self::Update,
            file: &$crate::floor::File,
            set: &mut $crate::content::Contents,
            _size: u64,
        ) -> $crate::verbs::Done<(Self::Payload, Vec<u64>)> {
            Ok((self.floor.plan_data(update, file, set).await?, Vec::new()))
        }

        async fn write_blocks(
            &self,
            update: &mut Self::Update,
            payload: Self::Payload,
        ) -> $crate::verbs::Done<bool> {
            self.floor.write_data(update, payload).await
        }

        async fn give_back(&self, freed: Self::Freed) {
            self.floor.give_back(freed);
        }

        fn finds_space(&self) -> bool {
            self.floor.live.promised.waiting.is_any()
        }

        fn released(&self) -> &::runtime::sync::Signal {
            &self.floor.live.released
        }

        fn horizon(&self) -> &::vnode::horizon::Horizon {
            &self.floor.live.horizon
        }
    };
}

/// The same for those of an engine that has snapshots.
#[macro_export]
macro_rules! snapshot_verbs {
    () => {
        $crate::forward! { async:
            fn load_held(tree: ::vfs::SnapshotNumber, ino: u64)
                -> $crate::verbs::Done<$crate::floor::File>;
        }

        fn found_snapshots(&self) -> Option<::vnode::FoundSnapshots> {
            Some(self.floor.pins.found())
        }

        fn change_snapshots(
            &self,
            update: &mut Self::Update,
            change: ::vnode::SnapshotChange,
        ) -> $crate::verbs::Done<()> {
            update.asked = Some(change);
            Ok(())
        }
    };
}
