//! Conflicts that prevent applying an artefact: rules that packets would traverse in addition,
//! rules of other programs that would be lost, artefacts loaded by `load.sh`.

use weir_artefact::Artefact;
use weir_kernel::ipset_list::read_ipsets;
use weir_kernel::kernel_feature::KernelFeature;
use weir_model::iptables_tool_name;
use weir_model::managing_programs::{ManagingProgram, program_of_chain_or_set};

use crate::ApplyOperationError;
use crate::artefact_ruleset::list_artefact_tables;
use crate::firewall_status::{FirewallKind, FirewallStatus, TableStatus};
use crate::kernel_ruleset::{
    FamilyTable, KernelRulesetTexts, find_artefact_mark, find_line_with_unclosed_quote,
    list_chain_names,
};
use crate::state_store::split_sets;

/// A conflict that must be resolved before an artefact can be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyConflict {
    /// The conflict and its cure.
    pub message: String,
    /// Whether `--force` overrides it.
    pub is_forceable: bool,
}

impl ApplyConflict {
    fn unforceable(message: String) -> ApplyConflict {
        ApplyConflict { message, is_forceable: false }
    }
}

/// Lists the conflicts. `recorded` is the ruleset of the current generation, empty if there is none.
pub fn list_apply_conflicts(
    artefact: &Artefact,
    present: &KernelRulesetTexts,
    status: &FirewallStatus,
    recorded: &KernelRulesetTexts,
) -> Vec<ApplyConflict> {
    let tables = list_artefact_tables(artefact);
    let mut conflicts = Vec::new();
    conflicts.extend(tables.iter().filter_map(|table| find_iptables_nft_conflict(*table, status)));
    conflicts.extend(find_artefact_loaded_by_script(recorded, present).map(|artefact| {
        let message = ApplyOperationError::LoadedByScript { artefact }.to_string();
        ApplyConflict { message, is_forceable: true }
    }));
    for table in &tables {
        if let Some(text) = present.legacy_tables.get(table) {
            conflicts.extend(find_lost_program_chains(*table, text, artefact));
            conflicts.extend(find_line_with_unclosed_quote(text).map(|line| {
                ApplyConflict::unforceable(format!(
                    "table {table} has a rule with a line break in a comment or name, which cannot \
                     be restored: replace the rule first: {line}"
                ))
            }));
        }
    }
    conflicts.extend(find_set_type_conflicts(artefact));
    conflicts
}

/// Rules of iptables-nft in a table of the artefact.
fn find_iptables_nft_conflict(
    table: FamilyTable,
    status: &FirewallStatus,
) -> Option<ApplyConflict> {
    let (family, name) = (table.nft_family(), table.table.as_str());
    let found = status.tables.iter().find(|found| {
        found.kind == FirewallKind::IptablesNft && found.family == family && found.name == name
    })?;
    let tool = iptables_tool_name(table.family);
    let is_legacy_table = |found: &&TableStatus| {
        found.kind == FirewallKind::LegacyIptables && found.family == family && found.name == name
    };
    let legacy = status.tables.iter().find(is_legacy_table);
    let rules = match found.rules {
        1 => "1 rule".to_owned(),
        count => format!("{count} rules"),
    };
    let cure = match legacy.is_some_and(TableStatus::affects_packets) {
        // iptables-restore would replace what the legacy table has.
        true => format!(
            "so has table {name} of iptables-legacy: take the rules of {tool}-nft-save -t {name} \
             into the ruleset, then nft delete table {family} {name}, and apply again"
        ),
        false => format!(
            "move them to legacy iptables with rules=$({tool}-nft-save -c -t {name}) && \
             printf '%s\\n' \"$rules\" | {tool}-legacy-restore -c && \
             nft delete table {family} {name}, and read the ruleset again"
        ),
    };
    found.affects_packets().then(|| {
        ApplyConflict::unforceable(format!(
            "table {family} {name} of iptables-nft has {rules} in force, and packets would traverse \
             them in addition: {cure}"
        ))
    })
}

/// An artefact in force that is not part of the recorded ruleset: `load.sh` loaded it, and the ruleset
/// from before it is in the state of the script.
pub(crate) fn find_artefact_loaded_by_script(
    recorded: &KernelRulesetTexts,
    present: &KernelRulesetTexts,
) -> Option<String> {
    let mark = |ruleset: &KernelRulesetTexts, table: &FamilyTable| {
        find_artefact_mark(ruleset.legacy_tables.get(table)?).map(str::to_owned)
    };
    let marked = present.legacy_tables.keys().find_map(|table| {
        mark(present, table).filter(|id| mark(recorded, table).as_ref() != Some(id))
    });
    let mut nft_tables = present.nft_tables.keys();
    let nft_table = nft_tables.find(|table| !recorded.nft_tables.contains_key(table));
    match (marked, nft_table) {
        (Some(id), _) => Some(format!("artefact {id}")),
        (None, Some(table)) => {
            Some(format!("nft table {} weir_{}", table.nft_family(), table.table))
        }
        (None, None) => None,
    }
}

