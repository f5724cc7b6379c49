//! Sets as `ipset save` prints them.

use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::{Element, ElementPart, Family, IpSet, SetKind, SetOption};

use super::icmp_names;
use crate::{append_text, system_name_tables};

/// Prints sets as `ipset save` does: each with its `create` line and its elements, lists last.
pub fn print(sets: &[IpSet]) -> String {
    let elements: usize = sets.iter().map(|s| s.elements.len()).sum();
    let mut out = String::with_capacity(64 + sets.len() * 96 + elements * 40);
    let list = |s: &&IpSet| s.kind.storage == SetStorage::List;
    for set in sets.iter().filter(|s| !list(s)).chain(sets.iter().filter(list)) {
        for comment in &set.leading_comments {
            out.push_str(comment);
            out.push('\n');
        }
        print_create_line(&mut out, set);
        for element in set.elements.iter() {
            out.push_str("add ");
            out.push_str(&set.name);
            out.push(' ');
            append_element(&mut out, set, element);
            out.push('\n');
        }
    }
    out
}

/// One element: what follows `add NAME `.
pub fn print_element(set: &IpSet, element: &Element) -> String {
    let mut out = String::new();
    append_element(&mut out, set, element);
    out
}

/// `hash:ip,port`.
pub fn ipset_type_name(kind: &SetKind) -> String {
    let method = match kind.storage {
        SetStorage::Hash => "hash:",
        SetStorage::Bitmap => "bitmap:",
        SetStorage::List => "list:",
    };
    let mut out = String::from(method);
    append_text::append_comma_list(&mut out, &kind.data_types, |out, part| {
        out.push_str(match part {
            SetDataType::Ip => "ip",
            SetDataType::Net => "net",
            SetDataType::Port => "port",
            SetDataType::Mac => "mac",
            SetDataType::Mark => "mark",
            SetDataType::Iface => "iface",
            SetDataType::Set => "set",
        });
    });
    out
}

fn print_create_line(out: &mut String, set: &IpSet) {
    for piece in ["create ", &set.name, " ", &ipset_type_name(&set.kind)] {
        out.push_str(piece);
    }
    match set.family {
        Some(Family::V4) if set.kind.storage == SetStorage::Hash => out.push_str(" family inet"),
        Some(Family::V6) if set.kind.storage == SetStorage::Hash => out.push_str(" family inet6"),
        _ => {}
    }
    let mut options: Vec<&SetOption> = set.options.iter().collect();
    options.sort_by_key(|o| create_line_option_position(o));
    for option in options {
        print_create_option(out, option);
    }
    out.push('\n');
}

/// Place of an option in a `create` line.
pub fn create_line_option_position(option: &SetOption) -> u8 {
    match option {
        SetOption::AddrRange(..) | SetOption::PortRange(..) => 0,
        SetOption::MarkMask(_) => 1,
        SetOption::HashSize(_) => 2,
        SetOption::MaxElem(_) => 3,
        SetOption::ListSize(_) => 4,
        SetOption::Netmask(_) => 5,
        SetOption::DefaultElementTimeout(_) => 6,
        SetOption::Counters => 7,
        SetOption::Comment => 8,
        SetOption::SkbInfo => 9,
        SetOption::ForceAdd => 10,
        SetOption::BucketSize(_) => 11,
        SetOption::InitVal(_) => 12,
    }
}

