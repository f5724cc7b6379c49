//! The ruleset in force in this network namespace, read by the tools that save it.
//!
//! iptables has two variants: legacy, with its own tables in the kernel, and iptables-nft, which
//! stores its rules in nft tables of the same names. Both may be loaded at once, and packets then
//! traverse the rules of both. For each family the variant with rules is read; if both have rules,
//! the user selects one. Other nft tables, XDP programs and tc filters are named, not read.

use anyhow::{Result, bail};
use weir_apply::firewall_status::read_firewall_status;
use weir_artefact::{Deviation, NFT_TABLE_PREFIX};
use weir_model::{Family, TableName};

use crate::cli::IptablesVariantArg;
use crate::ruleset_texts::{self, RulesetTexts};

/// What is in force.
#[derive(Default)]
pub struct LiveRuleset {
    /// Texts of the rules and the sets.
    pub texts: RulesetTexts,
    /// What was read.
    pub source_summary: String,
    /// What is in force and was not read, a line each.
    pub unread_parts: Vec<String>,
    /// nft tables that weir wrote: family and name.
    pub weir_nft_family_and_table_names: Vec<(String, String)>,
    /// Whether rules of iptables-nft are among the texts.
    pub has_iptables_nft_rules: bool,
}

/// What is not the same in iptables-nft as in legacy iptables, which gives every text its meaning.
pub fn describe_iptables_nft_deviations() -> String {
    format!(
        "packets that iptables-nft treats differently from legacy iptables: {} \
         (docs/semantics.md, deviations)",
        Deviation::join_ids_with_packet_predicate()
    )
}

