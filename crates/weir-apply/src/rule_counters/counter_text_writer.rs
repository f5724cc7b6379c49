//! Writing counters into texts that the tools load.

use std::borrow::Cow;
use std::collections::HashMap;

use weir_model::{CounterLocation, Counters, iptables_tool_name};

use super::counter_text_reader::{
    NftBlock, chain_of_rule_line, elements_of_line, is_nft_rule_line, split_counters,
};
use super::counters_by_counter_location::CountersByCounterLocation;
use crate::kernel_ruleset::{FamilyTable, KernelRulesetTexts};

/// Writes counters into the texts of a ruleset. Counters for places that it does not have are
/// ignored.
pub(super) fn write_counters(
    ruleset: &mut KernelRulesetTexts,
    counters: &CountersByCounterLocation,
) {
    if counters.is_empty() {
        return;
    }
    for (table, text) in &mut ruleset.legacy_tables {
        *text = write_legacy_counters(*table, text, counters);
    }
    for (set, text) in &mut ruleset.sets {
        *text = write_set_counters(set, text, counters);
    }
    for (table, text) in &mut ruleset.nft_tables {
        *text = write_nft_counters(*table, text, counters);
    }
}

fn write_legacy_counters(
    of: FamilyTable,
    text: &str,
    counters: &CountersByCounterLocation,
) -> String {
    let (tool, table) = (iptables_tool_name(of.family), of.table.as_str());
    let mut numbers: HashMap<Cow<'_, str>, u32> = HashMap::new();
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let (tool, table) = (tool.to_owned(), table.to_owned());
        let mut written = None;
        if let Some((chain, rest)) = line.strip_prefix(':').and_then(|l| l.split_once(' ')) {
            let location = CounterLocation::Policy { tool, table, chain: chain.to_owned() };
            let policy = rest.split(' ').next().unwrap_or_default();
            written = counters
                .get(&location)
                .map(|count| format!(":{chain} {policy} [{}:{}]", count.packets, count.bytes));
        } else if let Some(chain) = chain_of_rule_line(line) {
            let number = numbers.entry(chain.clone()).or_default();
            *number += 1;
            let (chain, number) = (chain.into_owned(), *number);
            let location = CounterLocation::Rule { tool, table, chain, number };
            let rule =
                if line.starts_with('[') { line.split_once("] ").map(|l| l.1) } else { None };
            written = counters.get(&location).map(|count| {
                format!("[{}:{}] {}", count.packets, count.bytes, rule.unwrap_or(line))
            });
        }
        out.push_str(written.as_deref().unwrap_or(line));
        out.push('\n');
    }
    out
}

fn write_set_counters(set: &str, text: &str, counters: &CountersByCounterLocation) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let element = line.strip_prefix("add ").and_then(|l| l.split_once(' ')).map(|l| l.1);
        let written = element.and_then(|element| {
            let (element, _) = split_counters(element);
            let location =
                CounterLocation::Element { set: set.to_owned(), element: element.clone() };
            let Counters { packets, bytes } = counters.get(&location)?;
            Some(format!("add {set} {element} packets {packets} bytes {bytes}"))
        });
        out.push_str(written.as_deref().unwrap_or(line));
        out.push('\n');
    }
    out
}

fn write_nft_counters(of: FamilyTable, text: &str, counters: &CountersByCounterLocation) -> String {
    let (family, table) = (of.nft_family(), format!("weir_{}", of.table));
    let mut out = String::with_capacity(text.len());
    let mut block = NftBlock::None;
    for raw in text.lines() {
        let line = raw.trim();
        let mut written = None;
        block = match NftBlock::from_begin_or_end_line(line) {
            Some(entered) => entered,
            None => match block {
                NftBlock::Chain(chain, number) if is_nft_rule_line(line) => {
                    let number = number + 1;
                    let (family, table) = (family.to_owned(), table.clone());
                    let location =
                        CounterLocation::NftRule { family, table, chain: chain.clone(), number };
                    written =
                        counters.get(&location).and_then(|count| write_rule_counter(line, *count));
                    NftBlock::Chain(chain, number)
                }
                NftBlock::Set(set) => {
                    written = write_element_counters(line, |element| {
                        let (family, table) = (family.to_owned(), table.clone());
                        let (set, element) = (set.clone(), element.to_owned());
                        let location = CounterLocation::NftElement { family, table, set, element };
                        counters.get(&location).copied()
                    });
                    NftBlock::Set(set)
                }
                other => other,
            },
        };
        out.push_str(written.as_deref().unwrap_or(raw));
        out.push('\n');
    }
    out
}

