//! Matches that are checked and preserved verbatim.

use weir_model::Hook::{Forward, Input, Prerouting};
use weir_model::{Family, Match};

use super::{Net, Number, Range, Text, Word, keep_match};
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, ExtensionScope, Given, flag, opt};
use crate::{names, number};

/// All of them.
pub(in crate::iptables::extension) static MATCHES: &[&Extension<Match>] = &[
    &CLUSTER,
    &CONNLABEL,
    &NFACCT,
    &OSF,
    &IPCOMP,
    &IPVS,
    &EUI64,
    &FRAG,
    &MH,
    &DST,
    &HBH,
    &IPV6HEADER,
];

const U32: u64 = u32::MAX as u64;
const V6: Option<Family> = Some(Family::V6);

static CLUSTER: Extension<Match> = Extension {
    name: "cluster",
    family: None,
    options: &[
        opt("cluster-total-nodes", 0).mandatory(),
        opt("cluster-local-node", 1).invert().excludes(1 << 2),
        opt("cluster-local-nodemask", 2).invert().excludes(1 << 1),
        opt("cluster-hash-seed", 3).mandatory(),
    ],
    build: cluster,
    place: ANYWHERE,
};

/// Most nodes of a cluster (`XT_CLUSTER_NODES_MAX`).
const NODES_MAX: u64 = 32;

fn cluster(g: &Given) -> Fallible<Match> {
    let kept = keep_match(
        g,
        &[
            (0, Number(1, NODES_MAX)),
            (1, Number(1, NODES_MAX)),
            (2, Number(1, NODES_MAX)),
            (3, Number(0, U32)),
        ],
    )?;
    let number = |id| g.first(id).and_then(|t| number::whole(t.arg, 1, NODES_MAX));
    let Some(t) = g.first(1).or(g.first(2)) else {
        return g
            .problem("cluster without its own node")
            .help("give --cluster-local-node or --cluster-local-nodemask")
            .fail();
    };
    let mask = match (number(1), number(2)) {
        (Some(node), _) => 1 << (node - 1),
        (None, mask) => mask.unwrap_or(0),
    };
    if mask >= 1u64 << number(0).unwrap_or(0) {
        return t
            .problem("the node is above the number of nodes")
            .help("nodes are counted from 1 to --cluster-total-nodes")
            .fail();
    }
    Ok(kept)
}

static CONNLABEL: Extension<Match> = Extension {
    name: "connlabel",
    family: None,
    options: &[opt("label", 0).invert().mandatory(), flag("set", 1)],
    build: |g| {
        // A name is looked up in a file of the host where the rule is loaded.
        if let Some(t) = g.first(0)
            && number::whole(t.arg, 0, u64::MAX).is_some_and(|n| n > LABEL_MAX)
        {
            return t
                .problem(format!("label {} is above {LABEL_MAX}", t.arg))
                .help("the kernel has 128 labels, starting from 0")
                .fail();
        }
        keep_match(g, &[(0, Text(1, 255))])
    },
    place: ANYWHERE,
};

/// Last label of a connection (`XT_CONNLABEL_MAXBIT`).
const LABEL_MAX: u64 = 127;

static NFACCT: Extension<Match> = Extension {
    name: "nfacct",
    family: None,
    options: &[opt("nfacct-name", 0).mandatory()],
    build: |g| keep_match(g, &[(0, Text(1, 255))]),
    place: ANYWHERE,
};

static OSF: Extension<Match> = Extension {
    name: "osf",
    family: Some(Family::V4),
    options: &[opt("genre", 0).invert().mandatory(), opt("ttl", 1), opt("log", 2)],
    build: |g| keep_match(g, &[(1, Number(0, 2)), (2, Number(0, 2))]),
    place: ExtensionScope {
        hooks: &[Prerouting, Input, Forward],
        ..ExtensionScope::protocols(&[6])
    },
};

static IPCOMP: Extension<Match> = Extension {
    name: "ipcomp",
    family: None,
    options: &[opt("ipcompspi", 0).invert(), flag("compres", 1)],
    build: |g| keep_match(g, &[(0, Range(U32))]),
    place: ExtensionScope::protocols(&[108]),
};

static IPVS: Extension<Match> = Extension {
    name: "ipvs",
    family: None,
    options: &[
        flag("ipvs", 0).invert(),
        opt("vproto", 1).invert(),
        opt("vaddr", 2).invert(),
        opt("vport", 3).invert(),
        opt("vdir", 4),
        opt("vmethod", 5).invert(),
        opt("vportctl", 6).invert(),
    ],
    build: ipvs,
    place: ANYWHERE,
};

