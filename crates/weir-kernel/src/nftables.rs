//! Counters of nft rules, read by netlink instead of by printing and parsing the table.

use std::io;
use std::time::Duration;

use crate::netlink::{DUMP, Messages, Socket, attributes};
use crate::xtables::Count;
use crate::{KernelError, Namespace};

const SUBSYSTEM: u16 = 10 << 8;
const MSG_NEWRULE: u16 = SUBSYSTEM | 6;
const MSG_GETRULE: u16 = SUBSYSTEM | 7;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const EXPR_NAME: u16 = 1;
const EXPR_DATA: u16 = 2;
const COUNTER_BYTES: u16 = 1;
const COUNTER_PACKETS: u16 = 2;
/// A dump that takes longer is broken.
const DUMP_LIMIT: Duration = Duration::from_secs(20);

/// Reads the counters of the rules of one table.
#[derive(Debug)]
pub struct RuleCounters {
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

impl RuleCounters {
    /// Opens a table of a namespace. `family`: as nft names it, `ip`, `ip6` or `inet`.
    ///
    /// # Errors
    /// Where the kernel has no nf_tables.
    pub fn open(
        namespace: &Namespace,
        family: &str,
        table: &str,
    ) -> Result<RuleCounters, KernelError> {
        let family = match family {
            "ip" => 2,
            "ip6" => 10,
            _ => 1,
        };
        let socket =
            namespace.enter(Socket::open)?.map_err(KernelError::io("open nft table", table))?;
        Ok(RuleCounters { socket, family, table: table.to_owned() })
    }

    /// The counters of all rules that have one, in the order of the chains.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn read(&mut self) -> Result<Vec<RuleCount>, KernelError> {
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
}

/// The sum of a rule's counters; `None` where it has none.
fn counter(expressions: &[u8]) -> Option<Count> {
    let mut sum: Option<Count> = None;
    for (_, expression) in attributes(expressions) {
        let value = |wanted| attributes(expression).find(|(k, _)| *k == wanted).map(|(_, v)| v);
        if value(EXPR_NAME) != Some(b"counter\0") {
            continue;
        }
        let data = value(EXPR_DATA).unwrap_or_default();
        let number = |wanted| {
            let (_, v) = attributes(data).find(|(k, _)| *k == wanted)?;
            v.try_into().ok().map(u64::from_be_bytes)
        };
        let sum = sum.get_or_insert_default();
        sum.packets += number(COUNTER_PACKETS).unwrap_or(0);
        sum.bytes += number(COUNTER_BYTES).unwrap_or(0);
    }
    sum
}
