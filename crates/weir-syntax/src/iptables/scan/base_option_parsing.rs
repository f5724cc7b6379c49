//! The options that every rule has, as they are read: `-s -d -i -o -p -f` and `-c`.

use weir_model::{Addr, AddrMatch, Counters, FragmentMatch, IfaceMatch, ProtoMatch, Span};

use super::OptionScanner;
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::address::{self, BadAddr};
use crate::iptables::base_option_table::{FurtherAddrsOfCommaList, is_invertible};
use crate::iptables::extension::option_values::{bad_addr_error, looks_like_host_name};
use crate::iptables::option_specs_and_arguments::OptionArgument;
use crate::{strtoul, system_name_tables};

impl<'w> OptionScanner<'_, '_, 'w> {
    /// Reads one of the options that are no command, module or target.
    pub(super) fn parse_base_test_or_counters(
        &mut self,
        letter: u8,
        arg: Option<OptionArgument<'w>>,
        second: Option<OptionArgument<'w>>,
        span: Span,
    ) -> ParseResult<()> {
        if !self.given_letters.record_once(letter, span) {
            return Diagnostic::new(format!("-{} a second time", letter as char), span)
                .with_help("each of -s -d -p -i -o -f can be given once per rule")
                .into_err();
        }
        let none = OptionArgument { text: "", span };
        let arg = arg.unwrap_or(none);
        if arg.text == "!" && is_invertible(letter) && letter != b'f' {
            return Diagnostic::new("old negation: ! after the option", arg.span)
                .with_help(format!("write it before the option: ! -{} …", letter as char))
                .into_err();
        }
        let negated = self.pending_negation.is_some();
        match letter {
            b's' | b'd' => self.parse_and_store_address_list(letter, arg, negated)?,
            b'i' => self.base.iif = self.parse_iface_match(arg, negated)?,
            b'o' => self.base.oif = self.parse_iface_match(arg, negated)?,
            b'p' => self.base.proto = parse_proto_match(arg, negated)?,
            b'f' => self.base.fragment = Some(FragmentMatch { negated }),
            b'c' => self.counters = Some(parse_counters(arg, second.unwrap_or(none))?),
            b't' => {
                return Diagnostic::new("-t inside a table's text", span)
                    .with_help("the table is named by its *TABLE line")
                    .into_err();
            }
            b'V' | b'h' => {
                return Diagnostic::new(format!("-{} has no meaning here", letter as char), span)
                    .with_help("iptables-restore prints a text and loads nothing: remove it")
                    .into_err();
            }
            b'n' | b'x' | b'w' | b'W' => {
                return Diagnostic::new(format!("-{} has no meaning here", letter as char), span)
                    .with_help("remove it")
                    .into_err();
            }
            _ => {}
        }
        Ok(())
    }

    fn parse_and_store_address_list(
        &mut self,
        letter: u8,
        arg: OptionArgument<'w>,
        negated: bool,
    ) -> ParseResult<()> {
        let mut first = None;
        let mut more = FurtherAddrsOfCommaList::new();
        let mut from = 0;
        for part in arg.text.split(',') {
            // Blanks before an address are skipped, as the tool does.
            let text = part.trim_start_matches(' ');
            let whole = arg.text.len() as u32 == arg.span.end - arg.span.start;
            let span = if whole {
                let start = arg.span.start + from;
                Span { start, end: start + part.len() as u32 }
            } else {
                arg.span
            };
            from += part.len() as u32 + 1;
            for (addr, mask) in self.parse_or_resolve_nets(text, span)? {
                let m = AddrMatch { negated, addr: Addr(addr.0 & mask.0), mask };
                match first {
                    None => first = Some(m),
                    Some(_) => more.push(m),
                }
            }
        }
        if negated {
            self.negated_address_span = Some(arg.span);
        }
        let all = |m: &AddrMatch| !m.negated && m.mask.0 == 0;
        // A list is expanded into rules: the addresses that are no test stay in it.
        let first = first.filter(|m| !all(m) || !more.is_empty());
        let (slot, rest) = match letter {
            b's' => (&mut self.base.saddr, &mut self.extra_sources),
            _ => (&mut self.base.daddr, &mut self.extra_destinations),
        };
        (*slot, *rest) = (first, more);
        Ok(())
    }