fn print_create_option(out: &mut String, option: &SetOption) {
    let mut number = |name: &str, n: u64| {
        out.push_str(name);
        append_text::append_decimal(out, n);
    };
    match option {
        SetOption::AddrRange(lo, hi) => {
            out.push_str(" range ");
            append_text::append_addr(out, *lo, Family::V4);
            out.push('-');
            append_text::append_addr(out, *hi, Family::V4);
        }
        SetOption::PortRange(lo, hi) => {
            number(" range ", (*lo).into());
            number("-", (*hi).into());
        }
        SetOption::Netmask(n) => number(" netmask ", (*n).into()),
        SetOption::HashSize(n) => number(" hashsize ", (*n).into()),
        SetOption::MaxElem(n) => number(" maxelem ", (*n).into()),
        SetOption::ListSize(n) => number(" size ", (*n).into()),
        SetOption::DefaultElementTimeout(n) => number(" timeout ", (*n).into()),
        SetOption::BucketSize(n) => number(" bucketsize ", (*n).into()),
        SetOption::InitVal(n) => {
            use std::fmt::Write as _;
            let _ = write!(out, " initval 0x{n:08x}");
        }
        SetOption::MarkMask(n) => {
            use std::fmt::Write as _;
            let _ = write!(out, " markmask 0x{n:08x}");
        }
        SetOption::Counters => out.push_str(" counters"),
        SetOption::Comment => out.push_str(" comment"),
        SetOption::SkbInfo => out.push_str(" skbinfo"),
        SetOption::ForceAdd => out.push_str(" forceadd"),
    }
}

fn append_element(out: &mut String, set: &IpSet, element: &Element) {
    let family = set.family.unwrap_or(Family::V4);
    append_text::append_comma_list(out, &element.parts, |out, part| {
        print_element_part(out, part, family)
    });
    if let Some(t) = element.timeout {
        out.push_str(" timeout ");
        append_text::append_decimal(out, t.into());
    }
    if element.nomatch {
        out.push_str(" nomatch");
    }
    if let Some(c) = element.counters {
        out.push_str(" packets ");
        append_text::append_decimal(out, c.packets);
        out.push_str(" bytes ");
        append_text::append_decimal(out, c.bytes);
    }
    if let Some(comment) = &element.comment {
        out.push_str(" comment \"");
        out.push_str(comment);
        out.push('"');
    }
    for word in &element.other_words {
        out.push(' ');
        out.push_str(word);
    }
}

/// Appends one dimension of an element.
pub(super) fn print_element_part(out: &mut String, part: &ElementPart, family: Family) {
    match part {
        ElementPart::AddrOrPrefix { addr, len } => {
            append_text::append_addr(out, *addr, family);
            if u32::from(*len) != family.addr_bits() {
                out.push('/');
                append_text::append_decimal(out, (*len).into());
            }
        }
        ElementPart::ProtoAndPort { proto: None, port_or_icmp_type_and_code: port } => {
            append_text::append_decimal(out, (*port).into())
        }
        ElementPart::ProtoAndPort { proto: Some(proto), port_or_icmp_type_and_code: port } => {
            print_element_port(out, *proto, *port)
        }
        ElementPart::Mac(mac) => {
            use std::fmt::Write as _;
            for (i, byte) in mac.iter().enumerate() {
                let _ = write!(out, "{}{byte:02X}", if i > 0 { ":" } else { "" });
            }
        }
        ElementPart::Mark(mark) => {
            use std::fmt::Write as _;
            let _ = write!(out, "0x{mark:08x}");
        }
        ElementPart::Iface { physdev, name } => {
            out.push_str(if *physdev { "physdev:" } else { "" });
            out.push_str(name);
        }
        ElementPart::MemberSet(name) => out.push_str(name),
    }
}

fn print_element_port(out: &mut String, proto: u8, port: u16) {
    match system_name_tables::protocol_name(proto) {
        Some(name) => out.push_str(name),
        None => append_text::append_decimal(out, proto.into()),
    }
    out.push(':');
    if !matches!(proto, 1 | 58) {
        return append_text::append_decimal(out, port.into());
    }
    match icmp_names::find_icmp_name_of_packed_type_code(port, proto == 58) {
        Some(name) => out.push_str(name),
        None => {
            let [kind, code] = port.to_be_bytes();
            append_text::append_decimal(out, kind.into());
            out.push('/');
            append_text::append_decimal(out, code.into());
        }
    }
}
