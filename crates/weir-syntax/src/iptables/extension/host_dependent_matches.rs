//! Matches that depend on the host: owner, addrtype, rpfilter, socket, physdev, helper, cpu,
//! cgroup.

use weir_model::Hook::{Forward, Input, Output, Postrouting, Prerouting};
use weir_model::rule_match::{ADDRTYPE_NAMES, ExtensionValue, TypedExtensionOption};
use weir_model::{Family, Match, TableName};

use super::extension_value_builders::unmodelled_input_match;
use super::option_value_printing::{
    print_option_value, print_text_in_quotes, print_text_quoted_if_needed,
};
use super::option_values;
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, ParsedOption, flag_option,
    option_with_argument,
};
use crate::{append_text, strtoul, system_name_tables};

pub(super) static OWNER_MATCH: Extension<Match> = Extension {
    name: "owner",
    options: &[
        option_with_argument("uid-owner", 0).invertible(),
        option_with_argument("gid-owner", 1).invertible(),
        flag_option("socket-exists", 2).invertible(),
        flag_option("suppl-groups", 3).requires_all(1 << 1),
    ],
    build: build_owner_match,
    scope: ExtensionScope::from_hooks(&[Output, Postrouting]),
    print_value: print_uid_or_gid_range,
    ..Extension::DEFAULT
};

pub(super) static ADDRTYPE_MATCH: Extension<Match> = Extension {
    name: "addrtype",
    options: &[
        option_with_argument("src-type", 0).invertible(),
        option_with_argument("dst-type", 1).invertible(),
        flag_option("limit-iface-in", 2).excludes(1 << 3),
        flag_option("limit-iface-out", 3).excludes(1 << 2),
    ],
    build: build_addrtype_match,
    ..Extension::DEFAULT
};

pub(super) static RPFILTER_MATCH: Extension<Match> = Extension {
    name: "rpfilter",
    options: &[
        flag_option("loose", 0),
        flag_option("validmark", 1),
        flag_option("accept-local", 2),
        flag_option("invert", 3),
    ],
    build: |g| Ok(build_flags_match(g, "rpfilter", &[0, 1, 2, 3])),
    scope: ExtensionScope::in_tables_from_hooks(
        &[TableName::Raw, TableName::Mangle],
        &[Prerouting],
    ),
    ..Extension::DEFAULT
};

pub(super) static SOCKET_MATCH: Extension<Match> = Extension {
    name: "socket",
    options: &[
        flag_option("transparent", 0),
        flag_option("nowildcard", 1),
        flag_option("restore-skmark", 2),
    ],
    build: |g| Ok(build_flags_match(g, "socket", &[0, 1, 2])),
    scope: ExtensionScope::from_hooks(&[Prerouting, Input]),
    ..Extension::DEFAULT
};

pub(super) static PHYSDEV_MATCH: Extension<Match> = Extension {
    name: "physdev",
    options: &[
        option_with_argument("physdev-in", 0).invertible(),
        option_with_argument("physdev-out", 1).invertible(),
        flag_option("physdev-is-in", 2).invertible(),
        flag_option("physdev-is-out", 3).invertible(),
        flag_option("physdev-is-bridged", 4).invertible(),
    ],
    build: build_physdev_match,
    print_value: print_text_quoted_if_needed,
    ..Extension::DEFAULT
};

pub(super) static HELPER_MATCH: Extension<Match> = Extension {
    name: "helper",
    options: &[option_with_argument("helper", 0).invertible().mandatory()],
    build: |g| {
        // The kernel's field has 29 bytes: longer names are truncated.
        let cut = |t: &ParsedOption| {
            let mut end = t.arg.len().min(29);
            while !t.arg.is_char_boundary(end) {
                end -= 1;
            }
            ExtensionValue::Text(t.arg[..end].to_owned())
        };
        build_one_option_match(g, "helper", "helper", |t| Ok(cut(t)))
    },
    ..Extension::DEFAULT
};

pub(super) static CPU_MATCH: Extension<Match> = Extension {
    name: "cpu",
    options: &[option_with_argument("cpu", 0).invertible().mandatory()],
    build: |g| {
        build_one_option_match(g, "cpu", "cpu", |t| {
            parse_number_as_option_value(t, u32::MAX.into())
        })
    },
    ..Extension::DEFAULT
};

pub(super) static CGROUP_MATCH: Extension<Match> = Extension {
    name: "cgroup",
    options: &[
        option_with_argument("path", 0).invertible().excludes(2),
        option_with_argument("cgroup", 1).invertible().excludes(1),
    ],
    build: |g| match g.iter().next() {
        Some(t) if t.id == 1 => build_one_option_match(g, "cgroup", "cgroup", |t| {
            parse_number_as_option_value(t, u32::MAX.into())
        }),
        Some(t) if t.arg.len() > 511 => t.arg_error("path is longer than 511 bytes").into_err(),
        Some(_) => build_one_option_match(g, "cgroup", "path", |t| {
            Ok(ExtensionValue::Text(t.arg.to_owned()))
        }),
        None => g.extension_error("cgroup without --path or --cgroup").into_err(),
    },
    scope: ExtensionScope::from_hooks(&[Input, Output, Postrouting]),
    print_value: print_text_in_quotes,
    ..Extension::DEFAULT
};

