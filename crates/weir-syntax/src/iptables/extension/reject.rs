//! `-j REJECT`.

use weir_model::Hook::{Forward, Input, Output};
use weir_model::{Family, TableName, Target};

use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, option_with_argument,
};

pub(super) static REJECT_TARGET: Extension<Target> = Extension {
    name: "REJECT",
    options: &[option_with_argument("reject-with", 0)],
    build: build_reject_target,
    scope: ExtensionScope::in_tables_from_hooks(&[TableName::Filter], &[Input, Forward, Output]),
    ..Extension::DEFAULT
};

/// Name and alias, in the order in which the tools try abbreviations.
const REJECT_TYPE_NAMES_V4: [(&str, &str); 8] = [
    ("icmp-net-unreachable", "net-unreach"),
    ("icmp-host-unreachable", "host-unreach"),
    ("icmp-proto-unreachable", "proto-unreach"),
    ("icmp-port-unreachable", "port-unreach"),
    ("icmp-net-prohibited", "net-prohib"),
    ("icmp-host-prohibited", "host-prohib"),
    ("tcp-reset", "tcp-rst"),
    ("icmp-admin-prohibited", "admin-prohib"),
];
const REJECT_TYPE_NAMES_V6: [(&str, &str); 7] = [
    ("icmp6-no-route", "no-route"),
    ("icmp6-adm-prohibited", "adm-prohibited"),
    ("icmp6-addr-unreachable", "addr-unreach"),
    ("icmp6-port-unreachable", "port-unreach"),
    ("tcp-reset", "tcp-reset"),
    ("icmp6-policy-fail", "policy-fail"),
    ("icmp6-reject-route", "reject-route"),
];

/// The word for `--reject-with` of a whole name, of either family.
///
/// # Errors
/// The names, if it is none.
pub(crate) fn find_reject_type(name: &str) -> Result<&'static str, Vec<&'static str>> {
    let rows = || REJECT_TYPE_NAMES_V4.iter().chain(&REJECT_TYPE_NAMES_V6).map(|(name, _)| *name);
    rows().find(|known| *known == name).ok_or_else(|| {
        let mut names: Vec<_> = rows().collect();
        names.sort_unstable();
        names.dedup();
        names
    })
}

fn build_reject_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let (rows, default): (&[_], _) = match g.family {
        Family::V4 => (&REJECT_TYPE_NAMES_V4, "icmp-port-unreachable"),
        Family::V6 => (&REJECT_TYPE_NAMES_V6, "icmp6-port-unreachable"),
    };
    let Some(t) = g.first_with_id(0) else { return Ok(Target::Reject(default)) };
    let begins = |name: &str| {
        name.len() >= t.arg.len()
            && name.as_bytes()[..t.arg.len()].eq_ignore_ascii_case(t.arg.as_bytes())
    };
    let Some((name, _)) = rows.iter().find(|(name, alias)| begins(name) || begins(alias)) else {
        let names: Vec<_> = rows.iter().map(|(n, _)| *n).collect();
        return t
            .arg_error(format!("unknown REJECT type {}", t.arg))
            .with_help(format!("use one of {}", names.join(", ")))
            .into_err();
    };
    let tcp = g.base.proto.is_some_and(|p| p.proto == 6 && !p.negated);
    if *name == "tcp-reset" && !tcp {
        return t
            .arg_error("tcp-reset in a rule that is not for TCP only")
            .with_help("write -p tcp before it")
            .into_err();
    }
    Ok(Target::Reject(name))
}

pub(super) fn print_reject_target(out: &mut String, with: &str) {
    out.push_str(" -j REJECT --reject-with ");
    out.push_str(with);
}
