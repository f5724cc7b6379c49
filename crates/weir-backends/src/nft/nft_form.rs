//! The nft form of a firewall as a value.

use weir_artefact::manifest::{CompiledRuleRun, FormRuleCoverage, UnchangedRule};
use weir_artefact::{Deviation, EqualityCheckRecord};
use weir_model::nft;
use weir_model::{CountersByOriginalRule, Family, Firewall, Hook, TableName};

/// The nft form of a firewall.
#[derive(Clone, Debug)]
pub struct NftForm {
    /// Typed form of [`nft_text`](NftForm::nft_text).
    pub nft_ruleset: nft::Ruleset,
    /// A file for `nft -f`: one transaction that replaces the tables of the same names.
    pub nft_text: String,
    /// What stays in iptables: hooks that nft cannot say, as prefix trees; the chains of moved
    /// hooks empty, with the policy ACCEPT. To be loaded after the nft tables, where the kernel
    /// has the iptables tables at all.
    pub iptables_rest: Firewall,
    /// Which hooks of which tables went to nft.
    pub moved_tables: Vec<MovedTable>,
    /// Runs that were compiled.
    pub compiled_rule_runs: Vec<CompiledRuleRun>,
    /// Rules that nft cannot say, and what stays in iptables for their sake.
    pub barriers: Vec<UnchangedRule>,
    /// How many rules of each hook went to nft.
    pub share: FormRuleCoverage,
    /// What nft does differently.
    pub deviations: Vec<Deviation>,
    /// Counters by original rule.
    pub counters: CountersByOriginalRule,
    /// Estimated kernel memory in bytes.
    pub memory_bytes: u64,
    /// What the check before writing did.
    pub equality_check: EqualityCheckRecord,
}

impl NftForm {
    /// What iptables still has to load: the tables that have a hook left.
    pub fn iptables_tables_with_hooks_left(&self) -> Firewall {
        let mut kept = self.iptables_rest.clone();
        for ruleset in [&mut kept.v4, &mut kept.v6].into_iter().flatten() {
            let family = ruleset.family;
            let whole = |name| {
                self.moved_tables
                    .iter()
                    .any(|m| m.family == family && m.table == name && m.is_whole_table)
            };
            ruleset.tables.retain(|t| !whole(t.name));
        }
        kept
    }
}

/// A table's hooks that went to nft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedTable {
    /// Family.
    pub family: Family,
    /// The iptables table.
    pub table: TableName,
    /// The nft table's name; its family is `ip` or `ip6`.
    pub nft_name: String,
    /// The hooks.
    pub hooks: Vec<Hook>,
    /// True where nothing of the table stays in iptables.
    pub is_whole_table: bool,
}
