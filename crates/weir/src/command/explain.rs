//! `weir explain`: one packet's journey through the chains.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use weir_model::{CtState, Family, Field, FieldSet, Firewall, Packet, Span};
use weir_passes::CostModel;
use weir_passes::packet_cost::{self, PacketStepCounts};
use weir_review::explain::{
    TraceStepRow, UnspecifiedField, find_unspecified_fields, render_trace, trace_to_rows,
    verdict_words,
};
use weir_review::lookup_journey::{
    TableLookupResult, look_up_and_check_journey, render_lookup_journey,
};
use weir_semantics::trace::trace_journey;
use weir_semantics::{AlwaysFalseOracle, Interpreter, Oracle, RuleAnswersTrueOracle};
use weir_syntax::packet::parse_packet_and_given_fields;
use weir_syntax::{Diagnostic, iptables};

use super::YesNoExitStatus;
use crate::cli::{AssumedMatchResultArg, ExplainArgs};
use crate::process_timeout::ProcessTimeout;
use crate::{json_output, operand, terminal};

/// What `--json` prints.
#[derive(Serialize)]
struct ExplainJson {
    verdict: String,
    tried: u32,
    steps: Vec<TraceStepRow>,
    /// Values of fields that rules tested and --packet does not give.
    assumed: Vec<UnspecifiedField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<PacketCost>,
    /// The tables by look-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    lookups: Option<Vec<TableLookupResult>>,
}

/// What the rules on the way cost.
#[derive(Serialize)]
struct PacketCost {
    #[serde(flatten)]
    bill: PacketStepCounts,
    /// Nanoseconds.
    ns: f64,
}

fn describe_packet_of_other_family(packet: Family) -> &'static str {
    match packet {
        Family::V4 => {
            "--packet is IPv4 and the ruleset is IPv6: write `ip6 saddr ADDRESS` in --packet, or \
             give the IPv4 rules as FILE and these with --ip6"
        }
        Family::V6 => {
            "--packet is IPv6 and the ruleset is IPv4: write `ip saddr ADDRESS` in --packet, or \
             add the IPv6 rules with --ip6 FILE"
        }
    }
}

/// Traces the packet and prints its journey.
pub fn trace_and_print_packet(args: &ExplainArgs, color: bool) -> Result<YesNoExitStatus> {
    let process_timeout = ProcessTimeout::arm(&args.time);
    let (packet, given) = parse_packet_option(&args.packet, color)?;
    let loaded =
        operand::load_ruleset_operand(args.file.as_deref(), &args.sources_besides_file, color)?;
    let family = packet.family;
    if loaded.firewall.ruleset(family).is_none() {
        bail!("{}", describe_packet_of_other_family(family));
    }
    let interpreter = Interpreter::new(&loaded.firewall);
    let answers: &mut dyn Oracle = match args.assume {
        AssumedMatchResultArg::Yes => &mut RuleAnswersTrueOracle,
        AssumedMatchResultArg::No => &mut AlwaysFalseOracle,
    };
    let way = trace_journey(&interpreter, &packet, args.hook.to_journey_kind(), answers);
    let assumed = find_unspecified_fields(&way, &packet, given);
    refuse_missing_unassumable_fields(&assumed, &packet, &loaded.firewall)?;
    let bill = args.cost.then(|| {
        let tracked = interpreter.is_conntrack_used_by_family(family)
            && packet.ct.state != CtState::Untracked;
        packet_cost::count_trace_steps(&way, &loaded.firewall, packet.len(), tracked)
    });
    let cost = load_cost_model_or_default(args.cost_model.as_deref())?;
    let looked_up = match args.engine {
        None => None,
        Some(engine) => {
            let ruleset = (&interpreter, &loaded.firewall);
            Some((engine, look_up_and_check_journey(&way, ruleset, engine, answers)?))
        }
    };
    process_timeout.disarm();
    if args.json {
        let explained = ExplainJson {
            verdict: verdict_words(way.outcome.verdict),
            tried: way.outcome.rules_tried,
            steps: trace_to_rows(&way),
            assumed,
            cost: bill.map(|bill| PacketCost { bill, ns: bill.total_ns(&cost) }),
            lookups: looked_up.map(|(_, tables)| tables),
        };
        return terminal::print_escaped_if_terminal(&json_output::render_json_object(
            "explain", &explained,
        )?);
    }
    let mut text = render_trace(&way, &|rule| iptables::print_rule(rule, family));
    if !assumed.is_empty() {
        let values: Vec<_> =
            assumed.iter().map(|f| format!("{} {}", f.nft_name, f.assumed)).collect();
        let _ = writeln!(text, "assumed, not given by --packet: {}", values.join(", "));
    }
    if let Some((engine, tables)) = looked_up {
        text += &render_lookup_journey(engine, &tables);
    }
    if let Some(bill) = bill {
        text += &render_cost_table(&bill, &cost, args.cost_model.is_some());
    }
    terminal::print_escaped_to_stdout(&text)
}

