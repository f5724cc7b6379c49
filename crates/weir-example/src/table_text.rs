//! A table as `iptables-legacy-save` writes it: built-in chains first, then the others by name, and
//! rules in the order of their chains.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A table under construction.
pub(crate) struct TableText {
    name: &'static str,
    builtin_chains: Vec<(&'static str, &'static str, Vec<String>)>,
    user_chains: BTreeMap<String, Vec<String>>,
}

impl TableText {
    /// A table with its built-in chains and their policies, in the kernel's order.
    pub(crate) fn new(name: &'static str, builtin: &[(&'static str, &'static str)]) -> TableText {
        TableText {
            name,
            builtin_chains: builtin
                .iter()
                .map(|&(chain, policy)| (chain, policy, Vec::new()))
                .collect(),
            user_chains: BTreeMap::new(),
        }
    }

    /// Declares a chain that may stay without rules.
    pub(crate) fn declare_chain(&mut self, chain: &str) {
        self.user_chains.entry(chain.to_owned()).or_default();
    }

    /// Appends a rule (the empty one counts all packets); `chain` appears if it is new.
    pub(crate) fn append_rule(&mut self, chain: &str, rule: impl Into<String>) {
        let builtin = self.builtin_chains.iter_mut().find(|(name, ..)| *name == chain);
        let rules = match builtin {
            Some((.., rules)) => rules,
            None => self.user_chains.entry(chain.to_owned()).or_default(),
        };
        rules.push(rule.into());
    }

    /// Appends several rules.
    pub(crate) fn append_rules(&mut self, chain: &str, rules: &[&str]) {
        for rule in rules {
            self.append_rule(chain, *rule);
        }
    }

    /// Chains so far, built-in ones included.
    pub(crate) fn chain_count(&self) -> usize {
        self.builtin_chains.len() + self.user_chains.len()
    }

    /// Rules so far.
    pub(crate) fn rule_count(&self) -> usize {
        let builtin = self.builtin_chains.iter().map(|(.., rules)| rules.len());
        builtin.chain(self.user_chains.values().map(Vec::len)).sum()
    }

    /// The table as text, `*name` to `COMMIT`.
    pub(crate) fn write_save_text(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "*{}", self.name);
        for (chain, policy, _) in &self.builtin_chains {
            let _ = writeln!(out, ":{chain} {policy} [0:0]");
        }
        for chain in self.user_chains.keys() {
            let _ = writeln!(out, ":{chain} - [0:0]");
        }
        let builtin = self.builtin_chains.iter().map(|(chain, _, rules)| (*chain, rules));
        let user = self.user_chains.iter().map(|(chain, rules)| (chain.as_str(), rules));
        for (chain, rules) in builtin.chain(user) {
            for rule in rules {
                let _ = writeln!(out, "-A {chain}{}{rule}", if rule.is_empty() { "" } else { " " });
            }
        }
        out.push_str("COMMIT\n");
    }
}
