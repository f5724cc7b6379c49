//! Matches that are checked and preserved verbatim.

use weir_model::Hook::{Forward, Input, Prerouting};
use weir_model::rule_match::WrittenOption;
use weir_model::{Family, Match};

use super::{
    CaselessKeyword, Net, Number, NumberRange, Text, TruncatedText, U32_MAX, build_verbatim_match,
    check_and_copy_options,
};
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, flag_option, option_with_argument,
};
use crate::{strtoul, system_name_tables};

pub(in crate::iptables::extension) static CLUSTER_MATCH: Extension<Match> = Extension {
    name: "cluster",
    options: &[
        option_with_argument("cluster-total-nodes", 0).mandatory(),
        option_with_argument("cluster-local-node", 1).invertible().excludes(1 << 2),
        option_with_argument("cluster-local-nodemask", 2).invertible().excludes(1 << 1),
        option_with_argument("cluster-hash-seed", 3).mandatory(),
    ],
    build: build_cluster_match,
    keeps_spelling: false,
    ..Extension::PRINTED_AS_WRITTEN
};

/// Most nodes of a cluster (`XT_CLUSTER_NODES_MAX`).
const CLUSTER_NODES_MAX: u64 = 32;

/// The options as `iptables-save` prints them, except for a node above the sixth: its mask is above
/// 32, which is printed but not read back.
fn build_cluster_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let number = |id, max| {
        let t = g.first_with_id(id);
        t.and_then(|t| strtoul::parse_number_in_range(t.arg, 0, max)).unwrap_or(0)
    };
    if let mask @ 33.. = number(2, U32_MAX)
        && let Some(t) = g.first_with_id(2)
    {
        let d =
            t.arg_error("iptables-restore takes no mask above 32, though iptables-save prints it");
        return match mask.is_power_of_two() {
            true => d.with_help(format!("write --cluster-local-node {}", mask.ilog2() + 1)),
            false => d.with_help("write a rule for each node"),
        }
        .into_err();
    }
    check_and_copy_options(
        g,
        &[
            (0, Number(1, CLUSTER_NODES_MAX)),
            (1, Number(1, CLUSTER_NODES_MAX)),
            (2, Number(1, CLUSTER_NODES_MAX)),
            (3, Number(0, U32_MAX)),
        ],
    )?;
    let Some(t) = g.first_with_id(1).or(g.first_with_id(2)) else {
        return g
            .extension_error("cluster without its own node")
            .with_help("give --cluster-local-node or --cluster-local-nodemask")
            .into_err();
    };
    let (total, seed) = (number(0, U32_MAX), number(3, U32_MAX));
    let mask = match number(1, CLUSTER_NODES_MAX) {
        0 => number(2, U32_MAX),
        node => 1 << (node - 1),
    };
    if mask >= 1u64 << total {
        return t
            .arg_error("the node is above the number of nodes")
            .with_help("nodes are counted from 1 to --cluster-total-nodes")
            .into_err();
    }
    let option =
        |negated, name, argument| WrittenOption { negated, name, argument: Some(argument) };
    let own = match mask {
        ..=CLUSTER_NODES_MAX => {
            option(t.negated, "cluster-local-nodemask", format!("{mask:#010x}"))
        }
        _ => option(t.negated, "cluster-local-node", (mask.ilog2() + 1).to_string()),
    };
    let total = option(false, "cluster-total-nodes", total.to_string());
    let seed = option(false, "cluster-hash-seed", format!("{seed:#010x}"));
    Ok(Match::from_written_options(g.name, vec![own, total, seed]))
}

pub(in crate::iptables::extension) static CONNLABEL_MATCH: Extension<Match> = Extension {
    name: "connlabel",
    options: &[option_with_argument("label", 0).invertible().mandatory(), flag_option("set", 1)],
    build: build_connlabel_match,
    ..Extension::PRINTED_AS_WRITTEN
};

/// Last label of a connection (`XT_CONNLABEL_MAXBIT`).
const CONNLABEL_MAX_BIT: u64 = 127;

/// A label by number or by name.
///
/// The tool looks a name up in a file of the host where the rule is loaded: whether it is there is
/// not known here. Of a number above 65535 it keeps 16 bits, and 65536 is label 0; such a number is
/// refused.
fn build_connlabel_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let Some(t) = g.first_with_id(0) else {
        return g.extension_error("connlabel without --label").into_err();
    };
    match strtoul::parse_strtoul_refusing_negative(t.arg, 0, u64::MAX) {
        Some(n) if n > CONNLABEL_MAX_BIT => t
            .arg_error(format!("label {} is above {CONNLABEL_MAX_BIT}", t.arg))
            .with_help("the kernel has 128 labels, starting from 0")
            .into_err(),
        None if !t.arg.contains(char::is_alphabetic) && !t.arg.is_empty() => t
            .arg_error(format!("{:?} is neither a label's number nor its name", t.arg))
            .with_help(format!("write a number from 0 to {CONNLABEL_MAX_BIT}, or a name"))
            .into_err(),
        _ => build_verbatim_match(g, &[(0, Text(1, 255))]),
    }
}

pub(in crate::iptables::extension) static NFACCT_MATCH: Extension<Match> = Extension {
    name: "nfacct",
    options: &[option_with_argument("nfacct-name", 0).mandatory()],
    // Of the name, `NFACCT_NAME_MAX` bytes with a zero at the end are kept.
    build: |g| build_verbatim_match(g, &[(0, TruncatedText(1, 31))]),
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

fn build_ipvs_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
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
                .with_help("write a name, or a number from 0 to 255")
                .into_err();
        }
    }
    for t in [3, 6].into_iter().filter_map(|id| g.first_with_id(id)) {
        super::super::port_matches::parse_port_of_protocol(t, t.arg, "")?;
    }
    build_verbatim_match(
        g,
        &[
            (2, Net),
            (4, CaselessKeyword(&["ORIGINAL", "REPLY"])),
            (5, CaselessKeyword(&["GATE", "IPIP", "MASQ"])),
        ],
    )
}
