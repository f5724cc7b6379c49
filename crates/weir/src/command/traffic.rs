//! `weir traffic`.
