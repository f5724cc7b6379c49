//! Targets that are checked and preserved verbatim.

use weir_model::Hook::{Input, Output, Postrouting, Prerouting};
use weir_model::TableName::{Mangle, Security};
use weir_model::{Family, Target};

use super::{Keyword, Net, Number, NumberOrNameList, Text, build_verbatim_target};
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionArguments, ExtensionScope, flag_option, option_with_argument,
};

const U32_MAX: u64 = u32::MAX as u64;

pub(in crate::iptables::extension) static IDLETIMER_TARGET: Extension<Target> = Extension {
    name: "IDLETIMER",
    options: &[
        option_with_argument("timeout", 0).mandatory(),
        option_with_argument("label", 1).mandatory(),
        flag_option("alarm", 2),
    ],
    // The kernel takes neither no time nor no label (`idletimer_tg_helper`).
    build: |g| build_verbatim_target(g, &[(0, Number(1, U32_MAX)), (1, Text(1, 27))]),
    ..Extension::PRINTED_AS_WRITTEN
};

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
    build: |g| build_verbatim_target(g, &[(0, Text(1, 255))]),
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
    build: |g| {
        const TCP_OPTION_NAMES: &[&str] =
            &["wscale", "mss", "sack-permitted", "sack", "timestamp", "md5"];
        // Options 0 and 1 end and pad the list.
        build_verbatim_target(g, &[(0, NumberOrNameList(TCP_OPTION_NAMES, 2, 255))])
    },
    scope: ExtensionScope { tables: &[Mangle], ..ExtensionScope::for_protocols(&[6]) },
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static RATEEST_TARGET: Extension<Target> = Extension {
    name: "RATEEST",
    options: &[
        option_with_argument("rateest-name", 0).mandatory(),
        option_with_argument("rateest-interval", 1).mandatory(),
        option_with_argument("rateest-ewmalog", 2).mandatory(),
    ],
    build: |g| {
        for t in [1, 2].into_iter().filter_map(|id| g.first_with_id(id)) {
            let unit = t.arg.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            let number = &t.arg[..t.arg.len() - unit.len()];
            let units = ["", "s", "sec", "secs", "ms", "msec", "msecs", "us", "usec", "usecs"];
            if number.parse::<f64>().is_err() || !units.contains(&unit) {
                return t
                    .arg_error(format!("{} is not a time", t.arg))
                    .with_help("e.g. 250ms")
                    .into_err();
            }
        }
        build_verbatim_target(g, &[(0, Text(1, 255))])
    },
    ..Extension::PRINTED_AS_WRITTEN
};

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
            &[(1, Keyword(CLUSTERIP_HASH_MODES)), (3, nodes), (4, nodes), (5, Number(0, U32_MAX))],
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
fn build_npt_target(g: &ExtensionArguments) -> ParseResult<Target> {
    let kept = build_verbatim_target(g, &[(0, Net), (1, Net)])?;
    for t in g.iter() {
        let (addr, mask) = super::option_values::parse_host_net(t, g)?;
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
