//! Writes a new, empty UFS2 file system.
