//! Results of the procedures, owned.
//!
//! Each `...Result` is an [`Outcome`](super::Outcome) of the arms that the RFC gives the
//! procedure. NULL has no results: its reply is a bare [`success`](crate::rpc::success).

mod attributes;
mod bare_failure;
mod create;
mod data;
mod directory;
mod names;
mod volume;

pub use attributes::{AccessOk, AccessResult, GetattrResult, SetattrResult};
pub use bare_failure::BareFailure;
pub use create::{CreateOk, CreateResult, MkdirResult, MknodResult, SymlinkResult};
pub use data::{
    CommitOk, CommitResult, ReadOk, ReadResult, ReadlinkOk, ReadlinkResult, WriteOk, WriteResult,
};
pub use directory::{Entry, EntryPlus, ReaddirOk, ReaddirResult, ReaddirplusOk, ReaddirplusResult};
pub use names::{
    LinkResult, LinkWcc, LookupOk, LookupResult, RemoveResult, RenameResult, RenameWcc, RmdirResult,
};
pub use volume::{
    FsinfoOk, FsinfoResult, FsstatOk, FsstatResult, PathconfOk, PathconfResult, Properties,
};
