//! Reading counters from the output of the tools.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use weir_model::{CounterLocation, Counters, iptables_tool_name};

use super::counters_by_counter_location::CountersByCounterLocation;
use crate::ApplyOperationError;
use crate::kernel_ruleset::{FamilyTable, KernelRulesetTexts};
use crate::tool_execution::read_tool_output;

/// The counters of a ruleset that was just read. Tables of nft are listed again with numbers
/// instead of names, as in manifests.
pub(crate) fn read_counters_in_force(
    present: &KernelRulesetTexts,
) -> Result<CountersByCounterLocation, ApplyOperationError> {
    let mut counters = read_counters_of_legacy_tables(present);
    counters.extend(read_set_counters(&present.sets));
    for table in present.nft_tables.keys() {
        let name = format!("weir_{}", table.table);
        let listing =
            read_tool_output(&["nft", "-nn", "list", "table", table.nft_family(), &name])?;
        read_nft_counters(*table, &listing, &mut counters);
    }
    Ok(counters)
}

/// Counters of rules and policies.
pub(super) fn read_counters_of_legacy_tables(
    ruleset: &KernelRulesetTexts,
) -> CountersByCounterLocation {
    let mut counters = CountersByCounterLocation::new();
    for (of, text) in &ruleset.legacy_tables {
        let (tool, table) = (iptables_tool_name(of.family).to_owned(), of.table.to_string());
        let mut numbers = HashMap::<Cow<'_, str>, u32>::new();
        for line in text.lines() {
            let (tool, table) = (tool.clone(), table.clone());
            if let Some((chain, rest)) = line.strip_prefix(':').and_then(|l| l.split_once(' ')) {
                let pair = rest.split(' ').nth(1).and_then(parse_counter_pair);
                let chain = chain.to_owned();
                counters.extend(
                    pair.map(|count| (CounterLocation::Policy { tool, table, chain }, count)),
                );
            } else if let Some(chain) = chain_of_rule_line(line) {
                let number = numbers.entry(chain.clone()).or_default();
                *number += 1;
                let (chain, number) = (chain.into_owned(), *number);
                let pair = line.split(' ').next().and_then(parse_counter_pair);
                let location = CounterLocation::Rule { tool, table, chain, number };
                counters.extend(pair.map(|count| (location, count)));
            }
        }
    }
    counters
}

/// The chain of a line that appends a rule, with or without counters.
pub(super) fn chain_of_rule_line(line: &str) -> Option<Cow<'_, str>> {
    let rule = match line.strip_prefix('[') {
        Some(counted) => counted.split_once("] ")?.1,
        None => line,
    };
    let word = rule.strip_prefix("-A ")?.split(' ').next()?;
    let quoted = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    Some(quoted.map_or(Cow::Borrowed(word), |quoted| Cow::Owned(remove_escapes(quoted))))
}

/// The text of a quoted word, in which a backslash is followed by the character that it stands for.
fn remove_escapes(quoted: &str) -> String {
    let mut characters = quoted.chars();
    let mut text = String::with_capacity(quoted.len());
    while let Some(character) = characters.next() {
        let is_escape = character == '\\';
        text.extend(if is_escape { characters.next() } else { Some(character) });
    }
    text
}

/// `[packets:bytes]`
fn parse_counter_pair(word: &str) -> Option<Counters> {
    let (packets, bytes) = word.strip_prefix('[')?.strip_suffix(']')?.split_once(':')?;
    Some(Counters { packets: packets.parse().ok()?, bytes: bytes.parse().ok()? })
}

/// Counters of the elements of sets, from their texts.
pub(crate) fn read_set_counters(sets: &BTreeMap<String, String>) -> CountersByCounterLocation {
    let mut counters = CountersByCounterLocation::new();
    for line in sets.values().flat_map(|text| text.lines()) {
        let Some((set, element)) = line.strip_prefix("add ").and_then(|l| l.split_once(' ')) else {
            continue;
        };
        let (element, count) = split_counters(element);
        let location = CounterLocation::Element { set: set.to_owned(), element };
        counters.extend(count.map(|count| (location, count)));
    }
    counters
}

/// Splits ` packets N bytes M` off a text.
pub(super) fn split_counters(text: &str) -> (String, Option<Counters>) {
    let none = || (text.to_owned(), None);
    let Some((before, after)) = text.split_once(" packets ") else { return none() };
    let mut words = after.splitn(4, ' ');
    let numbers = (words.next(), words.next(), words.next());
    let (Some(packets), Some("bytes"), Some(bytes)) = numbers else { return none() };
    let (Ok(packets), Ok(bytes)) = (packets.parse(), bytes.parse()) else { return none() };
    let rest = words.next().map(|rest| format!(" {rest}")).unwrap_or_default();
    (format!("{before}{rest}"), Some(Counters { packets, bytes }))
}

