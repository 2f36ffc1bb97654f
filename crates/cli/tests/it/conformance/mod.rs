//! The promises of NFS version 3, tested over TCP by an independent client against the engine
//! itself.
//!
//! `fixture` starts the server over a disk in memory, stops it, cuts its power; `user` has the
//! procedures as verbs. The table shows which test covers which answer (`refusals` unless said
//! otherwise; a file alone if several of its tests do):
//!
//! | status | procedures | shown by |
//! |---|---|---|
//! | OK | all 22, MOUNT's 6 | every file; NULL in `refusals`, MOUNT in `mounting` |
//! | PERM | SETATTR | `attributes`: only_the_owner_changes_the_mode_... |
//! | PERM | REMOVE RMDIR RENAME | `rename`: in_a_sticky_directory_... |
//! | PERM | MKNOD | `create`: only_the_superuser_makes_devices |
//! | PERM | LINK | `links`: ..._directories_have_none |
//! | NOENT | LOOKUP REMOVE RMDIR RENAME | what_is_not_there_is_not_found |
//! | IO | all but NULL | a_volume_that_has_stopped_...; of one file in `durability` |
//! | ACCES | all but NULL | a_client_that_is_not_admitted_gets_nothing |
//! | ACCES | READ WRITE COMMIT SETATTR | `attributes` |
//! | ACCES | all that take a name, READDIR, READDIRPLUS | `create`: who_may_not_write_... |
//! | EXIST | CREATE MKDIR SYMLINK MKNOD LINK | `create` |
//! | XDEV | RENAME LINK | volumes_are_not_linked_together |
//! | NOTDIR | all that take a name, READDIR, READDIRPLUS | a_file_is_no_directory |
//! | NOTDIR | RENAME of a directory over a file | `rename` |
//! | ISDIR | READ WRITE COMMIT | a_directory_is_no_file |
//! | ISDIR | SETATTR; CREATE; REMOVE; RENAME | `attributes`; `create`; `links`; `rename` |
//! | INVAL | READLINK; all that take a name | a_file_is_no_directory; names_are_refused_... |
//! | INVAL | REMOVE RMDIR RENAME of "." and ".." | dot_and_dot_dot_are_... |
//! | INVAL | RENAME into itself | `rename` |
//! | INVAL | SETATTR; READ WRITE COMMIT; SYMLINK | `attributes`; `data`; `links` |
//! | FBIG | WRITE SETATTR | `data`: nothing_is_written_behind_the_largest_size |
//! | NOSPC | WRITE CREATE MKDIR SYMLINK MKNOD LINK RENAME | `full` |
//! | ROFS | SETATTR WRITE and all that change directories | a_volume_that_is_exported_... |
//! | MLINK | LINK MKDIR RENAME | `links` |
//! | NAMETOOLONG | all that take a name; targets of SYMLINK | names_are_refused_...; `links` |
//! | NOTEMPTY | RMDIR; RENAME; RMDIR of ".." | `links`; `rename`; dot_and_dot_dot_are_... |
//! | STALE | all but NULL | a_handle_is_stale_..., a_removed_directory_is_stale |
//! | BADHANDLE | all but NULL | bytes_that_are_no_handle_are_a_bad_handle |
//! | NOT_SYNC | SETATTR | `attributes`: a_guarded_setattr_... |
//! | BAD_COOKIE | READDIR READDIRPLUS | `listing` |
//! | TOOSMALL | READDIR READDIRPLUS | `listing` |
//! | BADTYPE | MKNOD | `create`: files_directories_and_links_are_not_made_by_mknod |
//!
//! NXIO, NODEV, DQUOT, REMOTE and SERVERFAULT are never answered, and NOTSUPP is not either, since
//! UFS2 supports all of the protocol. JUKEBOX is answered while reclaim looks for the leftovers of
//! a cut: the tests of reclaim cover it.

mod attributes;
mod create;
mod data;
mod disk;
mod durability;
mod fixture;
mod full;
mod libnfs;
mod links;
mod listing;
mod mounting;
mod refusals;
mod rename;
mod together;
mod user;
