//! Encodes a ruleset as the requests of one transaction, and records the object of each request.
//!
//! The order is that of nft: a table, its chains, its maps with their elements, which may name
//! chains, then the rules.

use weir_kernel::netlink::netfilter::NetfilterSubsystem;
use weir_kernel::netlink::{NLM_F_CREATE, NLM_F_EXCL, NetlinkRequest};
use weir_kernel::nft_protocol::*;
use weir_kernel::nft_socket::NftSetPlace;
use weir_model::nft::{BaseChain, Chain, Ruleset, Table};
use weir_model::{Hook, Policy};

use super::nft_table_name::nft_family_number;
use super::rule_encoder::{RulePlace, push_rule};
use super::set_encoder::{push_map, push_map_elements};
use super::table_map_id_allocator::TableMapIdAllocator;
use super::userdata::comment_userdata;
use crate::ApplyError;

/// The requests that create the tables of a ruleset.
#[derive(Clone, Debug, Default)]
pub struct EncodedNftRuleset {
    /// The requests, in their order.
    pub requests: Vec<NetlinkRequest>,
    /// The index of the first request of each object.
    objects: Vec<(usize, RequestedObject)>,
}

/// The object of a request.
#[derive(Clone, Copy, Debug)]
enum RequestedObject {
    Table { table: u32 },
    Chain { table: u32, chain: u32 },
    Map { table: u32, map: u32 },
    Rule { table: u32, chain: u32, number: u32 },
}

impl EncodedNftRuleset {
    /// Describes the object of the request with this index.
    pub fn describe_request(&self, index: usize, ruleset: &Ruleset) -> String {
        let after = self.objects.partition_point(|(begin, _)| *begin <= index);
        let Some((_, object)) = after.checked_sub(1).and_then(|at| self.objects.get(at)) else {
            return "the transaction".to_owned();
        };
        let table = |table: u32| &ruleset.tables[table as usize];
        match *object {
            RequestedObject::Table { table: t } => describe_table(table(t)),
            RequestedObject::Chain { table: t, chain } => {
                let name = &table(t).chains[chain as usize].name;
                format!("chain {name} of {}", describe_table(table(t)))
            }
            RequestedObject::Map { table: t, map } => {
                let name = &table(t).maps[map as usize].name;
                format!("map {name} of {}", describe_table(table(t)))
            }
            RequestedObject::Rule { table: t, chain, number } => {
                describe_rule(table(t), &table(t).chains[chain as usize], number as usize)
            }
        }
    }

    fn begin_object(&mut self, object: RequestedObject) {
        self.objects.push((self.requests.len(), object));
    }
}

fn describe_table(table: &Table) -> String {
    format!("table {} {}", weir_syntax::nft::family_keyword(table.family), table.name)
}

fn describe_rule(table: &Table, chain: &Chain, number: usize) -> String {
    format!("rule {number} of chain {} of {}", chain.name, describe_table(table))
}

/// Encodes the tables of a ruleset.
///
/// # Errors
/// [`ApplyError::UnencodableNft`] names a statement that the encoder does not know.
pub fn encode_ruleset(ruleset: &Ruleset) -> Result<EncodedNftRuleset, ApplyError> {
    let mut encoded = EncodedNftRuleset::default();
    let mut next_set_id = 1;
    for (index, table) in ruleset.tables.iter().enumerate() {
        push_table(&mut encoded, index as u32, table, &mut next_set_id)?;
    }
    Ok(encoded)
}

fn push_table(
    encoded: &mut EncodedNftRuleset,
    table_index: u32,
    table: &Table,
    next_set_id: &mut u32,
) -> Result<(), ApplyError> {
    let family = nft_family_number(table.family);
    let place = NftSetPlace { family, table: table.name.clone(), set: String::new() };
    encoded.begin_object(RequestedObject::Table { table: table_index });
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    let mut request = NetfilterSubsystem::NfTables.new_request(NFT_MSG_NEWTABLE, flags, family, 0);
    request.attributes.put_text(NFTA_TABLE_NAME, &table.name);
    encoded.requests.push(request);
    for (index, chain) in table.chains.iter().enumerate() {
        encoded.begin_object(RequestedObject::Chain { table: table_index, chain: index as u32 });
        encoded.requests.push(new_chain_request(&place, chain));
    }
    let unencodable =
        |object: String, statement: String| ApplyError::UnencodableNft { object, statement };
    let mut sets = TableMapIdAllocator::new(next_set_id);
    for (index, map) in table.maps.iter().enumerate() {
        encoded.begin_object(RequestedObject::Map { table: table_index, map: index as u32 });
        let map_place = NftSetPlace { set: map.name.clone(), ..place.clone() };
        let id = sets.assign_map_id(&map.name, map.has_intervals);
        let requests = &mut encoded.requests;
        push_map(requests, &map_place, id, map, table.family)
            .and_then(|()| push_map_elements(requests, &map_place, id, map, table.family))
            .map_err(|statement| {
                unencodable(format!("map {} of {}", map.name, describe_table(table)), statement)
            })?;
    }
    for (chain_index, chain) in table.chains.iter().enumerate() {
        let rule_place = RulePlace { family: table.family, table: &place, chain: &chain.name };
        for (index, rule) in chain.rules.iter().enumerate() {
            encoded.begin_object(RequestedObject::Rule {
                table: table_index,
                chain: chain_index as u32,
                number: index as u32 + 1,
            });
            push_rule(&mut encoded.requests, &mut sets, rule_place, rule).map_err(|statement| {
                unencodable(describe_rule(table, chain, index + 1), statement)
            })?;
        }
    }
    Ok(())
}

fn new_chain_request(place: &NftSetPlace, chain: &Chain) -> NetlinkRequest {
    let mut request =
        NetfilterSubsystem::NfTables.new_request(NFT_MSG_NEWCHAIN, NLM_F_CREATE, place.family, 0);
    request.attributes.put_text(NFTA_CHAIN_TABLE, &place.table);
    request.attributes.put_text(NFTA_CHAIN_NAME, &chain.name);
    if let Some(BaseChain { kind, hook, priority, policy }) = chain.base {
        request.attributes.put_nested(NFTA_CHAIN_HOOK, |attributes| {
            attributes.put_be32(NFTA_HOOK_HOOKNUM, hook_number(hook));
            attributes.put_be32(NFTA_HOOK_PRIORITY, priority.cast_unsigned());
        });
        request.attributes.put_be32(NFTA_CHAIN_POLICY, policy_number(policy));
        request.attributes.put_text(NFTA_CHAIN_TYPE, kind.as_str());
    }
    if let Some(comment) = &chain.iptables_name_comment {
        request.attributes.put(NFTA_CHAIN_USERDATA, &comment_userdata(comment));
    }
    request
}

/// `enum nf_inet_hooks`.
const fn hook_number(hook: Hook) -> u32 {
    match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
    }
}

/// `NF_DROP` and `NF_ACCEPT`.
const fn policy_number(policy: Policy) -> u32 {
    match policy {
        Policy::Drop => 0,
        Policy::Accept => 1,
    }
}
