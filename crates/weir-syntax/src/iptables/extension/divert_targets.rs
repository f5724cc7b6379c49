//! Targets that hand the packet to a socket or a program: NFQUEUE, TPROXY, SYNPROXY.

use weir_model::Hook::{Forward, Input, Prerouting};
use weir_model::rule_match::ExtensionValue;
use weir_model::target::ExtensionTarget as Plain;
use weir_model::{Addr, TableName, Target};

use super::extension_value_builders::ModuleOptionsBuilder;
use super::{option_values, port_matches};
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, flag_option, option_with_argument,
};

pub(super) static NFQUEUE_TARGET: Extension<Target> = Extension {
    name: "NFQUEUE",
    options: &[
        option_with_argument("queue-num", 0).excludes(1 << 1),
        option_with_argument("queue-balance", 1).excludes(1 << 0),
        flag_option("queue-bypass", 2),
        flag_option("queue-cpu-fanout", 3).requires_all(1 << 1),
    ],
    build: build_nfqueue_target,
    ..Extension::DEFAULT
};

pub(super) static TPROXY_TARGET: Extension<Target> = Extension {
    name: "TPROXY",
    options: &[
        option_with_argument("on-port", 0).mandatory(),
        option_with_argument("on-ip", 1),
        option_with_argument("tproxy-mark", 2),
    ],
    build: build_tproxy_target,
    scope: ExtensionScope {
        protocols: &[6, 17],
        tables: &[TableName::Mangle],
        hooks: &[Prerouting],
    },
    ..Extension::DEFAULT
};

pub(super) static SYNPROXY_TARGET: Extension<Target> = Extension {
    name: "SYNPROXY",
    options: &[
        flag_option("sack-perm", 0),
        flag_option("timestamp", 1),
        option_with_argument("wscale", 2),
        option_with_argument("mss", 3),
        flag_option("ecn", 4),
    ],
    build: build_synproxy_target,
    scope: ExtensionScope { protocols: &[6], tables: &[], hooks: &[Input, Forward] },
    ..Extension::DEFAULT
};

fn divert_target(module: &'static str, options: ModuleOptionsBuilder) -> Target {
    Target::Divert(Box::new(Plain { module, options: options.0 }))
}

fn build_nfqueue_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut options = ModuleOptionsBuilder::default();
    match g.first_with_id(1) {
        Some(t) => match option_values::parse_number_range(t, 0xffff)? {
            (lo, hi) if lo < hi && hi - lo < 0xffff => {
                options.push_non_negated("queue-balance", ExtensionValue::Range(lo, hi));
            }
            _ => {
                return t
                    .arg_error(format!("{} is not a range of queues", t.arg))
                    .with_help("write FIRST:LAST, at most 65535 queues")
                    .into_err();
            }
        },
        None => {
            let n =
                g.first_with_id(0).map_or(Ok(0), |t| option_values::parse_integer(t, 0, 0xffff))?;
            options.push_non_negated("queue-num", ExtensionValue::Number(n));
        }
    }
    for id in [2, 3].into_iter().filter(|id| g.has_option(*id)) {
        options.push_non_negated(g.option_name_without_dashes(id), ExtensionValue::Flag);
    }
    Ok(divert_target("NFQUEUE", options))
}

fn build_tproxy_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut options = ModuleOptionsBuilder::default();
    let Some(t) = g.first_with_id(0) else {
        return g.extension_error("TPROXY without --on-port").into_err();
    };
    options.push_non_negated(
        "on-port",
        ExtensionValue::Number(port_matches::parse_resolver_port(t, t.arg)?.into()),
    );
    let ip = g.first_with_id(1).map_or(Ok(Addr(0)), |t| option_values::parse_host_addr(t, g))?;
    options.push_non_negated("on-ip", ExtensionValue::Addr(ip));
    let (mark, mask) = g
        .first_with_id(2)
        .map_or(Ok((0, 0)), |t| option_values::parse_masked_number(t, u32::MAX.into()))?;
    options.push_non_negated("tproxy-mark", ExtensionValue::Masked(mark, mask));
    Ok(divert_target("TPROXY", options))
}

fn build_synproxy_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut options = ModuleOptionsBuilder::default();
    for id in 0..=4 {
        let Some(t) = g.first_with_id(id) else { continue };
        let v = match id {
            2 => ExtensionValue::Number(option_values::parse_integer(t, 0, 255)?),
            3 => ExtensionValue::Number(option_values::parse_integer(t, 0, 0xffff)?),
            _ => ExtensionValue::Flag,
        };
        options.push_non_negated(g.option_name_without_dashes(id), v);
    }
    Ok(divert_target("SYNPROXY", options))
}
