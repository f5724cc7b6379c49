//! The options that every rule has, as they are read: `-s -d -i -o -p -f` and `-c`.

use weir_model::{Addr, AddrMatch, Counters, FragmentMatch, IfaceMatch, ProtoMatch, Span};

use super::Scan;
use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::address::{self, BadAddr};
use crate::iptables::base::{Addrs, invertible};
use crate::iptables::extension::value::{bad_addr, looks_like_host};
use crate::iptables::option::Arg;
use crate::{names, number};

impl<'w> Scan<'_, '_, 'w> {
    /// Reads one of the options that are no command, module or target.
    pub(super) fn base_option(
        &mut self,
        letter: u8,
        arg: Option<Arg<'w>>,
        second: Option<Arg<'w>>,
        span: Span,
    ) -> Fallible<()> {
        if !self.given.note(letter, span) {
            return Diagnostic::new(format!("-{} a second time", letter as char), span)
                .help("each of -s -d -p -i -o -f can be given once per rule")
                .fail();
        }
        let none = Arg { text: "", span };
        let arg = arg.unwrap_or(none);
        if arg.text == "!" && invertible(letter) && letter != b'f' {
            return Diagnostic::new("old negation: ! after the option", arg.span)
                .help(format!("write it before the option: ! -{} …", letter as char))
                .fail();
        }
        let negated = self.invert.is_some();
        match letter {
            b's' | b'd' => self.addresses(letter, arg, negated)?,
            b'i' => self.base.iif = self.device(arg, negated)?,
            b'o' => self.base.oif = self.device(arg, negated)?,
            b'p' => self.base.proto = protocol(arg, negated)?,
            b'f' => self.base.fragment = Some(FragmentMatch { negated }),
            b'c' => self.counters = Some(counters(arg, second.unwrap_or(none))?),
            b't' => {
                return Diagnostic::new("-t inside a table's text", span)
                    .help("the table is named by its *TABLE line")
                    .fail();
            }
            b'n' | b'x' | b'w' | b'W' | b'V' | b'h' => {
                return Diagnostic::new(format!("-{} has no meaning here", letter as char), span)
                    .help("remove it")
                    .fail();
            }
            _ => {}
        }
        Ok(())
    }

    fn addresses(&mut self, letter: u8, arg: Arg<'w>, negated: bool) -> Fallible<()> {
        let mut first = None;
        let mut more = Addrs::new();
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
            for (addr, mask) in self.nets(text, span)? {
                let m = AddrMatch { negated, addr: Addr(addr.0 & mask.0), mask };
                match first {
                    None => first = Some(m),
                    Some(_) => more.push(m),
                }
            }
        }
        if negated {
            self.negated_address = Some(arg.span);
        }
        let all = |m: &AddrMatch| !m.negated && m.mask.0 == 0;
        // A list is expanded into rules: the addresses that are no test stay in it.
        let first = first.filter(|m| !all(m) || !more.is_empty());
        let (slot, rest) = match letter {
            b's' => (&mut self.base.saddr, &mut self.sources),
            _ => (&mut self.base.daddr, &mut self.destinations),
        };
        (*slot, *rest) = (first, more);
        Ok(())
    }

    fn nets(&self, text: &str, span: Span) -> Fallible<Nets> {
        let (family, resolve) = (self.around.family, self.around.resolve);
        match address::net(text, family) {
            Ok(net) => Ok(Nets::One(Some(net))),
            Err(BadAddr::Name) if resolve => {
                let (name, mask) =
                    text.rsplit_once('/').map_or((text, None), |(n, m)| (n, Some(m)));
                let mask =
                    mask.and_then(|m| address::mask(m, family)).unwrap_or(Addr(family.max()));
                if looks_like_host(name) {
                    let found = address::resolve(name, family);
                    if !found.is_empty() {
                        return Ok(found.into_iter().map(|a| (a, mask)).collect());
                    }
                }
                bad_addr(name, span, BadAddr::Name, family, true).fail()
            }
            Err(bad) => bad_addr(text, span, bad, family, resolve).fail(),
        }
    }

    fn device(&mut self, arg: Arg<'w>, negated: bool) -> Fallible<Option<IfaceMatch>> {
        if arg.text.is_empty() {
            return Diagnostic::new("empty device name", arg.span).help("remove the option").fail();
        }
        if arg.text.len() > 15 {
            return Diagnostic::new("device name is longer than 15 bytes", arg.span).fail();
        }
        if arg.text == "+" && !negated {
            return Ok(None);
        }
        let (name, prefix) = match arg.text.strip_suffix('+') {
            Some(name) => (name, true),
            None => (arg.text, false),
        };
        let name = match self.word_before(arg.span) {
            Some(w) if !prefix => self.around.names.of(&w.text),
            _ => self.around.names.device(name),
        };
        Ok(Some(IfaceMatch { negated, name, prefix }))
    }
}

/// Networks of one word: one, or those of a host's name.
enum Nets {
    One(Option<(Addr, Addr)>),
    Many(std::vec::IntoIter<(Addr, Addr)>),
}

impl FromIterator<(Addr, Addr)> for Nets {
    fn from_iter<I: IntoIterator<Item = (Addr, Addr)>>(iter: I) -> Self {
        Nets::Many(iter.into_iter().collect::<Vec<_>>().into_iter())
    }
}

impl Iterator for Nets {
    type Item = (Addr, Addr);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Nets::One(net) => net.take(),
            Nets::Many(nets) => nets.next(),
        }
    }
}

fn protocol(arg: Arg, negated: bool) -> Fallible<Option<ProtoMatch>> {
    let number = match arg.text {
        "tcp" => Some(6),
        "udp" => Some(17),
        text => number::whole(text, 0, 255)
            .map(|n| n as u8)
            .or_else(|| names::protocol(&text.to_ascii_lowercase())),
    };
    match number {
        Some(0) if negated => {
            Diagnostic::new("! with all protocols never matches", arg.span).fail()
        }
        Some(0) => Ok(None),
        Some(proto) => Ok(Some(ProtoMatch { negated, proto })),
        None => Diagnostic::new(format!("no protocol {}", arg.text), arg.span)
            .help(if arg.text.starts_with('-') {
                "iptables 1.8 requires a blank between -p and the protocol"
            } else {
                "write its number, or a name that /etc/protocols has"
            })
            .fail(),
    }
}

fn counters(packets: Arg, bytes: Arg) -> Fallible<Counters> {
    let read = |arg: Arg| match number::atoi(arg.text) {
        n if n >= 0 && arg.text.starts_with(|c: char| c.is_ascii_digit()) => {
            Ok(arg.text.parse().unwrap_or(n as u64))
        }
        _ => Diagnostic::new(format!("{:?} is not a counter", arg.text), arg.span).fail(),
    };
    Ok(Counters { packets: read(packets)?, bytes: read(bytes)? })
}
