//! One side of a comparison, and the tables that packets of a path traverse.

use weir_model::effect::{can_mangle_reroute_local_packets, has_conntrack_enabling_rule};
use weir_model::target::NatTarget;
use weir_model::{Family, Firewall, Hook, Ruleset, Table, TableName, Target};
use weir_semantics::{JourneyKind, tables_at_hook};

use crate::comparison_types::ComparedPath;
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::packet_space::PacketSpace;
use crate::ruleset_slice::RulesetSlice;
use crate::stateful_test_id::StatefulTestIdResolver;

/// One of the firewalls that are compared.
#[derive(Debug)]
pub(crate) struct ComparedRuleset<'f> {
    ruleset: Option<&'f Ruleset>,
    state_ids: StatefulTestIdResolver,
    /// Conntrack is in use: nat is consulted.
    pub conntrack_in_use: bool,
    /// Some rule sends packets to this host.
    has_redirect_target: bool,
    /// Its mangle table may change the route of local packets.
    may_reroute_local_packets: bool,
    /// Which of the space's firewalls it is.
    side_index: usize,
}

impl<'f> ComparedRuleset<'f> {
    pub fn new(
        firewall: &'f Firewall,
        family: Family,
        number: usize,
        state_ids: StatefulTestIdResolver,
        conntrack: bool,
    ) -> Self {
        let ruleset = firewall.ruleset(family);
        let uses = || ruleset.is_some_and(has_conntrack_enabling_rule);
        ComparedRuleset {
            ruleset,
            state_ids,
            conntrack_in_use: conntrack || uses(),
            has_redirect_target: ruleset.is_some_and(has_redirect_target),
            may_reroute_local_packets: ruleset.is_some_and(can_mangle_reroute_local_packets),
            side_index: number,
        }
    }

    /// The rules that are compared.
    pub fn ruleset(&self) -> Option<&'f Ruleset> {
        self.ruleset
    }

    /// Only these of its rules are compared; what conntrack and routing do is decided by all.
    pub fn replace_rules_by_slice(&mut self, slice: &'f RulesetSlice) {
        if let Some(whole) = self.ruleset.replace(&slice.ruleset) {
            self.state_ids.add_copies(slice.originals_and_copies(whole));
        }
    }

    /// The table that packets traverse there, if any.
    pub fn traversed_table(&self, piece: TableAtHook) -> Option<&'f Table> {
        let is_skipped = piece.table == TableName::Nat && !self.conntrack_in_use;
        self.ruleset.filter(|_| !is_skipped)?.table(&piece.table)
    }

    /// Whose the stateful tests are.
    pub fn state_ids(&self) -> &StatefulTestIdResolver {
        &self.state_ids
    }

    /// Selects this side's sets; whose the stateful tests are.
    pub fn activate_ipsets_get_state_ids<'s>(
        &'s self,
        space: &mut PacketSpace<'f>,
    ) -> &'s StatefulTestIdResolver {
        space.active_firewall = self.side_index;
        &self.state_ids
    }
}

/// Whether some rule sends packets to this host.
fn has_redirect_target(ruleset: &Ruleset) -> bool {
    let is_redirect = |t: &Target| match t {
        Target::Nat(nat) => matches!(**nat, NatTarget::Redirect(_)),
        _ => false,
    };
    ruleset.rules_with_table_and_chain().any(|(_, _, rule)| is_redirect(&rule.target))
}

/// A table at a hook: a part of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableAtHook {
    pub hook: Hook,
    pub table: TableName,
}

/// The tables of a journey, in order. A forwarded packet may also reach INPUT: by REDIRECT.
pub(crate) fn list_journey_stages(
    path: ComparedPath,
    sides: &[ComparedRuleset<'_>],
) -> Vec<(TableAtHook, HookContext)> {
    let redirects = sides.iter().any(|side| side.has_redirect_target);
    let reroutes = sides.iter().any(|side| side.may_reroute_local_packets);
    let hooks: &[Hook] = match path {
        ComparedPath::Hook(Hook::Prerouting) => &[Hook::Prerouting],
        ComparedPath::Hook(Hook::Input) | ComparedPath::ReassembledInput => &[Hook::Input],
        ComparedPath::Hook(Hook::Forward) => &[Hook::Forward],
        ComparedPath::Hook(Hook::Output) => &[Hook::Output],
        ComparedPath::Hook(Hook::Postrouting) => &[Hook::Postrouting],
        ComparedPath::WholeJourney(JourneyKind::Forward) if redirects => {
            &[Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Postrouting]
        }
        ComparedPath::WholeJourney(entry) => entry.hooks(),
    };
    let tables = |hook: &Hook| {
        let at = match path {
            ComparedPath::WholeJourney(JourneyKind::Output) => {
                HookContext::at_hook(*hook).for_local_packet()
            }
            _ => HookContext::at_hook(*hook),
        };
        let hook = *hook;
        tables_at_hook(hook).iter().map(move |&table| {
            let is_rerouted = reroutes
                && hook == Hook::Output
                && !matches!(table, TableName::Raw | TableName::Mangle);
            let at = if is_rerouted { at.after_second_route_lookup() } else { at };
            (TableAtHook { hook, table }, at)
        })
    };
    hooks.iter().flat_map(tables).collect()
}