/// Refuses a packet without a field that a rule tests and that nobody can assume.
fn refuse_missing_unassumable_fields(
    open: &[UnspecifiedField],
    packet: &Packet,
    firewall: &Firewall,
) -> Result<()> {
    let missing: Vec<&UnspecifiedField> = open.iter().filter(|f| f.must_be_given()).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    let words: Vec<String> =
        missing.iter().map(|f| packet_words_for_field(f.field, packet)).collect();
    let names = first_device_names_in_rules(first.field, packet.family, firewall);
    let known = match names.is_empty() {
        true => String::new(),
        false => format!(" (its rules name {})", names.join(", ")),
    };
    let mut lacks: Vec<String> =
        missing.iter().map(|f| format!("no {}, which rule {} tests", f.nft_name, f.rule)).collect();
    lacks[0].push_str(&known);
    bail!("the packet has {}: add `{}` to --packet", lacks.join(", and "), words.join(" "));
}

/// The words that give a field.
fn packet_words_for_field(field: Field, packet: &Packet) -> String {
    let ip = if packet.family == Family::V4 { "ip" } else { "ip6" };
    let transport = match packet.proto {
        17 | 136 => "udp",
        132 => "sctp",
        33 => "dccp",
        _ => "tcp",
    };
    match field {
        Field::Iif => "iif NAME".to_owned(),
        Field::Oif => "oif NAME".to_owned(),
        Field::Saddr => format!("{ip} saddr ADDRESS"),
        Field::Daddr => format!("{ip} daddr ADDRESS"),
        Field::Sport => format!("{transport} sport PORT"),
        Field::Dport => format!("{transport} dport PORT"),
        Field::IcmpTypeAndCode if packet.family == Family::V4 => "icmp type TYPE".to_owned(),
        Field::IcmpTypeAndCode => "icmpv6 type TYPE".to_owned(),
        _ => "proto PROTOCOL".to_owned(),
    }
}

/// The devices that rules of the family name for a field: the first few, sorted.
fn first_device_names_in_rules(field: Field, family: Family, firewall: &Firewall) -> Vec<String> {
    let rules = firewall.ruleset(family).into_iter().flat_map(|r| r.rules_with_table_and_chain());
    let device = |(_, _, rule): (_, _, &weir_model::Rule)| match field {
        Field::Iif => rule.base.iif.clone(),
        Field::Oif => rule.base.oif.clone(),
        _ => None,
    };
    let names = rules.filter_map(device).map(|d| match d.is_prefix {
        true => format!("{}+", d.name),
        false => d.name.to_string(),
    });
    let sorted: std::collections::BTreeSet<String> = names.collect();
    sorted.into_iter().take(8).collect()
}

/// The bill as a table.
fn render_cost_table(bill: &PacketStepCounts, cost: &CostModel, measured: bool) -> String {
    let whose = if measured {
        "as measured"
    } else {
        "shipped with weir; measure yours with weir calibrate"
    };
    let mut text = format!("cost of the evaluated rules (cost model {whose}):\n");
    for (what, steps, ns) in
        bill.counts_with_unit_costs(cost).iter().filter(|(_, steps, _)| *steps > 0)
    {
        let _ = writeln!(
            text,
            "  {what:<22} {steps:>7} × {ns:>6.1} ns = {:>9.0} ns",
            *steps as f64 * ns
        );
    }
    let _ = writeln!(text, "  {:<44}{:>9.0} ns", "total", bill.total_ns(cost));
    text
}

/// The prices of a file, or the shipped ones.
fn load_cost_model_or_default(path: Option<&Path>) -> Result<CostModel> {
    let Some(path) = path else { return Ok(CostModel::default()) };
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("read {} as a cost model", path.display()))
}

/// The packet of the words, or the place of the word that is not understood.
fn parse_packet_option(words: &str, color: bool) -> Result<(Packet, FieldSet)> {
    match parse_packet_and_given_fields(words) {
        Ok(packet) => Ok(packet),
        Err(error) => {
            let span = Span { start: error.span.start as u32, end: error.span.end as u32 };
            let diagnostic = Diagnostic::new(error.message, span).with_help(error.help);
            terminal::print_colored_to_stderr(&weir_syntax::render_diagnostics(
                &[diagnostic],
                "--packet",
                words,
                color,
            ));
            bail!("the packet could not be parsed");
        }
    }
}
