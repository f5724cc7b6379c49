//! One side of `weir diff`: a file, an artefact's folder, or the ruleset in force.

use std::borrow::Cow;
use std::path::Path;

use anyhow::Result;
use weir_artefact::{Artefact, ArtefactFileKind, IpsetTexts, Manifest, StoredArtefact};
use weir_backends::nft::to_iptables::{self, OpaqueNftTextDictionary};
use weir_backends::original_rule_ids::OriginalRuleIds;
use weir_model::{Family, Firewall, nft};

use crate::cli::SourcesBesidesFileArgs;
use crate::live_ruleset::{self, LiveRuleset};
use crate::operand::{self, LoadedFirewall, SourceText};
use crate::ruleset_texts::{self, RulesetTexts};
use crate::terminal;

/// The word for what is in force.
pub const LIVE_OPERAND: &str = "--live";

/// What a side is before the other one is known.
pub struct DiffOperand {
    /// As it was named.
    pub name: String,
    /// Its iptables rules.
    pub firewall: Firewall,
    /// Its nft tables.
    pub nft_tables: nft::Ruleset,
    /// Of an artefact.
    pub manifest: Option<Manifest>,
    /// The texts of its iptables rules.
    pub sources: Vec<SourceText>,
    /// What is there and is not compared.
    pub not_compared: Vec<String>,
}

/// Reads a side. `ip6` and `ipset` belong to it if it is a file.
///
/// # Errors
/// What cannot be read; all errors of a text are drawn on standard error first.
pub fn load_diff_operand(
    name: &str,
    files: &SourcesBesidesFileArgs,
    color: bool,
) -> Result<DiffOperand> {
    let path = Path::new(name);
    if name == LIVE_OPERAND {
        return load_live_operand(files, color);
    }
    if path.is_dir() {
        return load_artefact_folder(name, files, color);
    }
    let (shown, text) = ruleset_texts::read_file_or_stdin(path)?;
    let mut texts = RulesetTexts::default();
    let mut tables = nft::Ruleset::default();
    if weir_syntax::nft::is_nft_ruleset_text(&text) {
        tables = parse_nft_tables(&shown, &text, color)?;
    } else {
        texts.ipv4_or_lone_ipv6 = Some((shown, text));
        texts.ip6 = files.ip6.as_deref().map(ruleset_texts::read_file_or_stdin).transpose()?;
        texts.sets = files.ipset.as_deref().map(ruleset_texts::read_file_or_stdin).transpose()?;
    }
    let LoadedFirewall { firewall, sources } =
        operand::parse_ruleset_texts(texts, None, files, color)?;
    let name = name.to_owned();
    Ok(DiffOperand {
        name,
        firewall,
        nft_tables: tables,
        manifest: None,
        sources,
        not_compared: Vec::new(),
    })
}

/// The files of an artefact.
fn load_artefact_folder(
    name: &str,
    files: &SourcesBesidesFileArgs,
    color: bool,
) -> Result<DiffOperand> {
    let StoredArtefact { artefact, edited_files: edited, .. } =
        weir_artefact::read_artefact(Path::new(name))?;
    let Artefact { contents, manifest } = artefact;
    let shown =
        |kind: ArtefactFileKind| Path::new(name).join(kind.file_name()).display().to_string();
    let text = |kind| Some((shown(kind), contents.text_of_file(kind)?.to_owned()));
    let rules = |family| text(ArtefactFileKind::IptablesRules(family));
    let sets = |sets: &IpsetTexts| {
        (shown(ArtefactFileKind::UserSets), format!("{}{}", sets.user, sets.generated))
    };
    let texts = RulesetTexts {
        ipv4_or_lone_ipv6: rules(Family::V4),
        ip6: rules(Family::V6),
        sets: contents.sets.as_ref().map(sets),
    };
    let tables = match text(ArtefactFileKind::Nft) {
        Some((shown, text)) => parse_nft_tables(&shown, &text, color)?,
        None => nft::Ruleset::default(),
    };
    let LoadedFirewall { firewall, sources } =
        operand::parse_ruleset_texts(texts, None, files, color)?;
    let changed = |file| {
        format!("{name}/{file} was changed since weir wrote it: the changed file is compared")
    };
    let left_out = edited.into_iter().map(changed).collect();
    let (name, manifest) = (name.to_owned(), Some(manifest));
    Ok(DiffOperand {
        name,
        firewall,
        nft_tables: tables,
        manifest,
        sources,
        not_compared: left_out,
    })
}