pub(super) static DEVGROUP_MATCH: Extension<Match> = Extension {
    name: "devgroup",
    options: &[
        option_with_argument("src-group", 0).invertible(),
        option_with_argument("dst-group", 1).invertible(),
    ],
    build: build_devgroup_match,
    print_value: print_text_quoted_if_needed,
    ..Extension::DEFAULT
};

pub(super) static REALM_MATCH: Extension<Match> = Extension {
    name: "realm",
    family: Some(Family::V4),
    options: &[option_with_argument("realm", 0).invertible().mandatory()],
    build: |g| {
        build_one_option_match(g, "realm", "realm", |t| {
            parse_iproute_name_or_number(t, "rt_realms")
        })
    },
    scope: ExtensionScope::from_hooks(&[Postrouting, Forward, Output, Input]),
    print_value: print_text_quoted_if_needed,
    ..Extension::DEFAULT
};

fn parse_number_as_option_value(t: &ParsedOption, max: u64) -> ParseResult<ExtensionValue> {
    option_values::parse_integer(t, 0, max).map(ExtensionValue::Number)
}

/// A match of exactly one option.
fn build_one_option_match(
    g: &ParsedExtensionOptions,
    module: &'static str,
    name: &'static str,
    read: impl Fn(&ParsedOption) -> ParseResult<ExtensionValue>,
) -> ParseResult<Match> {
    let Some(t) = g.iter().next() else {
        return g.extension_error(format!("{module} is empty")).into_err();
    };
    let options = vec![TypedExtensionOption { negated: t.negated, name, value: read(t)? }];
    Ok(unmodelled_input_match(module, options))
}

/// A match of flags, printed in the given order.
fn build_flags_match(g: &ParsedExtensionOptions, module: &'static str, order: &[u8]) -> Match {
    let options = order
        .iter()
        .filter_map(|id| g.first_with_id(*id))
        .map(|t| TypedExtensionOption {
            negated: t.negated,
            name: g.option_name_without_dashes(t.id),
            value: ExtensionValue::Flag,
        })
        .collect();
    unmodelled_input_match(module, options)
}

fn build_owner_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let mut options = Vec::new();
    let groups = g.iter().position(|t| t.id == 3);
    if groups < g.iter().position(|t| t.id == 1) && groups.is_some() {
        return g
            .extension_error("--suppl-groups before --gid-owner")
            .with_help("write it after")
            .into_err();
    }
    for id in [2, 0, 1, 3] {
        let Some(t) = g.first_with_id(id) else { continue };
        let value = match id {
            0 => parse_owner_range(t, "/etc/passwd")?,
            1 => parse_owner_range(t, "/etc/group")?,
            _ => ExtensionValue::Flag,
        };
        options.push(TypedExtensionOption {
            negated: t.negated,
            name: g.option_name_without_dashes(id),
            value,
        });
    }
    if !options.iter().any(|o| o.name != "suppl-groups") {
        return g
            .extension_error("owner without an option")
            .with_help("give --uid-owner, --gid-owner or --socket-exists")
            .into_err();
    }
    Ok(unmodelled_input_match("owner", options))
}

/// A name of the system's file, a number, or two joined by `-` or `:`.
fn parse_owner_range(t: &ParsedOption, file: &str) -> ParseResult<ExtensionValue> {
    if let Some(id) = system_name_tables::uid_or_gid_of_name(file, t.arg) {
        return Ok(ExtensionValue::Range(id.into(), id.into()));
    }
    let max = u64::from(u32::MAX) - 1;
    let read = || {
        let (lo, rest) = strtoul::parse_leading_number(t.arg).filter(|(n, _)| *n <= max)?;
        let hi = match rest.strip_prefix(['-', ':']) {
            Some(hi) => strtoul::parse_number_in_range(hi, 0, max)?,
            None if rest.is_empty() => lo,
            None => return None,
        };
        Some((lo, hi))
    };
    match read() {
        Some((lo, hi)) if lo > hi => {
            t.arg_error(format!("the lower end of {} is above its upper end", t.arg)).into_err()
        }
        Some((lo, hi)) => Ok(ExtensionValue::Range(lo, hi)),
        None => t
            .arg_error(format!("no account {}", t.arg))
            .with_help(format!("write its number, or a name that {file} has"))
            .into_err(),
    }
}

