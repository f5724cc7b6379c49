//! The second route lookup of local packets.
//!
//! A packet of a local process is routed before OUTPUT. If the mangle table changes its mark or
//! another key of the route there, the kernel looks the route up again after that table
//! (`ipt_mangle_out` in net/ipv4/netfilter/iptable_mangle.c, `ip6t_mangle_out` in
//! net/ipv6/netfilter/ip6table_mangle.c). `-o`, `-m devgroup` and `--limit-iface-out` still see the
//! first output device, which is fixed when the hook begins; matches that read the route itself see
//! the second one.

use weir_packet::Family;

use super::matches::{match_effects, match_module_name};
use super::{FieldSet, target_effects};
use crate::field::Field;
use crate::rule_match::Match;
use crate::ruleset::{Ruleset, TableName};

/// Whether a match reads the route of the packet: `dst->tclassid` in xt_realm.c, the transforms of
/// `skb_dst` in xt_policy.c.
pub fn reads_packet_route(m: &Match) -> bool {
    // Both families name these modules alike.
    matches!(match_module_name(m, Family::V4), "realm" | "policy")
}

/// Whether some rule of the mangle table may change what local packets are routed by.
pub fn can_mangle_reroute_local_packets(ruleset: &Ruleset) -> bool {
    let mut keys = FieldSet::from_fields(&[Field::Mark, Field::Tos, Field::Saddr, Field::Daddr]);
    if ruleset.family == Family::V6 {
        // The hop limit, too.
        keys = keys.union(FieldSet::from_fields(&[Field::Ttl]));
    }
    let writes_key = |written: FieldSet| written.without(keys) != written;
    ruleset.table(&TableName::Mangle).is_some_and(|table| {
        table.chains.iter().flat_map(|chain| &chain.rules).any(|rule| {
            writes_key(target_effects(&rule.target).writes)
                || rule.matches.iter().any(|m| writes_key(match_effects(m, ruleset.family).writes))
        })
    })
}