/// Chains of a program that are in force and not in the ruleset.
fn find_lost_program_chains(
    table: FamilyTable,
    text: &str,
    artefact: &Artefact,
) -> Option<ApplyConflict> {
    let tool = iptables_tool_name(table.family);
    let is_in_ruleset = |chain: &str| {
        let prefix = format!("{tool}/{}/{chain}/", table.table);
        let later = artefact.manifest.counters.0.range(prefix.clone()..).next();
        let in_summed = || {
            let mut rules = artefact.manifest.summed.iter().flat_map(|summed| &summed.rules);
            rules.any(|rule| rule.starts_with(&prefix))
        };
        later.is_some_and(|(rule, _)| rule.starts_with(&prefix)) || in_summed()
    };
    let has_rules = |chain: &str| text.contains(&format!("-A {chain} "));
    let program = |chain: &str| {
        program_of_chain_or_set(chain).filter(|program| *program != ManagingProgram::Weir)
    };
    let lost: Vec<(ManagingProgram, &str)> = list_chain_names(text)
        .into_iter()
        .filter(|chain| has_rules(chain) && !is_in_ruleset(chain))
        .filter_map(|chain| Some((program(chain)?, chain)))
        .collect();
    let (program, chain) = lost.first()?;
    let more = match lost.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    Some(ApplyConflict {
        message: format!(
            "table {table} has rules of {program} in chain {chain}{more}, which are not in the ruleset: \
             add them to the ruleset ({tool}-save prints them), or use --force"
        ),
        is_forceable: true,
    })
}

/// Sets that exist with a different type than in the ruleset.
fn find_set_type_conflicts(artefact: &Artefact) -> Vec<ApplyConflict> {
    let Some(sets) = &artefact.contents.sets else { return Vec::new() };
    if !KernelFeature::Ipset.is_loaded() {
        return Vec::new();
    }
    let present = read_ipsets().unwrap_or_default();
    let wanted = split_sets(&sets.user);
    let differs = |(name, text): (&String, &String)| {
        let set_type = text.split_ascii_whitespace().nth(2)?.to_owned();
        let found = present.iter().find(|set| set.name == *name)?;
        (found.set_type != set_type).then(|| {
            ApplyConflict::unforceable(format!(
                "set {name} exists with type {}, but the ruleset has it as {set_type}: rename or \
                 destroy it",
                found.set_type
            ))
        })
    };
    wanted.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use weir_artefact::{ArtefactRulesetTexts, Manifest};
    use weir_model::{CounterLocation, Family, TableName};

    use super::*;

    fn artefact(chains: &[&str]) -> Artefact {
        let text = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n".to_owned();
        let contents = ArtefactRulesetTexts { v4: Some(text), ..ArtefactRulesetTexts::default() };
        let mut manifest = Manifest::default();
        for chain in chains {
            let none: Vec<CounterLocation> = Vec::new();
            manifest.counters.0.insert(format!("iptables/filter/{chain}/1"), none);
        }
        Artefact { contents, manifest }
    }

    fn present(text: &str) -> KernelRulesetTexts {
        let mut present = KernelRulesetTexts::default();
        let table = FamilyTable { family: Family::V4, table: TableName::Filter };
        present.legacy_tables.insert(table, text.to_owned());
        present
    }

    #[test]
    fn chains_of_a_program_that_would_be_lost_are_a_conflict() {
        let docker = present("*filter\n:DOCKER - [0:0]\n[1:2] -A DOCKER -j ACCEPT\nCOMMIT\n");
        let none = FirewallStatus::default();
        let with = list_apply_conflicts(&artefact(&["DOCKER"]), &docker, &none, &docker);
        assert_eq!(with, []);
        let without = list_apply_conflicts(&artefact(&["DOCKER-USER"]), &docker, &none, &docker);
        assert!(
            matches!(&without[..], [one] if one.is_forceable && one.message.contains("docker"))
        );
    }

    #[test]
    fn an_artefact_that_is_not_of_the_current_generation_is_a_conflict() {
        let marked = |id: &str| {
            present(&format!("*filter\n:INPUT ACCEPT [0:0]\n:weir:{id} - [0:0]\nCOMMIT\n"))
        };
        let (in_force, none) = (marked("0a1b2c3d"), FirewallStatus::default());
        let list = |recorded| list_apply_conflicts(&artefact(&[]), &in_force, &none, &recorded);
        assert_eq!(list(marked("0a1b2c3d")), [], "it is that of the generation");
        for recorded in
            [KernelRulesetTexts::default(), marked("00000000"), present("*filter\nCOMMIT\n")]
        {
            let found = list(recorded);
            assert!(
                matches!(&found[..], [one] if one.message.contains("artefact 0a1b2c3d")
                    && one.message.contains("unload.sh") && one.is_forceable),
                "{found:?}"
            );
        }
    }
}
