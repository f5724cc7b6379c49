//! Counters of one firewall, per original rule.
//!
//! A form's manifest says which counters add up to each original rule; the original's own counters
//! map directly. They are read from the kernel as its tools read them; the mapping from elements of
//! a set to counters is established once, from the output of `ipset save` and `nft list table`.

mod listing_parser;

use std::collections::HashMap;

use weir_artefact::manifest::SummedCounterGroup;
use weir_kernel::Namespace;
use weir_kernel::ipset_counters::IpsetCounterReader;
use weir_kernel::nft_rule_and_element_counters::{NftTableCounterReader, RuleCounterValue};
use weir_kernel::xtables_counters::{LegacyTableCounterReader, PacketByteCount};
use weir_model::{CounterLocation, CountersByOriginalRule, Family, Firewall, RuleId, TableName};

use crate::VerifyError;

/// Which counters add up to which original, and how to read them.
#[derive(Debug)]
pub(crate) struct CreditCounters {
    firewall_namespace: Namespace,
    iptables_tables: Vec<CountedIptablesTable>,
    nft_tables: Vec<CountedNftTable>,
    ipset_reader: Option<IpsetCounterReader>,
    /// Sets with counters: name, and where the readings of its elements are, in their order.
    reading_indices_by_ipset: Vec<(String, Vec<usize>)>,
    /// Where each counter that the tools print is in [`readings`](Self::readings).
    reading_index_by_location: HashMap<CounterLocation, usize>,
    /// For each original, the readings that add up to it; none where it is counted with another.
    reading_indices_by_original: Vec<Vec<usize>>,
    /// For each original, the one that it is counted with: the first of those that share counters,
    /// mostly itself.
    pub first_original_with_same_counters: Vec<usize>,
    readings: Vec<PacketByteCount>,
}

#[derive(Debug)]
struct CountedIptablesTable {
    family: Family,
    counters: LegacyTableCounterReader,
    /// Where its readings begin.
    first_reading_index: usize,
}

/// An nft table.
#[derive(Debug)]
struct CountedNftTable {
    family: String,
    name: String,
    counters: NftTableCounterReader,
    /// Maps whose elements count: name, and where the reading of each key is.
    maps: Vec<(String, HashMap<Vec<u8>, usize>)>,
}

/// The originals of a firewall: every rule and every policy, in a fixed order.
#[derive(Debug)]
pub(crate) struct OriginalRulesAndPolicies {
    /// `iptables/filter/FORWARD/3`.
    pub rule_and_policy_ids: Vec<String>,
    position_by_id: HashMap<RuleId, usize>,
}

impl OriginalRulesAndPolicies {
    pub fn new(firewall: &Firewall) -> OriginalRulesAndPolicies {
        let (mut rule_and_policy_ids, mut at) = (Vec::new(), HashMap::new());
        for ruleset in firewall.rulesets() {
            for table in &ruleset.tables {
                for chain in &table.chains {
                    let of = (ruleset.family, table.name, &chain.name);
                    let rules = (0..chain.rules.len())
                        .map(|i| RuleId::for_rule_at_index(of.0, of.1, of.2, i));
                    let policy = chain.policy.map(|_| RuleId::for_policy(of.0, of.1, of.2));
                    for id in rules.chain(policy) {
                        rule_and_policy_ids.push(id.to_string());
                        at.insert(id, rule_and_policy_ids.len() - 1);
                    }
                }
            }
        }
        OriginalRulesAndPolicies { rule_and_policy_ids, position_by_id: at }
    }

    /// Where an original stands in the order.
    pub fn position_of(&self, id: &RuleId) -> Option<usize> {
        self.position_by_id.get(id).copied()
    }

    /// Whether an original is a rule or a policy of a table of that name.
    pub fn is_in_table(&self, at: usize, table: TableName) -> bool {
        self.rule_and_policy_ids[at].split('/').nth(1) == Some(table.as_str())
    }

    /// The credit map of the original itself: every rule counts for itself.
    pub fn identity_credit_map(&self) -> CountersByOriginalRule {
        let own = self
            .position_by_id
            .iter()
            .map(|(id, i)| (self.rule_and_policy_ids[*i].clone(), vec![CounterLocation::from(id)]));
        CountersByOriginalRule(own.collect())
    }
}

fn family_of_tool(tool: &str) -> Family {
    if tool == "ip6tables" { Family::V6 } else { Family::V4 }
}

