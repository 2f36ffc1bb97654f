//! The verbs of [`vnode::Engine`] that are the same for all engines on a floor.

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

        async fn load(&self, ino: u64) -> Result<$crate::floor::File, ::vfs::FsError> {
            self.floor.load(ino).await
        }

        async fn create(
            &self,
            update: &mut Self::Update,
            parent: &$crate::floor::File,
            new: &::namespace::NewFile<'_>,
        ) -> Result<$crate::floor::File, ::vfs::FsError> {
            self.floor.create(update, parent, new).await
        }

        fn add_link(
            &self,
            update: &mut Self::Update,
            file: &$crate::floor::File,
        ) -> Result<(), ::vfs::FsError> {
            self.floor.add_link(update, file)
        }

        fn drop_link(&self, update: &mut Self::Update, file: &$crate::floor::File) {
            self.floor.drop_link(update, file);
        }

        fn set_attributes(
            &self,
            update: &mut Self::Update,
            file: &$crate::floor::File,
            change: &::namespace::AttributeChange,
        ) {
            self.floor.set_attributes(update, file, change);
        }

        fn touch_access_time(&self, file: &::vnode::Vnode<Self::Inode>, time: ::vfs::Timestamp) {
            self.floor.touch_access_time(file, time);
        }

        async fn free(
            &self,
            update: &mut Self::Update,
            file: &$crate::floor::File,
        ) -> Result<bool, ::vfs::FsError> {
            self.floor.free(update, file).await
        }

        async fn free_step(
            &self,
            update: &mut Self::Update,
            file: &$crate::floor::File,
        ) -> Result<bool, ::vfs::FsError> {
            self.floor.free_step(update, file).await
        }

        async fn shrink_step(
            &self,
            update: &mut Self::Update,
            file: &$crate::floor::File,
            size: u64,
        ) -> Result<u64, ::vfs::FsError> {
            self.floor.plan_shorter(update, file, size).await
        }

        async fn chunk(
            &self,
            update: Option<&Self::Update>,
            directory: &::vnode::Vnode<Self::Inode>,
            start: u64,
        ) -> Result<Self::Chunk, ::vfs::FsError> {
            self.floor.chunk(update, directory, start).await
        }

        async fn add_chunk(
            &self,
            update: &mut Self::Update,
            directory: &$crate::floor::File,
        ) -> Result<Self::Chunk, ::vfs::FsError> {
            self.floor.add_chunk(update, directory).await
        }

        fn set_entry(
            &self,
            update: &mut Self::Update,
            directory: &$crate::floor::File,
            chunk: &Self::Chunk,
            entry: ::vnode::EntryChange,
        ) {
            self.floor.set_entry(update, directory, chunk, entry);
        }

        async fn place(
            &self,
            file: &::vnode::Vnode<Self::Inode>,
            block: u64,
        ) -> Result<::vnode::Place, ::vfs::FsError> {
            self.floor.place(file, block).await
        }

        async fn page_cost(
            &self,
            file: &::vnode::Vnode<Self::Inode>,
            block: u64,
            has_neighbour: bool,
        ) -> Result<u64, ::vfs::FsError> {
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
        ) -> Result<(Self::Payload, Vec<u64>), ::vfs::FsError> {
            Ok((self.floor.plan_data(update, file, set).await?, Vec::new()))
        }

        async fn write_blocks(
            &self,
            update: &mut Self::Update,
            payload: Self::Payload,
        ) -> Result<bool, ::vfs::FsError> {
            self.floor.write_data(update, payload).await
        }

        fn end_blocks(
            &self,
            update: &mut Self::Update,
            file: &$crate::floor::File,
            size: u64,
            change: &::namespace::AttributeChange,
        ) {
            self.floor.end_blocks(update, file, size, change);
        }

        fn begin(&self, kind: ::vnode::Space) -> Self::Update {
            self.floor.begin(kind)
        }

        fn found_snapshots(&self) -> Option<::vnode::FoundSnapshots> {
            Some(self.floor.pins.found())
        }

        fn change_snapshots(
            &self,
            update: &mut Self::Update,
            change: ::vnode::SnapshotChange,
        ) -> Result<(), ::vfs::FsError> {
            update.asked = Some(change);
            Ok(())
        }

        async fn load_held(
            &self,
            tree: ::vfs::SnapshotNumber,
            ino: u64,
        ) -> Result<$crate::floor::File, ::vfs::FsError> {
            self.floor.load_held(tree, ino).await
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

        fn no_room_comes(&self) -> ::futures::future::LocalBoxFuture<'static, ()> {
            self.floor.no_room_comes()
        }

        async fn settle(&self) -> Result<(), ::vfs::Lost> {
            self.floor.settle().await
        }
    };
}
