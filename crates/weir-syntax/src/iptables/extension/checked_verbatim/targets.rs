//! Targets that are checked and preserved verbatim.

use std::collections::BTreeSet;

use weir_model::Hook::{Input, Output, Postrouting, Prerouting};
use weir_model::TableName::{Mangle, Security};
use weir_model::{Family, Target};

use super::{ExactKeyword, Net, Number, Text, TruncatedText, U32_MAX, build_verbatim_target};
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, flag_option, option_with_argument,
};
use crate::strtoul;

pub(in crate::iptables::extension) static IDLETIMER_TARGET: Extension<Target> = Extension {
    name: "IDLETIMER",
    options: &[
        option_with_argument("timeout", 0).mandatory(),
        option_with_argument("label", 1).mandatory(),
        flag_option("alarm", 2),
    ],
    build: build_idletimer_target,
    ..Extension::PRINTED_AS_WRITTEN
};

/// Most seconds that the kernel takes: below `INT_MAX / 1000` (`idletimer_tg_helper`).
const IDLETIMER_SECONDS_MAX: u64 = 2_147_482;

/// Bytes of a label that iptables keeps (`MAX_IDLETIMER_LABEL_SIZE`, with a zero at the end).
const IDLETIMER_LABEL_BYTES_KEPT: usize = 27;

/// The kernel makes a file of sysfs of the label, which must be a name for one
/// (`idletimer_check_sysfs_name` in net/netfilter/xt_IDLETIMER.c).
fn build_idletimer_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let is_no_file = |label: &str| {
        matches!(label, "." | ".." | "power" | "subsystem" | "uevent") || label.contains('/')
    };
    if let Some(t) = g.first_with_id(1)
        && is_no_file(t.arg.get(..IDLETIMER_LABEL_BYTES_KEPT).unwrap_or(t.arg))
    {
        return t
            .arg_error(format!("{:?} cannot be the name of a file in sysfs", t.arg))
            .with_help("the kernel creates a file of the label's name: write another label")
            .into_err();
    }
    let kinds =
        [(0, Number(1, IDLETIMER_SECONDS_MAX)), (1, TruncatedText(1, IDLETIMER_LABEL_BYTES_KEPT))];
    build_verbatim_target(g, &kinds)
}