impl CreditCounters {
    /// Finds every counter that the map names in the firewall.
    ///
    /// # Errors
    /// If the map names a counter that is not there, or none for an original.
    pub fn new(
        name: &str,
        firewall_namespace: &Namespace,
        originals: &OriginalRulesAndPolicies,
        map: &CountersByOriginalRule,
        summed: &[SummedCounterGroup],
    ) -> Result<CreditCounters, VerifyError> {
        let mut credits = CreditCounters {
            firewall_namespace: firewall_namespace.clone(),
            iptables_tables: Vec::new(),
            nft_tables: Vec::new(),
            ipset_reader: None,
            reading_indices_by_ipset: Vec::new(),
            reading_index_by_location: HashMap::new(),
            reading_indices_by_original: Vec::new(),
            first_original_with_same_counters: Vec::new(),
            readings: Vec::new(),
        };
        let shared: HashMap<&str, &SummedCounterGroup> =
            summed.iter().flat_map(|s| s.rules.iter().map(move |r| (r.as_str(), s))).collect();
        let mut firsts: HashMap<*const SummedCounterGroup, usize> = HashMap::new();
        let all = map.0.values().flatten().chain(summed.iter().flat_map(|s| &s.counters));
        credits.open_counter_readers(all)?;
        credits.read_counters_of_families(&[Family::V4, Family::V6])?;
        for (at, key) in originals.rule_and_policy_ids.iter().enumerate() {
            let (class, counters) = match (map.0.get(key), shared.get(key.as_str())) {
                (Some(counters), _) => (at, &counters[..]),
                (None, Some(summed)) => match *firsts.entry(*summed).or_insert(at) {
                    first if first == at => (at, &summed.counters[..]),
                    first => (first, &[][..]),
                },
                (None, None) => {
                    return Err(VerifyError::NoCounterInManifest {
                        way: name.into(),
                        key: key.clone(),
                    });
                }
            };
            credits.first_original_with_same_counters.push(class);
            let find = |c: &CounterLocation| {
                credits.reading_index_by_location.get(c).copied().ok_or_else(|| {
                    VerifyError::CounterNotInKernel { way: name.into(), counter: format!("{c:?}") }
                })
            };
            credits
                .reading_indices_by_original
                .push(counters.iter().map(find).collect::<Result<_, _>>()?);
        }
        Ok(credits)
    }

