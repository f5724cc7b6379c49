//! `weir explain`: the way of one packet.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use weir_model::{CtState, Packet, Span};
use weir_passes::CostModel;
use weir_passes::price::{self, Bill};
use weir_review::explain::{Row, render, rows, verdict_words};
use weir_semantics::trace::trace;
use weir_semantics::{AlwaysFalse, AlwaysTrue, Answers, Interpreter};
use weir_syntax::packet::parse_packet;
use weir_syntax::{Diagnostic, iptables};

use super::Answer;
use crate::cli::{Assume, Explain};
use crate::{operand, terminal};

/// What `--json` prints.
#[derive(Serialize)]
struct Explained {
    verdict: String,
    tried: u32,
    steps: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
}

/// What the rules on the way cost.
#[derive(Serialize)]
struct Cost {
    #[serde(flatten)]
    bill: Bill,
    /// Nanoseconds.
    ns: f64,
}

/// Follows the packet and draws its way.
pub fn run(args: &Explain, color: bool) -> Result<Answer> {
    let packet = packet(&args.packet, color)?;
    let loaded = operand::load(args.file.as_deref(), &args.operand, color)?;
    let family = packet.family;
    if loaded.firewall.ruleset(family).is_none() {
        bail!("the packet is {family:?} and the ruleset has no rules of that family (--ip6 FILE)");
    }
    let interpreter = Interpreter::new(&loaded.firewall);
    let answers: &mut dyn Answers = match args.assume {
        Assume::Yes => &mut AlwaysTrue,
        Assume::No => &mut AlwaysFalse,
    };
    let way = trace(&interpreter, &packet, args.hook.entry(), answers);
    let bill = args.cost.then(|| {
        let tracked = interpreter.conntrack_in_use(family) && packet.ct.state != CtState::Untracked;
        price::of(&way, &loaded.firewall, packet.len(), tracked)
    });
    let cost = cost_model(args.cost_model.as_deref())?;
    if args.json {
        let explained = Explained {
            verdict: verdict_words(way.outcome.verdict),
            tried: way.outcome.tried,
            steps: rows(&way),
            cost: bill.map(|bill| Cost { bill, ns: bill.ns(&cost) }),
        };
        let text = serde_json::to_string_pretty(&explained)?;
        return terminal::print(&format!("{text}\n"));
    }
    let mut text = render(&way, &|rule| iptables::print_rule(rule, family));
    if let Some(bill) = bill {
        text += &priced(&bill, &cost, args.cost_model.is_some());
    }
    terminal::print(&text)
}

/// The bill as a table.
fn priced(bill: &Bill, cost: &CostModel, measured: bool) -> String {
    let whose = if measured { "as measured" } else { "as shipped; weir calibrate measures" };
    let mut text = format!("cost of the rules on the way (prices {whose}):\n");
    for (what, steps, ns) in bill.items(cost).iter().filter(|(_, steps, _)| *steps > 0) {
        let _ = writeln!(
            text,
            "  {what:<22} {steps:>7} × {ns:>6.1} ns = {:>9.0} ns",
            *steps as f64 * ns
        );
    }
    let _ = writeln!(text, "  {:<44}{:>9.0} ns", "together", bill.ns(cost));
    text
}

/// The prices of a file, or the shipped ones.
fn cost_model(path: Option<&Path>) -> Result<CostModel> {
    let Some(path) = path else { return Ok(CostModel::default()) };
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("read {} as a cost model", path.display()))
}

/// The packet of the words, or the place of the word that is not understood.
fn packet(words: &str, color: bool) -> Result<Packet> {
    match parse_packet(words) {
        Ok(packet) => Ok(packet),
        Err(error) => {
            let span = Span { start: error.span.start as u32, end: error.span.end as u32 };
            let diagnostic = Diagnostic::new(error.message, span).help(error.help);
            eprint!("{}", weir_syntax::render(&[diagnostic], "--packet", words, color));
            bail!("the packet was not understood");
        }
    }
}