/// Reads what is in force. The programs only read.
///
/// # Errors
/// If nothing can be read, and where a family has rules in both variants and none is chosen.
pub fn read_live_ruleset(variant: Option<IptablesVariantArg>) -> Result<LiveRuleset> {
    let mut found = LiveRuleset::default();
    let mut tried = Vec::new();
    let mut attempt = |words: &[&str]| match ruleset_texts::run_and_capture_stdout(words) {
        // A family of which no table was ever requested prints nothing.
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
    let tables = ruleset_texts::run_and_capture_stdout(&["nft", "list", "tables"]);
    if let Err(error) = &tables {
        found.unread_parts.push(format!("tables of nft: {error:#}"));
    }
    let tables = NftTablesByOwner::parse_nft_list_tables(&tables.unwrap_or_default());
    let mut said = Vec::new();
    for (family, legacy) in legacy {
        let nft = match tables.iptables_nft_tables(family) {
            [] => None,
            names => read_iptables_nft_rules(family, names, variant, &mut found.unread_parts)?,
        };
        let chosen = choose_unambiguous_iptables_variant(family, legacy, nft, variant)?;
        found.unread_parts.extend(chosen.warning);
        if let Some((name, text)) = chosen.text {
            found.has_iptables_nft_rules |= chosen.variant == IptablesVariantArg::Nft;
            said.push(format!(
                "{} from {} ({name})",
                format_ip_version(family),
                chosen.variant.display_name()
            ));
            let slot = match family {
                Family::V4 => &mut found.texts.ipv4_or_lone_ipv6,
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
    found.source_summary = match said.is_empty() {
        true => "no table of iptables is in force, of either variant".to_owned(),
        false => said.join(", "),
    };
    let status = read_firewall_status();
    let other = |(family, name): &(String, String)| {
        let traversed = status.describe_traversed_nft_table(family, name);
        let traversed = traversed.map(|words| format!("; {words}")).unwrap_or_default();
        format!("nft table {family} {name}, which is not a table of iptables-nft{traversed}")
    };
    found.unread_parts.extend(tables.foreign_tables.iter().map(other));
    found.unread_parts.extend(status.describe_device_filters());
    found.weir_nft_family_and_table_names = tables.weir_tables;
    Ok(found)
}

/// The rules that iptables-nft has in its tables of these names; what it cannot read of them is
/// named.
fn read_iptables_nft_rules(
    family: Family,
    names: &[String],
    variant: Option<IptablesVariantArg>,
    not_read: &mut Vec<String>,
) -> Result<Option<(String, String)>> {
    let program = match family {
        Family::V4 => "iptables-nft-save",
        Family::V6 => "ip6tables-nft-save",
    };
    let words = [program, "-c"];
    let tables = || format!("nft tables {} of {}", names.join(", "), format_ip_version(family));
    match ruleset_texts::run_and_capture_stdout(&words) {
        Ok(text) => {
            not_read.extend(text.lines().filter_map(parse_incompatible_table).map(|table| {
                format!(
                    "nft table {table} ({}): it has chains that iptables-nft did not create",
                    format_ip_version(family)
                )
            }));
            Ok(Some((words.join(" "), text)).filter(|(_, text)| !text.trim().is_empty()))
        }
        Err(error) if variant == Some(IptablesVariantArg::Legacy) => {
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
fn parse_incompatible_table(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("# Table `")?;
    let (table, what) = rest.split_once('\'')?;
    what.contains("incompatible").then_some(table)
}

/// A variant's text for a family.
struct ChosenVariantText {
    variant: IptablesVariantArg,
    text: Option<(String, String)>,
    /// What the other variant holds.
    warning: Option<String>,
}

/// Chooses between the variants of a family.
fn choose_unambiguous_iptables_variant(
    family: Family,
    legacy: Option<(String, String)>,
    nft: Option<(String, String)>,
    variant: Option<IptablesVariantArg>,
) -> Result<ChosenVariantText> {
    let held = |text: &Option<(String, String)>| {
        text.as_ref().map_or_else(IptablesVariantRuleAndPolicyCounts::default, |(_, text)| {
            IptablesVariantRuleAndPolicyCounts::count_rules_and_drop_policies(text)
        })
    };
    let (in_legacy, in_nft) = (held(&legacy), held(&nft));
    let variant = match (variant, in_legacy.affects_packets(), in_nft.affects_packets()) {
        (Some(variant), ..) => variant,
        (None, true, true) => bail!(
            "{} is filtered twice: legacy iptables holds {in_legacy}, iptables-nft holds {in_nft}, \
             and packets traverse both; `--variant legacy` or `--variant nft` selects one",
            format_ip_version(family)
        ),
        (None, false, true) => IptablesVariantArg::Nft,
        (None, true, false) => IptablesVariantArg::Legacy,
        (None, false, false) if legacy.is_none() => IptablesVariantArg::Nft,
        (None, false, false) => IptablesVariantArg::Legacy,
    };
    let (text, other, left) = match variant {
        IptablesVariantArg::Legacy => (legacy, IptablesVariantArg::Nft, in_nft),
        IptablesVariantArg::Nft => (nft, IptablesVariantArg::Legacy, in_legacy),
    };
    let warning = left.affects_packets().then(|| {
        let (word, other) = (format_ip_version(family), other.display_name());
        format!("{word} rules of {other}: it has {left}, which packets traverse as well")
    });
    Ok(ChosenVariantText { variant, text, warning })
}

/// What a variant holds of a family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct IptablesVariantRuleAndPolicyCounts {
    rule_count: usize,
    /// Built-in chains whose policy is not ACCEPT.
    drop_policy_count: usize,
}

impl IptablesVariantRuleAndPolicyCounts {
    fn count_rules_and_drop_policies(text: &str) -> IptablesVariantRuleAndPolicyCounts {
        let mut held = IptablesVariantRuleAndPolicyCounts::default();
        for line in text.lines() {
            let rule = line.strip_prefix('[').and_then(|l| Some(l.split_once("] ")?.1));
            held.rule_count += usize::from(rule.unwrap_or(line).starts_with("-A "));
            let policy = line.strip_prefix(':').and_then(|l| l.split_ascii_whitespace().nth(1));
            held.drop_policy_count +=
                usize::from(policy.is_some_and(|p| p != "ACCEPT" && p != "-"));
        }
        held
    }

    /// Whether it does anything to packets.
    fn affects_packets(self) -> bool {
        self != IptablesVariantRuleAndPolicyCounts::default()
    }
}

impl std::fmt::Display for IptablesVariantRuleAndPolicyCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = |n: usize, one: &str, many: &str| match n {
            1 => format!("1 {one}"),
            n => format!("{n} {many}"),
        };
        let rules = count(self.rule_count, "rule", "rules");
        match self.drop_policy_count {
            0 => write!(f, "{rules}"),
            n => write!(f, "{rules} and {}", count(n, "policy of DROP", "policies of DROP")),
        }
    }
}

/// nft tables by whose they are.
#[derive(Debug, Default, PartialEq, Eq)]
struct NftTablesByOwner {
    iptables_nft_v4: Vec<String>,
    iptables_nft_v6: Vec<String>,
    weir_tables: Vec<(String, String)>,
    foreign_tables: Vec<(String, String)>,
}

impl NftTablesByOwner {
    /// What `nft list tables` prints.
    fn parse_nft_list_tables(listed: &str) -> NftTablesByOwner {
        let of_iptables = |name: &str| TableName::parse(name).is_some();
        let mut tables = NftTablesByOwner::default();
        for line in listed.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let &["table", family, name] = words.as_slice() else { continue };
            let both = (family.to_owned(), name.to_owned());
            match family {
                "ip" if of_iptables(name) => tables.iptables_nft_v4.push(name.to_owned()),
                "ip6" if of_iptables(name) => tables.iptables_nft_v6.push(name.to_owned()),
                "ip" | "ip6" if name.starts_with(NFT_TABLE_PREFIX) => tables.weir_tables.push(both),
                _ => tables.foreign_tables.push(both),
            }
        }
        tables
    }

    /// Names of the tables that iptables-nft has for a family, if they are its own.
    fn iptables_nft_tables(&self, family: Family) -> &[String] {
        match family {
            Family::V4 => &self.iptables_nft_v4,
            Family::V6 => &self.iptables_nft_v6,
        }
    }
}

fn format_ip_version(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

impl IptablesVariantArg {
    /// What it is called in messages.
    fn display_name(self) -> &'static str {
        match self {
            IptablesVariantArg::Legacy => "legacy iptables",
            IptablesVariantArg::Nft => "iptables-nft",
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
        variant: Option<IptablesVariantArg>,
    ) -> Result<(IptablesVariantArg, Option<String>)> {
        let named = |name: &str, text: Option<&str>| Some((name.to_owned(), text?.to_owned()));
        let chosen = choose_unambiguous_iptables_variant(
            Family::V4,
            named("legacy", legacy),
            named("nft", nft),
            variant,
        )?;
        let name = chosen.text.map(|(name, _)| name);
        assert!(name.is_none_or(|name| name == format!("{:?}", chosen.variant).to_lowercase()));
        Ok((chosen.variant, chosen.warning))
    }

    #[test]
    fn the_variant_that_holds_rules_or_a_policy_is_read() {
        let cases = [
            (Some(RULE), None, IptablesVariantArg::Legacy),
            (Some(RULE), Some(EMPTY), IptablesVariantArg::Legacy),
            (None, Some(RULE), IptablesVariantArg::Nft),
            (Some(EMPTY), Some(RULE), IptablesVariantArg::Nft),
            (Some(EMPTY), Some(POLICY), IptablesVariantArg::Nft),
            (Some(POLICY), Some(EMPTY), IptablesVariantArg::Legacy),
            (Some(EMPTY), Some(EMPTY), IptablesVariantArg::Legacy),
            (None, Some(EMPTY), IptablesVariantArg::Nft),
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
        for (variant, other) in [
            (IptablesVariantArg::Legacy, "of iptables-nft"),
            (IptablesVariantArg::Nft, "of legacy iptables"),
        ] {
            let (read, warning) = chosen(Some(RULE), Some(RULE), Some(variant)).unwrap();
            assert_eq!(read, variant);
            assert!(warning.unwrap().contains(other));
        }
    }

    #[test]
    fn tables_are_told_apart_by_family_and_name() {
        let tables = NftTablesByOwner::parse_nft_list_tables(
            "table ip filter\ntable ip6 nat\ntable inet filter\ntable ip weir_filter\n\
             table bridge nat\ntable ip mine\n",
        );
        let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        assert_eq!(
            (tables.iptables_nft_v4, tables.iptables_nft_v6),
            (vec!["filter".to_owned()], vec!["nat".to_owned()])
        );
        assert_eq!(tables.weir_tables, pairs(&[("ip", "weir_filter")]));
        assert_eq!(
            tables.foreign_tables,
            pairs(&[("inet", "filter"), ("bridge", "nat"), ("ip", "mine")])
        );
    }

    #[test]
    fn a_table_that_iptables_nft_omits_is_named() {
        let line = "# Table `filter' contains incompatible base-chains, use 'nft' tool to list";
        assert_eq!(parse_incompatible_table(line), Some("filter"));
        assert_eq!(
            parse_incompatible_table("# Table `nat' is incompatible, use 'nft' tool."),
            Some("nat")
        );
        assert_eq!(
            parse_incompatible_table("# Generated by iptables-nft-save v1.8.9 (nf_tables)"),
            None
        );
    }
}
