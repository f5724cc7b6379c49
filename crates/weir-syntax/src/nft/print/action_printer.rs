//! Actions of rules as nft text, or why nft cannot express them.

use std::fmt::Write;

use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};
use weir_model::target::{ExtensionTarget, NatRange, TtlOperation};
use weir_model::{Addr, Effect, Family, NatTarget};

use crate::nft::reject_types::{icmp_keyword, reject_type_names};

/// A reject type, `reject with …`; `None` if nft has no equivalent.
pub fn print_reject(word: &str, family: Family) -> Option<String> {
    if word == "tcp-reset" {
        return Some("reject with tcp reset".to_owned());
    }
    let (_, name) = reject_type_names(family).iter().find(|(known, _)| *known == word)?;
    Some(format!("reject with {} type {name}", icmp_keyword(family)))
}

/// A translation.
///
/// # Errors
/// What nft cannot say.
pub fn print_nat(target: &NatTarget, family: Family) -> Result<String, String> {
    let (word, range, to) = match target {
        NatTarget::Dnat(r) => ("dnat to ", r, true),
        NatTarget::Snat(r) => ("snat to ", r, true),
        NatTarget::Masquerade(r) => ("masquerade", r, false),
        NatTarget::Redirect(r) => ("redirect", r, false),
        NatTarget::Netmap(..) => return Err("-j NETMAP".into()),
    };
    if range.base_port.is_some() {
        return Err("a translation to a shifted port range".into());
    }
    let mut text = word.to_string();
    if !to && range.ports.is_some() {
        text.push_str(" to ");
    }
    if let Some((lo, hi)) = range.addrs {
        push_nat_addr(&mut text, lo, range, family);
        if lo != hi {
            text.push('-');
            push_nat_addr(&mut text, hi, range, family);
        }
    }
    if let Some((lo, hi)) = range.ports {
        let _ = write!(text, ":{lo}");
        if lo != hi {
            let _ = write!(text, "-{hi}");
        }
    }
    let flags = [
        (range.random, "random"),
        (range.random_fully, "fully-random"),
        (range.persistent, "persistent"),
    ];
    let flags: Vec<&str> = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
    if !flags.is_empty() {
        let _ = write!(text, " {}", flags.join(","));
    }
    Ok(text)
}

fn push_nat_addr(text: &mut String, addr: Addr, range: &NatRange, family: Family) {
    let _ = match family {
        Family::V6 if range.ports.is_some() => write!(text, "[{}]", addr.display(family)),
        _ => write!(text, "{}", addr.display(family)),
    };
}

/// An effect.
///
/// # Errors
/// What nft cannot say.
pub fn print_effect(effect: &Effect, family: Family) -> Result<String, String> {
    let ip = if family == Family::V4 { "ip" } else { "ip6" };
    Ok(match effect {
        Effect::Mark { xor_value: value, clear_mask: mask } => {
            format!("meta mark set {}", mark_expression_text("mark", *value, *mask))
        }
        Effect::Notrack | Effect::CtNotrack { .. } => "notrack".into(),
        Effect::Classify { class: (major, minor) } => {
            let class = u32::from(*major) << 16 | u32::from(*minor);
            format!("meta priority set {class:#x}")
        }
        Effect::Tos { xor_value: value, clear_mask: 0xff } => {
            format!("{ip} dscp set {:#x} {ip} ecn set {}", value >> 2, value & 3)
        }
        Effect::Tos { xor_value: value, clear_mask: 0xfc } if value & 3 == 0 => {
            format!("{ip} dscp set {:#x}", value >> 2)
        }
        Effect::Tos { clear_mask: mask, .. } => {
            return Err(format!("-j TOS under the mask {mask:#04x}"));
        }
        Effect::Dscp(dscp) => format!("{ip} dscp set {dscp:#x}"),
        Effect::Ttl { op: TtlOperation::Set, value } if family == Family::V4 => {
            format!("ip ttl set {value}")
        }
        Effect::Ttl { op: TtlOperation::Set, value } => format!("ip6 hoplimit set {value}"),
        Effect::Ttl { .. } => return Err("-j TTL by a difference".into()),
        Effect::Other(ext) => match ext.module {
            "LOG" => print_log(ext)?,
            "NFLOG" => print_nflog(ext)?,
            "CONNMARK" => print_connmark(ext)?,
            module => return Err(format!("-j {module}")),
        },
    })
}

