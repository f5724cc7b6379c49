//! `weir lab`.
