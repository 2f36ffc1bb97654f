//! Recomputes what can be derived from the maps of a group.
