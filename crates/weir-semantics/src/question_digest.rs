//! Digests of questions: equal if the question is the same, wherever the rule is and in every
//! process. They are only for comparisons within one version of weir.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// The digest of what nat makes of a packet whose connection is translated already.
pub fn digest_existing_nat_question() -> u64 {
    digest_debug_text(&"translated already")
}

/// The digest of the question whether a match or target of that digest drops the packet.
pub fn digest_drop_question(digest: u64) -> u64 {
    digest_debug_text(&("drops", digest))
}

/// The digest of a question about a match that reads the route of a local packet, after the mangle
/// table of OUTPUT, where the route may be another one.
pub fn digest_after_second_route_lookup(digest: u64) -> u64 {
    digest_debug_text(&("after the second route lookup", digest))
}

/// Digest of a match's or target's content, the same in every process.
pub fn digest_debug_text(of: &impl std::fmt::Debug) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(format!("{of:?}"))
}
