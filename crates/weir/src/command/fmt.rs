//! `weir fmt`: a ruleset printed back.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use weir_syntax::{ipf, ipset, iptables};

use super::Answer;
use crate::cli::Fmt;
use crate::{operand, terminal};

/// Prints what was read: sets first, then IPv4, then IPv6.
pub fn run(args: &Fmt, color: bool) -> Result<Answer> {
    if let Some(path) = &args.ipf {
        return count_rules(path, color);
    }
    let loaded = operand::load(args.file.as_deref(), &args.operand, color)?;
    let mut text = ipset::print(&loaded.firewall.sets);
    for ruleset in loaded.firewall.rulesets() {
        text.push_str(&iptables::print(ruleset, args.counters));
    }
    terminal::print(&text)
}

/// Prints the count rules of an `ipf.conf`.
fn count_rules(path: &Path, color: bool) -> Result<Answer> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("read {name}"))?;
    match ipf::to_iptables(&text) {
        Ok(text) => terminal::print(&text),
        Err(errors) => {
            eprint!("{}", weir_syntax::render(&errors, &name, &text, color));
            bail!("the file has rules other than count rules: nothing was done")
        }
    }
}
