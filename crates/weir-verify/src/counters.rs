//! Counters of one firewall, per original rule.
//!
//! A form's manifest says which counters add up to each original rule; the original's own counters
//! map directly. They are read from the kernel as its tools read them; the mapping from elements of
//! a set to counters is established once, from the output of `ipset save` and `nft list table`.

mod text;

use std::collections::HashMap;

use weir_artefact::manifest::Summed;
use weir_kernel::Namespace;
use weir_kernel::ipset::SetCounters;
use weir_kernel::nftables::{NftCounters, RuleCount};
use weir_kernel::xtables::{Count, TableCounters};
use weir_model::{Counter, CreditMap, Family, Firewall, RuleId, TableName};

use crate::VerifyError;

/// Which counters add up to which original, and how to read them.
#[derive(Debug)]
pub(crate) struct Credits {
    firewall: Namespace,
    tables: Vec<CountedTable>,
    nft: Vec<Nft>,
    sets: Option<SetCounters>,
    /// Sets with counters: name, and where the readings of its elements are, in their order.
    elements: Vec<(String, Vec<usize>)>,
    /// Where each counter that the tools print is in [`readings`](Self::readings).
    index: HashMap<Counter, usize>,
    /// For each original, the readings that add up to it; none where it is counted with another.
    sums: Vec<Vec<usize>>,
    /// For each original, the one that it is counted with: the first of those that share counters,
    /// mostly itself.
    pub class: Vec<usize>,
    readings: Vec<Count>,
}

#[derive(Debug)]
struct CountedTable {
    family: Family,
    counters: TableCounters,
    /// Where its readings begin.
    first: usize,
}

/// An nft table.
#[derive(Debug)]
struct Nft {
    family: String,
    name: String,
    counters: NftCounters,
    /// Maps whose elements count: name, and where the reading of each key is.
    maps: Vec<(String, HashMap<Vec<u8>, usize>)>,
}

/// The originals of a firewall: every rule and every policy, in a fixed order.
#[derive(Debug)]
pub(crate) struct Originals {
    /// `iptables/filter/FORWARD/3`.
    pub keys: Vec<String>,
    at: HashMap<RuleId, usize>,
}

impl Originals {
    pub fn new(firewall: &Firewall) -> Originals {
        let (mut keys, mut at) = (Vec::new(), HashMap::new());
        for ruleset in firewall.rulesets() {
            for table in &ruleset.tables {
                for chain in &table.chains {
                    let of = (ruleset.family, table.name, &chain.name);
                    let rules = (0..chain.rules.len()).map(|i| RuleId::rule(of.0, of.1, of.2, i));
                    let policy = chain.policy.map(|_| RuleId::policy(of.0, of.1, of.2));
                    for id in rules.chain(policy) {
                        keys.push(id.to_string());
                        at.insert(id, keys.len() - 1);
                    }
                }
            }
        }
        Originals { keys, at }
    }

    /// Where an original stands in the order.
    pub fn at(&self, id: &RuleId) -> Option<usize> {
        self.at.get(id).copied()
    }

    /// Whether an original is a rule or a policy of a table of that name.
    pub fn is_of(&self, at: usize, table: TableName) -> bool {
        self.keys[at].split('/').nth(1) == Some(table.as_str())
    }

    /// The credit map of the original itself: every rule counts for itself.
    pub fn own_credit(&self) -> CreditMap {
        let own = self.at.iter().map(|(id, i)| (self.keys[*i].clone(), vec![Counter::from(id)]));
        CreditMap(own.collect())
    }
}

fn family_of(tool: &str) -> Family {
    if tool == "ip6tables" { Family::V6 } else { Family::V4 }
}

