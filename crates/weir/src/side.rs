//! One side of `weir diff`: a file, an artefact's folder, or the ruleset in force.

use std::path::Path;

use anyhow::Result;
use weir_artefact::{Artefact, FileKind, Manifest, SetTexts, Stored};
use weir_backends::nft::to_iptables::{self, OpaqueDictionary};
use weir_backends::original::OriginalIds;
use weir_model::{Family, Firewall, Span, nft};

use crate::cli::Operand;
use crate::in_force::{self, InForce};
use crate::operand::{self, Loaded, Source, TextKind};
use crate::texts::{self, Texts};

/// The word for what is in force.
pub const LIVE: &str = "--live";

/// What a side is before the other one is known.
pub struct DiffOperand {
    /// As it was named.
    pub name: String,
    /// Its iptables rules.
    pub firewall: Firewall,
    /// Its nft tables.
    pub tables: nft::Ruleset,
    /// Of an artefact.
    pub manifest: Option<Manifest>,
    /// The texts of its iptables rules.
    pub sources: Vec<Source>,
    /// What is there and is not compared.
    pub left_out: Vec<String>,
}

/// Reads a side. `ip6` and `ipset` belong to it if it is a file.
///
/// # Errors
/// What cannot be read; all errors of a text are drawn on standard error first.
pub fn load(name: &str, files: &Operand, color: bool) -> Result<DiffOperand> {
    let path = Path::new(name);
    if name == LIVE {
        return live(files, color);
    }
    if path.is_dir() {
        return folder(name, files, color);
    }
    let (shown, text) = texts::read(path)?;
    let mut texts = Texts::default();
    let mut tables = nft::Ruleset::default();
    if weir_syntax::nft::is_nft(&text) {
        tables = nft_tables(&shown, &text, color)?;
    } else {
        texts.main = Some((shown, text));
        texts.ip6 = files.ip6.as_deref().map(texts::read).transpose()?;
        texts.sets = files.ipset.as_deref().map(texts::read).transpose()?;
    }
    let Loaded { firewall, sources } = operand::parse(texts, None, files, color)?;
    let name = name.to_owned();
    Ok(DiffOperand { name, firewall, tables, manifest: None, sources, left_out: Vec::new() })
}

/// The files of an artefact.
fn folder(name: &str, files: &Operand, color: bool) -> Result<DiffOperand> {
    let Stored { artefact, edited, .. } = weir_artefact::read(Path::new(name))?;
    let Artefact { contents, manifest } = artefact;
    let shown = |kind: FileKind| Path::new(name).join(kind.name()).display().to_string();
    let text = |kind| Some((shown(kind), contents.text(kind)?.to_owned()));
    let rules = |family| text(FileKind::Rules(family));
    let sets = |sets: &SetTexts| (shown(FileKind::UserSets), format!("{}{}", sets.user, sets.own));
    let texts = Texts {
        main: rules(Family::V4),
        ip6: rules(Family::V6),
        sets: contents.sets.as_ref().map(sets),
    };
    let tables = match text(FileKind::Nft) {
        Some((shown, text)) => nft_tables(&shown, &text, color)?,
        None => nft::Ruleset::default(),
    };
    let Loaded { firewall, sources } = operand::parse(texts, None, files, color)?;
    let changed = |file| {
        format!("{name}/{file} was changed since weir wrote it: the changed file is compared")
    };
    let left_out = edited.into_iter().map(changed).collect();
    let (name, manifest) = (name.to_owned(), Some(manifest));
    Ok(DiffOperand { name, firewall, tables, manifest, sources, left_out })
}

/// What is in force in this network namespace: iptables, ipset, weir's tables of nft.
fn live(files: &Operand, color: bool) -> Result<DiffOperand> {
    let InForce { texts, read, not_read: mut left_out, of_weir, by_nft } =
        in_force::read(files.variant)?;
    eprintln!("weir: --live: {read}");
    left_out.extend(by_nft.then(in_force::deviations));
    let Loaded { firewall, sources } = operand::parse(texts, None, files, color)?;
    let mut tables = nft::Ruleset::default();
    for (family, name) in &of_weir {
        let text = texts::output_of(&["nft", "list", "table", family, name])?;
        let shown = format!("nft list table {family} {name}");
        tables.tables.extend(nft_tables(&shown, &text, color)?.tables);
    }
    Ok(DiffOperand { name: LIVE.to_owned(), firewall, tables, manifest: None, sources, left_out })
}

fn nft_tables(name: &str, text: &str, color: bool) -> Result<nft::Ruleset> {
    weir_syntax::nft::parse(text).map_err(|errors| {
        eprint!("{}", weir_syntax::render(&errors, name, text, color));
        anyhow::anyhow!("{} in {name}: nothing was done", count(errors.len()))
    })
}

fn count(errors: usize) -> String {
    if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") }
}

impl DiffOperand {
    /// The text and line of what is at a span; `None` for what weir made of nft.
    pub fn line(&self, span: Span, family: Family) -> Option<(String, usize)> {
        let source = self.sources.iter().find(|s| s.kind == TextKind::Rules(family))?;
        let before = source.text.get(..span.range()?.start)?;
        Some((source.name.clone(), 1 + before.matches('\n').count()))
    }

    /// The places of its rules.
    fn originals(&self) -> OriginalIds {
        match &self.manifest {
            Some(manifest) => OriginalIds::of_manifest(&manifest.counters),
            None => OriginalIds::of_file(&self.firewall),
        }
    }

    fn credit(&mut self, originals: &OriginalIds) {
        match &self.manifest {
            Some(manifest) => {
                originals.credit_artefact(&manifest.counters, &mut self.firewall, &mut self.tables)
            }
            None => originals.credit_file(&mut self.firewall),
        }
    }
}

/// Whether both sides have the same originals, which then are credited on both.
pub fn credit(a: &mut DiffOperand, b: &mut DiffOperand) -> Option<OriginalIds> {
    let originals = a.originals();
    let known = !originals.is_empty() && originals == b.originals();
    known.then(|| {
        a.credit(&originals);
        b.credit(&originals);
        originals
    })
}

/// A side as one firewall, nft's tables in terms of iptables. `other` tells what their own words
/// stand for.
///
/// # Errors
/// What iptables has no words for, by name.
pub fn whole(side: &DiffOperand, other: &Firewall) -> Result<Firewall> {
    let mut out = side.firewall.clone();
    for family in [Family::V4, Family::V6] {
        if !side.tables.tables.iter().any(|t| t.family == family) {
            continue;
        }
        let dictionary = OpaqueDictionary::of(other, family);
        let said = to_iptables::translate(&side.tables, family, &dictionary).map_err(|unsaid| {
            let all: Vec<String> = unsaid.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("{} cannot be compared: {}", side.name, all.join("; "))
        })?;
        let slot = match family {
            Family::V4 => &mut out.v4,
            Family::V6 => &mut out.v6,
        };
        let rest = slot.get_or_insert_with(|| weir_model::Ruleset::new(family));
        to_iptables::join(rest, said)
            .map_err(|unsaid| anyhow::anyhow!("{} cannot be compared: {unsaid}", side.name))?;
    }
    Ok(out)
}
