//! A server's machine with its disk, behind a network.
