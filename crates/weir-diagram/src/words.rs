//! Matches and values in a few words.

use weir_model::mask::prefix_mask;
use weir_model::matching::{OptionValue, Value};
use weir_model::{Family, Field, Match};

/// A match as a rule would name it: `-m owner --uid-owner 0`, options as far as they say something.
pub(crate) fn match_words(m: &Match) -> String {
    match m {
        Match::Stateful(s) => module(s.module, &s.options),
        Match::Host(h) => module(h.module, &h.options),
        Match::Opaque(o) => format!("-m {} {}", o.name, o.words.join(" ")).trim_end().to_owned(),
        Match::Set(s) => {
            let dirs: Vec<_> = s.dirs.iter().map(|d| if *d { "src" } else { "dst" }).collect();
            format!("-m set --match-set {} {}", s.name, dirs.join(","))
        }
        Match::Conntrack(_) => "-m conntrack".to_owned(),
        Match::Tcp { .. } => "-m tcp --tcp-option".to_owned(),
        Match::Sctp { .. } => "-m sctp --chunk-types".to_owned(),
        Match::Dccp { .. } => "-m dccp --dccp-types".to_owned(),
        other => format!("{other:?}"),
    }
}

fn module(name: &str, options: &[OptionValue]) -> String {
    let mut out = format!("-m {name}");
    for OptionValue { negated, name, value } in options {
        let not = if *negated { " !" } else { "" };
        let value = option_words(value);
        out += &format!("{not} --{name}{}{value}", if value.is_empty() { "" } else { " " });
    }
    out
}

fn option_words(value: &Value) -> String {
    match value {
        Value::Flag => String::new(),
        Value::Number(n) | Value::Duration(n) => n.to_string(),
        Value::Hex(n) => format!("{n:#x}"),
        Value::Range(lo, hi) if lo == hi => lo.to_string(),
        Value::Range(lo, hi) => format!("{lo}:{hi}"),
        Value::Masked(v, m) => format!("{v:#x}/{m:#x}"),
        Value::Rate(n, unit) => {
            let unit = match unit {
                1000 => "sec",
                60_000 => "min",
                3_600_000 => "hour",
                _ => "day",
            };
            format!("{n}/{unit}")
        }
        Value::Probability(p) => format!("{:.4}", f64::from(*p) / 2f64.powi(31)),
        Value::Word(w) => (*w).to_owned(),
        Value::Words(w) => w.join(","),
        Value::Text(t) => t.clone(),
        Value::Bytes(b) => String::from_utf8_lossy(b).into_owned(),
        other => format!("{other:?}"),
    }
}

/// A span of a field's values, addresses as prefixes where they are one.
pub(crate) fn span_words(field: Field, (lo, hi): (u128, u128), family: Family) -> String {
    let word = |v| field.display_value(v, family);
    if lo == hi {
        return word(lo);
    }
    let is_address = matches!(field, Field::Saddr | Field::Daddr);
    let mask = prefix_mask((lo, hi), family.max()).filter(|_| is_address);
    match mask.and_then(|mask| family.prefix_len(mask)) {
        Some(len) => format!("{}/{len}", word(lo)),
        None => format!("{}-{}", word(lo), word(hi)),
    }
}