/// The line of a rule with these numbers in its counter statement.
fn write_rule_counter(line: &str, count: Counters) -> Option<String> {
    let (line, _) = split_counters(line);
    let words: Vec<&str> = line.split(' ').collect();
    let at = words.iter().position(|word| *word == "counter")?;
    let numbers = format!("counter packets {} bytes {}", count.packets, count.bytes);
    let mut words: Vec<&str> = words;
    words[at] = &numbers;
    Some(words.join(" "))
}

/// A line of elements with their counters; `None` if no element has a counter.
fn write_element_counters(line: &str, find: impl Fn(&str) -> Option<Counters>) -> Option<String> {
    let mut is_changed = false;
    let elements: Vec<String> = elements_of_line(line)
        .map(|element| {
            let (bare, _) = split_counters(element);
            let (key, value) = bare.split_once(" : ").unwrap_or((&bare, ""));
            let key = key.strip_suffix(" counter").unwrap_or(key);
            let Some(Counters { packets, bytes }) = find(key) else { return element.to_owned() };
            is_changed = true;
            let value = if value.is_empty() { String::new() } else { format!(" : {value}") };
            format!("{key} counter packets {packets} bytes {bytes}{value}")
        })
        .collect();
    let opening = if line.starts_with("elements = {") { "elements = { " } else { "" };
    let closing = if line.ends_with('}') { " }" } else { "" };
    let comma = if line.ends_with(',') { "," } else { "" };
    is_changed.then(|| format!("{opening}{}{comma}{closing}", elements.join(", ")))
}

#[cfg(test)]
mod tests {
    use weir_model::{Family, TableName};

    use super::*;

    #[test]
    fn counts_are_written_into_rules_and_elements_of_nft() {
        let of = FamilyTable { family: Family::V6, table: TableName::Filter };
        let text = "table ip6 weir_filter {\n\tmap m {\n\t\tcounter\n\t\telements = {\n\t\t\t1::1 : \
                    jump a,\n\t\t\t1::2 counter packets 9 bytes 9 : drop\n\t\t}\n\t}\n\tchain c {\n\
                    \t\tcounter packets 1 bytes 2 accept\n\t\ttcp dport 5 counter\n\t}\n}\n";
        let (family, table) = ("ip6".to_owned(), "weir_filter".to_owned());
        let mut counters = CountersByCounterLocation::new();
        for (element, packets) in [("1::1", 5), ("1::2", 6)] {
            let (family, table) = (family.clone(), table.clone());
            let (set, element) = ("m".to_owned(), element.to_owned());
            let location = CounterLocation::NftElement { family, table, set, element };
            counters.insert(location, Counters { packets, bytes: 50 });
        }
        for number in [1, 2] {
            let (family, table, chain) = (family.clone(), table.clone(), "c".to_owned());
            let location = CounterLocation::NftRule { family, table, chain, number };
            counters.insert(location, Counters { packets: 7, bytes: 70 });
        }
        let written = write_nft_counters(of, text, &counters);
        for line in [
            "1::1 counter packets 5 bytes 50 : jump a,",
            "1::2 counter packets 6 bytes 50 : drop",
            "counter packets 7 bytes 70 accept",
            "tcp dport 5 counter packets 7 bytes 70",
        ] {
            assert!(written.lines().any(|l| l.trim() == line), "{line} is missing in {written}");
        }
        let set = "create s hash:net counters\nadd s 10.0.0.0/8\n";
        let location = CounterLocation::Element { set: "s".into(), element: "10.0.0.0/8".into() };
        let counters =
            CountersByCounterLocation::from([(location, Counters { packets: 1, bytes: 2 })]);
        assert!(
            write_set_counters("s", set, &counters).ends_with("10.0.0.0/8 packets 1 bytes 2\n")
        );
    }
}
