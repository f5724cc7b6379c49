//! `weir explain`: the way of one packet.

use anyhow::{Result, bail};
use serde::Serialize;
use weir_model::{Packet, Span};
use weir_semantics::explain::{Row, render, trace, verdict_words};
use weir_semantics::language::parse_packet;
use weir_semantics::{AlwaysFalse, AlwaysTrue, Answers, Interpreter};
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
    if args.json {
        let explained = Explained {
            verdict: verdict_words(way.outcome.verdict),
            tried: way.outcome.tried,
            steps: way.rows(),
        };
        let text = serde_json::to_string_pretty(&explained)?;
        return terminal::print(&format!("{text}\n"));
    }
    terminal::print(&render(&way, &|rule| iptables::print_rule(rule, family)))
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
