//! `-m policy`: the IPsec policy that was, or will be, applied to the packet.

use weir_model::Hook::{Forward, Input, Output, Postrouting, Prerouting};
use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};
use weir_model::{Family, Match};

use super::extension_value_builders::{ModuleOptionsBuilder, unmodelled_input_match};
use super::option_value_printing::print_option_value;
use super::option_values;
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ParsedExtensionOptions, ParsedOption, flag_option, option_with_argument,
};
use crate::{append_text, strtoul, system_name_tables};

const DIR_OPTION_ID: u8 = 0;
const POL_OPTION_ID: u8 = 1;
const STRICT_OPTION_ID: u8 = 2;
const REQID_OPTION_ID: u8 = 3;
const SPI_OPTION_ID: u8 = 4;
const TUNNEL_SRC_OPTION_ID: u8 = 5;
const TUNNEL_DST_OPTION_ID: u8 = 6;
const PROTO_OPTION_ID: u8 = 7;
const MODE_OPTION_ID: u8 = 8;
const NEXT_OPTION_ID: u8 = 9;

pub(super) static POLICY_MATCH: Extension<Match> = Extension {
    name: "policy",
    options: &[
        option_with_argument("dir", DIR_OPTION_ID),
        option_with_argument("pol", POL_OPTION_ID),
        flag_option("strict", STRICT_OPTION_ID),
        option_with_argument("reqid", REQID_OPTION_ID).repeatable().invertible(),
        option_with_argument("spi", SPI_OPTION_ID).repeatable().invertible(),
        option_with_argument("tunnel-src", TUNNEL_SRC_OPTION_ID).repeatable().invertible(),
        option_with_argument("tunnel-dst", TUNNEL_DST_OPTION_ID).repeatable().invertible(),
        option_with_argument("proto", PROTO_OPTION_ID).repeatable().invertible(),
        option_with_argument("mode", MODE_OPTION_ID).repeatable().invertible(),
        flag_option("next", NEXT_OPTION_ID).repeatable().requires_all(1 << STRICT_OPTION_ID),
    ],
    build: build_policy_match,
    print_value: print_address_without_host_mask,
    ..Extension::DEFAULT
};

/// Most elements of a policy (`XT_POLICY_MAX_ELEM`).
const POLICY_ELEMENTS_MAX: usize = 4;

/// In the order of printing.
const ELEMENT_OPTION_PRINT_ORDER: [u8; 6] = [
    REQID_OPTION_ID,
    SPI_OPTION_ID,
    PROTO_OPTION_ID,
    MODE_OPTION_ID,
    TUNNEL_DST_OPTION_ID,
    TUNNEL_SRC_OPTION_ID,
];

fn build_policy_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let mut head = ModuleOptionsBuilder::default();
    let Some(dir) = g.first_with_id(DIR_OPTION_ID) else {
        return g
            .extension_error("policy without --dir")
            .with_help("write --dir in or --dir out")
            .into_err();
    };
    match dir.arg {
        "in" => {
            g.restrict_hooks(&[Prerouting, Input, Forward]);
            head.push_non_negated("dir", ExtensionValue::Keyword("in"));
        }
        "out" => {
            g.restrict_hooks(&[Forward, Output, Postrouting]);
            head.push_non_negated("dir", ExtensionValue::Keyword("out"));
        }
        other => return dir.arg_error(format!("{other} is not in or out")).into_err(),
    }
    let none = match g.first_with_id(POL_OPTION_ID).map(|t| (t, t.arg)) {
        None | Some((_, "ipsec")) => false,
        Some((_, "none")) => true,
        Some((t, other)) => return t.arg_error(format!("{other} is not ipsec or none")).into_err(),
    };
    head.push_non_negated("pol", ExtensionValue::Keyword(if none { "none" } else { "ipsec" }));
    let strict = g.has_option(STRICT_OPTION_ID);
    if none && strict {
        return g
            .extension_error("--strict with --pol none")
            .with_help("remove one of them")
            .into_err();
    }
    if strict {
        head.push_non_negated("strict", ExtensionValue::Flag);
    }
    let mut elements = parse_policy_elements(g, none)?;
    if none {
        // Read, and forgotten by the tool.
        elements.clear();
    }
    if strict && elements.iter().any(Vec::is_empty) {
        return g
            .extension_error("empty element of a strict policy")
            .with_help("each needs --reqid, --spi, --tunnel-src, --tunnel-dst, --proto or --mode")
            .into_err();
    }
    let mut options = head.0;
    for (i, element) in elements.into_iter().enumerate() {
        if i > 0 {
            options.push(TypedExtensionOption {
                negated: false,
                name: "next",
                value: ExtensionValue::Flag,
            });
        }
        options.extend(element);
    }
    Ok(unmodelled_input_match("policy", options))
}