fn ipvs(g: &Given) -> Fallible<Match> {
    let Some(first) = g.iter().next() else {
        return g.problem("ipvs without a test").help("give --ipvs").fail();
    };
    if g.first(0).is_some_and(|t| t.negated) && g.iter().count() > 1 {
        return first
            .problem("! --ipvs beside other options")
            .help("they test what only IPVS packets have")
            .fail();
    }
    if let Some(t) = g.first(1) {
        let named = names::protocol(t.arg).is_some();
        if !named && number::whole(t.arg, 0, 255).is_none() {
            return t
                .problem(format!("no protocol {}", t.arg))
                .help("a name, or a number from 0 to 255")
                .fail();
        }
    }
    for t in [3, 6].into_iter().filter_map(|id| g.first(id)) {
        super::super::ports::port(t, t.arg, "")?;
    }
    keep_match(
        g,
        &[(2, Net), (4, Word(&["ORIGINAL", "REPLY"])), (5, Word(&["GATE", "IPIP", "MASQ"]))],
    )
}

static EUI64: Extension<Match> = Extension {
    name: "eui64",
    family: V6,
    options: &[],
    build: |g| keep_match(g, &[]),
    place: ExtensionScope::hooks(&[Prerouting, Input, Forward]),
};

static FRAG: Extension<Match> = Extension {
    name: "frag",
    family: V6,
    options: &[
        opt("fragid", 0).invert(),
        opt("fraglen", 1).invert(),
        flag("fragres", 2),
        flag("fragfirst", 3),
        flag("fragmore", 4).excludes(1 << 5),
        flag("fraglast", 5).excludes(1 << 4),
    ],
    build: |g| keep_match(g, &[(0, Range(U32)), (1, Number(0, U32))]),
    place: ANYWHERE,
};

static MH: Extension<Match> = Extension {
    name: "mh",
    family: V6,
    options: &[opt("mh-type", 0).invert()],
    build: mh,
    place: ExtensionScope::protocols(&[135]),
};

/// Messages of Mobile IPv6 (RFC 6275): names and their numbers.
const MH_TYPES: [(&str, u8); 10] = [
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
const MH_LATER: [(&str, u8); 6] = [
    ("binding-update", 5),
    ("bu", 5),
    ("binding-acknowledgement", 6),
    ("ba", 6),
    ("binding-error", 7),
    ("be", 7),
];

/// A type by number, or by a name that may be abbreviated where that is unambiguous.
fn mh_type(text: &str) -> Option<u8> {
    if let Some(n) = number::whole(text, 0, 255) {
        return Some(n as u8);
    }
    let names = || MH_TYPES.iter().chain(&MH_LATER);
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

fn mh(g: &Given) -> Fallible<Match> {
    if let Some(t) = g.first(0) {
        let (lo, hi) = t.arg.split_once(':').unwrap_or((t.arg, t.arg));
        let open = t.arg.contains(':');
        let read = |text: &str, empty: u8| match text {
            "" if open => Some(empty),
            _ => mh_type(text),
        };
        match (read(lo, 0), read(hi, 255)) {
            (Some(lo), Some(hi)) if lo <= hi => {}
            (Some(_), Some(_)) => {
                return t
                    .problem(format!("the lower end of {} is above its upper end", t.arg))
                    .help("write the lower type first")
                    .fail();
            }
            _ => {
                return t
                    .problem(format!("no type of mobility header {}", t.arg))
                    .help("a number from 0 to 255, a range FROM:TO, or a name like binding-update")
                    .fail();
            }
        }
    }
    keep_match(g, &[])
}

/// Both kinds of options headers differ in nothing else.
const fn options_of(
    name: &'static str,
    options: &'static [crate::iptables::option::Opt],
) -> Extension<Match> {
    Extension { name, family: V6, options, build: option_header, place: ANYWHERE }
}

static DST: Extension<Match> = options_of("dst", &[opt("dst-len", 0).invert(), opt("dst-opts", 1)]);
static HBH: Extension<Match> = options_of("hbh", &[opt("hbh-len", 0).invert(), opt("hbh-opts", 1)]);

/// Most options that the match compares (`IP6T_OPTS_OPTSNR`).
const HEADER_OPTIONS_MAX: usize = 16;

/// `--dst-opts TYPE[:LENGTH],…`.
fn option_header(g: &Given) -> Fallible<Match> {
    if let Some(t) = g.first(1) {
        let byte = |text: &str| number::whole(text, 0, 255).is_some();
        let good = |word: &str| match word.split_once(':') {
            // Option 0 pads by one byte: it has no length.
            Some((kind, length)) => number::whole(kind, 1, 255).is_some() && byte(length),
            None => byte(word),
        };
        let count = t.arg.split(',').count();
        if count > HEADER_OPTIONS_MAX || !t.arg.split(',').all(good) {
            return t
                .problem(format!("{:?} is not a list of options", t.arg))
                .help("TYPE[:LENGTH],… of at most 16, each number at most 255")
                .fail();
        }
    }
    keep_match(g, &[(0, Number(0, U32))])
}

static IPV6HEADER: Extension<Match> = Extension {
    name: "ipv6header",
    family: V6,
    options: &[opt("header", 0).invert().mandatory(), flag("soft", 1)],
    build: ipv6header,
    place: ANYWHERE,
};

fn ipv6header(g: &Given) -> Fallible<Match> {
    const HEADERS: &[&str] = &[
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
    keep_match(g, &[(0, super::List(HEADERS, 0, 255))])
}
