//! The ruleset in force in this network namespace, read by the tools that save it.
//!
//! iptables has two variants: legacy, with its own tables in the kernel, and iptables-nft, which
//! stores its rules in nft tables of the same names. Both may be loaded at once, and packets then
//! traverse the rules of both. For each family the variant with rules is read; if both have rules,
//! the user selects one. Other nft tables are named, not read.

use anyhow::{Result, bail};
use weir_artefact::{Deviation, NFT_PREFIX};
use weir_model::{Family, TableName};

use crate::cli::VariantArg;
use crate::texts::{self, Texts};

/// What is in force.
#[derive(Default)]
pub struct InForce {
    /// Texts of the rules and the sets.
    pub texts: Texts,
    /// What was read.
    pub read: String,
    /// What is in force and was not read, a line each.
    pub not_read: Vec<String>,
    /// nft tables that weir wrote: family and name.
    pub of_weir: Vec<(String, String)>,
    /// Whether rules of iptables-nft are among the texts.
    pub by_nft: bool,
}

/// What is not the same in iptables-nft as in legacy iptables, which gives every text its meaning.
pub fn deviations() -> String {
    format!(
        "packets that iptables-nft treats differently from legacy iptables: {} \
         (docs/semantics.md, deviations)",
        Deviation::packets()
    )
}

/// Reads what is in force. The programs only read.
///
/// # Errors
/// Where nothing can be read, and where a family has rules in both variants and none is chosen.
pub fn read(variant: Option<VariantArg>) -> Result<InForce> {
    let mut found = InForce::default();
    let mut tried = Vec::new();
    let mut attempt = |words: &[&str]| match texts::output_of(words) {
        // A family of which no table was ever asked for prints nothing.
        Ok(text) if text.trim().is_empty() => None,
        Ok(text) => Some((words.join(" "), text)),
        Err(error) => {
            tried.push(error);
            None
        }
    };
    let legacy = [
        (Family::V4, attempt(&["iptables-legacy-save", "-c"])),
        (Family::V6, attempt(&["ip6tables-legacy-save", "-c"])),
    ];
    found.texts.sets = attempt(&["ipset", "save"]);
    let tables = texts::output_of(&["nft", "list", "tables"]);
    if let Err(error) = &tables {
        found.not_read.push(format!("tables of nft: {error:#}"));
    }
    let tables = Tables::of(&tables.unwrap_or_default());
    let mut said = Vec::new();
    for (family, legacy) in legacy {
        let nft = match tables.of_iptables(family) {
            [] => None,
            names => of_nft(family, names, variant, &mut found.not_read)?,
        };
        let chosen = choose(family, legacy, nft, variant)?;
        found.not_read.extend(chosen.warning);
        if let Some((name, text)) = chosen.text {
            found.by_nft |= chosen.variant == VariantArg::Nft;
            said.push(format!("{} from {} ({name})", word(family), chosen.variant.name()));
            let slot = match family {
                Family::V4 => &mut found.texts.main,
                Family::V6 => &mut found.texts.ip6,
            };
            *slot = Some((name, text));
        }
    }
    let is_missing = |error: &anyhow::Error| {
        let of_system = error.downcast_ref::<std::io::Error>();
        of_system.is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound)
    };
    // A program that is not installed leaves nothing in force that only it reads.
    if tried.iter().any(|e| said.is_empty() || !is_missing(e)) {
        let causes: Vec<String> = tried.iter().map(|e| format!("{e:#}")).collect();
        bail!("cannot read what is in force: {}", causes.join("; "));
    }
    found.read = match said.is_empty() {
        true => "no table of iptables is in force, of either variant".to_owned(),
        false => said.join(", "),
    };
    let other = |(family, name): &(String, String)| {
        format!("nft table {family} {name}: not a table of iptables-nft")
    };
    found.not_read.extend(tables.others.iter().map(other));
    found.of_weir = tables.of_weir;
    Ok(found)
}

