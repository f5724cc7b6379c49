//! `weir fmt`: a ruleset printed back.

use anyhow::Result;
use weir_syntax::{ipset, iptables};

use super::Answer;
use crate::cli::Fmt;
use crate::{operand, terminal};

/// Prints what was read: sets first, then IPv4, then IPv6.
pub fn run(args: &Fmt, color: bool) -> Result<Answer> {
    let loaded = operand::load(args.file.as_deref(), &args.operand, color)?;
    let mut text = ipset::print(&loaded.firewall.sets);
    for ruleset in loaded.firewall.rulesets() {
        text.push_str(&iptables::print(ruleset, args.counters));
    }
    terminal::print(&text)
}