impl Credits {
    /// Finds every counter that the map names in the firewall.
    ///
    /// # Errors
    /// Where the map names a counter that is not there, or none for an original.
    pub fn new(
        name: &str,
        firewall: &Namespace,
        originals: &Originals,
        map: &CreditMap,
        summed: &[Summed],
    ) -> Result<Credits, VerifyError> {
        let mut credits = Credits {
            firewall: firewall.clone(),
            tables: Vec::new(),
            nft: Vec::new(),
            sets: None,
            elements: Vec::new(),
            index: HashMap::new(),
            sums: Vec::new(),
            class: Vec::new(),
            readings: Vec::new(),
        };
        let shared: HashMap<&str, &Summed> =
            summed.iter().flat_map(|s| s.rules.iter().map(move |r| (r.as_str(), s))).collect();
        let mut firsts: HashMap<*const Summed, usize> = HashMap::new();
        let all = map.0.values().flatten().chain(summed.iter().flat_map(|s| &s.counters));
        credits.find_sources(all)?;
        credits.read_all(&[Family::V4, Family::V6])?;
        for (at, key) in originals.keys.iter().enumerate() {
            let (class, counters) = match (map.0.get(key), shared.get(key.as_str())) {
                (Some(counters), _) => (at, &counters[..]),
                (None, Some(summed)) => match *firsts.entry(*summed).or_insert(at) {
                    first if first == at => (at, &summed.counters[..]),
                    first => (first, &[][..]),
                },
                (None, None) => {
                    return Err(VerifyError::NoCounter { way: name.into(), key: key.clone() });
                }
            };
            credits.class.push(class);
            let find = |c: &Counter| {
                credits.index.get(c).copied().ok_or_else(|| VerifyError::CounterNotThere {
                    way: name.into(),
                    counter: format!("{c:?}"),
                })
            };
            credits.sums.push(counters.iter().map(find).collect::<Result<_, _>>()?);
        }
        Ok(credits)
    }