/// The rules that iptables-nft has in its tables of these names; what it cannot read of them is
/// named.
fn of_nft(
    family: Family,
    names: &[String],
    variant: Option<VariantArg>,
    not_read: &mut Vec<String>,
) -> Result<Option<(String, String)>> {
    let program = match family {
        Family::V4 => "iptables-nft-save",
        Family::V6 => "ip6tables-nft-save",
    };
    let words = [program, "-c"];
    let tables = || format!("nft tables {} of {}", names.join(", "), word(family));
    match texts::output_of(&words) {
        Ok(text) => {
            not_read.extend(text.lines().filter_map(incompatible).map(|table| {
                format!(
                    "nft table {table} ({}): it has chains that iptables-nft did not create",
                    word(family)
                )
            }));
            Ok(Some((words.join(" "), text)).filter(|(_, text)| !text.trim().is_empty()))
        }
        Err(error) if variant == Some(VariantArg::Legacy) => {
            not_read.push(format!("{}: {error:#}", tables()));
            Ok(None)
        }
        Err(error) => bail!(
            "{} cannot be read: {error:#}; `--variant legacy` reads the legacy tables alone",
            tables()
        ),
    }
}

/// The table of a comment by which `iptables-nft-save` says that it leaves something out.
fn incompatible(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("# Table `")?;
    let (table, what) = rest.split_once('\'')?;
    what.contains("incompatible").then_some(table)
}

/// A variant's text for a family.
struct ChosenVariant {
    variant: VariantArg,
    text: Option<(String, String)>,
    /// What the other variant holds.
    warning: Option<String>,
}

/// Chooses between the variants of a family.
fn choose(
    family: Family,
    legacy: Option<(String, String)>,
    nft: Option<(String, String)>,
    variant: Option<VariantArg>,
) -> Result<ChosenVariant> {
    let held = |text: &Option<(String, String)>| {
        text.as_ref().map_or_else(VariantRules::default, |(_, text)| VariantRules::of(text))
    };
    let (in_legacy, in_nft) = (held(&legacy), held(&nft));
    let variant = match (variant, in_legacy.acts(), in_nft.acts()) {
        (Some(variant), ..) => variant,
        (None, true, true) => bail!(
            "{} is filtered twice: legacy iptables holds {in_legacy}, iptables-nft holds {in_nft}, \
             and packets traverse both; `--variant legacy` or `--variant nft` selects one",
            word(family)
        ),
        (None, false, true) => VariantArg::Nft,
        (None, true, false) => VariantArg::Legacy,
        (None, false, false) if legacy.is_none() => VariantArg::Nft,
        (None, false, false) => VariantArg::Legacy,
    };
    let (text, other, left) = match variant {
        VariantArg::Legacy => (legacy, VariantArg::Nft, in_nft),
        VariantArg::Nft => (nft, VariantArg::Legacy, in_legacy),
    };
    let warning = left.acts().then(|| {
        let (word, other) = (word(family), other.name());
        format!("{word} rules of {other}: it has {left}, which packets traverse as well")
    });
    Ok(ChosenVariant { variant, text, warning })
}

/// What a variant holds of a family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct VariantRules {
    rules: usize,
    /// Built-in chains whose policy is not ACCEPT.
    policies: usize,
}

impl VariantRules {
    fn of(text: &str) -> VariantRules {
        let mut held = VariantRules::default();
        for line in text.lines() {
            let rule = line.strip_prefix('[').and_then(|l| Some(l.split_once("] ")?.1));
            held.rules += usize::from(rule.unwrap_or(line).starts_with("-A "));
            let policy = line.strip_prefix(':').and_then(|l| l.split_ascii_whitespace().nth(1));
            held.policies += usize::from(policy.is_some_and(|p| p != "ACCEPT" && p != "-"));
        }
        held
    }

    /// Whether it does anything to packets.
    fn acts(self) -> bool {
        self != VariantRules::default()
    }
}

impl std::fmt::Display for VariantRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = |n: usize, one: &str, many: &str| match n {
            1 => format!("1 {one}"),
            n => format!("{n} {many}"),
        };
        let rules = count(self.rules, "rule", "rules");
        match self.policies {
            0 => write!(f, "{rules}"),
            n => write!(f, "{rules} and {}", count(n, "policy of DROP", "policies of DROP")),
        }
    }
}

/// nft tables by whose they are.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tables {
    v4: Vec<String>,
    v6: Vec<String>,
    of_weir: Vec<(String, String)>,
    others: Vec<(String, String)>,
}

