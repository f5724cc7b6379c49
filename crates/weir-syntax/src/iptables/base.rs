//! The options that every rule has: commands, `-s -d -i -o -p -f`, `-c`, and names.

use weir_model::{
    Addr, AddrMatch, Counters, Family, FragmentMatch, IfaceMatch, ProtoMatch, Span, TableName,
};

use super::address::{self, BadAddr};
use super::extension::value::{bad_addr, looks_like_host};
use super::option::Arity;
use super::scan::{Arg, Scan};
use crate::diagnostic::{Diagnostic, Fallible};
use crate::{names, number};

/// Further addresses of a comma list, which makes several rules.
pub(super) type Addrs = Vec<AddrMatch>;

/// Long name and letter.
const LONG: [(&str, u8); 35] = [
    ("append", b'A'),
    ("delete", b'D'),
    ("check", b'C'),
    ("insert", b'I'),
    ("replace", b'R'),
    ("list", b'L'),
    ("list-rules", b'S'),
    ("flush", b'F'),
    ("zero", b'Z'),
    ("new-chain", b'N'),
    ("delete-chain", b'X'),
    ("rename-chain", b'E'),
    ("policy", b'P'),
    ("source", b's'),
    ("destination", b'd'),
    ("src", b's'),
    ("dst", b'd'),
    ("protocol", b'p'),
    ("in-interface", b'i'),
    ("jump", b'j'),
    ("table", b't'),
    ("match", b'm'),
    ("numeric", b'n'),
    ("out-interface", b'o'),
    ("verbose", b'v'),
    ("wait", b'w'),
    ("wait-interval", b'W'),
    ("exact", b'x'),
    ("version", b'V'),
    ("help", b'h'),
    ("set-counters", b'c'),
    ("goto", b'g'),
    ("ipv4", b'4'),
    ("ipv6", b'6'),
    ("fragments", b'f'),
];

/// Targets of extensions that may stand without options, so that they look like chains.
///
/// `iptables-restore` tells the two apart by the extension's library on its own host
/// (`command_jump` in xshared.c): what has none is a chain, or an error. weir goes by this list of
/// names, which were found in the sources of iptables 1.2 to 1.8 and patch-o-matic, of
/// xtables-addons 1.0 to 3.x, and in the packages and kernels of OpenWrt and of routers by their
/// vendors. A chain that a table declares under one of these names is the chain.
pub(super) const FOREIGN_TARGETS: &[&str] = &[
    // iptables and the kernel, now or once.
    "BALANCE",
    "FTOS",
    "MIRROR",
    "NETLINK",
    "ROUTE",
    "SAME",
    "TCPLAG",
    "ULOG",
    "XOR",
    // xtables-addons.
    "ACCOUNT",
    "CHAOS",
    "DELUDE",
    "DHCPMAC",
    "DNETMAP",
    "ECHO",
    "IPMARK",
    "LOGMARK",
    "PROTO",
    "RAWDNAT",
    "RAWSNAT",
    "STEAL",
    "SYSRQ",
    "TARPIT",
    // OpenWrt, routers by their vendors, and modules of their own.
    "BCOUNT",
    "BLOG",
    "CONE",
    "DC",
    "FLOWOFFLOAD",
    "FULLCONENAT",
    "IMQ",
    "JOOL",
    "JOOL_SIIT",
    "LUA",
    "NATTYPE",
    "NDPI",
    "NETFLOW",
    "RTPENGINE",
    "SKIPLOG",
    "TRIGGER",
];

/// How many arguments a letter takes; `None` where there is no such option.
pub(super) fn arity(letter: u8, family: Family) -> Option<Arity> {
    match letter {
        b'f' => (family == Family::V4).then_some(Arity::Flag),
        b'n' | b'v' | b'x' | b'4' | b'6' => Some(Arity::Flag),
        b'L' | b'S' | b'F' | b'Z' | b'X' => Some(Arity::Flag),
        b'A' | b'D' | b'C' | b'I' | b'R' | b'N' | b'E' | b'P' => Some(Arity::One),
        b's' | b'd' | b'p' | b'i' | b'o' | b'j' | b'g' | b'm' | b't' | b'c' => Some(Arity::One),
        b'w' | b'W' | b'V' | b'h' => Some(Arity::Flag),
        _ => None,
    }
}

/// Whether a letter is a command.
pub(super) fn is_command(letter: u8) -> bool {
    b"ADCIRLSFZNXEP".contains(&letter)
}

/// Whether `!` may stand before a letter's option.
pub(super) fn invertible(letter: u8) -> bool {
    b"sdpiof".contains(&letter)
}

/// The letter of a long name.
pub(super) fn long(name: &str, family: Family) -> Option<u8> {
    let letter = LONG.iter().find(|(n, _)| *n == name)?.1;
    arity(letter, family).map(|_| letter)
}

/// Long names that begin so, with their letters.
pub(super) fn long_prefix(
    prefix: &str,
    family: Family,
) -> impl Iterator<Item = (&'static str, u8)> {
    LONG.into_iter()
        .filter(move |(n, letter)| n.starts_with(prefix) && arity(*letter, family).is_some())
}

/// Whether a word is a base option that ends the words of an unknown module.
pub(super) fn begins_option(word: &str, family: Family) -> bool {
    match word.as_bytes() {
        [b'-', b'-', ..] => {
            long(&word[2..], family).is_some_and(|letter| b"mjgpsdiofc".contains(&letter))
        }
        [b'-', letter] => b"mjgpsdiofc".contains(letter) && arity(*letter, family).is_some(),
        _ => false,
    }
}

/// Refuses a target or chain name that iptables would not take.
pub(super) fn check_target_name(arg: Arg) -> Fallible<()> {
    if arg.text.is_empty() {
        return Diagnostic::new("empty target name", arg.span).fail();
    }
    if arg.text.len() > 28 {
        return Diagnostic::new("name is longer than 28 bytes", arg.span)
            .help("the kernel keeps chain names of at most 28 bytes")
            .fail();
    }
    if arg.text.contains(|c: char| c.is_ascii_whitespace()) {
        return Diagnostic::new("blank in a target's name", arg.span).fail();
    }
    Ok(())
}

/// The error for a jump to a chain that is not there.
pub(super) fn no_chain(arg: Arg, table: TableName) -> Diagnostic {
    let name = arg.text;
    let d = Diagnostic::new(format!("no chain or target {name} in table {table}"), arg.span);
    let declare = format!("declare it before the rules of the table: :{name} - [0:0]");
    // Names of targets are in capitals; so are those of many chains.
    let capitals = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    match capitals && !matches!(name, "ACCEPT" | "DROP" | "RETURN" | "QUEUE") {
        true => d.help(format!(
            "a chain: {declare}; the target of an extension: weir does not know one of this name"
        )),
        false => d.help(declare),
    }
}

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
                .help("each of -s -d -p -i -o -f can be given once a rule")
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
        Some(0) if negated => Diagnostic::new("! with every protocol never holds", arg.span).fail(),
        Some(0) => Ok(None),
        Some(proto) => Ok(Some(ProtoMatch { negated, proto })),
        None => Diagnostic::new(format!("no protocol {}", arg.text), arg.span)
            .help(if arg.text.starts_with('-') {
                "iptables 1.8 wants a blank between -p and the protocol"
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
        _ => Diagnostic::new(format!("{:?} is no counter", arg.text), arg.span).fail(),
    };
    Ok(Counters { packets: read(packets)?, bytes: read(bytes)? })
}
