//! The only code that knows the bytes of UFS2.
