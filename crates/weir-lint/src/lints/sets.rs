//! Sets that no rule names, that are not there, that hold nothing, or nothing more.

use std::collections::HashSet;

use weir_model::effect::sets_named_by;
use weir_model::set::{Method, Part};
use weir_model::{ChangingSets, ElementPart, IpSet, Match, Name, SetOption};

use crate::context::Context;
use crate::edit::is_foreign;
use crate::family::LintFamily;
use crate::finding::{Edit, Finding};
use crate::lint::define;

define!(UNUSED_SET, "unused-set", Note, fix);
define!(UNKNOWN_SET, "unknown-set", Warning);
define!(EMPTY_SET, "empty-set", Note);
define!(FULL_SET, "full-set", Warning);
define!(SET_OF_OTHER_FAMILY, "set-of-other-family", Warning);

pub(crate) static FAMILY: LintFamily = LintFamily {
    lints: &[&UNUSED_SET, &UNKNOWN_SET, &EMPTY_SET, &FULL_SET, &SET_OF_OTHER_FAMILY],
    look,
};

/// Sets are judged where there are any.
fn look(context: &Context<'_>, out: &mut Vec<Finding>) {
    let firewall = context.firewall;
    if firewall.sets.is_empty() {
        return;
    }
    let changing = ChangingSets::of(firewall);
    let mut used: HashSet<Name> = HashSet::new();
    for table in &context.tables {
        for (chain, i, rule) in table.rules() {
            used.extend(sets_named_by(&rule.target).into_iter().map(|(name, _)| name));
            for m in &rule.matches {
                let Match::Set(m) = m else { continue };
                used.insert(m.name.clone());
                let (lint, message, help) = match firewall.set(&m.name) {
                    None => (
                        &UNKNOWN_SET,
                        format!("set {} is not among the sets given", m.name),
                        "give the whole output of `ipset save`",
                    ),
                    Some(set) if set.family.is_some_and(|f| f != table.family()) => (
                        &SET_OF_OTHER_FAMILY,
                        format!("set {} holds addresses of the other family", m.name),
                        "use a set that was created with the family of these rules",
                    ),
                    Some(set) if set.elements.is_empty() && !changing.contains(&m.name) => (
                        &EMPTY_SET,
                        format!("set {} has no elements", m.name),
                        "other programs may fill it",
                    ),
                    Some(_) => continue,
                };
                out.push(table.rule(lint, chain, i, message).help(help));
            }
        }
    }
    let members = firewall.sets.iter().flat_map(|s| &s.elements).flat_map(|e| &e.parts);
    used.extend(members.filter_map(|p| match p {
        ElementPart::Set(name) => Some(name.clone()),
        _ => None,
    }));
    for set in &firewall.sets {
        if !used.contains(&set.name) {
            out.push(unused(set));
        }
        out.extend(full(set));
    }
}

fn unused(set: &IpSet) -> Finding {
    let name = &set.name;
    let message = format!("no rule names set {name} ({} elements)", set.elements.len());
    let found = Finding::about(&UNUSED_SET, set.span, message)
        .help(format!("remove it (`ipset destroy {name}`), if no other program uses it"));
    match is_foreign(name) {
        true => found,
        false => found.fix(vec![Edit::RemoveSet { set: name.clone() }]),
    }
}

/// Where nothing, or hardly anything more, goes in: adding ends with `Hash is full`.
fn full(set: &IpSet) -> Option<Finding> {
    if set.kind.method != Method::Hash || set.options.contains(&SetOption::ForceAdd) {
        return None;
    }
    let named = set.options.iter().find_map(|o| match o {
        SetOption::MaxElem(n) => Some(*n as usize),
        _ => None,
    });
    // The default of the hash types (net/netfilter/ipset/ip_set_hash_gen.h).
    let max = named.unwrap_or(65_536);
    let elements = set.elements.len();
    // A set that weir or another program made to measure is not meant to grow.
    if elements < 1024 || elements * 10 < max * 9 || set.kind.parts.contains(&Part::Set) {
        return None;
    }
    let message = format!("set {} holds {elements} of at most {max} elements", set.name);
    let help = "create it with a larger maxelem; the next element may be refused";
    Some(Finding::about(&FULL_SET, set.span, message).help(help))
}
