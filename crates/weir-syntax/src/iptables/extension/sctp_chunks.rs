//! `--chunk-types` of sctp: chunk names with their flags.

use weir_model::rule_match::Negatable;

use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::ParsedOption;

/// Name, and the letters of its flag bits (bit 7 first), in the order of printing.
const SCTP_CHUNK_NAMES_AND_FLAG_LETTERS: [(&str, &str); 22] = [
    ("DATA", "----IUBE"),
    ("INIT", "--------"),
    ("INIT_ACK", "--------"),
    ("SACK", "--------"),
    ("HEARTBEAT", "--------"),
    ("HEARTBEAT_ACK", "--------"),
    ("ABORT", "-------T"),
    ("SHUTDOWN", "--------"),
    ("SHUTDOWN_ACK", "--------"),
    ("ERROR", "--------"),
    ("COOKIE_ECHO", "--------"),
    ("COOKIE_ACK", "--------"),
    ("ECN_ECNE", "--------"),
    ("ECN_CWR", "--------"),
    ("SHUTDOWN_COMPLETE", "-------T"),
    ("I_DATA", "----IUBE"),
    ("RE_CONFIG", "--------"),
    ("PAD", "--------"),
    ("ASCONF", "--------"),
    ("ASCONF_ACK", "--------"),
    ("FORWARD_TSN", "--------"),
    ("I_FORWARD_TSN", "--------"),
];

/// `all|any|only LIST`, spelled as `iptables-save` does.
pub(super) fn canonicalize_chunk_types(t: &ParsedOption) -> ParseResult<Negatable<String>> {
    let how = match t.arg.to_ascii_lowercase().as_str() {
        "all" => "all",
        "any" => "any",
        "only" => "only",
        _ => {
            return t
                .arg_error(format!("{} is not all, any or only", t.arg))
                .with_help("write --chunk-types all|any|only CHUNK,…")
                .into_err();
        }
    };
    let mut set = [false; SCTP_CHUNK_NAMES_AND_FLAG_LETTERS.len()];
    // Of each chunk the flag bits that must be set, and those tested.
    let mut flags = [(0u8, 0u8); SCTP_CHUNK_NAMES_AND_FLAG_LETTERS.len()];
    if t.second_arg.eq_ignore_ascii_case("ALL") {
        let value = format!("{how} ALL");
        return Ok(Negatable { negated: t.negated, value });
    } else if t.second_arg.eq_ignore_ascii_case("NONE") {
        return Ok(Negatable { negated: t.negated, value: format!("{how} NONE") });
    }
    for word in t.second_arg.split(',').filter(|w| !w.is_empty()) {
        let (name, letters) = word.split_once(':').unwrap_or((word, ""));
        let Some(i) =
            SCTP_CHUNK_NAMES_AND_FLAG_LETTERS.iter().position(|c| c.0.eq_ignore_ascii_case(name))
        else {
            return t.second_arg_error(format!("no SCTP chunk {name}")).into_err();
        };
        set[i] = true;
        for letter in letters.chars() {
            let place = SCTP_CHUNK_NAMES_AND_FLAG_LETTERS[i]
                .1
                .find(letter.to_ascii_uppercase())
                .filter(|_| letter != '-');
            let Some(place) = place else {
                return t.second_arg_error(format!("chunk {name} has no flag {letter}")).into_err();
            };
            let bit = 0x80 >> place;
            flags[i].1 |= bit;
            if letter.is_ascii_uppercase() {
                flags[i].0 |= bit;
            }
        }
    }
    let mut value = format!("{how} ");
    // ALL is every number from 0 to 255: more than all that have a name.
    if !set.contains(&true) {
        value.push_str("NONE");
    } else {
        print_chunk_set(&mut value, &set, &flags);
    }
    Ok(Negatable { negated: t.negated, value })
}

fn print_chunk_set(out: &mut String, set: &[bool], flags: &[(u8, u8)]) {
    let chosen = SCTP_CHUNK_NAMES_AND_FLAG_LETTERS
        .iter()
        .zip(set.iter().zip(flags))
        .filter(|(_, (s, _))| **s);
    crate::append_text::append_comma_list(
        out,
        chosen,
        |out, ((name, letters), (_, (value, mask)))| {
            out.push_str(name);
            if *mask == 0 {
                return;
            }
            out.push(':');
            for bit in (0..8).rev().filter(|bit| mask >> bit & 1 == 1) {
                let letter = letters.as_bytes()[7 - bit] as char;
                let set = value >> bit & 1 == 1;
                out.push(if set { letter } else { letter.to_ascii_lowercase() });
            }
        },
    );
}
