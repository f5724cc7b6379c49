//! Matches that are checked and preserved verbatim.

use weir_model::Hook::{Forward, Input, Prerouting};
use weir_model::{Family, Match};

use super::{Keyword, Net, Number, NumberRange, Text, build_verbatim_match};
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionArguments, ExtensionScope, flag_option, option_with_argument,
};
use crate::{strtoul, system_name_tables};

const U32_MAX: u64 = u32::MAX as u64;
const IPV6_ONLY: Option<Family> = Some(Family::V6);

pub(in crate::iptables::extension) static CLUSTER_MATCH: Extension<Match> = Extension {
    name: "cluster",
    options: &[
        option_with_argument("cluster-total-nodes", 0).mandatory(),
        option_with_argument("cluster-local-node", 1).invertible().excludes(1 << 2),
        option_with_argument("cluster-local-nodemask", 2).invertible().excludes(1 << 1),
        option_with_argument("cluster-hash-seed", 3).mandatory(),
    ],
    build: build_cluster_match,
    ..Extension::PRINTED_AS_WRITTEN
};

/// Most nodes of a cluster (`XT_CLUSTER_NODES_MAX`).
const CLUSTER_NODES_MAX: u64 = 32;

fn build_cluster_match(g: &ExtensionArguments) -> ParseResult<Match> {
    let kept = build_verbatim_match(
        g,
        &[
            (0, Number(1, CLUSTER_NODES_MAX)),
            (1, Number(1, CLUSTER_NODES_MAX)),
            (2, Number(1, CLUSTER_NODES_MAX)),
            (3, Number(0, U32_MAX)),
        ],
    )?;
    let number = |id| {
        g.first_with_id(id)
            .and_then(|t| strtoul::parse_number_in_range(t.arg, 1, CLUSTER_NODES_MAX))
    };
    let Some(t) = g.first_with_id(1).or(g.first_with_id(2)) else {
        return g
            .extension_error("cluster without its own node")
            .with_help("give --cluster-local-node or --cluster-local-nodemask")
            .into_err();
    };
    let mask = match (number(1), number(2)) {
        (Some(node), _) => 1 << (node - 1),
        (None, mask) => mask.unwrap_or(0),
    };
    if mask >= 1u64 << number(0).unwrap_or(0) {
        return t
            .arg_error("the node is above the number of nodes")
            .with_help("nodes are counted from 1 to --cluster-total-nodes")
            .into_err();
    }
    Ok(kept)
}

pub(in crate::iptables::extension) static CONNLABEL_MATCH: Extension<Match> = Extension {
    name: "connlabel",
    options: &[option_with_argument("label", 0).invertible().mandatory(), flag_option("set", 1)],
    build: |g| {
        // A name is looked up in a file of the host where the rule is loaded.
        if let Some(t) = g.first_with_id(0)
            && strtoul::parse_number_in_range(t.arg, 0, u64::MAX)
                .is_some_and(|n| n > CONNLABEL_MAX_BIT)
        {
            return t
                .arg_error(format!("label {} is above {CONNLABEL_MAX_BIT}", t.arg))
                .with_help("the kernel has 128 labels, starting from 0")
                .into_err();
        }
        build_verbatim_match(g, &[(0, Text(1, 255))])
    },
    ..Extension::PRINTED_AS_WRITTEN
};

/// Last label of a connection (`XT_CONNLABEL_MAXBIT`).
const CONNLABEL_MAX_BIT: u64 = 127;