fn mark_expression_text(old: &str, value: u32, mask: u32) -> String {
    if mask == u32::MAX {
        format!("{value:#x}")
    } else {
        format!("{old} & {:#x} ^ {value:#x}", !mask)
    }
}

fn unsupported_option_error(ext: &ExtensionTarget, o: &TypedExtensionOption) -> String {
    format!("-j {} --{}", ext.module, o.name)
}

/// Quotes what stands between quotes in nft: no quote can, and `$` begins a variable.
fn quote_log_prefix(ext: &ExtensionTarget, text: &str) -> Result<String, String> {
    if text.contains(['"', '$', '\\']) || text.chars().any(char::is_control) {
        return Err(format!("-j {} with the prefix {text:?}", ext.module));
    }
    Ok(format!("\"{text}\""))
}

fn print_log(ext: &ExtensionTarget) -> Result<String, String> {
    let (mut text, mut flags) = ("log".to_string(), String::new());
    let mut level = "warn";
    for o in &ext.options {
        match (o.name, &o.value) {
            ("log-prefix", ExtensionValue::Text(t)) if t.is_empty() => {}
            ("log-prefix", ExtensionValue::Text(t)) => {
                let _ = write!(text, " prefix {}", quote_log_prefix(ext, t)?);
            }
            ("log-level", ExtensionValue::Number(n)) if *n < 8 => {
                level = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"]
                    [*n as usize];
            }
            ("log-tcp-sequence", _) => flags.push_str(" flags tcp sequence"),
            ("log-tcp-options", _) => flags.push_str(" flags tcp options"),
            ("log-ip-options", _) => flags.push_str(" flags ip options"),
            ("log-uid", _) => flags.push_str(" flags skuid"),
            ("log-macdecode", _) => flags.push_str(" flags ether"),
            _ => return Err(unsupported_option_error(ext, o)),
        }
    }
    let _ = write!(text, " level {level}{flags}");
    Ok(text)
}

fn print_nflog(ext: &ExtensionTarget) -> Result<String, String> {
    let (mut group, mut rest) = (0, String::new());
    for o in &ext.options {
        match (o.name, &o.value) {
            ("nflog-group", ExtensionValue::Number(n)) => group = *n,
            ("nflog-prefix", ExtensionValue::Text(t)) => {
                let _ = write!(rest, " prefix {}", quote_log_prefix(ext, t)?);
            }
            ("nflog-size", ExtensionValue::Number(n)) => {
                let _ = write!(rest, " snaplen {n}");
            }
            ("nflog-threshold", ExtensionValue::Number(n)) => {
                let _ = write!(rest, " queue-threshold {n}");
            }
            _ => return Err(unsupported_option_error(ext, o)),
        }
    }
    Ok(format!("log{rest} group {group}"))
}

/// nft 1.0.6 combines one loaded mark with constants, never two marks: save and restore only
/// where the mark that is written is written whole.
fn print_connmark(ext: &ExtensionTarget) -> Result<String, String> {
    let has = |name: &str| ext.options.iter().any(|o| o.name == name);
    let mask = |name: &str| {
        ext.options.iter().find(|o| o.name == name).map_or(u32::MAX, |o| match o.value {
            ExtensionValue::Number(n) | ExtensionValue::Hex(n) => n as u32,
            _ => 0,
        })
    };
    if has("left-shift-mark") || has("right-shift-mark") {
        return Err("-j CONNMARK of a shifted mark".into());
    }
    let (nfmask, ctmask) = (mask("nfmask"), mask("ctmask"));
    let part = |mark: &str, mask: u32| match mask {
        u32::MAX => mark.to_string(),
        _ => format!("{mark} & {mask:#x}"),
    };
    if has("save-mark") && ctmask == u32::MAX {
        return Ok(format!("ct mark set {}", part("mark", nfmask)));
    }
    if has("restore-mark") && nfmask == u32::MAX {
        return Ok(format!("meta mark set {}", part("ct mark", ctmask)));
    }
    match &ext.options[..] {
        [
            TypedExtensionOption {
                name: "set-xmark",
                value: ExtensionValue::Masked(value, mask),
                ..
            },
        ] => Ok(format!(
            "ct mark set {}",
            mark_expression_text("ct mark", *value as u32, *mask as u32)
        )),
        _ => Err("-j CONNMARK of some bits of one mark into another".into()),
    }
}