fn parse_address_types_as_keywords(
    t: &ParsedOption,
    g: &ParsedExtensionOptions,
) -> ParseResult<ExtensionValue> {
    let mut set = [false; ADDRTYPE_NAMES.len()];
    for word in t.arg.split(',') {
        let begins = |name: &str| {
            !word.is_empty()
                && word.len() <= name.len()
                && name.as_bytes()[..word.len()].eq_ignore_ascii_case(word.as_bytes())
        };
        match ADDRTYPE_NAMES.iter().position(|name| begins(name)) {
            Some(i) => set[i] = true,
            None => {
                return t
                    .arg_error(format!("no address type {word:?}"))
                    .with_help(format!("use one of {}", ADDRTYPE_NAMES.join(", ")))
                    .into_err();
            }
        }
    }
    let chosen: Vec<_> =
        (0..ADDRTYPE_NAMES.len()).filter(|i| set[*i]).map(|i| ADDRTYPE_NAMES[i]).collect();
    let foreign = ["BROADCAST", "BLACKHOLE", "PROHIBIT", "THROW", "NAT", "XRESOLVE"];
    let not_in_v6 = chosen.iter().find(|c| foreign.contains(c));
    match (g.family, not_in_v6) {
        (Family::V6, Some(name)) => {
            t.arg_error(format!("IPv6 has no address type {name}")).into_err()
        }
        _ => Ok(ExtensionValue::KeywordList(chosen)),
    }
}

fn build_addrtype_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let mut options = Vec::new();
    for t in [0, 1].into_iter().filter_map(|id| g.first_with_id(id)) {
        let value = parse_address_types_as_keywords(t, g)?;
        options.push(TypedExtensionOption {
            negated: t.negated,
            name: g.option_name_without_dashes(t.id),
            value,
        });
    }
    if options.is_empty() {
        return g
            .extension_error("addrtype without a type")
            .with_help("give --src-type or --dst-type")
            .into_err();
    }
    for (id, hooks) in
        [(2, &[Prerouting, Input, Forward][..]), (3, &[Postrouting, Output, Forward][..])]
    {
        if g.has_option(id) {
            g.restrict_hooks(hooks);
            let value = ExtensionValue::Flag;
            options.push(TypedExtensionOption {
                negated: false,
                name: g.option_name_without_dashes(id),
                value,
            });
        }
    }
    Ok(unmodelled_input_match("addrtype", options))
}

fn build_physdev_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let mut options = Vec::new();
    for t in [2, 0, 3, 1, 4].into_iter().filter_map(|id| g.first_with_id(id)) {
        let value = match t.id {
            0 | 1 if t.arg.len() > 15 => {
                return t.arg_error("device name is longer than 15 bytes").into_err();
            }
            0 | 1 if t.arg.is_empty() => {
                return t.arg_error("empty device name").with_help("remove the option").into_err();
            }
            0 | 1 => ExtensionValue::Text(t.arg.to_owned()),
            _ => ExtensionValue::Flag,
        };
        options.push(TypedExtensionOption {
            negated: t.negated,
            name: g.option_name_without_dashes(t.id),
            value,
        });
    }
    if options.is_empty() {
        return g.extension_error("physdev without an option").into_err();
    }
    let bridged = g.first_with_id(4).is_some_and(|t| !t.negated);
    if (g.has_option(1) || g.has_option(3)) && !bridged {
        g.restrict_hooks(&[Prerouting, Input, Forward, Postrouting]);
    }
    Ok(unmodelled_input_match("physdev", options))
}

fn build_devgroup_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let mut options = Vec::new();
    for t in [0, 1].into_iter().filter_map(|id| g.first_with_id(id)) {
        let value = parse_iproute_name_or_number(t, "group")?;
        options.push(TypedExtensionOption {
            negated: t.negated,
            name: g.option_name_without_dashes(t.id),
            value,
        });
    }
    match (g.has_option(0), g.has_option(1)) {
        (true, true) => g.restrict_hooks(&[Forward]),
        (true, false) => g.restrict_hooks(&[Prerouting, Input, Forward]),
        (false, true) => g.restrict_hooks(&[Forward, Output, Postrouting]),
        (false, false) => return g.extension_error("devgroup without a group").into_err(),
    }
    Ok(unmodelled_input_match("devgroup", options))
}

/// `value[/mask]`, or a name of a table of iproute2, which is printed back by its name.
fn parse_iproute_name_or_number(t: &ParsedOption, table: &str) -> ParseResult<ExtensionValue> {
    if let Some(n) = system_name_tables::iproute_number_of_name(table, t.arg) {
        return Ok(ExtensionValue::Text(
            system_name_tables::iproute_name_of_number(table, n)
                .unwrap_or_else(|| t.arg.to_owned()),
        ));
    }
    let (v, mask) = option_values::parse_masked_number(t, u32::MAX.into())?;
    if mask != u32::MAX.into() {
        return Ok(ExtensionValue::Masked(v, mask));
    }
    Ok(match system_name_tables::iproute_name_of_number(table, v as u32) {
        Some(name) => ExtensionValue::Text(name),
        None => ExtensionValue::Hex(v),
    })
}

/// A range of accounts has a hyphen.
fn print_uid_or_gid_range(out: &mut String, o: &TypedExtensionOption, family: Family) {
    let ExtensionValue::Range(lo, hi) = &o.value else { return print_option_value(out, o, family) };
    append_text::append_decimal(out, *lo);
    if lo != hi {
        out.push('-');
        append_text::append_decimal(out, *hi);
    }
}
