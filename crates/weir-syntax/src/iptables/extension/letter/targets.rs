//! Targets that are checked and preserved verbatim.

use weir_model::Hook::{Input, Output, Postrouting, Prerouting};
use weir_model::TableName::{Mangle, Security};
use weir_model::{Family, Target};

use super::{Length, List, Net, Number, Text, Word, keep_target};
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, ExtensionScope, Given, flag, opt};

/// All of them.
pub(in crate::iptables::extension) static TARGETS: &[&Extension<Target>] = &[
    &HMARK,
    &IDLETIMER,
    &LED,
    &SECMARK,
    &CONNSECMARK,
    &TCPOPTSTRIP,
    &RATEEST,
    &CLUSTERIP,
    &SNPT,
    &DNPT,
];

const U16: u64 = u16::MAX as u64;
const U32: u64 = u32::MAX as u64;

/// Masks of ports, which a mask of SPIs excludes.
const PORT_MASKS: u32 = 1 << 3 | 1 << 4;

static HMARK: Extension<Target> = Extension {
    name: "HMARK",
    family: None,
    options: &[
        opt("hmark-tuple", 0),
        opt("hmark-src-prefix", 1),
        opt("hmark-dst-prefix", 2),
        opt("hmark-sport-mask", 3).excludes(1 << 5),
        opt("hmark-dport-mask", 4).excludes(1 << 5),
        opt("hmark-spi-mask", 5).excludes(PORT_MASKS),
        opt("hmark-sport", 6),
        opt("hmark-dport", 7),
        opt("hmark-spi", 8),
        opt("hmark-proto-mask", 9),
        opt("hmark-rnd", 10).mandatory(),
        opt("hmark-mod", 11).mandatory(),
        opt("hmark-offset", 12),
    ],
    build: hmark,
    place: ANYWHERE,
};

fn hmark(g: &Given) -> Fallible<Target> {
    if !g.iter().any(|t| t.id <= 5 || t.id == 9) {
        return g.problem("HMARK without fields to hash").help("give --hmark-tuple").fail();
    }
    let (short, long) = (Number(0, U16), Number(0, U32));
    let tuple = List(&["ct", "src", "dst", "sport", "dport", "spi", "proto"], 1, 0);
    keep_target(
        g,
        &[
            (0, tuple),
            (1, Length),
            (2, Length),
            (3, short),
            (4, short),
            (5, long),
            (6, short),
            (7, short),
            (8, long),
            (9, short),
            (10, long),
            (11, Number(1, U32)),
            (12, long),
        ],
    )
}

static IDLETIMER: Extension<Target> = Extension {
    name: "IDLETIMER",
    family: None,
    options: &[opt("timeout", 0).mandatory(), opt("label", 1).mandatory(), flag("alarm", 2)],
    // The kernel takes neither no time nor no label (`idletimer_tg_helper`).
    build: |g| keep_target(g, &[(0, Number(1, U32)), (1, Text(1, 27))]),
    place: ANYWHERE,
};

static LED: Extension<Target> = Extension {
    name: "LED",
    family: None,
    options: &[
        opt("led-trigger-id", 0).mandatory(),
        opt("led-delay", 1),
        flag("led-always-blink", 2),
    ],
    build: |g| {
        let delay = g.first(1).filter(|t| !t.arg.to_ascii_lowercase().starts_with("inf"));
        if let Some(t) = delay {
            super::value::integer(t, 0, U32)?;
        }
        keep_target(g, &[(0, Text(0, 17))])
    },
    place: ANYWHERE,
};

static SECMARK: Extension<Target> = Extension {
    name: "SECMARK",
    family: None,
    options: &[opt("selctx", 0).mandatory()],
    build: |g| keep_target(g, &[(0, Text(1, 255))]),
    place: ANYWHERE,
};

static CONNSECMARK: Extension<Target> = Extension {
    name: "CONNSECMARK",
    family: None,
    options: &[flag("save", 0).excludes(1 << 1), flag("restore", 1).excludes(1 << 0)],
    build: |g| match g.iter().next() {
        Some(_) => keep_target(g, &[]),
        None => g.problem("CONNSECMARK without an action").help("give --save or --restore").fail(),
    },
    place: ExtensionScope::tables(&[Mangle, Security]),
};