    /// The tables and sets that the counters are of.
    fn find_sources<'c>(
        &mut self,
        all: impl Iterator<Item = &'c Counter>,
    ) -> Result<(), VerifyError> {
        let mut names: Vec<(&str, &str)> = Vec::new();
        let mut has_sets = false;
        for counter in all {
            match counter {
                Counter::Rule { tool, table, .. } | Counter::Policy { tool, table, .. } => {
                    if !names.contains(&(tool, table)) {
                        names.push((tool, table));
                    }
                }
                Counter::Element { .. } => has_sets = true,
                Counter::NftRule { family, table, .. } => {
                    self.find_nft(family, table)?;
                }
                Counter::NftElement { family, table, set, .. } => {
                    let maps = &mut self.find_nft(family, table)?.maps;
                    if !maps.iter().any(|(name, _)| name == set) {
                        maps.push((set.clone(), HashMap::new()));
                    }
                }
            }
        }
        if has_sets {
            self.find_elements()?;
        }
        self.find_map_elements()?;
        for (tool, table) in names {
            let family = family_of(tool);
            let counters = TableCounters::open(&self.firewall, family, table)?;
            let first = self.readings.len();
            for (i, place) in counters.places().iter().enumerate() {
                let (tool, table) = (tool.to_owned(), table.to_owned());
                let chain = place.chain.clone();
                let counter = match place.number {
                    Some(number) => Counter::Rule { tool, table, chain, number },
                    None => Counter::Policy { tool, table, chain },
                };
                self.index.insert(counter, first + i);
            }
            self.readings.resize(first + counters.places().len(), Count::default());
            self.tables.push(CountedTable { family, counters, first });
        }
        Ok(())
    }

    fn find_nft(&mut self, family: &str, name: &str) -> Result<&mut Nft, VerifyError> {
        let known = self.nft.iter().position(|t| t.family == family && t.name == name);
        let at = match known {
            Some(at) => at,
            None => {
                let counters = NftCounters::open(&self.firewall, family, name)?;
                let (family, name) = (family.to_owned(), name.to_owned());
                self.nft.push(Nft { family, name, counters, maps: Vec::new() });
                self.nft.len() - 1
            }
        };
        Ok(&mut self.nft[at])
    }

    /// Which elements there are, and their order.
    fn find_elements(&mut self) -> Result<(), VerifyError> {
        let mut printed = Vec::new();
        let text = self.firewall.run(&["ipset", "save"], b"")?;
        text::ipset(&String::from_utf8_lossy(&text), &mut printed);
        for (counter, count) in printed {
            let Counter::Element { set, .. } = &counter else { continue };
            if self.elements.last().is_none_or(|(name, _)| name != set) {
                self.elements.push((set.clone(), Vec::new()));
            }
            let at = self.readings.len();
            self.elements.last_mut().expect("just pushed").1.push(at);
            self.readings.push(count);
            self.index.insert(counter, at);
        }
        self.sets = Some(SetCounters::open(&self.firewall)?);
        Ok(())
    }

    /// Which key of a map is printed how.
    fn find_map_elements(&mut self) -> Result<(), VerifyError> {
        for table in self.nft.iter_mut().filter(|t| !t.maps.is_empty()) {
            let (family, name) = (&table.family, &table.name);
            let text = self.firewall.run(&["nft", "-nn", "list", "table", family, name], b"")?;
            let printed = text::nft(&String::from_utf8_lossy(&text));
            for (map, keys) in &mut table.maps {
                for element in printed.iter().filter(|e| e.set == *map) {
                    let at = self.readings.len();
                    self.readings.push(Count::default());
                    for key in element.keys() {
                        keys.insert(key, at);
                    }
                    let counter = Counter::NftElement {
                        family: family.clone(),
                        table: name.clone(),
                        set: map.clone(),
                        element: element.key.clone(),
                    };
                    self.index.insert(counter, at);
                }
            }
        }
        Ok(())
    }

    /// Reads the counters that packets of these families can count in.
    fn read_all(&mut self, families: &[Family]) -> Result<(), VerifyError> {
        for table in self.tables.iter_mut().filter(|t| families.contains(&t.family)) {
            let counts = table.counters.read()?;
            self.readings[table.first..table.first + counts.len()].copy_from_slice(&counts);
        }
        if let Some(sets) = &mut self.sets {
            for (set, at) in &self.elements {
                let counts = sets.read(set)?;
                if counts.len() != at.len() {
                    return Err(VerifyError::SetChanged { set: set.clone() });
                }
                for (at, count) in at.iter().zip(counts) {
                    self.readings[*at] = count;
                }
            }
        }
        let is_read = |t: &&mut Nft| {
            families.contains(&if t.family == "ip6" { Family::V6 } else { Family::V4 })
        };
        for table in self.nft.iter_mut().filter(is_read) {
            for RuleCount { chain, number, count } in table.counters.rules()? {
                let (family, table) = (table.family.clone(), table.name.clone());
                let counter = Counter::NftRule { family, table, chain, number };
                let next = self.readings.len();
                let at = *self.index.entry(counter).or_insert(next);
                if at == next {
                    self.readings.push(Count::default());
                }
                self.readings[at] = count;
            }
            for (map, keys) in &table.maps {
                for (key, count) in table.counters.elements(map)? {
                    let Some(at) = keys.get(&key) else {
                        return Err(VerifyError::SetChanged { set: map.clone() });
                    };
                    self.readings[*at] = count;
                }
            }
        }
        Ok(())
    }

    /// How much each original has counted since the last reading, in the order of [`Originals`],
    /// where only packets of these families were sent.
    ///
    /// # Errors
    /// Where the counters cannot be read.
    pub fn since_last(&mut self, families: &[Family]) -> Result<Vec<Count>, VerifyError> {
        let before = self.readings.clone();
        self.read_all(families)?;
        let delta = |i: usize| {
            let old = before.get(i).copied().unwrap_or_default();
            let new = self.readings[i];
            Count {
                packets: new.packets.wrapping_sub(old.packets),
                bytes: new.bytes.wrapping_sub(old.bytes),
            }
        };
        let sum = |at: &Vec<usize>| {
            at.iter().map(|i| delta(*i)).fold(Count::default(), |a, b| Count {
                packets: a.packets + b.packets,
                bytes: a.bytes + b.bytes,
            })
        };
        Ok(self.sums.iter().map(sum).collect())
    }
}
