//! The scripts that load an artefact and put back what was there.
//!
//! They are POSIX shell, the same text for every artefact, under a head of a few variables that
//! weir sets to words of its own: table names, an identity in hexadecimal. No name, comment or
//! address of a ruleset is ever part of a script; data goes through the files beside it.
//!
//! A kill at any point leaves the old ruleset, the new one, or both in force, and a later run of
//! either script ends what was begun. This rests on three rules: what is in force is saved, and the
//! save verified and written to the disk, before the first change; no rule goes before what stands
//! for it has come; and the state changes by renames alone (`load/state.sh`). `tests/faults`
//! kills the scripts at every command, lets every write fail, and runs them against each other.

use weir_model::{Family, Firewall};

use crate::Form;
use crate::artefact::ArtefactFile;

const COMMON: &str = include_str!("load/common.sh");
const STATE: &str = include_str!("load/state.sh");
const KERNEL: &str = include_str!("load/kernel.sh");
const CHECK: &str = include_str!("load/check.sh");
const SAVE: &str = include_str!("load/save.sh");
const LOAD: &str = include_str!("load/load.sh");
const UNLOAD: &str = include_str!("load/unload.sh");

/// What the scripts of an artefact touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// iptables tables that `iptables.rules` replaces.
    pub v4: Vec<&'static str>,
    /// ip6tables tables that `ip6tables.rules` replaces.
    pub v6: Vec<&'static str>,
    /// `user.ipset` and `weir.ipset` are there.
    pub sets: bool,
    /// nft tables that `ruleset.nft` makes, as `ip:weir_filter`; `load.sh` deletes those that are
    /// there in the same transaction.
    pub nft: Vec<String>,
    /// iptables tables that nft stands for: emptied, where the kernel has them at all.
    pub v4_emptied: Vec<&'static str>,
    /// The same of ip6tables.
    pub v6_emptied: Vec<&'static str>,
}

impl Touched {
    /// All iptables tables of a firewall.
    pub fn by_iptables(firewall: &Firewall) -> Self {
        let tables = |family| {
            let ruleset = firewall.ruleset(family);
            ruleset.map_or(Vec::new(), |r| r.tables.iter().map(|t| t.name.as_str()).collect())
        };
        Touched {
            v4: tables(Family::V4),
            v6: tables(Family::V6),
            sets: !firewall.sets.is_empty(),
            nft: Vec::new(),
            v4_emptied: Vec::new(),
            v6_emptied: Vec::new(),
        }
    }

    /// The programs that the scripts run, apart from the shell's own and coreutils.
    pub fn tools(&self) -> Vec<String> {
        let mut tools = vec!["awk", "cmp", "find", "flock"];
        if !self.v4.is_empty() || !self.v4_emptied.is_empty() {
            tools.extend(["iptables-legacy-restore", "iptables-legacy-save"]);
        }
        if !self.v6.is_empty() || !self.v6_emptied.is_empty() {
            tools.extend(["ip6tables-legacy-restore", "ip6tables-legacy-save"]);
        }
        if self.sets {
            tools.push("ipset");
        }
        if !self.nft.is_empty() {
            tools.push("nft");
        }
        tools.into_iter().map(str::to_owned).collect()
    }
}

/// `load.sh` and `unload.sh` of an artefact.
///
/// # Panics
/// Where `id` is not hexadecimal or an nft table's name is not a plain word: both are weir's own.
pub fn scripts(form: Form, id: &str, touched: &Touched) -> [ArtefactFile; 2] {
    assert!(id.bytes().all(|b| b.is_ascii_hexdigit()), "an identity is hexadecimal");
    let plain = |w: &String| w.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:".contains(&b));
    assert!(touched.nft.iter().all(plain), "nft table names are weir's own");
    let head = |what: &str| {
        format!(
            "#!/bin/sh\n# {what}\nset -eu\n\nid={id}\nform={form}\nv4_tables='{}'\n\
             v6_tables='{}'\nv4_emptied='{}'\nv6_emptied='{}'\nsets={}\nnft_tables='{}'\n\n\
             {COMMON}\n{STATE}\n{KERNEL}\n",
            touched.v4.join(" "),
            touched.v6.join(" "),
            touched.v4_emptied.join(" "),
            touched.v6_emptied.join(" "),
            if touched.sets { "yes" } else { "" },
            touched.nft.join(" "),
        )
    };
    let load = head("Loads the ruleset beside it into this network namespace, all or nothing.")
        + CHECK
        + "\n"
        + SAVE
        + "\n";
    let unload = head("Puts back what was in force before load.sh.");
    [
        ArtefactFile::script("load.sh", load + LOAD),
        ArtefactFile::script("unload.sh", unload + UNLOAD),
    ]
}
