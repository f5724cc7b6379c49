//! Programs that manage their own chains: Docker, kube-proxy, firewalld, ufw, libvirt, fail2ban, …,
//! and weir itself, whose `unload.sh` needs the chain that marks an artefact.
//!
//! They add and delete rules by text and position at any time. Whatever weir generates from such a
//! chain is lost, or in the way, at the program's next change, and users cannot fix problems in it.
//! The names are those that the programs use (moby libnetwork/iptables, kubernetes
//! pkg/proxy/iptables, firewalld ipXtables.py, ufw backend_iptables.py, libvirt
//! src/network/network_iptables.c, fail2ban config/action.d, calico felix/rules/rule_defs.go).

use std::fmt;

use crate::rule_match::ct_state;
use crate::{Chain, Firewall, Match, Rule, Table, TableName, Target};

/// A program that manages its own chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ManagingProgram {
    /// Docker: `DOCKER`, `DOCKER-USER`, …
    Docker,
    /// kube-proxy and kubelet: `KUBE-…`.
    KubeProxy,
    /// firewalld: `IN_public_allow`, `FORWARD_IN_ZONES`, …
    Firewalld,
    /// ufw: `ufw-before-input`, `ufw-user-input`, …
    Ufw,
    /// libvirt: `LIBVIRT_INP`, …
    Libvirt,
    /// fail2ban: `f2b-sshd`, …
    Fail2ban,
    /// Calico: `cali-INPUT`, …
    Calico,
    /// Cilium: `CILIUM_INPUT`, …
    Cilium,
    /// Container network plugins: `CNI-…`, `FLANNEL-…`, `NETAVARK-…`.
    Cni,
    /// sshguard: `sshguard`.
    Sshguard,
    /// CrowdSec: `CROWDSEC_CHAIN`, `crowdsec-blacklists`.
    Crowdsec,
    /// weir: the empty chain `weir:ID` that says which artefact is in force, and tables of nft
    /// named `weir_…`.
    Weir,
}

impl ManagingProgram {
    /// All of them.
    pub const ALL: [ManagingProgram; 12] = [
        ManagingProgram::Docker,
        ManagingProgram::KubeProxy,
        ManagingProgram::Firewalld,
        ManagingProgram::Ufw,
        ManagingProgram::Libvirt,
        ManagingProgram::Fail2ban,
        ManagingProgram::Calico,
        ManagingProgram::Cilium,
        ManagingProgram::Cni,
        ManagingProgram::Sshguard,
        ManagingProgram::Crowdsec,
        ManagingProgram::Weir,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            ManagingProgram::Docker => "docker",
            ManagingProgram::KubeProxy => "kube-proxy",
            ManagingProgram::Firewalld => "firewalld",
            ManagingProgram::Ufw => "ufw",
            ManagingProgram::Libvirt => "libvirt",
            ManagingProgram::Fail2ban => "fail2ban",
            ManagingProgram::Calico => "calico",
            ManagingProgram::Cilium => "cilium",
            ManagingProgram::Cni => "cni",
            ManagingProgram::Sshguard => "sshguard",
            ManagingProgram::Crowdsec => "crowdsec",
            ManagingProgram::Weir => "weir",
        }
    }

    /// Whether passes and forms leave its chains unchanged unless requested otherwise. Those of the
    /// others are compiled like the user's.
    pub const fn is_preserved_by_default(self) -> bool {
        matches!(
            self,
            ManagingProgram::Docker
                | ManagingProgram::KubeProxy
                | ManagingProgram::Firewalld
                | ManagingProgram::Ufw
        )
    }

    /// The program of that name, among those that are left alone.
    pub fn parse_name_if_preserved(s: &str) -> Option<Self> {
        ManagingProgram::ALL.into_iter().find(|p| p.is_preserved_by_default() && p.as_str() == s)
    }
}

impl fmt::Display for ManagingProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The program that keeps a chain of that name, if passes and forms leave its chains alone.
///
/// ```
/// use weir_model::managing_programs::{ManagingProgram, find_preserved_program_of_chain};
/// assert_eq!(find_preserved_program_of_chain("DOCKER-USER"), Some(ManagingProgram::Docker));
/// assert_eq!(find_preserved_program_of_chain("FORWARD"), None);
/// ```
pub fn find_preserved_program_of_chain(chain: &str) -> Option<ManagingProgram> {
    program_of_chain_or_set(chain).filter(|program| program.is_preserved_by_default())
}