pub(in crate::iptables::extension) static LED_TARGET: Extension<Target> = Extension {
    name: "LED",
    options: &[
        option_with_argument("led-trigger-id", 0).mandatory(),
        option_with_argument("led-delay", 1),
        flag_option("led-always-blink", 2),
    ],
    build: |g| {
        let delay = g.first_with_id(1).filter(|t| !t.arg.to_ascii_lowercase().starts_with("inf"));
        if let Some(t) = delay {
            super::option_values::parse_integer(t, 0, U32_MAX)?;
        }
        build_verbatim_target(g, &[(0, Text(0, 17))])
    },
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static SECMARK_TARGET: Extension<Target> = Extension {
    name: "SECMARK",
    options: &[option_with_argument("selctx", 0).mandatory()],
    build: |g| build_verbatim_target(g, &[(0, TruncatedText(1, 255))]),
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static CONNSECMARK_TARGET: Extension<Target> = Extension {
    name: "CONNSECMARK",
    options: &[flag_option("save", 0).excludes(1 << 1), flag_option("restore", 1).excludes(1 << 0)],
    build: |g| match g.iter().next() {
        Some(_) => build_verbatim_target(g, &[]),
        None => g
            .extension_error("CONNSECMARK without an action")
            .with_help("give --save or --restore")
            .into_err(),
    },
    scope: ExtensionScope::in_tables(&[Mangle, Security]),
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static TCPOPTSTRIP_TARGET: Extension<Target> = Extension {
    name: "TCPOPTSTRIP",
    options: &[option_with_argument("strip-options", 0)],
    build: build_tcpoptstrip_target,
    scope: ExtensionScope { tables: &[Mangle], ..ExtensionScope::for_protocols(&[6]) },
    ..Extension::PRINTED_AS_WRITTEN
};

/// Names of TCP options and their numbers, as libxt_TCPOPTSTRIP.c spells them.
const TCP_OPTION_NAMES: [(&str, u64); 6] =
    [("wscale", 3), ("mss", 2), ("sack-permitted", 4), ("sack", 5), ("timestamp", 8), ("md5", 19)];

/// A list of TCP options by name or number, each once.
fn build_tcpoptstrip_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut listed = BTreeSet::new();
    for (t, word) in g.iter().flat_map(|t| t.arg.split(',').map(move |word| (t, word))) {
        let number = match TCP_OPTION_NAMES.iter().find(|(name, _)| *name == word) {
            Some((_, number)) => Some(*number),
            None => strtoul::parse_number_in_range(word, 0, 255),
        };
        match number {
            Some(0 | 1) => {
                return t
                    .arg_error(format!("TCP option {word} cannot be removed"))
                    .with_help("options 0 and 1 end and pad the list: write others")
                    .into_err();
            }
            Some(number) if listed.insert(number) => {}
            Some(number) => {
                return t
                    .arg_error(format!("{word} is a second mention of TCP option {number}"))
                    .with_help("write each option once, by its name or by its number")
                    .into_err();
            }
            None => {
                let names = TCP_OPTION_NAMES.map(|(name, _)| name).join(", ");
                return t
                    .arg_error(format!("{word:?} is not a TCP option"))
                    .with_help(format!("write numbers from 2 to 255, or {names}"))
                    .into_err();
            }
        }
    }
    build_verbatim_target(g, &[])
}

pub(in crate::iptables::extension) static CLUSTERIP_TARGET: Extension<Target> = Extension {
    name: "CLUSTERIP",
    family: Some(Family::V4),
    options: &[
        flag_option("new", 0),
        option_with_argument("hashmode", 1),
        option_with_argument("clustermac", 2),
        option_with_argument("total-nodes", 3),
        option_with_argument("local-node", 4),
        option_with_argument("hash-init", 5),
    ],
    build: |g| {
        let count = g.iter().count();
        let full = (0..=4).all(|id| g.has_option(id));
        if count > 0 && !full {
            return g
                .extension_error("CLUSTERIP without all of its options")
                .with_help(
                    "give --new, --hashmode, --clustermac, --total-nodes and --local-node, or none",
                )
                .into_err();
        }
        const CLUSTERIP_HASH_MODES: &[&str] =
            &["sourceip", "sourceip-sourceport", "sourceip-sourceport-destport"];
        let nodes = Number(0, 16);
        build_verbatim_target(
            g,
            &[
                (1, ExactKeyword(CLUSTERIP_HASH_MODES)),
                (3, nodes),
                (4, nodes),
                (5, Number(0, U32_MAX)),
            ],
        )
    },
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static SNPT_TARGET: Extension<Target> = Extension {
    name: "SNPT",
    family: Some(Family::V6),
    options: NPT_OPTIONS,
    build: build_npt_target,
    scope: ExtensionScope::in_tables_from_hooks(&[Mangle], &[Input, Postrouting]),
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static DNPT_TARGET: Extension<Target> = Extension {
    name: "DNPT",
    family: Some(Family::V6),
    options: NPT_OPTIONS,
    build: build_npt_target,
    scope: ExtensionScope::in_tables_from_hooks(&[Mangle], &[Prerouting, Output]),
    ..Extension::PRINTED_AS_WRITTEN
};

const NPT_OPTIONS: &[crate::iptables::option_specs_and_arguments::OptionSpec] = &[
    option_with_argument("src-pfx", 0).mandatory(),
    option_with_argument("dst-pfx", 1).mandatory(),
];

/// Both prefixes are at most 64 bits long, and hold no address below them
/// (`ip6t_npt_checkentry` in net/ipv6/netfilter/ip6t_NPT.c).
fn build_npt_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let kept = build_verbatim_target(g, &[(0, Net), (1, Net)])?;
    for t in g.iter() {
        let (addr, mask) = super::option_values::parse_unmasked_host_net(t, g)?;
        let length = g.family.prefix_len_of_mask(mask.0);
        if addr.0 & !mask.0 != 0 || length.is_none_or(|l| l > 64) {
            return t
                .arg_error(format!("{} is not a prefix of at most 64 bits", t.arg))
                .with_help("write only the prefix, e.g. 2001:db8:1::/48")
                .into_err();
        }
    }
    Ok(kept)
}
