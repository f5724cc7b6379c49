//! Counters of nft rules and elements, read by netlink instead of by printing and parsing tables.

use crate::netlink::attribute::{MalformedNetlink, NetlinkAttribute, NetlinkAttributes};
use crate::netlink::netfilter::{NFGENMSG_BYTES, NetfilterSubsystem};
use crate::netlink::{DUMP_TIMEOUT, NLM_F_DUMP, NetlinkProtocol, NetlinkRequest, NetlinkSocket};
use crate::nft_protocol::*;
use crate::xtables_counters::PacketByteCount;
use crate::{KernelError, Namespace};

/// The name of the table, in rules and in lists of elements.
const TABLE_NAME_ATTRIBUTE: u16 = 1;

/// Reads the counters of one table.
#[derive(Debug)]
pub struct NftTableCounterReader {
    socket: NetlinkSocket,
    family: u8,
    table: String,
}

/// The counter of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCounterValue {
    /// Its chain.
    pub chain: String,
    /// Its number in the chain, from 1.
    pub number: u32,
    /// The sum of its `counter` statements.
    pub count: PacketByteCount,
}

impl NftTableCounterReader {
    /// Opens a table of a namespace. `family`: as nft names it, `ip`, `ip6` or `inet`.
    ///
    /// # Errors
    /// If the kernel has no nf_tables.
    pub fn open(
        namespace: &Namespace,
        family: &str,
        table: &str,
    ) -> Result<NftTableCounterReader, KernelError> {
        let family = match family {
            "ip" => 2,
            "ip6" => 10,
            _ => 1,
        };
        let socket = namespace
            .call_inside(|| NetlinkSocket::open(NetlinkProtocol::Netfilter))?
            .map_err(KernelError::io("open nft table", table))?;
        Ok(NftTableCounterReader { socket, family, table: table.to_owned() })
    }

    /// The counters of all rules that have one, in the order of the chains.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn read_rule_counters(&mut self) -> Result<Vec<RuleCounterValue>, KernelError> {
        let request = self.build_dump_request(NFT_MSG_GETRULE);
        let rules = self.socket.fold_dumped_objects(
            &request,
            DUMP_TIMEOUT,
            RuleCounterAccumulator::default,
            |rules, message| rules.add_rule(message.attributes(NFGENMSG_BYTES)?),
        );
        let rules = rules.map_err(KernelError::netlink("read nft table", &self.table))?;
        Ok(rules.counts)
    }

    /// The counters of the elements of a set or map, each with its key as the kernel holds it; the
    /// key of an interval is where it begins.
    ///
    /// # Errors
    /// If there is no such set.
    pub fn read_element_counters(
        &mut self,
        set: &str,
    ) -> Result<Vec<(Vec<u8>, PacketByteCount)>, KernelError> {
        let mut request = self.build_dump_request(NFT_MSG_GETSETELEM);
        request.attributes.put_text(NFTA_SET_ELEM_LIST_SET, set);
        let counts =
            self.socket.fold_dumped_objects(&request, DUMP_TIMEOUT, Vec::new, |counts, message| {
                let elements =
                    message.attributes(NFGENMSG_BYTES)?.find(NFTA_SET_ELEM_LIST_ELEMENTS);
                let Some(elements) = elements else { return Ok(()) };
                for element in elements.nested_attributes()?.iter() {
                    counts.extend(parse_key_and_counter_or_zero(element.nested_attributes()?)?);
                }
                Ok(())
            });
        counts.map_err(KernelError::netlink("read nft set", set))
    }

    /// Asks for all objects of a kind in the table.
    fn build_dump_request(&self, message: u8) -> NetlinkRequest {
        let mut request =
            NetfilterSubsystem::NfTables.new_request(message, NLM_F_DUMP, self.family, 0);
        request.attributes.put_text(TABLE_NAME_ATTRIBUTE, &self.table);
        request
    }
}

/// Rules in the order of a dump: chain after chain.
#[derive(Default)]
struct RuleCounterAccumulator {
    chain: String,
    number: u32,
    counts: Vec<RuleCounterValue>,
}

impl RuleCounterAccumulator {
    fn add_rule(&mut self, rule: NetlinkAttributes<'_>) -> Result<(), MalformedNetlink> {
        let chain = rule.require(NFTA_RULE_CHAIN)?.to_text();
        if chain != self.chain {
            (self.chain, self.number) = (chain, 0);
        }
        self.number += 1;
        let Some(expressions) = rule.find(NFTA_RULE_EXPRESSIONS) else { return Ok(()) };
        if let Some(count) = sum_counter_expressions(expressions)? {
            let (chain, number) = (self.chain.clone(), self.number);
            self.counts.push(RuleCounterValue { chain, number, count });
        }
        Ok(())
    }
}

/// Key and counter of an element; `None` where it is the end of an interval, or has no key.
fn parse_key_and_counter_or_zero(
    element: NetlinkAttributes<'_>,
) -> Result<Option<(Vec<u8>, PacketByteCount)>, MalformedNetlink> {
    let flags = element.find(NFTA_SET_ELEM_FLAGS).map_or(Ok(0), |flags| flags.be32())?;
    let Some(key) = element.find(NFTA_SET_ELEM_KEY) else { return Ok(None) };
    let key = key.nested_attributes()?.find(NFTA_DATA_VALUE);
    let Some(key) = key.filter(|_| flags & NFT_SET_ELEM_INTERVAL_END == 0) else { return Ok(None) };
    let one = element.find(NFTA_SET_ELEM_EXPR).map(parse_counter_expression).transpose()?.flatten();
    let several =
        || element.find(NFTA_SET_ELEM_EXPRESSIONS).map(sum_counter_expressions).transpose();
    let count = match one {
        Some(count) => count,
        None => several()?.flatten().unwrap_or_default(),
    };
    Ok(Some((key.value.to_vec(), count)))
}

/// The sum of the counters in a list of expressions; `None` where it has none.
fn sum_counter_expressions(
    expressions: NetlinkAttribute<'_>,
) -> Result<Option<PacketByteCount>, MalformedNetlink> {
    let mut sum: Option<PacketByteCount> = None;
    for expression in expressions.nested_attributes()?.iter() {
        if let Some(count) = parse_counter_expression(expression)? {
            let sum = sum.get_or_insert_default();
            sum.packets += count.packets;
            sum.bytes += count.bytes;
        }
    }
    Ok(sum)
}

/// The numbers of a counter; `None` where the expression is another.
fn parse_counter_expression(
    expression: NetlinkAttribute<'_>,
) -> Result<Option<PacketByteCount>, MalformedNetlink> {
    let expression = expression.nested_attributes()?;
    if expression.find(NFTA_EXPR_NAME).is_none_or(|name| name.value != b"counter\0") {
        return Ok(None);
    }
    let data = expression.require(NFTA_EXPR_DATA)?.nested_attributes()?;
    let number = |kind| data.require(kind)?.be64();
    Ok(Some(PacketByteCount {
        packets: number(NFTA_COUNTER_PACKETS)?,
        bytes: number(NFTA_COUNTER_BYTES)?,
    }))
}
