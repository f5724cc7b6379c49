//! Encodes a rule: its statements as expressions, and its comment.

use weir_kernel::netlink::NetlinkRequest;
use weir_kernel::netlink::netfilter::NetfilterSubsystem;
use weir_kernel::netlink::{NLM_F_APPEND, NLM_F_CREATE};
use weir_kernel::nft_protocol::*;
use weir_kernel::nft_socket::NftSetPlace;
use weir_model::Family;
use weir_model::nft::{LoadExpression, MapKeyExpression, Rule, Statement, Test};
use weir_syntax::nft::{statements_masked_against_nft_merging, value_of_single_value_test};

use super::action_encoder::{push_effect, push_nat, push_reject};
use super::expression_list::{
    ExpressionList, FIRST_REGISTER, LookedUpSet, PayloadBase, PayloadPlace, RegisterComparison,
    register_at,
};
use super::loaded_value::LoadedValue;
use super::opaque_test_encoder::push_opaque_test;
use super::rule_context::RuleContext;
use super::table_map_id_allocator::TableMapIdAllocator;
use super::test_encoder::push_test;
use super::userdata::comment_userdata;

/// Where a rule is.
#[derive(Clone, Copy)]
pub(super) struct RulePlace<'a> {
    pub family: Family,
    /// Its table; the name of the set is empty.
    pub table: &'a NftSetPlace,
    pub chain: &'a str,
}

/// Adds the requests that create a rule: those of its unnamed sets, then its own.
///
/// # Errors
/// The statement that cannot be encoded.
pub(super) fn push_rule(
    requests: &mut Vec<NetlinkRequest>,
    sets: &mut TableMapIdAllocator<'_>,
    place: RulePlace<'_>,
    rule: &Rule,
) -> Result<(), String> {
    let flags = NLM_F_CREATE | NLM_F_APPEND;
    let family = place.table.family;
    let mut request = NetfilterSubsystem::NfTables.new_request(NFT_MSG_NEWRULE, flags, family, 0);
    request.attributes.put_text(NFTA_RULE_TABLE, &place.table.table);
    request.attributes.put_text(NFTA_RULE_CHAIN, place.chain);
    let mut encoded = Ok(());
    request.attributes.put_nested(NFTA_RULE_EXPRESSIONS, |list| {
        let mut expressions = ExpressionList::new(list);
        let (map_ids, next_set_id) = sets.borrow_map_ids_and_next_set_id();
        let mut context = RuleContext::new(place.family, place.table, requests, next_set_id);
        encoded = push_statements(&mut expressions, &mut context, map_ids, rule);
    });
    encoded?;
    if let Some(comment) = &rule.comment {
        request.attributes.put(NFTA_RULE_USERDATA, &comment_userdata(comment));
    }
    requests.push(request);
    Ok(())
}

fn push_statements(
    expressions: &mut ExpressionList<'_>,
    context: &mut RuleContext<'_>,
    map_ids: &super::table_map_id_allocator::MapIds<'_>,
    rule: &Rule,
) -> Result<(), String> {
    let family = context.family;
    let statements: Vec<_> = statements_masked_against_nft_merging(rule).collect();
    let port_pair = find_port_pair(statements.iter().map(|statement| &**statement));
    for (index, statement) in statements.iter().enumerate() {
        match &**statement {
            Statement::Test(_) if port_pair.is_some_and(|pair| pair.dport_index == index) => {}
            Statement::Test(test) => match port_pair.filter(|pair| pair.sport_index == index) {
                Some(pair) => push_port_pair_test(expressions, pair),
                None => push_test(expressions, context, test)?,
            },
            Statement::OpaqueTest(test) => push_opaque_test(expressions, context, &test.text)?,
            Statement::Counter(_) => expressions.push_counter(),
            Statement::Verdict(verdict) => expressions.push_verdict(verdict),
            Statement::Vmap { key, map } => {
                let id = map_ids.get(map.as_str()).ok_or_else(|| format!("the map {map}"))?;
                push_map_lookup(
                    expressions,
                    context,
                    key,
                    map_has_intervals(map_ids, map),
                    LookedUpSet { name: map, id: id.id },
                )?;
            }
            Statement::Effect(effect) => push_effect(expressions, family, effect)?,
            Statement::Reject(word) => push_reject(expressions, context, word)?,
            Statement::Nat(target) => push_nat(expressions, family, target)?,
        }
    }
    Ok(())
}

fn map_has_intervals(map_ids: &super::table_map_id_allocator::MapIds<'_>, map: &str) -> bool {
    map_ids.get(map).is_some_and(|map| map.has_intervals)
}

/// Looks up the key of a verdict map.
fn push_map_lookup(
    expressions: &mut ExpressionList<'_>,
    context: &mut RuleContext<'_>,
    key: &[MapKeyExpression],
    has_intervals: bool,
    set: LookedUpSet<'_>,
) -> Result<(), String> {
    let values: Vec<LoadedValue> =
        key.iter().map(|part| LoadedValue::of(part.expression, context.family)).collect();
    for value in &values {
        context.push_dependency(expressions, value.dependency)?;
    }
    let mut parts_before = 0;
    for (value, part) in values.iter().zip(key) {
        let register = register_at(parts_before);
        value.push_load(expressions, register);
        if let Some(mask) = part.mask {
            let mask = value.bytes_of(mask);
            expressions.push_bitwise(register, &mask, &vec![0; mask.len()]);
        }
        parts_before += value.len.div_ceil(4) as u32;
    }
    if let ([value], true) = (&values[..], has_intervals)
        && value.is_converted_for_ranges()
    {
        expressions.push_to_network_order();
    }
    expressions.push_verdict_lookup(set);
    Ok(())
}

/// A test of both ports, which nft merges into one comparison.
#[derive(Clone, Copy)]
struct PortPair {
    sport_index: usize,
    dport_index: usize,
    sport: u16,
    dport: u16,
}

/// The tests of a single source port and a single destination port, if the rule has one of each.
fn find_port_pair<'s>(statements: impl Iterator<Item = &'s Statement>) -> Option<PortPair> {
    let (mut sports, mut dports) = (Vec::new(), Vec::new());
    for (index, statement) in statements.enumerate() {
        let Statement::Test(test @ Test { negated: false, expression, .. }) = statement else {
            continue;
        };
        let Some(port) = value_of_single_value_test(test).and_then(|port| port.try_into().ok())
        else {
            continue;
        };
        match expression {
            LoadExpression::Sport => sports.push((index, port)),
            LoadExpression::Dport => dports.push((index, port)),
            _ => {}
        }
    }
    match (&sports[..], &dports[..]) {
        ([(sport_index, sport)], [(dport_index, dport)]) => Some(PortPair {
            sport_index: *sport_index,
            dport_index: *dport_index,
            sport: *sport,
            dport: *dport,
        }),
        _ => None,
    }
}

fn push_port_pair_test(expressions: &mut ExpressionList<'_>, pair: PortPair) {
    let place = PayloadPlace { base: PayloadBase::Transport, offset: 0, len: 4 };
    expressions.push_payload_load(place, FIRST_REGISTER);
    let ports = [pair.sport.to_be_bytes(), pair.dport.to_be_bytes()].concat();
    expressions.push_cmp(RegisterComparison::Equal, &ports);
}
