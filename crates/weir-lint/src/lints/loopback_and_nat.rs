//! Rules about the loopback device, and packets that bypass INPUT.

use weir_model::target::NatTarget;
use weir_model::{
    Family, Field, IfaceMatch, Predicate, Rule, TableName, Target, Test, lower_to_tests,
};

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::Finding;
use crate::lint::define_lint;
use crate::lint_family::LintFamily;
use crate::root_cause::RootCause;

define_lint!(LOOPBACK, "loopback", Warning);
define_lint!(DNAT_PASSES_INPUT, "dnat-passes-input", Note);
define_lint!(TRANSLATES_EVERYTHING, "translates-everything", Note);

pub(crate) static LINT_FAMILY: LintFamily =
    LintFamily { lints: &[&LOOPBACK, &DNAT_PASSES_INPUT, &TRANSLATES_EVERYTHING], run_lints };

fn run_lints(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for table in &context.tables {
        match table.table.name {
            TableName::Filter => report_lo_forward_or_forged_source(table, out),
            TableName::Nat => report_unrestricted_snat(table, out),
            _ => {}
        }
    }
    report_dnat_bypassing_input(context, out);
}

fn is_loopback_device(iface: Option<&IfaceMatch>) -> bool {
    iface.is_some_and(|d| !d.negated && !d.is_prefix && &*d.name == "lo")
}

fn report_lo_forward_or_forged_source(table: &AnalyzedTable<'_>, out: &mut Vec<Finding>) {
    for (at, i, rule) in table.rules() {
        let forwards = &*table.chain_at(at).name == "FORWARD";
        let base = &rule.base;
        if forwards
            && (is_loopback_device(base.iif.as_ref()) || is_loopback_device(base.oif.as_ref()))
        {
            let message = "no packet is forwarded from or to lo";
            let help = "test lo in OUTPUT (-o lo) and INPUT (-i lo)";
            out.push(
                table
                    .new_rule_finding(&LOOPBACK, at, i, message)
                    .with_help(help)
                    .with_wasted_comparisons(1),
            );
        }
        let local = base.saddr.is_some_and(|s| {
            !s.negated && s.addr.0 >> 24 == 127 && s.mask.0 & 0xff00_0000 == 0xff00_0000
        });
        let v4 = table.family() == Family::V4;
        let inward = &*table.chain_at(at).name == "INPUT" && base.iif.is_none();
        if v4 && inward && local && rule.target == Target::Accept {
            let message = "this rule accepts forged 127.0.0.0/8 addresses from any device";
            out.push(
                table.new_rule_finding(&LOOPBACK, at, i, message).with_help("test -i lo instead"),
            );
        }
    }
}

/// SNAT and MASQUERADE without a device or an address to go by.
fn report_unrestricted_snat(table: &AnalyzedTable<'_>, out: &mut Vec<Finding>) {
    for (at, i, rule) in table.rules() {
        let Target::Nat(nat) = &rule.target else { continue };
        let source = matches!(**nat, NatTarget::Snat(_) | NatTarget::Masquerade(_));
        if source && &*table.chain_at(at).name == "POSTROUTING" && has_no_tests(rule, table) {
            let message =
                "this rule translates every connection, also those between inner networks";
            let help = "test the outer device (-o) or the inner network (-s)";
            out.push(
                table.new_rule_finding(&TRANSLATES_EVERYTHING, at, i, message).with_help(help),
            );
        }
    }
}

fn has_no_tests(rule: &Rule, table: &AnalyzedTable<'_>) -> bool {
    lower_to_tests(rule, table.family()).is_empty()
}

/// Ports that DNAT sends on, and that a rule of INPUT drops in vain.
fn report_dnat_bypassing_input(context: &AnalyzedFirewall<'_>, out: &mut Vec<Finding>) {
    for nat in context.tables.iter().filter(|t| t.table.name == TableName::Nat) {
        let is = |t: &&AnalyzedTable<'_>| {
            t.family() == nat.family() && t.table.name == TableName::Filter
        };
        let Some(filter) = context.tables.iter().find(is) else { continue };
        let Some(input) = filter.table.chains.iter().position(|c| &*c.name == "INPUT") else {
            continue;
        };
        let dnat =
            |r: &Rule| matches!(&r.target, Target::Nat(n) if matches!(**n, NatTarget::Dnat(_)));
        for (chain, i, rule) in nat.rules().filter(|(_, _, r)| dnat(r)) {
            let Some(port) = tested_protocol_and_dport(rule, nat) else { continue };
            let drops = |r: &Rule| {
                matches!(r.target, Target::Drop | Target::Reject(_))
                    && self::tested_protocol_and_dport(r, filter).is_some_and(|p| p == port)
            };
            let Some(n) = filter.chain_at(input).rules.iter().position(drops) else { continue };
            let port = port.1;
            let message = format!(
                "rule {} of INPUT does not see packets to port {port}: this rule redirects them",
                n + 1
            );
            let one = format!("this rule does not see packets to port {port} that DNAT redirects");
            let cause = RootCause::new(
                filter.root_cause_key(input, Some(n)),
                one.clone(),
                "redirects them first",
            );
            let found = nat.new_rule_finding(&DNAT_PASSES_INPUT, chain, i, message);
            out.push(
                found
                    .with_blamed_program(filter.program_of_rule((input, n)))
                    .with_root_cause(
                        cause.with_blamed_place(
                            filter.rule_or_chain_id_and_span(input, Some(n)),
                            one,
                        ),
                    )
                    .with_help(
                        "drop them in FORWARD (with Docker: DOCKER-USER) or in raw PREROUTING",
                    ),
            );
        }
    }
}

/// Protocol and destination port of a rule that tests one of each.
fn tested_protocol_and_dport(rule: &Rule, table: &AnalyzedTable<'_>) -> Option<(u8, u128)> {
    let proto = rule.base.proto.filter(|p| !p.negated)?.proto;
    lower_to_tests(rule, table.family()).iter().find_map(|t| match t {
        Test::Field {
            field: Field::Dport,
            predicate: Predicate::InSpans(spans),
            negated: false,
        } => match spans[..] {
            [(lo, hi)] if lo == hi => Some((proto, lo)),
            _ => None,
        },
        _ => None,
    })
}