    fn parse_or_resolve_nets(&self, text: &str, span: Span) -> ParseResult<ResolvedNets> {
        let (family, resolve) = (self.context.family, self.context.resolve_host_names);
        match address::parse_xtables_unmasked_addr_and_mask(text, family) {
            Ok(net) => Ok(ResolvedNets::Literal(Some(net))),
            Err(BadAddr::NotNumericAddress) if resolve => {
                let (name, mask) =
                    text.rsplit_once('/').map_or((text, None), |(n, m)| (n, Some(m)));
                let mask = mask
                    .and_then(|m| address::parse_mask(m, family))
                    .unwrap_or(Addr(family.max_addr()));
                if looks_like_host_name(name) {
                    let found = address::resolve_host_name(name, family);
                    if !found.is_empty() {
                        return Ok(found.into_iter().map(|a| (a, mask)).collect());
                    }
                }
                bad_addr_error(name, span, BadAddr::NotNumericAddress, family, true).into_err()
            }
            Err(bad) => bad_addr_error(text, span, bad, family, resolve).into_err(),
        }
    }

    fn parse_iface_match(
        &mut self,
        arg: OptionArgument<'w>,
        negated: bool,
    ) -> ParseResult<Option<IfaceMatch>> {
        if arg.text.is_empty() {
            return Diagnostic::new("empty device name", arg.span)
                .with_help("remove the option")
                .into_err();
        }
        if arg.text.len() > 15 {
            return Diagnostic::new("device name is longer than 15 bytes", arg.span).into_err();
        }
        if arg.text == "+" && !negated {
            return Ok(None);
        }
        let (name, prefix) = match arg.text.strip_suffix('+') {
            Some(name) => (name, true),
            None => (arg.text, false),
        };
        let name = match self.last_read_word_if_at(arg.span) {
            Some(w) if !prefix => self.context.interner.intern_if_borrowed(&w.text),
            _ => self.context.interner.intern_device_prefix(name),
        };
        Ok(Some(IfaceMatch { negated, name, is_prefix: prefix }))
    }
}

/// Networks of one word: one, or those of a host's name.
enum ResolvedNets {
    Literal(Option<(Addr, Addr)>),
    FromHostName(std::vec::IntoIter<(Addr, Addr)>),
}

impl FromIterator<(Addr, Addr)> for ResolvedNets {
    fn from_iter<I: IntoIterator<Item = (Addr, Addr)>>(iter: I) -> Self {
        ResolvedNets::FromHostName(iter.into_iter().collect::<Vec<_>>().into_iter())
    }
}

impl Iterator for ResolvedNets {
    type Item = (Addr, Addr);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            ResolvedNets::Literal(net) => net.take(),
            ResolvedNets::FromHostName(nets) => nets.next(),
        }
    }
}

fn parse_proto_match(arg: OptionArgument, negated: bool) -> ParseResult<Option<ProtoMatch>> {
    let number = match arg.text {
        "tcp" => Some(6),
        "udp" => Some(17),
        text => strtoul::parse_number_in_range(text, 0, 255)
            .map(|n| n as u8)
            .or_else(|| system_name_tables::protocol_number(&text.to_ascii_lowercase())),
    };
    match number {
        Some(0) if negated => {
            Diagnostic::new("! with all protocols never matches", arg.span).into_err()
        }
        Some(0) => Ok(None),
        Some(proto) => Ok(Some(ProtoMatch { negated, proto })),
        None => Diagnostic::new(format!("no protocol {}", arg.text), arg.span)
            .with_help(if arg.text.starts_with('-') {
                "iptables 1.8 requires a blank between -p and the protocol"
            } else {
                "write its number, or a name that /etc/protocols has"
            })
            .into_err(),
    }
}

fn parse_counters(packets: OptionArgument, bytes: OptionArgument) -> ParseResult<Counters> {
    let read = |arg: OptionArgument| match strtoul::parse_atoi(arg.text) {
        n if n >= 0 && arg.text.starts_with(|c: char| c.is_ascii_digit()) => {
            Ok(arg.text.parse().unwrap_or(n as u64))
        }
        _ => Diagnostic::new(format!("{:?} is not a counter", arg.text), arg.span).into_err(),
    };
    Ok(Counters { packets: read(packets)?, bytes: read(bytes)? })
}