pub(in crate::iptables::extension) static NFACCT_MATCH: Extension<Match> = Extension {
    name: "nfacct",
    options: &[option_with_argument("nfacct-name", 0).mandatory()],
    build: |g| build_verbatim_match(g, &[(0, Text(1, 255))]),
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static OSF_MATCH: Extension<Match> = Extension {
    name: "osf",
    family: Some(Family::V4),
    options: &[
        option_with_argument("genre", 0).invertible().mandatory(),
        option_with_argument("ttl", 1),
        option_with_argument("log", 2),
    ],
    build: |g| build_verbatim_match(g, &[(1, Number(0, 2)), (2, Number(0, 2))]),
    scope: ExtensionScope {
        hooks: &[Prerouting, Input, Forward],
        ..ExtensionScope::for_protocols(&[6])
    },
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static IPCOMP_MATCH: Extension<Match> = Extension {
    name: "ipcomp",
    options: &[option_with_argument("ipcompspi", 0).invertible(), flag_option("compres", 1)],
    build: |g| build_verbatim_match(g, &[(0, NumberRange(U32_MAX))]),
    scope: ExtensionScope::for_protocols(&[108]),
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static IPVS_MATCH: Extension<Match> = Extension {
    name: "ipvs",
    options: &[
        flag_option("ipvs", 0).invertible(),
        option_with_argument("vproto", 1).invertible(),
        option_with_argument("vaddr", 2).invertible(),
        option_with_argument("vport", 3).invertible(),
        option_with_argument("vdir", 4),
        option_with_argument("vmethod", 5).invertible(),
        option_with_argument("vportctl", 6).invertible(),
    ],
    build: build_ipvs_match,
    ..Extension::PRINTED_AS_WRITTEN
};

fn build_ipvs_match(g: &ExtensionArguments) -> ParseResult<Match> {
    let Some(first) = g.iter().next() else {
        return g.extension_error("ipvs without a test").with_help("give --ipvs").into_err();
    };
    if g.first_with_id(0).is_some_and(|t| t.negated) && g.iter().count() > 1 {
        return first
            .arg_error("! --ipvs beside other options")
            .with_help("they test what only IPVS packets have")
            .into_err();
    }
    if let Some(t) = g.first_with_id(1) {
        let named = system_name_tables::protocol_number(t.arg).is_some();
        if !named && strtoul::parse_number_in_range(t.arg, 0, 255).is_none() {
            return t
                .arg_error(format!("no protocol {}", t.arg))
                .with_help("a name, or a number from 0 to 255")
                .into_err();
        }
    }
    for t in [3, 6].into_iter().filter_map(|id| g.first_with_id(id)) {
        super::super::port_matches::parse_port_of_protocol(t, t.arg, "")?;
    }
    build_verbatim_match(
        g,
        &[(2, Net), (4, Keyword(&["ORIGINAL", "REPLY"])), (5, Keyword(&["GATE", "IPIP", "MASQ"]))],
    )
}

pub(in crate::iptables::extension) static EUI64_MATCH: Extension<Match> = Extension {
    name: "eui64",
    family: IPV6_ONLY,
    options: &[],
    build: |g| build_verbatim_match(g, &[]),
    scope: ExtensionScope::from_hooks(&[Prerouting, Input, Forward]),
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static FRAG_MATCH: Extension<Match> = Extension {
    name: "frag",
    family: IPV6_ONLY,
    options: &[
        option_with_argument("fragid", 0).invertible(),
        option_with_argument("fraglen", 1).invertible(),
        flag_option("fragres", 2),
        flag_option("fragfirst", 3),
        flag_option("fragmore", 4).excludes(1 << 5),
        flag_option("fraglast", 5).excludes(1 << 4),
    ],
    build: |g| build_verbatim_match(g, &[(0, NumberRange(U32_MAX)), (1, Number(0, U32_MAX))]),
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static MH_MATCH: Extension<Match> = Extension {
    name: "mh",
    family: IPV6_ONLY,
    options: &[option_with_argument("mh-type", 0).invertible()],
    build: build_mh_match,
    scope: ExtensionScope::for_protocols(&[135]),
    ..Extension::PRINTED_AS_WRITTEN
};

/// Messages of Mobile IPv6 (RFC 6275): names and their numbers.
const MH_TYPES_0_TO_4: [(&str, u8); 10] = [
    ("binding-refresh-request", 0),
    ("brr", 0),
    ("home-test-init", 1),
    ("hoti", 1),
    ("careof-test-init", 2),
    ("coti", 2),
    ("home-test", 3),
    ("hot", 3),
    ("careof-test", 4),
    ("cot", 4),
];
const MH_TYPES_5_TO_7: [(&str, u8); 6] = [
    ("binding-update", 5),
    ("bu", 5),
    ("binding-acknowledgement", 6),
    ("ba", 6),
    ("binding-error", 7),
    ("be", 7),
];

/// A type by number, or by a name that may be abbreviated where that is unambiguous.
fn parse_mh_type(text: &str) -> Option<u8> {
    if let Some(n) = strtoul::parse_number_in_range(text, 0, 255) {
        return Some(n as u8);
    }
    let names = || MH_TYPES_0_TO_4.iter().chain(&MH_TYPES_5_TO_7);
    if let Some((_, n)) = names().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        return Some(*n);
    }
    let begins = |name: &str| {
        name.get(..text.len()).is_some_and(|s| !text.is_empty() && s.eq_ignore_ascii_case(text))
    };
    let mut found = names().filter(|(name, _)| begins(name)).map(|(_, n)| *n);
    let first = found.next()?;
    found.all(|n| n == first).then_some(first)
}

fn build_mh_match(g: &ExtensionArguments) -> ParseResult<Match> {
    if let Some(t) = g.first_with_id(0) {
        let (lo, hi) = t.arg.split_once(':').unwrap_or((t.arg, t.arg));
        let open = t.arg.contains(':');
        let read = |text: &str, empty: u8| match text {
            "" if open => Some(empty),
            _ => parse_mh_type(text),
        };
        match (read(lo, 0), read(hi, 255)) {
            (Some(lo), Some(hi)) if lo <= hi => {}
            (Some(_), Some(_)) => {
                return t
                    .arg_error(format!("the lower end of {} is above its upper end", t.arg))
                    .with_help("write the lower type first")
                    .into_err();
            }
            _ => {
                return t
                    .arg_error(format!("no type of mobility header {}", t.arg))
                    .with_help(
                        "a number from 0 to 255, a range FROM:TO, or a name like binding-update",
                    )
                    .into_err();
            }
        }
    }
    build_verbatim_match(g, &[])
}

/// Both kinds of options headers differ in nothing else.
const fn ipv6_options_header_match(
    name: &'static str,
    options: &'static [crate::iptables::option_specs_and_arguments::OptionSpec],
) -> Extension<Match> {
    Extension {
        name,
        family: IPV6_ONLY,
        options,
        build: build_ipv6_options_header_match,
        ..Extension::PRINTED_AS_WRITTEN
    }
}

pub(in crate::iptables::extension) static IPV6_DST_OPTIONS_MATCH: Extension<Match> =
    ipv6_options_header_match(
        "dst",
        &[option_with_argument("dst-len", 0).invertible(), option_with_argument("dst-opts", 1)],
    );
pub(in crate::iptables::extension) static IPV6_HOP_BY_HOP_MATCH: Extension<Match> =
    ipv6_options_header_match(
        "hbh",
        &[option_with_argument("hbh-len", 0).invertible(), option_with_argument("hbh-opts", 1)],
    );

/// Most options that the match compares (`IP6T_OPTS_OPTSNR`).
const IPV6_OPTIONS_MAX: usize = 16;

/// `--dst-opts TYPE[:LENGTH],…`.
fn build_ipv6_options_header_match(g: &ExtensionArguments) -> ParseResult<Match> {
    if let Some(t) = g.first_with_id(1) {
        let byte = |text: &str| strtoul::parse_number_in_range(text, 0, 255).is_some();
        let good = |word: &str| match word.split_once(':') {
            // Option 0 pads by one byte: it has no length.
            Some((kind, length)) => {
                strtoul::parse_number_in_range(kind, 1, 255).is_some() && byte(length)
            }
            None => byte(word),
        };
        let count = t.arg.split(',').count();
        if count > IPV6_OPTIONS_MAX || !t.arg.split(',').all(good) {
            return t
                .arg_error(format!("{:?} is not a list of options", t.arg))
                .with_help("TYPE[:LENGTH],… of at most 16, each number at most 255")
                .into_err();
        }
    }
    build_verbatim_match(g, &[(0, Number(0, U32_MAX))])
}

pub(in crate::iptables::extension) static IPV6HEADER_MATCH: Extension<Match> = Extension {
    name: "ipv6header",
    family: IPV6_ONLY,
    options: &[option_with_argument("header", 0).invertible().mandatory(), flag_option("soft", 1)],
    build: build_ipv6header_match,
    ..Extension::PRINTED_AS_WRITTEN
};

fn build_ipv6header_match(g: &ExtensionArguments) -> ParseResult<Match> {
    const IPV6_HEADER_NAMES: &[&str] = &[
        "hop",
        "hop-by-hop",
        "dst",
        "route",
        "frag",
        "auth",
        "esp",
        "none",
        "prot",
        "proto",
        "ipv6-opts",
        "ipv6-route",
        "ipv6-frag",
        "ah",
        "ipv6-nonxt",
        "protocol",
    ];
    build_verbatim_match(g, &[(0, super::NumberOrNameList(IPV6_HEADER_NAMES, 0, 255))])
}
