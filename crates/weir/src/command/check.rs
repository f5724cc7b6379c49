//! `weir check`.