impl Tables {
    /// What `nft list tables` prints.
    fn of(listed: &str) -> Tables {
        let of_iptables = |name: &str| TableName::parse(name).is_some();
        let mut tables = Tables::default();
        for line in listed.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let &["table", family, name] = words.as_slice() else { continue };
            let both = (family.to_owned(), name.to_owned());
            match family {
                "ip" if of_iptables(name) => tables.v4.push(name.to_owned()),
                "ip6" if of_iptables(name) => tables.v6.push(name.to_owned()),
                "ip" | "ip6" if name.starts_with(NFT_PREFIX) => tables.of_weir.push(both),
                _ => tables.others.push(both),
            }
        }
        tables
    }

    /// Names of the tables that iptables-nft has for a family, if they are its own.
    fn of_iptables(&self, family: Family) -> &[String] {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }
}

fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

impl VariantArg {
    /// What it is called in messages.
    fn name(self) -> &'static str {
        match self {
            VariantArg::Legacy => "legacy iptables",
            VariantArg::Nft => "iptables-nft",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "*filter\n:INPUT ACCEPT [0:0]\n:own - [0:0]\nCOMMIT\n";
    const RULE: &str = "*filter\n:INPUT ACCEPT [0:0]\n[1:2] -A INPUT -j DROP\nCOMMIT\n";
    const POLICY: &str = "*filter\n:INPUT DROP [0:0]\nCOMMIT\n";

    fn chosen(
        legacy: Option<&str>,
        nft: Option<&str>,
        variant: Option<VariantArg>,
    ) -> Result<(VariantArg, Option<String>)> {
        let named = |name: &str, text: Option<&str>| Some((name.to_owned(), text?.to_owned()));
        let chosen = choose(Family::V4, named("legacy", legacy), named("nft", nft), variant)?;
        let name = chosen.text.map(|(name, _)| name);
        assert!(name.is_none_or(|name| name == format!("{:?}", chosen.variant).to_lowercase()));
        Ok((chosen.variant, chosen.warning))
    }

    #[test]
    fn the_variant_that_holds_rules_or_a_policy_is_read() {
        let cases = [
            (Some(RULE), None, VariantArg::Legacy),
            (Some(RULE), Some(EMPTY), VariantArg::Legacy),
            (None, Some(RULE), VariantArg::Nft),
            (Some(EMPTY), Some(RULE), VariantArg::Nft),
            (Some(EMPTY), Some(POLICY), VariantArg::Nft),
            (Some(POLICY), Some(EMPTY), VariantArg::Legacy),
            (Some(EMPTY), Some(EMPTY), VariantArg::Legacy),
            (None, Some(EMPTY), VariantArg::Nft),
        ];
        for (legacy, nft, expected) in cases {
            assert_eq!(chosen(legacy, nft, None).unwrap(), (expected, None), "{legacy:?} {nft:?}");
        }
    }

    #[test]
    fn rules_in_both_variants_are_refused_unless_one_is_chosen() {
        let error = chosen(Some(RULE), Some(POLICY), None).unwrap_err().to_string();
        assert!(error.contains("legacy iptables holds 1 rule,"), "{error}");
        assert!(error.contains("iptables-nft holds 0 rules and 1 policy of DROP"), "{error}");
        assert!(error.contains("`--variant legacy` or `--variant nft`"), "{error}");
        for (variant, other) in
            [(VariantArg::Legacy, "of iptables-nft"), (VariantArg::Nft, "of legacy iptables")]
        {
            let (read, warning) = chosen(Some(RULE), Some(RULE), Some(variant)).unwrap();
            assert_eq!(read, variant);
            assert!(warning.unwrap().contains(other));
        }
    }

    #[test]
    fn tables_are_told_apart_by_family_and_name() {
        let tables = Tables::of(
            "table ip filter\ntable ip6 nat\ntable inet filter\ntable ip weir_filter\n\
             table bridge nat\ntable ip mine\n",
        );
        let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        assert_eq!((tables.v4, tables.v6), (vec!["filter".to_owned()], vec!["nat".to_owned()]));
        assert_eq!(tables.of_weir, pairs(&[("ip", "weir_filter")]));
        assert_eq!(tables.others, pairs(&[("inet", "filter"), ("bridge", "nat"), ("ip", "mine")]));
    }

    #[test]
    fn a_table_that_iptables_nft_leaves_out_is_named() {
        let line = "# Table `filter' contains incompatible base-chains, use 'nft' tool to list";
        assert_eq!(incompatible(line), Some("filter"));
        assert_eq!(incompatible("# Table `nat' is incompatible, use 'nft' tool."), Some("nat"));
        assert_eq!(incompatible("# Generated by iptables-nft-save v1.8.9 (nf_tables)"), None);
    }
}