/// The program that keeps a chain or set of that name.
///
/// ```
/// use weir_model::managing_programs::{ManagingProgram, program_of_chain_or_set};
/// assert_eq!(program_of_chain_or_set("LIBVIRT_INP"), Some(ManagingProgram::Libvirt));
/// assert_eq!(program_of_chain_or_set("my_allow"), None);
/// ```
pub fn program_of_chain_or_set(name: &str) -> Option<ManagingProgram> {
    const PROGRAM_BY_NAME_PREFIX: [(&str, ManagingProgram); 18] = [
        ("DOCKER-", ManagingProgram::Docker),
        ("KUBE-", ManagingProgram::KubeProxy),
        ("ufw-", ManagingProgram::Ufw),
        ("ufw6-", ManagingProgram::Ufw),
        ("LIBVIRT_", ManagingProgram::Libvirt),
        ("f2b-", ManagingProgram::Fail2ban),
        ("fail2ban-", ManagingProgram::Fail2ban),
        ("cali-", ManagingProgram::Calico),
        ("cali4", ManagingProgram::Calico),
        ("cali6", ManagingProgram::Calico),
        ("CILIUM_", ManagingProgram::Cilium),
        ("CNI-", ManagingProgram::Cni),
        ("FLANNEL-", ManagingProgram::Cni),
        ("NETAVARK", ManagingProgram::Cni),
        ("sshguard", ManagingProgram::Sshguard),
        ("crowdsec", ManagingProgram::Crowdsec),
        ("CROWDSEC", ManagingProgram::Crowdsec),
        ("weir:", ManagingProgram::Weir),
    ];
    if name == "DOCKER" {
        return Some(ManagingProgram::Docker);
    }
    let named =
        PROGRAM_BY_NAME_PREFIX.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, p)| *p);
    named.or_else(|| is_firewalld_chain_name(name).then_some(ManagingProgram::Firewalld))
}

/// The program that keeps a table of nf_tables of that name (firewalld nftables.py, kubernetes
/// pkg/proxy/nftables, moby libnetwork/internal/nftables, libvirt network_nftables.c, fail2ban
/// action.d/nftables.conf, netavark firewall/nft.rs, crowdsec-firewall-bouncer).
///
/// ```
/// use weir_model::managing_programs::{ManagingProgram, program_of_nft_table};
/// assert_eq!(program_of_nft_table("firewalld"), Some(ManagingProgram::Firewalld));
/// assert_eq!(program_of_nft_table("filter"), None);
/// ```
pub fn program_of_nft_table(name: &str) -> Option<ManagingProgram> {
    const PROGRAM_BY_NAME: [(&str, ManagingProgram); 12] = [
        ("firewalld", ManagingProgram::Firewalld),
        ("firewalld_policy_drop", ManagingProgram::Firewalld),
        ("kube-proxy", ManagingProgram::KubeProxy),
        ("docker-bridges", ManagingProgram::Docker),
        ("libvirt_network", ManagingProgram::Libvirt),
        ("f2b-table", ManagingProgram::Fail2ban),
        ("netavark", ManagingProgram::Cni),
        ("calico", ManagingProgram::Calico),
        ("sshguard", ManagingProgram::Sshguard),
        ("crowdsec", ManagingProgram::Crowdsec),
        ("crowdsec6", ManagingProgram::Crowdsec),
        ("cni_hostport", ManagingProgram::Cni),
    ];
    let named = PROGRAM_BY_NAME.iter().find(|(known, _)| *known == name).map(|(_, p)| *p);
    named.or_else(|| name.starts_with("weir_").then_some(ManagingProgram::Weir))
}

