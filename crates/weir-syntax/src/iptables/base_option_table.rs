//! The options that every rule has: commands, `-s -d -i -o -p -f`, `-c`, and names.

use weir_model::ruleset::CHAIN_NAME_MAX_BYTES;
use weir_model::{AddrMatch, Family, TableName};

use super::option_specs_and_arguments::{OptionArgument, OptionArity};
use crate::diagnostic::{Diagnostic, ParseResult};

/// Further addresses of a comma list, which makes several rules.
pub(super) type FurtherAddrsOfCommaList = Vec<AddrMatch>;

/// Long name and letter.
const BASE_LONG_OPTION_LETTERS: [(&str, u8); 35] = [
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

/// Of `--modprobe`, which a ruleset has no use for. It makes abbreviations ambiguous: `--mod` of
/// `-m statistic`.
pub(super) const MODPROBE_LETTER: u8 = b'M';

/// Targets of extensions that may have no options, so that they look like chains.
///
/// `iptables-restore` distinguishes the two by the extension's library on its own host
/// (`command_jump` in xshared.c): a name without one is a chain, or an error. weir uses this list
/// of names, which were found in the sources of iptables 1.2 to 1.8 and patch-o-matic, of
/// xtables-addons 1.0 to 3.x, and in the packages and kernels of OpenWrt and of routers by their
/// vendors. A chain that a table declares under one of these names is the chain.
pub(super) const CHAIN_LIKE_OPAQUE_TARGET_NAMES: &[&str] = &[
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

/// How many arguments a letter takes; `None` if there is no such option.
pub(super) fn option_arity(letter: u8, family: Family) -> Option<OptionArity> {
    match letter {
        b'f' => (family == Family::V4).then_some(OptionArity::Flag),
        b'n' | b'v' | b'x' | b'4' | b'6' => Some(OptionArity::Flag),
        b'L' | b'S' | b'F' | b'Z' | b'X' => Some(OptionArity::Flag),
        b'A' | b'D' | b'C' | b'I' | b'R' | b'N' | b'E' | b'P' => Some(OptionArity::OneArgument),
        b's' | b'd' | b'p' | b'i' | b'o' | b'j' | b'g' | b'm' | b't' | b'c' => {
            Some(OptionArity::OneArgument)
        }
        b'w' | b'W' | b'V' | b'h' => Some(OptionArity::Flag),
        _ => None,
    }
}

/// Whether a letter is a command.
pub(super) fn is_command_letter(letter: u8) -> bool {
    b"ADCIRLSFZNXEP".contains(&letter)
}

/// Whether `!` may be before a letter's option.
pub(super) fn is_invertible(letter: u8) -> bool {
    b"sdpiof".contains(&letter)
}

/// The letter of a long name.
pub(super) fn letter_of_exact_long_option(name: &str, family: Family) -> Option<u8> {
    let letter = BASE_LONG_OPTION_LETTERS.iter().find(|(n, _)| *n == name)?.1;
    option_arity(letter, family).map(|_| letter)
}

/// Long names that begin so, with their letters.
pub(super) fn long_options_with_prefix(
    prefix: &str,
    family: Family,
) -> impl Iterator<Item = (&'static str, u8)> {
    BASE_LONG_OPTION_LETTERS
        .into_iter()
        .filter(move |(_, letter)| option_arity(*letter, family).is_some())
        .chain([("modprobe", MODPROBE_LETTER)])
        .filter(move |(name, _)| name.starts_with(prefix))
}

/// Whether a word is a base option that ends the words of an unknown module.
pub(super) fn is_option_ending_opaque_words(word: &str, family: Family) -> bool {
    match word.as_bytes() {
        [b'-', b'-', ..] => letter_of_exact_long_option(&word[2..], family)
            .is_some_and(|letter| b"mjgpsdiofc".contains(&letter)),
        [b'-', letter] => b"mjgpsdiofc".contains(letter) && option_arity(*letter, family).is_some(),
        _ => false,
    }
}

/// Refuses a target or chain name that iptables would not take.
pub(super) fn check_target_name(arg: OptionArgument) -> ParseResult<()> {
    if arg.text.is_empty() {
        return Diagnostic::new("empty target name", arg.span).into_err();
    }
    if arg.text.len() > CHAIN_NAME_MAX_BYTES {
        let message = format!("name is longer than {CHAIN_NAME_MAX_BYTES} bytes");
        return Diagnostic::new(message, arg.span)
            .with_help(format!(
                "the kernel keeps chain names of at most {CHAIN_NAME_MAX_BYTES} bytes"
            ))
            .into_err();
    }
    if arg.text.contains(|c: char| c.is_ascii_whitespace()) {
        return Diagnostic::new("target name contains a blank", arg.span).into_err();
    }
    Ok(())
}

/// The error for a jump to a chain that is not there.
pub(super) fn unknown_chain_error(arg: OptionArgument, table: TableName) -> Diagnostic {
    let name = arg.text;
    let d = Diagnostic::new(format!("no chain or target {name} in table {table}"), arg.span);
    let declare = format!("declare it before the rules of the table: :{name} - [0:0]");
    // Names of targets are in capitals; so are those of many chains.
    let capitals = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    match capitals && !matches!(name, "ACCEPT" | "DROP" | "RETURN" | "QUEUE") {
        true => d.with_help(format!(
            "a chain: {declare}; the target of an extension: weir does not know one of this name"
        )),
        false => d.with_help(declare),
    }
}
