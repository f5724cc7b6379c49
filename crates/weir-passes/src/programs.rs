//! Chains that other programs keep: Docker, kube-proxy, firewalld, ufw.
//!
//! They add and delete rules by their text and place at any time. What a pass would make of such a
//! chain would be gone, or in the way, at the program's next change. The names are those that the
//! programs use (moby libnetwork/iptables, kubernetes pkg/proxy/iptables, firewalld ipXtables.py,
//! ufw backend_iptables.py).

use std::fmt;

use weir_model::Firewall;

/// A program that keeps chains of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Program {
    /// Docker: `DOCKER`, `DOCKER-USER`, …
    Docker,
    /// kube-proxy and kubelet: `KUBE-…`.
    KubeProxy,
    /// firewalld: `IN_public_allow`, `FORWARD_IN_ZONES`, …
    Firewalld,
    /// ufw: `ufw-before-input`, `ufw-user-input`, …
    Ufw,
}

impl Program {
    /// All of them.
    pub const ALL: [Program; 4] =
        [Program::Docker, Program::KubeProxy, Program::Firewalld, Program::Ufw];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Program::Docker => "docker",
            Program::KubeProxy => "kube-proxy",
            Program::Firewalld => "firewalld",
            Program::Ufw => "ufw",
        }
    }

    /// The program of that name.
    pub fn parse(s: &str) -> Option<Self> {
        Program::ALL.into_iter().find(|p| p.as_str() == s)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The program that keeps a chain of that name.
///
/// ```
/// use weir_passes::programs::{Program, program_of};
/// assert_eq!(program_of("DOCKER-USER"), Some(Program::Docker));
/// assert_eq!(program_of("FORWARD"), None);
/// ```
pub fn program_of(chain: &str) -> Option<Program> {
    if chain == "DOCKER" || chain.starts_with("DOCKER-") {
        return Some(Program::Docker);
    }
    if chain.starts_with("KUBE-") {
        return Some(Program::KubeProxy);
    }
    if chain.starts_with("ufw-") || chain.starts_with("ufw6-") {
        return Some(Program::Ufw);
    }
    is_of_firewalld(chain).then_some(Program::Firewalld)
}

/// Programs that keep chains of a firewall, and how many rules are in them; those of `touched` are
/// left out.
pub fn rules_of_programs(firewall: &Firewall, touched: &[Program]) -> Vec<(Program, usize)> {
    let rulesets = [&firewall.v4, &firewall.v6].into_iter().flatten();
    let chains = rulesets.flat_map(|ruleset| &ruleset.tables).flat_map(|table| &table.chains);
    let mut rules = std::collections::BTreeMap::new();
    for chain in chains {
        if let Some(program) = program_of(&chain.name).filter(|p| !touched.contains(p)) {
            *rules.entry(program).or_insert(0) += chain.rules.len();
        }
    }
    rules.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// `INPUT_ZONES`, `FORWARD_IN_ZONES_SOURCE`, `PRE_public_log`, `FWDI_trusted`,
/// `POST_external_allow`: a hook's word, then `ZONES`, `POLICIES`, `direct` or a zone with one of
/// firewalld's parts.
fn is_of_firewalld(chain: &str) -> bool {
    const BUILT_IN: [&str; 5] = ["INPUT_", "OUTPUT_", "FORWARD_", "PREROUTING_", "POSTROUTING_"];
    const OF_ALL: [&str; 3] = ["ZONES", "POLICIES", "direct"];
    const OF_A_ZONE: [&str; 5] = ["IN_", "FWDI_", "FWDO_", "PRE_", "POST_"];
    const PARTS: [&str; 5] = ["_log", "_deny", "_allow", "_pre", "_post"];
    let of_all = BUILT_IN
        .iter()
        .any(|b| chain.strip_prefix(b).is_some_and(|rest| OF_ALL.iter().any(|w| rest.contains(w))));
    let of_a_zone = OF_A_ZONE.iter().any(|b| {
        chain.strip_prefix(b).is_some_and(|zone| {
            PARTS.iter().any(|p| zone.ends_with(p))
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
    fn chains_of_programs_are_known_by_their_names() {
        for (chain, program) in [
            ("DOCKER", Program::Docker),
            ("DOCKER-ISOLATION-STAGE-1", Program::Docker),
            ("KUBE-SVC-X", Program::KubeProxy),
            ("INPUT_ZONES_SOURCE", Program::Firewalld),
            ("FORWARD_direct", Program::Firewalld),
            ("IN_public_allow", Program::Firewalld),
            ("ufw-before-input", Program::Ufw),
        ] {
            assert_eq!(program_of(chain), Some(program), "{chain}");
        }
    }

    #[test]
    fn chains_of_people_are_nobodys() {
        for chain in ["INPUT", "FORWARD", "DOCKERS", "in_public", "IN_office", "ufw", "customers"] {
            assert_eq!(program_of(chain), None, "{chain}");
        }
    }
}
