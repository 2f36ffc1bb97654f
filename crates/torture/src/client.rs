//! An NFS client as a kernel has one: it keeps a call until it is answered.