/// The program that keeps a chain of a table. firewalld's zones may have any name: their chains are
/// known by those next to them.
pub fn find_program_of_chain_in_table(table: &Table, chain: &Chain) -> Option<ManagingProgram> {
    program_of_chain_or_set(&chain.name).or_else(|| {
        let zone = ["IN_", "FWDI_", "FWDO_", "PRE_", "POST_"].iter().any(|p| {
            chain.name.strip_prefix(p).is_some_and(|zone| {
                table.chains.iter().any(|c| *c.name == format!("{p}{zone}_allow"))
            })
        });
        zone.then_some(ManagingProgram::Firewalld)
    })
}

/// The program that wrote a rule: the one that keeps its chain, or the one that it leads to, or the
/// one that its comment names. Only what Docker itself writes to `DOCKER-USER`, a chain for people,
/// is Docker's.
pub fn attribute_rule_to_program(
    table: &Table,
    chain: &Chain,
    rule: &Rule,
) -> Option<ManagingProgram> {
    if &*chain.name == "DOCKER-USER" {
        return (rule.target == Target::Return).then_some(ManagingProgram::Docker);
    }
    let commented =
        || rule.matches.iter().any(|m| matches!(m, Match::Comment(c) if c.starts_with("cali:")));
    find_program_of_chain_in_table(table, chain)
        .or_else(|| program_of_chain_or_set(rule.target.jump_target()?))
        .or_else(|| commented().then_some(ManagingProgram::Calico))
        .or_else(|| {
            is_firewalld_default_rule(table, chain, rule).then_some(ManagingProgram::Firewalld)
        })
}

/// The rules that firewalld writes to INPUT and FORWARD in addition to its jumps (ipXtables.py,
/// `build_default_rules`).
fn is_firewalld_default_rule(table: &Table, chain: &Chain, rule: &Rule) -> bool {
    let base = &rule.base;
    let bare = base.saddr.is_none() && base.daddr.is_none() && base.oif.is_none();
    let lo = base.iif.as_ref().is_some_and(|i| !i.negated && !i.is_prefix && &*i.name == "lo");
    let states = |wanted: u16| match &rule.matches[..] {
        [Match::State(s)] => !s.negated && s.value & !wanted == 0,
        [Match::Conntrack(c)] => {
            c.sole_state_test().is_some_and(|s| !s.negated && s.value & !wanted == 0)
        }
        _ => false,
    };
    let known = ct_state::RELATED | ct_state::ESTABLISHED | ct_state::DNAT;
    let is_written_so = table.name == TableName::Filter
        && bare
        && base.proto.is_none()
        && match (&rule.target, base.iif.is_some()) {
            (Target::Accept, true) => lo && rule.matches.is_empty(),
            (Target::Accept, false) => states(known),
            (Target::Drop, false) => states(ct_state::INVALID),
            (Target::Reject(_), false) => rule.matches.is_empty(),
            _ => false,
        };
    // Few rules are: only for these is the chain searched.
    is_written_so && {
        let direct_chain = format!("{}_direct", chain.name);
        chain.rules.iter().filter_map(|r| r.target.jump_target()).any(|to| **to == *direct_chain)
    }
}

