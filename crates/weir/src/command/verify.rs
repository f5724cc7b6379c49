//! `weir verify`.
