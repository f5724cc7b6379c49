//! Counters of nft rules and elements, read by netlink instead of by printing and parsing tables.

use std::io;
use std::time::Duration;

use crate::netlink::{DUMP, Messages, Socket, attributes, be32};
use crate::xtables::Count;
use crate::{KernelError, Namespace};

const SUBSYSTEM: u16 = 10 << 8;
const MSG_NEWRULE: u16 = SUBSYSTEM | 6;
const MSG_GETRULE: u16 = SUBSYSTEM | 7;
const MSG_NEWSETELEM: u16 = SUBSYSTEM | 12;
const MSG_GETSETELEM: u16 = SUBSYSTEM | 13;
const LIST_TABLE: u16 = 1;
const LIST_SET: u16 = 2;
const LIST_ELEMENTS: u16 = 3;
const ELEM_KEY: u16 = 1;
const ELEM_FLAGS: u16 = 3;
const ELEM_EXPR: u16 = 7;
const ELEM_EXPRESSIONS: u16 = 11;
const DATA_VALUE: u16 = 1;
const INTERVAL_END: u32 = 1;
const RULE_TABLE: u16 = 1;
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
        let socket =
            namespace.enter(Socket::open)?.map_err(KernelError::io("open nft table", table))?;
        Ok(NftCounters { socket, family, table: table.to_owned() })
    }

    /// The counters of all rules that have one, in the order of the chains.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn rules(&mut self) -> Result<Vec<RuleCount>, KernelError> {
        let mut messages = Messages::default();
        messages.begin(MSG_GETRULE, DUMP, self.family, 0);
        messages.attribute(RULE_TABLE, &[self.table.as_bytes(), &[0]].concat());
        let mut out: Vec<RuleCount> = Vec::new();
        let (mut chain, mut number) = (Vec::new(), 0);
        let done = self.socket.dump(messages, DUMP_LIMIT, |kind, body| {
            if kind != MSG_NEWRULE {
                return;
            }
            let value = |wanted| attributes(body).find(|(k, _)| *k == wanted).map(|(_, v)| v);
            let of = value(RULE_CHAIN).unwrap_or_default();
            if of != chain {
                (chain, number) = (of.to_vec(), 0);
            }
            number += 1;
            if let Some(count) = value(RULE_EXPRESSIONS).and_then(counter) {
                let chain = String::from_utf8_lossy(chain.strip_suffix(&[0]).unwrap_or(&chain));
                out.push(RuleCount { chain: chain.into_owned(), number, count });
            }
        });
        done.map_err(|e: io::Error| KernelError::io("read nft table", &self.table)(e))?;
        Ok(out)
    }

    /// The counters of the elements of a set or map, each with its key as the kernel holds it; the
    /// key of an interval is where it begins.
    ///
    /// # Errors
    /// Where there is no such set.
    pub fn elements(&mut self, set: &str) -> Result<Vec<(Vec<u8>, Count)>, KernelError> {
        let mut messages = Messages::default();
        messages.begin(MSG_GETSETELEM, DUMP, self.family, 0);
        messages.attribute(LIST_TABLE, &[self.table.as_bytes(), &[0]].concat());
        messages.attribute(LIST_SET, &[set.as_bytes(), &[0]].concat());
        let mut out = Vec::new();
        let done = self.socket.dump(messages, DUMP_LIMIT, |kind, body| {
            if kind != MSG_NEWSETELEM {
                return;
            }
            let lists = attributes(body).filter(|(kind, _)| *kind == LIST_ELEMENTS);
            for (_, element) in lists.flat_map(|(_, list)| attributes(list)) {
                out.extend(element_count(element));
            }
        });
        done.map_err(|e: io::Error| KernelError::io("read nft set", set)(e))?;
        Ok(out)
    }
}

/// Key and counter of an element; `None` where it is the end of an interval.
fn element_count(element: &[u8]) -> Option<(Vec<u8>, Count)> {
    let value = |wanted| attributes(element).find(|(k, _)| *k == wanted).map(|(_, v)| v);
    if value(ELEM_FLAGS).and_then(be32).is_some_and(|flags| flags & INTERVAL_END != 0) {
        return None;
    }
    let (_, key) = attributes(value(ELEM_KEY)?).find(|(k, _)| *k == DATA_VALUE)?;
    let one = value(ELEM_EXPR).and_then(expression_count);
    let count = one.or_else(|| value(ELEM_EXPRESSIONS).and_then(counter)).unwrap_or_default();
    Some((key.to_vec(), count))
}

/// The sum of a list's counters; `None` where it has none.
fn counter(expressions: &[u8]) -> Option<Count> {
    let mut sum: Option<Count> = None;
    for count in attributes(expressions).filter_map(|(_, e)| expression_count(e)) {
        let sum = sum.get_or_insert_default();
        sum.packets += count.packets;
        sum.bytes += count.bytes;
    }
    sum
}

/// The numbers of a counter; `None` where the expression is another.
fn expression_count(expression: &[u8]) -> Option<Count> {
    let value = |wanted| attributes(expression).find(|(k, _)| *k == wanted).map(|(_, v)| v);
    if value(EXPR_NAME) != Some(b"counter\0") {
        return None;
    }
    let data = value(EXPR_DATA)?;
    let number = |wanted| {
        let (_, v) = attributes(data).find(|(k, _)| *k == wanted)?;
        v.try_into().ok().map(u64::from_be_bytes)
    };
    Some(Count { packets: number(COUNTER_PACKETS)?, bytes: number(COUNTER_BYTES)? })
}
