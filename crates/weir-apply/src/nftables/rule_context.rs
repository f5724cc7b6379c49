//! State for encoding a rule: the transport protocol that it has tested so far, and the sets of its
//! transaction.

use weir_kernel::netlink::NetlinkRequest;
use weir_kernel::nft_socket::NftSetPlace;
use weir_model::Family;
use weir_model::nft::{Comparand, LoadExpression, Test};

use super::expression_list::{ExpressionList, FIRST_REGISTER, RegisterComparison};
use super::loaded_value::{LoadDependency, LoadedValue, NFT_META_IIFTYPE, NFT_META_L4PROTO};
use super::set_encoder::push_unnamed_set;

/// The name of an unnamed set, in which the kernel replaces `%d` by a number.
pub(super) const UNNAMED_SET: &str = "__set%d";
/// `ARPHRD_ETHER`: the type of Ethernet devices, in the byte order of the host.
const ARPHRD_ETHER: u16 = 1;

/// The state of the rule that is being encoded.
pub(super) struct RuleContext<'r> {
    pub family: Family,
    /// Its table; the name of the set is that of unnamed sets.
    place: NftSetPlace,
    /// Requests that precede that of the rule.
    set_requests: &'r mut Vec<NetlinkRequest>,
    next_set_id: &'r mut u32,
    tested_l4proto: Option<u128>,
    has_tested_ethernet: bool,
}

impl<'r> RuleContext<'r> {
    pub(super) fn new(
        family: Family,
        table: &NftSetPlace,
        set_requests: &'r mut Vec<NetlinkRequest>,
        next_set_id: &'r mut u32,
    ) -> RuleContext<'r> {
        RuleContext {
            family,
            place: NftSetPlace { set: UNNAMED_SET.to_owned(), ..table.clone() },
            set_requests,
            next_set_id,
            tested_l4proto: None,
            has_tested_ethernet: false,
        }
    }

    /// Adds the test that must come before a load, unless the rule has it.
    pub(super) fn push_dependency(
        &mut self,
        expressions: &mut ExpressionList<'_>,
        dependency: Option<LoadDependency>,
    ) -> Result<(), String> {
        match dependency {
            None => {}
            Some(LoadDependency::EthernetLink) if self.has_tested_ethernet => {}
            Some(LoadDependency::EthernetLink) => {
                self.has_tested_ethernet = true;
                expressions.push_meta_load(NFT_META_IIFTYPE, FIRST_REGISTER);
                expressions.push_cmp(RegisterComparison::Equal, &ARPHRD_ETHER.to_ne_bytes());
            }
            Some(LoadDependency::L4Proto(proto)) => match self.tested_l4proto {
                Some(tested) if tested == u128::from(proto) => {}
                Some(tested) => {
                    return Err(format!("a test of protocol {proto} after one of {tested}"));
                }
                None => {
                    self.tested_l4proto = Some(proto.into());
                    expressions.push_meta_load(NFT_META_L4PROTO, FIRST_REGISTER);
                    expressions.push_cmp(RegisterComparison::Equal, &[proto]);
                }
            },
        }
        Ok(())
    }

    /// Records the transport protocol if the test is for one.
    pub(super) fn record_tested_protocol(&mut self, test: &Test) {
        if let (LoadExpression::L4proto, Comparand::InSpans(spans), false) =
            (test.expression, &test.comparand, test.negated)
            && let [(first, last)] = spans[..]
            && first == last
        {
            self.tested_l4proto = Some(first);
        }
    }

    /// Adds a set of values; returns its number in the transaction.
    pub(super) fn push_unnamed_set(
        &mut self,
        value: &LoadedValue,
        intervals: &[(u128, u128)],
    ) -> u32 {
        let id = *self.next_set_id;
        *self.next_set_id += 1;
        push_unnamed_set(self.set_requests, &self.place, id, value, intervals);
        id
    }
}