static TCPOPTSTRIP: Extension<Target> = Extension {
    name: "TCPOPTSTRIP",
    family: None,
    options: &[opt("strip-options", 0)],
    build: |g| {
        const NAMES: &[&str] = &["wscale", "mss", "sack-permitted", "sack", "timestamp", "md5"];
        // Options 0 and 1 end and pad the list.
        keep_target(g, &[(0, List(NAMES, 2, 255))])
    },
    place: ExtensionScope { tables: &[Mangle], ..ExtensionScope::protocols(&[6]) },
};

static RATEEST: Extension<Target> = Extension {
    name: "RATEEST",
    family: None,
    options: &[
        opt("rateest-name", 0).mandatory(),
        opt("rateest-interval", 1).mandatory(),
        opt("rateest-ewmalog", 2).mandatory(),
    ],
    build: |g| {
        for t in [1, 2].into_iter().filter_map(|id| g.first(id)) {
            let unit = t.arg.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            let number = &t.arg[..t.arg.len() - unit.len()];
            let units = ["", "s", "sec", "secs", "ms", "msec", "msecs", "us", "usec", "usecs"];
            if number.parse::<f64>().is_err() || !units.contains(&unit) {
                return t.problem(format!("{} is not a time", t.arg)).help("e.g. 250ms").fail();
            }
        }
        keep_target(g, &[(0, Text(1, 255))])
    },
    place: ANYWHERE,
};

static CLUSTERIP: Extension<Target> = Extension {
    name: "CLUSTERIP",
    family: Some(Family::V4),
    options: &[
        flag("new", 0),
        opt("hashmode", 1),
        opt("clustermac", 2),
        opt("total-nodes", 3),
        opt("local-node", 4),
        opt("hash-init", 5),
    ],
    build: |g| {
        let count = g.iter().count();
        let full = (0..=4).all(|id| g.has(id));
        if count > 0 && !full {
            return g
                .problem("CLUSTERIP without all of its options")
                .help(
                    "give --new, --hashmode, --clustermac, --total-nodes and --local-node, or none",
                )
                .fail();
        }
        const MODES: &[&str] = &["sourceip", "sourceip-sourceport", "sourceip-sourceport-destport"];
        let nodes = Number(0, 16);
        keep_target(g, &[(1, Word(MODES)), (3, nodes), (4, nodes), (5, Number(0, U32))])
    },
    place: ANYWHERE,
};

static SNPT: Extension<Target> = Extension {
    name: "SNPT",
    family: Some(Family::V6),
    options: PREFIXES,
    build: prefixes,
    place: ExtensionScope::within(&[Mangle], &[Input, Postrouting]),
};

static DNPT: Extension<Target> = Extension {
    name: "DNPT",
    family: Some(Family::V6),
    options: PREFIXES,
    build: prefixes,
    place: ExtensionScope::within(&[Mangle], &[Prerouting, Output]),
};

const PREFIXES: &[crate::iptables::option::Opt] =
    &[opt("src-pfx", 0).mandatory(), opt("dst-pfx", 1).mandatory()];

/// Both prefixes are at most 64 bits long, and hold no address below them
/// (`ip6t_npt_checkentry` in net/ipv6/netfilter/ip6t_NPT.c).
fn prefixes(g: &Given) -> Fallible<Target> {
    let kept = keep_target(g, &[(0, Net), (1, Net)])?;
    for t in g.iter() {
        let (addr, mask) = super::value::host_net(t, g)?;
        let length = g.family.prefix_len(mask.0);
        if addr.0 & !mask.0 != 0 || length.is_none_or(|l| l > 64) {
            return t
                .problem(format!("{} is not a prefix of at most 64 bits", t.arg))
                .help("write only the prefix, e.g. 2001:db8:1::/48")
                .fail();
        }
    }
    Ok(kept)
}