    /// The tables and sets that the counters are of.
    fn open_counter_readers<'c>(
        &mut self,
        all: impl Iterator<Item = &'c CounterLocation>,
    ) -> Result<(), VerifyError> {
        let mut names: Vec<(&str, &str)> = Vec::new();
        let mut has_sets = false;
        for counter in all {
            match counter {
                CounterLocation::Rule { tool, table, .. }
                | CounterLocation::Policy { tool, table, .. } => {
                    if !names.contains(&(tool, table)) {
                        names.push((tool, table));
                    }
                }
                CounterLocation::Element { .. } => has_sets = true,
                CounterLocation::NftRule { family, table, .. } => {
                    self.get_or_open_nft_table(family, table)?;
                }
                CounterLocation::NftElement { family, table, set, .. } => {
                    let maps = &mut self.get_or_open_nft_table(family, table)?.maps;
                    if !maps.iter().any(|(name, _)| name == set) {
                        maps.push((set.clone(), HashMap::new()));
                    }
                }
            }
        }
        if has_sets {
            self.assign_readings_to_ipset_elements()?;
        }
        self.assign_readings_to_nft_elements()?;
        for (tool, table) in names {
            let family = family_of_tool(tool);
            let counters = LegacyTableCounterReader::open(&self.firewall_namespace, family, table)?;
            let first = self.readings.len();
            for (i, place) in counters.rule_and_policy_positions().iter().enumerate() {
                let (tool, table) = (tool.to_owned(), table.to_owned());
                let chain = place.chain.clone();
                let counter = match place.number {
                    Some(number) => CounterLocation::Rule { tool, table, chain, number },
                    None => CounterLocation::Policy { tool, table, chain },
                };
                self.reading_index_by_location.insert(counter, first + i);
            }
            self.readings.resize(
                first + counters.rule_and_policy_positions().len(),
                PacketByteCount::default(),
            );
            self.iptables_tables.push(CountedIptablesTable {
                family,
                counters,
                first_reading_index: first,
            });
        }
        Ok(())
    }

    fn get_or_open_nft_table(
        &mut self,
        family: &str,
        name: &str,
    ) -> Result<&mut CountedNftTable, VerifyError> {
        let known = self.nft_tables.iter().position(|t| t.family == family && t.name == name);
        let at = match known {
            Some(at) => at,
            None => {
                let counters = NftTableCounterReader::open(&self.firewall_namespace, family, name)?;
                let (family, name) = (family.to_owned(), name.to_owned());
                self.nft_tables.push(CountedNftTable { family, name, counters, maps: Vec::new() });
                self.nft_tables.len() - 1
            }
        };
        Ok(&mut self.nft_tables[at])
    }

    /// Which elements there are, and their order.
    fn assign_readings_to_ipset_elements(&mut self) -> Result<(), VerifyError> {
        let mut printed = Vec::new();
        let text = self.firewall_namespace.run_command(&["ipset", "save"], b"")?;
        listing_parser::parse_ipset_counters(&String::from_utf8_lossy(&text), &mut printed);
        for (counter, count) in printed {
            let CounterLocation::Element { set, .. } = &counter else { continue };
            if self.reading_indices_by_ipset.last().is_none_or(|(name, _)| name != set) {
                self.reading_indices_by_ipset.push((set.clone(), Vec::new()));
            }
            let at = self.readings.len();
            self.reading_indices_by_ipset.last_mut().expect("just pushed").1.push(at);
            self.readings.push(count);
            self.reading_index_by_location.insert(counter, at);
        }
        self.ipset_reader = Some(IpsetCounterReader::open(&self.firewall_namespace)?);
        Ok(())
    }

    /// Which key of a map is printed how.
    fn assign_readings_to_nft_elements(&mut self) -> Result<(), VerifyError> {
        for table in self.nft_tables.iter_mut().filter(|t| !t.maps.is_empty()) {
            let (family, name) = (&table.family, &table.name);
            let text = self
                .firewall_namespace
                .run_command(&["nft", "-nn", "list", "table", family, name], b"")?;
            let printed =
                listing_parser::parse_counted_nft_elements(&String::from_utf8_lossy(&text));
            for (map, keys) in &mut table.maps {
                for element in printed.iter().filter(|e| e.set == *map) {
                    let at = self.readings.len();
                    self.readings.push(PacketByteCount::default());
                    for key in element.possible_kernel_keys() {
                        keys.insert(key, at);
                    }
                    let counter = CounterLocation::NftElement {
                        family: family.clone(),
                        table: name.clone(),
                        set: map.clone(),
                        element: element.key.clone(),
                    };
                    self.reading_index_by_location.insert(counter, at);
                }
            }
        }
        Ok(())
    }

    /// Reads the counters that packets of these families can count in.
    fn read_counters_of_families(&mut self, families: &[Family]) -> Result<(), VerifyError> {
        for table in self.iptables_tables.iter_mut().filter(|t| families.contains(&t.family)) {
            let counts = table.counters.read_counters_if_not_replaced()?;
            self.readings[table.first_reading_index..table.first_reading_index + counts.len()]
                .copy_from_slice(&counts);
        }
        if let Some(ipset_reader) = &mut self.ipset_reader {
            for (set, at) in &self.reading_indices_by_ipset {
                let counts = ipset_reader.read_element_counters(set)?;
                if counts.len() != at.len() {
                    return Err(VerifyError::SetChanged { set: set.clone() });
                }
                for (at, count) in at.iter().zip(counts) {
                    self.readings[*at] = count;
                }
            }
        }
        let is_read = |t: &&mut CountedNftTable| {
            families.contains(&if t.family == "ip6" { Family::V6 } else { Family::V4 })
        };
        for table in self.nft_tables.iter_mut().filter(is_read) {
            for RuleCounterValue { chain, number, count } in table.counters.read_rule_counters()? {
                let (family, table) = (table.family.clone(), table.name.clone());
                let counter = CounterLocation::NftRule { family, table, chain, number };
                let next = self.readings.len();
                let at = *self.reading_index_by_location.entry(counter).or_insert(next);
                if at == next {
                    self.readings.push(PacketByteCount::default());
                }
                self.readings[at] = count;
            }
            for (map, keys) in &table.maps {
                for (key, count) in table.counters.read_element_counters(map)? {
                    let Some(at) = keys.get(&key) else {
                        return Err(VerifyError::SetChanged { set: map.clone() });
                    };
                    self.readings[*at] = count;
                }
            }
        }
        Ok(())
    }

    /// How much each original has counted since the last reading, in the order of
    /// [`OriginalRulesAndPolicies`], where only packets of these families were sent.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn counts_since_last_read(
        &mut self,
        families: &[Family],
    ) -> Result<Vec<PacketByteCount>, VerifyError> {
        let before = self.readings.clone();
        self.read_counters_of_families(families)?;
        let delta = |i: usize| {
            let old = before.get(i).copied().unwrap_or_default();
            let new = self.readings[i];
            PacketByteCount {
                packets: new.packets.wrapping_sub(old.packets),
                bytes: new.bytes.wrapping_sub(old.bytes),
            }
        };
        let sum = |at: &Vec<usize>| {
            at.iter().map(|i| delta(*i)).fold(PacketByteCount::default(), |a, b| PacketByteCount {
                packets: a.packets + b.packets,
                bytes: a.bytes + b.bytes,
            })
        };
        Ok(self.reading_indices_by_original.iter().map(sum).collect())
    }
}