/// Programs that keep chains of a firewall, and how many rules are in them; those of `touched` are
/// omitted.
pub fn count_preserved_rules_by_program(
    firewall: &Firewall,
    touched: &[ManagingProgram],
) -> Vec<(ManagingProgram, usize)> {
    let rulesets = [&firewall.v4, &firewall.v6].into_iter().flatten();
    let chains = rulesets.flat_map(|ruleset| &ruleset.tables).flat_map(|table| &table.chains);
    let mut rules = std::collections::BTreeMap::new();
    for chain in chains {
        if let Some(program) =
            find_preserved_program_of_chain(&chain.name).filter(|p| !touched.contains(p))
        {
            *rules.entry(program).or_insert(0) += chain.rules.len();
        }
    }
    rules.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// `INPUT_ZONES`, `FORWARD_IN_ZONES_SOURCE`, `PRE_public_log`, `FWDI_trusted`,
/// `POST_external_allow`: a hook's word, then `ZONES`, `POLICIES`, `direct` or a zone with one of
/// firewalld's parts.
fn is_firewalld_chain_name(chain: &str) -> bool {
    const FIREWALLD_HOOK_PREFIXES: [&str; 5] =
        ["INPUT_", "OUTPUT_", "FORWARD_", "PREROUTING_", "POSTROUTING_"];
    const FIREWALLD_GLOBAL_CHAIN_WORDS: [&str; 3] = ["ZONES", "POLICIES", "direct"];
    const FIREWALLD_ZONE_PREFIXES: [&str; 5] = ["IN_", "FWDI_", "FWDO_", "PRE_", "POST_"];
    const FIREWALLD_ZONE_SUFFIXES: [&str; 5] = ["_log", "_deny", "_allow", "_pre", "_post"];
    let of_all = FIREWALLD_HOOK_PREFIXES.iter().any(|b| {
        chain
            .strip_prefix(b)
            .is_some_and(|rest| FIREWALLD_GLOBAL_CHAIN_WORDS.iter().any(|w| rest.contains(w)))
    });
    let of_a_zone = FIREWALLD_ZONE_PREFIXES.iter().any(|b| {
        chain.strip_prefix(b).is_some_and(|zone| {
            FIREWALLD_ZONE_SUFFIXES.iter().any(|p| zone.ends_with(p))
                || ["public", "trusted", "external", "internal", "home", "work", "dmz", "block"]
                    .contains(&zone)
                || zone == "drop"
                || zone.starts_with("Fedora")
        })
    });
    of_all || of_a_zone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_managing_programs_are_recognized_by_name() {
        for (chain, program) in [
            ("DOCKER", ManagingProgram::Docker),
            ("DOCKER-ISOLATION-STAGE-1", ManagingProgram::Docker),
            ("KUBE-SVC-X", ManagingProgram::KubeProxy),
            ("INPUT_ZONES_SOURCE", ManagingProgram::Firewalld),
            ("FORWARD_direct", ManagingProgram::Firewalld),
            ("IN_public_allow", ManagingProgram::Firewalld),
            ("ufw-before-input", ManagingProgram::Ufw),
        ] {
            assert_eq!(find_preserved_program_of_chain(chain), Some(program), "{chain}");
        }
    }

    #[test]
    fn chains_of_users_are_attributed_to_no_program() {
        for chain in ["INPUT", "FORWARD", "DOCKERS", "in_public", "IN_office", "ufw", "customers"] {
            assert_eq!(program_of_chain_or_set(chain), None, "{chain}");
        }
        for chain in ["my_allow", "office_log", "LIBVIRT", "FWD", "f2b"] {
            assert_eq!(program_of_chain_or_set(chain), None, "{chain}");
        }
    }

    #[test]
    fn chains_of_libvirt_fail2ban_and_calico_are_recognized_but_compiled() {
        for (chain, program) in [
            ("LIBVIRT_FWO", ManagingProgram::Libvirt),
            ("f2b-sshd", ManagingProgram::Fail2ban),
            ("cali-INPUT", ManagingProgram::Calico),
        ] {
            assert_eq!(
                (program_of_chain_or_set(chain), find_preserved_program_of_chain(chain)),
                (Some(program), None),
                "{chain}"
            );
        }
    }

    #[test]
    fn user_rules_in_docker_user_are_not_attributed_to_docker() {
        let mut table = Table {
            name: TableName::Filter,
            chains: vec![Chain::new("DOCKER-USER", None), Chain::new("FORWARD", None)],
            leading_comments: Vec::new(),
            trailing_comments: Vec::new(),
        };
        let writer = |table: &Table, chain: usize, target| {
            attribute_rule_to_program(table, &table.chains[chain], &Rule::unconditional(target))
        };
        assert_eq!(writer(&table, 0, Target::Return), Some(ManagingProgram::Docker));
        assert_eq!(writer(&table, 0, Target::Drop), None);
        assert_eq!(writer(&table, 1, Target::Drop), None);
        let to = |chain: &str| Target::Jump(chain.into());
        assert_eq!(writer(&table, 1, to("LIBVIRT_FWI")), Some(ManagingProgram::Libvirt));
        // Names of firewalld zones are chosen by users.
        table.chains.push(Chain::new("IN_office", None));
        assert_eq!(writer(&table, 2, Target::Accept), None);
        table.chains.push(Chain::new("IN_office_allow", None));
        assert_eq!(writer(&table, 2, Target::Accept), Some(ManagingProgram::Firewalld));
    }
}
