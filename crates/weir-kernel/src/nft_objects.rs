//! Tables, chains, sets and numbers of rules of nf_tables in the current network namespace, read by
//! netlink (include/uapi/linux/netfilter/nf_tables.h).

use std::collections::HashMap;

use crate::KernelError;
use crate::netlink::attribute::{MalformedNetlink, NetlinkAttributes};
use crate::netlink::netfilter::{NFGENMSG_BYTES, NetfilterSubsystem};
use crate::netlink::{DUMP_TIMEOUT, NLM_F_DUMP, NetlinkMessage, NetlinkProtocol, NetlinkSocket};
use crate::nft_protocol::*;

const NF_DROP: u32 = 0;

/// A table of nf_tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftTableSummary {
    /// `ip`, `ip6`, `inet`, `arp`, `bridge`, `netdev`.
    pub family: &'static str,
    /// Its name.
    pub name: String,
    /// Its chains, in the order of the kernel.
    pub chains: Vec<NftChainSummary>,
    /// Names of its sets and maps, anonymous ones left out.
    pub sets: Vec<String>,
}

/// A chain of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftChainSummary {
    /// Its name.
    pub name: String,
    /// Where packets enter it, if it is a base chain.
    pub base: Option<NftBaseChain>,
    /// How many rules it has.
    pub rule_count: usize,
}

/// Where packets enter a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftBaseChain {
    /// `filter`, `nat` or `route`.
    pub chain_type: String,
    /// Number of the hook in its family.
    pub hook_number: u32,
    /// Priority: lower ones come first.
    pub priority: i32,
    /// Whether its policy is to drop.
    pub drops_by_policy: bool,
}

/// Reads all tables of the current network namespace.
///
/// The kernel loads nf_tables if it is not there: see
/// [`KernelFeature`](crate::kernel_feature::KernelFeature).
///
/// # Errors
/// If weir is not root, or the kernel has no nf_tables.
pub fn read_nft_tables() -> Result<Vec<NftTableSummary>, KernelError> {
    let mut socket = NetlinkSocket::open(NetlinkProtocol::Netfilter)
        .map_err(KernelError::io("open", "nf_tables"))?;
    let mut tables: Vec<NftTableSummary> =
        dump(&mut socket, NFT_MSG_GETTABLE, |tables: &mut Vec<NftTableSummary>, family, table| {
            let name = table.require(NFTA_TABLE_NAME)?.to_text();
            tables.push(NftTableSummary { family, name, chains: Vec::new(), sets: Vec::new() });
            Ok(())
        })?;
    let chains: Vec<(FamilyAndTableName, NftChainSummary)> = dump(
        &mut socket,
        NFT_MSG_GETCHAIN,
        |chains: &mut Vec<(FamilyAndTableName, NftChainSummary)>, family, chain| {
            let table = chain.require(NFTA_CHAIN_TABLE)?.to_text();
            chains.push(((family, table), parse_chain(chain)?));
            Ok(())
        },
    )?;
    let rules: HashMap<(FamilyAndTableName, String), usize> = dump(
        &mut socket,
        NFT_MSG_GETRULE,
        |rules: &mut HashMap<(FamilyAndTableName, String), usize>, family, rule| {
            let table = rule.require(NFTA_RULE_TABLE)?.to_text();
            let chain = rule.require(NFTA_RULE_CHAIN)?.to_text();
            *rules.entry(((family, table), chain)).or_default() += 1;
            Ok(())
        },
    )?;
    let sets: Vec<(FamilyAndTableName, String)> = dump(
        &mut socket,
        NFT_MSG_GETSET,
        |sets: &mut Vec<(FamilyAndTableName, String)>, family, set| {
            let table = set.require(NFTA_SET_TABLE)?.to_text();
            sets.push(((family, table), set.require(NFTA_SET_NAME)?.to_text()));
            Ok(())
        },
    )?;
    for table in &mut tables {
        let place = (table.family, table.name.clone());
        let of_table = chains.iter().filter(|(of, _)| *of == place);
        table.chains = of_table
            .map(|(_, chain)| {
                let rule_count = rules.get(&(place.clone(), chain.name.clone())).copied();
                NftChainSummary { rule_count: rule_count.unwrap_or(0), ..chain.clone() }
            })
            .collect();
        let of_table = sets.iter().filter(|(of, name)| *of == place && !name.starts_with("__"));
        table.sets = of_table.map(|(_, name)| name.clone()).collect();
    }
    Ok(tables)
}

/// Family and table.
type FamilyAndTableName = (&'static str, String);

fn dump<S: Default>(
    socket: &mut NetlinkSocket,
    message: u8,
    mut add: impl FnMut(&mut S, &'static str, NetlinkAttributes<'_>) -> Result<(), MalformedNetlink>,
) -> Result<S, KernelError> {
    let request = NetfilterSubsystem::NfTables.new_request(message, NLM_F_DUMP, 0, 0);
    let each = |objects: &mut S, message: NetlinkMessage<'_>| {
        let [family, ..] = message.fixed_header::<NFGENMSG_BYTES>()?;
        add(objects, nft_family_name(family), message.attributes(NFGENMSG_BYTES)?)
    };
    socket
        .fold_dumped_objects(&request, DUMP_TIMEOUT, S::default, each)
        .map_err(KernelError::netlink("read", "nf_tables"))
}

fn parse_chain(chain: NetlinkAttributes<'_>) -> Result<NftChainSummary, MalformedNetlink> {
    let base = match chain.find(NFTA_CHAIN_HOOK) {
        None => None,
        Some(hook) => {
            let hook = hook.nested_attributes()?;
            let policy = chain.find(NFTA_CHAIN_POLICY).map(|policy| policy.be32()).transpose()?;
            Some(NftBaseChain {
                chain_type: chain.find(NFTA_CHAIN_TYPE).map(|t| t.to_text()).unwrap_or_default(),
                hook_number: hook.require(NFTA_HOOK_HOOKNUM)?.be32()?,
                priority: hook.require(NFTA_HOOK_PRIORITY)?.be32()?.cast_signed(),
                drops_by_policy: policy == Some(NF_DROP),
            })
        }
    };
    let name = chain.require(NFTA_CHAIN_NAME)?.to_text();
    Ok(NftChainSummary { name, base, rule_count: 0 })
}

/// The number of a family that nft names so.
pub fn find_nft_family_number(name: &str) -> Option<u8> {
    (1..=10).find(|number| nft_family_name(*number) == name)
}

/// The name of a family (include/uapi/linux/netfilter.h, `NFPROTO_…`).
pub const fn nft_family_name(family: u8) -> &'static str {
    match family {
        1 => "inet",
        2 => "ip",
        3 => "arp",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        _ => "unknown",
    }
}
