//! Edits of a firewall: what the findings ask for, done.

use std::collections::{BTreeMap, HashMap, HashSet};

use weir_model::{Family, Firewall, Name, Rule, Ruleset, Table, TableName};

use crate::finding::Edit;

/// Does the edits. Places are those of the firewall as it is given: edits that were found together
/// are done together. A chain goes only where no rule that stays names it.
pub fn apply(firewall: &Firewall, edits: &[Edit]) -> Firewall {
    let mut out = firewall.clone();
    let mut by_chain: HashMap<(Family, TableName, &str), BTreeMap<u32, Option<&Rule>>> =
        HashMap::new();
    let mut chains: HashSet<(Family, TableName, &str)> = HashSet::new();
    for edit in edits {
        let (family, place, becomes) = match edit {
            Edit::RemoveRule { family, place } => (*family, place, None),
            Edit::ReplaceRule { family, place, rule } => (*family, place, Some(&**rule)),
            Edit::RemoveChain { family, table, chain } => {
                chains.insert((*family, *table, chain));
                continue;
            }
            Edit::RemoveSet { set } => {
                out.sets.retain(|s| s.name != *set);
                continue;
            }
        };
        let Some(number) = place.number else { continue };
        let slot = by_chain.entry((family, place.table, &place.chain)).or_default();
        // A rule that goes and is changed goes.
        let entry = slot.entry(number).or_insert(becomes);
        if becomes.is_none() {
            *entry = None;
        }
    }
    for ruleset in [out.v4.as_mut(), out.v6.as_mut()].into_iter().flatten() {
        edit_rules(ruleset, &by_chain);
        let family = ruleset.family;
        for table in &mut ruleset.tables {
            remove_chains(table, &|table, chain| chains.contains(&(family, table, chain)));
        }
    }
    out
}

type Edits<'a> = HashMap<(Family, TableName, &'a str), BTreeMap<u32, Option<&'a Rule>>>;

fn edit_rules(ruleset: &mut Ruleset, edits: &Edits<'_>) {
    for table in &mut ruleset.tables {
        for chain in &mut table.chains {
            let Some(here) = edits.get(&(ruleset.family, table.name, &*chain.name)) else {
                continue;
            };
            let mut number = 0;
            chain.rules.retain_mut(|rule| {
                number += 1;
                match here.get(&number) {
                    None => true,
                    Some(None) => false,
                    Some(Some(other)) => {
                        *rule = (*other).clone();
                        true
                    }
                }
            });
        }
    }
}

/// Chains that may go and that nothing which stays names.
fn remove_chains(table: &mut Table, goes: &dyn Fn(TableName, &str) -> bool) {
    let mut going: HashSet<Name> = table
        .chains
        .iter()
        .filter(|c| c.policy.is_none() && goes(table.name, &c.name))
        .map(|c| c.name.clone())
        .collect();
    loop {
        let staying = table.chains.iter().filter(|c| !going.contains(&c.name));
        let named: HashSet<Name> =
            staying.flat_map(|c| &c.rules).filter_map(|r| r.target.chain().cloned()).collect();
        let before = going.len();
        going.retain(|name| !named.contains(name));
        if going.len() == before {
            break;
        }
    }
    table.chains.retain(|c| !going.contains(&c.name));
}

/// Whether a chain or set belongs to a program that fills it by itself: what looks dead in it may
/// be needed tomorrow, and its owner looks for it by name.
pub fn is_foreign(name: &str) -> bool {
    const OWNERS: [&str; 18] = [
        "DOCKER", "KUBE-", "cali-", "cali:", "cali4", "cali6", "ufw-", "ufw6-", "f2b-", "fail2ban",
        "LIBVIRT_", "CNI-", "FLANNEL", "CILIUM_", "NETAVARK", "FWD", "sshguard", "crowdsec",
    ];
    // firewalld's chains end so, or hold the name of a zone behind such a word.
    const FIREWALLD: [&str; 9] = [
        "_ZONES",
        "_direct",
        "_ZONES_SOURCE",
        "_log",
        "_deny",
        "_allow",
        "_pre",
        "_post",
        "_rules",
    ];
    OWNERS.iter().any(|o| name.starts_with(o)) || FIREWALLD.iter().any(|e| name.ends_with(e))
}