/// The elements, each with its options in the order of printing.
fn parse_policy_elements(
    g: &ParsedExtensionOptions,
    none: bool,
) -> ParseResult<Vec<Vec<TypedExtensionOption>>> {
    let mut given: Vec<Vec<&ParsedOption>> = vec![Vec::new()];
    for t in g.iter().filter(|t| t.id >= REQID_OPTION_ID) {
        if t.id == NEXT_OPTION_ID {
            if given.len() == POLICY_ELEMENTS_MAX {
                return t.arg_error(format!("more than {POLICY_ELEMENTS_MAX} elements")).into_err();
            }
            given.push(Vec::new());
            continue;
        }
        if let Some(last) = given.last_mut() {
            if last.iter().any(|other| other.id == t.id) {
                return t
                    .arg_error(format!(
                        "--{} twice in an element",
                        g.option_name_without_dashes(t.id)
                    ))
                    .into_err();
            }
            last.push(t);
        }
    }
    let mut out = Vec::new();
    for element in given {
        let mut options = Vec::new();
        for t in
            ELEMENT_OPTION_PRINT_ORDER.iter().filter_map(|id| element.iter().find(|t| t.id == *id))
        {
            let value = parse_policy_element_value(t, g)?;
            options.push(TypedExtensionOption {
                negated: t.negated,
                name: g.option_name_without_dashes(t.id),
                value,
            });
        }
        if !none {
            check_tunnel_mode(&options, &element)?;
        }
        out.push(options);
    }
    Ok(out)
}

fn check_tunnel_mode(
    options: &[TypedExtensionOption],
    element: &[&ParsedOption],
) -> ParseResult<()> {
    let tunnel = |t: &&&ParsedOption| matches!(t.id, TUNNEL_SRC_OPTION_ID | TUNNEL_DST_OPTION_ID);
    let transport = options.iter().any(|o| {
        o.name == "mode" && (o.value == ExtensionValue::Keyword("transport")) != o.negated
    });
    match element.iter().find(tunnel) {
        Some(t) if transport || !options.iter().any(|o| o.name == "mode") => t
            .arg_error("the end of a tunnel without --mode tunnel")
            .with_help("write --mode tunnel beside it")
            .into_err(),
        _ => Ok(()),
    }
}

fn parse_policy_element_value(
    t: &ParsedOption,
    g: &ParsedExtensionOptions,
) -> ParseResult<ExtensionValue> {
    Ok(match t.id {
        REQID_OPTION_ID => {
            ExtensionValue::Number(option_values::parse_integer(t, 0, u32::MAX.into())?)
        }
        SPI_OPTION_ID => ExtensionValue::Hex(option_values::parse_integer(t, 0, u32::MAX.into())?),
        PROTO_OPTION_ID => {
            let lower = t.arg.to_ascii_lowercase();
            let found = strtoul::parse_number_in_range(t.arg, 0, 255)
                .map(|n| n as u8)
                .or_else(|| system_name_tables::protocol_number(&lower));
            match found {
                Some(50) => ExtensionValue::Keyword("esp"),
                Some(51) => ExtensionValue::Keyword("ah"),
                Some(108) => ExtensionValue::Keyword("ipcomp"),
                _ => return t.arg_error(format!("{} is not esp, ah or ipcomp", t.arg)).into_err(),
            }
        }
        MODE_OPTION_ID => match t.arg {
            "transport" => ExtensionValue::Keyword("transport"),
            "tunnel" => ExtensionValue::Keyword("tunnel"),
            other => return t.arg_error(format!("{other} is not transport or tunnel")).into_err(),
        },
        _ => {
            let (a, mask) = option_values::parse_unmasked_host_net(t, g)?;
            ExtensionValue::AddrAndMask(a, mask)
        }
    })
}

/// A host's mask is not printed here.
fn print_address_without_host_mask(out: &mut String, o: &TypedExtensionOption, family: Family) {
    match &o.value {
        ExtensionValue::AddrAndMask(a, mask) if mask.0 == family.max_addr() => {
            append_text::append_addr(out, *a, family);
        }
        _ => print_option_value(out, o, family),
    }
}