/// Counters of rules and elements of an nft table.
fn read_nft_counters(of: FamilyTable, listing: &str, counters: &mut CountersByCounterLocation) {
    let (family, table) = (of.nft_family().to_owned(), format!("weir_{}", of.table));
    let mut block = NftBlock::None;
    for line in listing.lines().map(str::trim) {
        let (family, table) = (family.clone(), table.clone());
        block = match NftBlock::from_begin_or_end_line(line) {
            Some(entered) => entered,
            None => match block {
                NftBlock::Chain(chain, number) if is_nft_rule_line(line) => {
                    let number = number + 1;
                    let location =
                        CounterLocation::NftRule { family, table, chain: chain.clone(), number };
                    let count = split_counters(line).1;
                    counters.extend(count.map(|count| (location, count)));
                    NftBlock::Chain(chain, number)
                }
                NftBlock::Set(set) => {
                    for element in elements_of_line(line) {
                        let (rest, count) = split_counters(element);
                        let Some((key, _)) = rest.split_once(" counter") else { continue };
                        let (family, table) = (family.clone(), table.clone());
                        let (set, element) = (set.clone(), key.to_owned());
                        let location = CounterLocation::NftElement { family, table, set, element };
                        counters.extend(count.map(|count| (location, count)));
                    }
                    NftBlock::Set(set)
                }
                other => other,
            },
        };
    }
}

/// The block of an nft table that contains a line.
pub(super) enum NftBlock {
    /// The table itself.
    None,
    /// A chain, and the number of its rules so far.
    Chain(String, u32),
    /// A set or map.
    Set(String),
}

impl NftBlock {
    /// The block that a line begins or ends.
    pub(super) fn from_begin_or_end_line(line: &str) -> Option<NftBlock> {
        let named = |word: &str| line.strip_prefix(word)?.strip_suffix(" {").map(str::to_owned);
        if let Some(chain) = named("chain ") {
            return Some(NftBlock::Chain(chain, 0));
        }
        if let Some(set) = named("map ").or_else(|| named("set ")) {
            return Some(NftBlock::Set(set));
        }
        (line == "}").then_some(NftBlock::None)
    }
}

/// Whether a line of a chain is a rule: not the declaration of its hook, and not its comment.
pub(crate) fn is_nft_rule_line(line: &str) -> bool {
    let is_hook = line.starts_with("type ") && line.contains(" hook ");
    !(line.is_empty() || is_hook || line.starts_with("comment \""))
}

/// The elements in a line of a set.
pub(super) fn elements_of_line(line: &str) -> impl Iterator<Item = &str> {
    let line = line.strip_prefix("elements = {").unwrap_or(line);
    let line = line.strip_suffix('}').unwrap_or(line);
    line.split(',').map(str::trim).filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use weir_model::{Family, TableName};

    use super::*;

    #[test]
    fn counters_of_rules_and_elements_are_read() {
        let of = FamilyTable { family: Family::V4, table: TableName::Filter };
        let listing = "table ip weir_filter {\n\tmap m {\n\t\ttype ipv4_addr : verdict\n\t\tcounter\n\
                       \t\telements = { 192.0.2.1 counter packets 1 bytes 2 : jump a,\n\
                       \t\t\t     192.0.2.2 counter packets 3 bytes 4 : drop }\n\t}\n\n\tchain c {\n\
                       \t\ttype filter hook input priority 0; policy drop;\n\t\tip saddr vmap @m\n\
                       \t\tcounter packets 5 bytes 6 accept\n\t}\n}\n";
        let mut counters = CountersByCounterLocation::new();
        read_nft_counters(of, listing, &mut counters);
        let count = |packets, bytes| Some(&Counters { packets, bytes }).copied();
        let rule = CounterLocation::NftRule {
            family: "ip".to_owned(),
            table: "weir_filter".to_owned(),
            chain: "c".to_owned(),
            number: 2,
        };
        assert_eq!(counters.get(&rule).copied(), count(5, 6));
        let element = |element: &str| CounterLocation::NftElement {
            family: "ip".to_owned(),
            table: "weir_filter".to_owned(),
            set: "m".to_owned(),
            element: element.to_owned(),
        };
        assert_eq!(counters.get(&element("192.0.2.1")).copied(), count(1, 2));
        assert_eq!(counters.get(&element("192.0.2.2")).copied(), count(3, 4));
        assert_eq!(counters.len(), 3);
        let text = "add s 10.0.0.0/8 packets 7 bytes 8\nadd s 11.0.0.0/8\n";
        let counters = read_set_counters(&BTreeMap::from([("s".to_owned(), text.to_owned())]));
        let element = CounterLocation::Element { set: "s".into(), element: "10.0.0.0/8".into() };
        assert_eq!(counters.get(&element).copied(), count(7, 8));
    }
}
