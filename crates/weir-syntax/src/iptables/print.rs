//! Rules as `iptables-legacy-save` prints them.

use weir_model::{BaseMatch, Chain, Counters, Family, Match, Policy, Rule, Ruleset, Table, Target};

use super::extension;
use crate::{append_text, system_name_tables};

/// Prints a ruleset as `iptables-save` (`iptables-save -c` with `counters`) would after loading it.
///
/// Built-in chains come first in the order of the hooks, then the others sorted by name, as the
/// tools store them. The comments of the model replace the tools' dated comments.
pub fn print(ruleset: &Ruleset, counters: bool) -> String {
    let rules: usize = ruleset.tables.iter().flat_map(|t| &t.chains).map(|c| c.rules.len()).sum();
    let mut out = String::with_capacity(256 + rules * 96);
    for table in &ruleset.tables {
        print_table(&mut out, table, ruleset.family, counters);
    }
    print_preserved_comments(&mut out, &ruleset.trailing_comments);
    out
}

fn print_preserved_comments(out: &mut String, comments: &[String]) {
    for c in comments {
        out.push_str(c);
        out.push('\n');
    }
}

fn print_table(out: &mut String, table: &Table, family: Family, counters: bool) {
    print_preserved_comments(out, &table.leading_comments);
    out.push('*');
    out.push_str(table.name.as_str());
    out.push('\n');
    let chains = sort_chains_as_saved(table);
    for chain in &chains {
        print_preserved_comments(out, &chain.leading_comments);
        out.push(':');
        out.push_str(&chain.name);
        out.push_str(match chain.policy {
            Some(Policy::Accept) => " ACCEPT ",
            Some(Policy::Drop) => " DROP ",
            None => " - ",
        });
        print_counters_or_zeros(out, chain.counters);
        out.push('\n');
    }
    for chain in &chains {
        let mut append_command = "-A ".to_owned();
        append_text::append_word_quoted_if_needed(&mut append_command, &chain.name);
        for rule in &chain.rules {
            print_preserved_comments(out, &rule.leading_comments);
            if counters {
                print_counters_or_zeros(out, rule.counters);
                out.push(' ');
            }
            out.push_str(&append_command);
            append_rule_words(out, rule, family);
            out.push('\n');
        }
    }
    print_preserved_comments(out, &table.trailing_comments);
    out.push_str("COMMIT\n");
}

/// Chains in the order in which the tools keep them.
fn sort_chains_as_saved(table: &Table) -> Vec<&Chain> {
    let hook = |c: &Chain| {
        let hooks = table.name.hooks();
        hooks.iter().position(|h| h.chain_name() == &*c.name).unwrap_or(hooks.len())
    };
    let mut chains: Vec<&Chain> = table.chains.iter().collect();
    chains.sort_by(|a, b| hook(a).cmp(&hook(b)).then_with(|| a.name.cmp(&b.name)));
    chains
}

fn print_counters_or_zeros(out: &mut String, counters: Option<Counters>) {
    let c = counters.unwrap_or_default();
    out.push('[');
    append_text::append_decimal(out, c.packets);
    out.push(':');
    append_text::append_decimal(out, c.bytes);
    out.push(']');
}

fn append_rule_words(out: &mut String, rule: &Rule, family: Family) {
    append_base_matches(out, &rule.base, family);
    for m in &rule.matches {
        extension::print_match(out, m, family);
    }
    extension::print_target(out, &rule.target, family);
}

fn append_base_matches(out: &mut String, base: &BaseMatch, family: Family) {
    append_text::append_addr_match(out, "-s", base.saddr.as_ref(), family);
    append_text::append_addr_match(out, "-d", base.daddr.as_ref(), family);
    for (flag, device) in [("-i", &base.iif), ("-o", &base.oif)] {
        if let Some(d) = device {
            append_text::append_negatable_option_name(out, d.negated, flag);
            append_text::append_device(out, &d.name, d.is_prefix);
        }
    }
    if let Some(p) = base.proto {
        append_text::append_negatable_option_name(out, p.negated, "-p");
        match system_name_tables::protocol_name(p.proto) {
            Some(name) => out.push_str(name),
            None => append_text::append_decimal(out, p.proto.into()),
        }
    }
    if let Some(f) = base.fragment {
        out.push_str(if f.negated { " ! -f" } else { " -f" });
    }
}

fn strip_leading_blank(out: String) -> String {
    match out.strip_prefix(' ') {
        Some(rest) => rest.to_owned(),
        None => out,
    }
}

/// The words after `-A CHAIN`: `-s 192.0.2.1/32 -p tcp -m tcp --dport 22 -j ACCEPT`.
pub fn print_rule(rule: &Rule, family: Family) -> String {
    let mut out = String::new();
    append_rule_words(&mut out, rule, family);
    strip_leading_blank(out)
}

/// One match: `-m tcp --dport 22`.
pub fn print_match(m: &Match, family: Family) -> String {
    let mut out = String::new();
    extension::print_match(&mut out, m, family);
    strip_leading_blank(out)
}

/// A target: `-j REJECT --reject-with tcp-reset`; empty for a rule that only counts.
pub fn print_target(target: &Target, family: Family) -> String {
    let mut out = String::new();
    extension::print_target(&mut out, target, family);
    strip_leading_blank(out)
}