/// What is in force in this network namespace: iptables, ipset, weir's tables of nft.
fn load_live_operand(files: &SourcesBesidesFileArgs, color: bool) -> Result<DiffOperand> {
    let LiveRuleset {
        texts,
        source_summary: read,
        unread_parts: mut left_out,
        weir_nft_family_and_table_names: of_weir,
        has_iptables_nft_rules: by_nft,
    } = live_ruleset::read_live_ruleset(files.variant)?;
    terminal::print_escaped_to_stderr(&format!("weir: --live: {read}\n"));
    left_out.extend(by_nft.then(live_ruleset::describe_iptables_nft_deviations));
    let LoadedFirewall { firewall, sources } =
        operand::parse_ruleset_texts(texts, None, files, color)?;
    let mut tables = nft::Ruleset::default();
    for (family, name) in &of_weir {
        let text = ruleset_texts::run_and_capture_stdout(&["nft", "list", "table", family, name])?;
        let shown = format!("nft list table {family} {name}");
        tables.tables.extend(parse_nft_tables(&shown, &text, color)?.tables);
    }
    Ok(DiffOperand {
        name: LIVE_OPERAND.to_owned(),
        firewall,
        nft_tables: tables,
        manifest: None,
        sources,
        not_compared: left_out,
    })
}

fn parse_nft_tables(name: &str, text: &str, color: bool) -> Result<nft::Ruleset> {
    weir_syntax::nft::parse(text).map_err(|errors| {
        terminal::print_colored_to_stderr(&weir_syntax::render_diagnostics(
            &errors, name, text, color,
        ));
        anyhow::anyhow!("{} in {name}: nothing was done", format_error_count(errors.len()))
    })
}

fn format_error_count(errors: usize) -> String {
    if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") }
}

impl DiffOperand {
    /// The places of its rules.
    fn original_ids(&self) -> OriginalRuleIds {
        match &self.manifest {
            Some(manifest) => OriginalRuleIds::from_manifest(&manifest.counters),
            None => OriginalRuleIds::from_firewall(&self.firewall),
        }
    }

    fn credit_originals(&mut self, originals: &OriginalRuleIds) {
        match &self.manifest {
            Some(manifest) => originals.credit_artefact_from_manifest_counters(
                &manifest.counters,
                &mut self.firewall,
                &mut self.nft_tables,
            ),
            None => originals.credit_rules_with_themselves(&mut self.firewall),
        }
    }
}

/// Whether both sides have the same originals, which then are credited on both.
pub fn credit_originals_if_identical(
    a: &mut DiffOperand,
    b: &mut DiffOperand,
) -> Option<OriginalRuleIds> {
    let originals = a.original_ids();
    let known = !originals.is_empty() && originals == b.original_ids();
    known.then(|| {
        a.credit_originals(&originals);
        b.credit_originals(&originals);
        originals
    })
}

/// A side as one firewall, nft's tables in terms of iptables. `other` tells what their own words
/// stand for.
///
/// # Errors
/// What iptables has no words for, by name.
pub fn translate_nft_into_firewall<'s>(
    side: &'s DiffOperand,
    other: &Firewall,
) -> Result<Cow<'s, Firewall>> {
    if side.nft_tables.tables.is_empty() {
        return Ok(Cow::Borrowed(&side.firewall));
    }
    let mut out = side.firewall.clone();
    for family in [Family::V4, Family::V6] {
        if !side.nft_tables.tables.iter().any(|t| t.family == family) {
            continue;
        }
        let dictionary = OpaqueNftTextDictionary::from_firewall(other, family);
        let said = to_iptables::translate_tables_of_family(&side.nft_tables, family, &dictionary)
            .map_err(|unsaid| {
            let all: Vec<String> = unsaid.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("{} cannot be compared: {}", side.name, all.join("; "))
        })?;
        let slot = match family {
            Family::V4 => &mut out.v4,
            Family::V6 => &mut out.v6,
        };
        let rest = slot.get_or_insert_with(|| weir_model::Ruleset::new(family));
        to_iptables::add_translated_tables(rest, said)
            .map_err(|unsaid| anyhow::anyhow!("{} cannot be compared: {unsaid}", side.name))?;
    }
    Ok(Cow::Owned(out))
}
