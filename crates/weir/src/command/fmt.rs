//! `weir fmt`: a ruleset printed back.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use weir_syntax::{ipf_count_rules, ipset, iptables};

use super::YesNoExitStatus;
use crate::cli::FmtPrintArgs;
use crate::{operand, terminal};

/// Prints what was read: sets first, then IPv4, then IPv6.
pub fn print_normalised_ruleset(args: &FmtPrintArgs, color: bool) -> Result<YesNoExitStatus> {
    if let Some(path) = &args.ipf {
        return print_ipf_conf_as_iptables_save(path, color);
    }
    let loaded =
        operand::load_ruleset_operand(args.file.as_deref(), &args.sources_besides_file, color)?;
    let mut text = ipset::print(&loaded.firewall.sets);
    for ruleset in loaded.firewall.rulesets() {
        text.push_str(&iptables::print(ruleset, args.counters));
    }
    terminal::print_escaped_if_terminal(&text)
}

/// Prints the count rules of an `ipf.conf`.
fn print_ipf_conf_as_iptables_save(path: &Path, color: bool) -> Result<YesNoExitStatus> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("read {name}"))?;
    match ipf_count_rules::convert_ipf_count_rules(&text) {
        Ok(text) => terminal::print_escaped_if_terminal(&text),
        Err(errors) => {
            terminal::print_colored_to_stderr(&weir_syntax::render_diagnostics(
                &errors, &name, &text, color,
            ));
            bail!("the file has rules other than count rules: nothing was done")
        }
    }
}
