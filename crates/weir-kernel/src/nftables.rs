//! Counters of nft rules and elements, read by netlink instead of by printing and parsing tables.

use std::time::Duration;

use crate::netlink::attribute::{Attribute, Attributes, Malformed};
use crate::netlink::netfilter::{HEADER_BYTES, Subsystem};
use crate::netlink::{DUMP, NetlinkProtocol, NetlinkRequest, Socket};
use crate::xtables::Count;
use crate::{KernelError, Namespace};

const MSG_GETRULE: u8 = 7;
const MSG_GETSETELEM: u8 = 13;
/// The name of the table, in rules and in lists of elements.
const TABLE: u16 = 1;
const LIST_SET: u16 = 2;
const LIST_ELEMENTS: u16 = 3;
const ELEM_KEY: u16 = 1;
const ELEM_FLAGS: u16 = 3;
const ELEM_EXPR: u16 = 7;
const ELEM_EXPRESSIONS: u16 = 11;
const DATA_VALUE: u16 = 1;
const INTERVAL_END: u32 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const EXPR_NAME: u16 = 1;
const EXPR_DATA: u16 = 2;
const COUNTER_BYTES: u16 = 1;
const COUNTER_PACKETS: u16 = 2;
/// A dump that takes longer is broken.
const DUMP_LIMIT: Duration = Duration::from_secs(20);

/// Reads the counters of one table.
#[derive(Debug)]
pub struct NftCounters {
    socket: Socket,
    family: u8,
    table: String,
}

/// The counter of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCount {
    /// Its chain.
    pub chain: String,
    /// Its number in the chain, from 1.
    pub number: u32,
    /// The sum of its `counter` statements.
    pub count: Count,
}

impl NftCounters {
    /// Opens a table of a namespace. `family`: as nft names it, `ip`, `ip6` or `inet`.
    ///
    /// # Errors
    /// Where the kernel has no nf_tables.
    pub fn open(
        namespace: &Namespace,
        family: &str,
        table: &str,
    ) -> Result<NftCounters, KernelError> {
        let family = match family {
            "ip" => 2,
            "ip6" => 10,
            _ => 1,
        };
        let socket = namespace
            .enter(|| Socket::open(NetlinkProtocol::Netfilter))?
            .map_err(KernelError::io("open nft table", table))?;
        Ok(NftCounters { socket, family, table: table.to_owned() })
    }

    /// The counters of all rules that have one, in the order of the chains.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn rules(&mut self) -> Result<Vec<RuleCount>, KernelError> {
        let request = self.request(MSG_GETRULE);
        let rules = self.socket.dump(&request, DUMP_LIMIT, RuleDump::default, |rules, message| {
            rules.push(message.attributes(HEADER_BYTES)?)
        });
        let rules = rules.map_err(KernelError::netlink("read nft table", &self.table))?;
        Ok(rules.counts)
    }

    /// The counters of the elements of a set or map, each with its key as the kernel holds it; the
    /// key of an interval is where it begins.
    ///
    /// # Errors
    /// Where there is no such set.
    pub fn elements(&mut self, set: &str) -> Result<Vec<(Vec<u8>, Count)>, KernelError> {
        let mut request = self.request(MSG_GETSETELEM);
        request.attributes.put_text(LIST_SET, set);
        let counts = self.socket.dump(&request, DUMP_LIMIT, Vec::new, |counts, message| {
            let elements = message.attributes(HEADER_BYTES)?.find(LIST_ELEMENTS);
            let Some(elements) = elements else { return Ok(()) };
            for element in elements.nested()?.iter() {
                counts.extend(element_count(element.nested()?)?);
            }
            Ok(())
        });
        counts.map_err(KernelError::netlink("read nft set", set))
    }

    /// Asks for all objects of a kind in the table.
    fn request(&self, message: u8) -> NetlinkRequest {
        let mut request = Subsystem::NfTables.request(message, DUMP, self.family, 0);
        request.attributes.put_text(TABLE, &self.table);
        request
    }
}

/// Rules in the order of a dump: chain after chain.
#[derive(Default)]
struct RuleDump {
    chain: String,
    number: u32,
    counts: Vec<RuleCount>,
}

impl RuleDump {
    fn push(&mut self, rule: Attributes<'_>) -> Result<(), Malformed> {
        let chain = rule.require(RULE_CHAIN)?.text();
        if chain != self.chain {
            (self.chain, self.number) = (chain, 0);
        }
        self.number += 1;
        let Some(expressions) = rule.find(RULE_EXPRESSIONS) else { return Ok(()) };
        if let Some(count) = counter(expressions)? {
            let (chain, number) = (self.chain.clone(), self.number);
            self.counts.push(RuleCount { chain, number, count });
        }
        Ok(())
    }
}

/// Key and counter of an element; `None` where it is the end of an interval, or has no key.
fn element_count(element: Attributes<'_>) -> Result<Option<(Vec<u8>, Count)>, Malformed> {
    let flags = element.find(ELEM_FLAGS).map_or(Ok(0), |flags| flags.be32())?;
    let Some(key) = element.find(ELEM_KEY) else { return Ok(None) };
    let key = key.nested()?.find(DATA_VALUE);
    let Some(key) = key.filter(|_| flags & INTERVAL_END == 0) else { return Ok(None) };
    let one = element.find(ELEM_EXPR).map(expression_count).transpose()?.flatten();
    let several = || element.find(ELEM_EXPRESSIONS).map(counter).transpose();
    let count = match one {
        Some(count) => count,
        None => several()?.flatten().unwrap_or_default(),
    };
    Ok(Some((key.value.to_vec(), count)))
}

/// The sum of the counters in a list of expressions; `None` where it has none.
fn counter(expressions: Attribute<'_>) -> Result<Option<Count>, Malformed> {
    let mut sum: Option<Count> = None;
    for expression in expressions.nested()?.iter() {
        if let Some(count) = expression_count(expression)? {
            let sum = sum.get_or_insert_default();
            sum.packets += count.packets;
            sum.bytes += count.bytes;
        }
    }
    Ok(sum)
}

/// The numbers of a counter; `None` where the expression is another.
fn expression_count(expression: Attribute<'_>) -> Result<Option<Count>, Malformed> {
    let expression = expression.nested()?;
    if expression.find(EXPR_NAME).is_none_or(|name| name.value != b"counter\0") {
        return Ok(None);
    }
    let data = expression.require(EXPR_DATA)?.nested()?;
    let number = |kind| data.require(kind)?.be64();
    Ok(Some(Count { packets: number(COUNTER_PACKETS)?, bytes: number(COUNTER_BYTES)? }))
}
