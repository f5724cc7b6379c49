//! Rulesets as the command line names them: files, standard input, or the ruleset in force.

use std::path::Path;

use anyhow::{Context, Result, bail};
use weir_model::{Family, Firewall, Match, TableName};
use weir_syntax::iptables::{self, ParserSettings};
use weir_syntax::{Diagnostic, ipset};

use crate::cli::SourcesBesidesFileArgs;
use crate::live_ruleset;
use crate::ruleset_texts::{RulesetTexts, read_file_or_stdin};
use crate::terminal;

/// Errors, and notes, of a text that are drawn; the others are counted.
const MAX_PRINTED_DIAGNOSTICS: usize = 20;

/// A firewall with the texts it was read from.
pub struct LoadedFirewall {
    /// The model.
    pub firewall: Firewall,
    /// IPv4, IPv6 and ipset text, those that are there.
    pub sources: Vec<SourceText>,
}

/// A text and where it comes from.
pub struct SourceText {
    /// File name, `<stdin>`, or the command that printed it.
    pub name: String,
    /// The text.
    pub text: String,
    /// What it is.
    pub kind: RulesetTextKind,
}

/// What a text holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesetTextKind {
    /// `iptables-save` or `ip6tables-save`.
    Rules(Family),
    /// `ipset save`.
    Sets,
}

/// Reads what the command line names.
///
/// # Errors
/// A text that cannot be read or holds errors: they are drawn on standard error first.
pub fn load_ruleset_operand(
    file: Option<&Path>,
    operand: &SourcesBesidesFileArgs,
    color: bool,
) -> Result<LoadedFirewall> {
    if operand.live && file.is_some() {
        bail!("--live reads the ruleset in force: it cannot be combined with a FILE");
    }
    let table = match &operand.table {
        Some(name) => Some(TableName::parse(name).with_context(|| {
            format!("unknown table {name}: the tables are raw, mangle, nat, filter and security")
        })?),
        None => None,
    };
    let mut texts = RulesetTexts::default();
    if operand.live {
        let found = live_ruleset::read_live_ruleset(operand.variant)?;
        terminal::print_escaped_to_stderr(&format!("weir: --live: {}\n", found.source_summary));
        for what in &found.unread_parts {
            terminal::print_escaped_to_stderr(&format!(
                "weir: --live: this was not read: {what}\n"
            ));
        }
        if !found.weir_nft_family_and_table_names.is_empty() {
            let tables: Vec<String> = found
                .weir_nft_family_and_table_names
                .iter()
                .map(|(family, name)| format!("{family} {name}"))
                .collect();
            bail!(
                "--live: an nft artefact is in force (nft tables {}), so iptables does not have \
                 all rules: name the file that it was compiled from, or unload it; `weir diff \
                 --live FILE` compares it with the file",
                tables.join(", ")
            );
        }
        texts = found.texts;
    } else {
        let names = [file, operand.ip6.as_deref(), operand.ipset.as_deref()];
        if names.iter().flatten().filter(|p| p.as_os_str() == "-").count() > 1 {
            bail!("standard input can be read only once: name a file for the others");
        }
        texts.ipv4_or_lone_ipv6 = file.map(read_file_or_stdin).transpose()?;
        texts.ip6 = operand.ip6.as_deref().map(read_file_or_stdin).transpose()?;
        // ip6tables-save of a host without IPv6 tables prints nothing.
        if let Some((name, _)) = texts.ip6.take_if(|(_, text)| text.trim().is_empty()) {
            terminal::print_escaped_to_stderr(&format!("weir: {name} is empty: no IPv6 rules\n"));
        }
        texts.sets = operand.ipset.as_deref().map(read_file_or_stdin).transpose()?;
    }
    parse_ruleset_texts(texts, table, operand, color)
}

/// Texts as a firewall.
///
/// # Errors
/// The errors of the texts are drawn on standard error first.
pub fn parse_ruleset_texts(
    texts: RulesetTexts,
    table: Option<TableName>,
    operand: &SourcesBesidesFileArgs,
    color: bool,
) -> Result<LoadedFirewall> {
    let mut failed = 0;
    let mut draw = |source: &SourceText, errors: &[Diagnostic]| {
        print_first_diagnostics(&source.name, &source.text, errors, "error", color);
        failed += errors.len();
    };
    let mut firewall = Firewall::default();
    let mut sources = Vec::new();
    if let Some((name, text)) = texts.sets {
        let source = SourceText { name, text, kind: RulesetTextKind::Sets };
        match ipset::parse(&source.text) {
            Ok(sets) => firewall.sets = sets,
            Err(errors) => draw(&source, &errors),
        }
        sources.push(source);
    }
    let sets_known = !sources.is_empty();
    for (text, family) in [(texts.ipv4_or_lone_ipv6, None), (texts.ip6, Some(Family::V6))] {
        let Some((name, text)) = text else { continue };
        let family = family.unwrap_or_else(|| iptables::guess_family(&text));
        let source = SourceText { name, text, kind: RulesetTextKind::Rules(family) };
        let sets = sets_known.then_some(&firewall.sets[..]);
        let options = ParserSettings {
            family: Some(family),
            only_table: table,
            resolve_host_names: operand.resolve,
            known_sets: sets,
        };
        let slot = match family {
            Family::V4 => &firewall.v4,
            Family::V6 => &firewall.v6,
        };
        if slot.is_some() {
            bail!("{} is a second text of the same family; --ip6 takes IPv6 rules", source.name);
        }
        match iptables::parse_with_notes(&source.text, &options) {
            Ok((ruleset, notes)) => {
                print_first_diagnostics(&source.name, &source.text, &notes, "note", color);
                match family {
                    Family::V4 => firewall.v4 = Some(ruleset),
                    Family::V6 => firewall.v6 = Some(ruleset),
                }
            }
            Err(errors) => draw(&source, &errors),
        }
        sources.push(source);
    }
    match failed {
        0 => Ok(LoadedFirewall { firewall, sources }),
        1 => bail!("1 error in the ruleset: nothing was done"),
        n => bail!("{n} errors in the ruleset: nothing was done"),
    }
}

/// Names of the sets that rules match and that are not given, in the order of the rules.
pub fn list_missing_sets(firewall: &Firewall) -> Vec<&str> {
    let mut missing: Vec<&str> = Vec::new();
    for (_, _, rule) in firewall.rulesets().flat_map(|r| r.rules_with_table_and_chain()) {
        for m in &rule.matches {
            let Match::Set(set) = m else { continue };
            let is_given = firewall.sets.iter().any(|given| *given.name == *set.name);
            if !is_given && !missing.contains(&&*set.name) {
                missing.push(&set.name);
            }
        }
    }
    missing
}

/// Draws the first diagnostics of a text on standard error; `word` is what one of them is.
pub fn print_first_diagnostics(
    source_name: &str,
    text: &str,
    all: &[Diagnostic],
    word: &str,
    color: bool,
) {
    let drawn = &all[..all.len().min(MAX_PRINTED_DIAGNOSTICS)];
    let text = weir_syntax::render_diagnostics(drawn, source_name, text, color);
    terminal::print_colored_to_stderr(&text);
    match all.len() - drawn.len() {
        0 => {}
        1 => terminal::print_escaped_to_stderr(&format!("… and 1 more {word}\n")),
        more => terminal::print_escaped_to_stderr(&format!("… and {more} more {word}s\n")),
    }
}
