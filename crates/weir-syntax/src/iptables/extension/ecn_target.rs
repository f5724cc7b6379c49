//! `-j ECN`: bits of congestion notification in the TCP and IPv4 headers.

use weir_model::rule_match::ExtensionValue;
use weir_model::{Family, TableName, Target};

use super::extension_value_builders::ModuleOptionsBuilder;
use super::{log_targets, option_values};
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, flag_option, option_with_argument,
};

const TCP_REMOVE_OPTION_ID: u8 = 0;
const TCP_CWR_OPTION_ID: u8 = 1;
const TCP_ECE_OPTION_ID: u8 = 2;
const IP_ECT_OPTION_ID: u8 = 3;

pub(super) static ECN_TARGET: Extension<Target> = Extension {
    name: "ECN",
    family: Some(Family::V4),
    options: &[
        flag_option("ecn-tcp-remove", TCP_REMOVE_OPTION_ID)
            .excludes(1 << TCP_CWR_OPTION_ID | 1 << TCP_ECE_OPTION_ID),
        option_with_argument("ecn-tcp-cwr", TCP_CWR_OPTION_ID).excludes(1 << TCP_REMOVE_OPTION_ID),
        option_with_argument("ecn-tcp-ece", TCP_ECE_OPTION_ID).excludes(1 << TCP_REMOVE_OPTION_ID),
        option_with_argument("ecn-ip-ect", IP_ECT_OPTION_ID),
    ],
    build: build_ecn_target,
    scope: ExtensionScope::in_tables(&[TableName::Mangle]),
    ..Extension::DEFAULT
};

/// What the kernel is told to set; `None` is left unchanged.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct EcnOperation {
    tcp_ece: Option<u64>,
    tcp_cwr: Option<u64>,
    ip_ect: Option<u64>,
}

impl EcnOperation {
    const TCP_REMOVE: Self = EcnOperation { tcp_ece: Some(0), tcp_cwr: Some(0), ip_ect: None };
}

/// Reads the options in order, as `ECN_parse` of libipt_ECN.c does: `--ecn-tcp-remove` replaces all
/// that was set before it, also an `--ecn-ip-ect`.
fn build_ecn_target(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    let mut operation = EcnOperation::default();
    for t in g.iter() {
        let is_tcp_rule = g.base.proto.is_some_and(|p| p.proto == 6 && !p.negated);
        if t.id != IP_ECT_OPTION_ID && !is_tcp_rule {
            return Diagnostic::new(
                "test of TCP bits in a rule that is not for TCP only",
                t.negation_to_arguments_span,
            )
            .with_help("write -p tcp in the rule")
            .into_err();
        }
        match t.id {
            TCP_REMOVE_OPTION_ID => operation = EcnOperation::TCP_REMOVE,
            TCP_CWR_OPTION_ID => operation.tcp_cwr = Some(option_values::parse_integer(t, 0, 1)?),
            TCP_ECE_OPTION_ID => operation.tcp_ece = Some(option_values::parse_integer(t, 0, 1)?),
            _ => operation.ip_ect = Some(option_values::parse_integer(t, 0, 3)?),
        }
    }
    if operation == EcnOperation::default() {
        return g
            .extension_error("ECN without an operation")
            .with_help("give --ecn-tcp-remove")
            .into_err();
    }
    Ok(log_targets::effect_target_with_options("ECN", options_in_print_order(operation)))
}

fn options_in_print_order(operation: EcnOperation) -> ModuleOptionsBuilder {
    let mut options = ModuleOptionsBuilder::default();
    if operation == EcnOperation::TCP_REMOVE {
        options.push_non_negated("ecn-tcp-remove", ExtensionValue::Flag);
        return options;
    }
    let EcnOperation { tcp_ece, tcp_cwr, ip_ect } = operation;
    for (name, value) in
        [("ecn-tcp-ece", tcp_ece), ("ecn-tcp-cwr", tcp_cwr), ("ecn-ip-ect", ip_ect)]
    {
        if let Some(value) = value {
            options.push_non_negated(name, ExtensionValue::Number(value));
        }
    }
    options
}
