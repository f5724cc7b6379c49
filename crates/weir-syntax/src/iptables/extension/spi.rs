//! Security parameter indexes: esp, and ah of both families.

use weir_model::matching::{OptionValue, Value};
use weir_model::{Family, Match};

use super::build::host;
use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::option::{ANYWHERE, Extension, ExtensionScope, Given, flag, opt};

pub(super) static ESP: Extension<Match> = Extension {
    name: "esp",
    family: None,
    options: &[opt("espspi", 0).invert()],
    build: |g| spi(g, "espspi"),
    place: ExtensionScope::protocols(&[50]),
};

pub(super) static AH: Extension<Match> = Extension {
    name: "ah",
    family: Some(Family::V4),
    options: &[opt("ahspi", 0).invert()],
    build: |g| spi(g, "ahspi"),
    place: ExtensionScope::protocols(&[51]),
};

pub(super) static AH6: Extension<Match> = Extension {
    name: "ah",
    family: Some(Family::V6),
    options: &[opt("ahspi", 0).invert(), opt("ahlen", 1).invert(), flag("ahres", 2)],
    build: |g| spi(g, "ahspi"),
    place: ANYWHERE,
};

fn spi(g: &Given, name: &'static str) -> Fallible<Match> {
    let mut options = Vec::new();
    if let Some(t) = g.first(0) {
        let (lo, hi) = value::range(t, u32::MAX.into())?;
        if t.negated || lo != 0 || hi != u32::MAX.into() {
            options.push(OptionValue { negated: t.negated, name, value: Value::Range(lo, hi) });
        }
    }
    if let Some(t) = g.first(1) {
        let n = value::integer(t, 0, u32::MAX.into())?;
        if n != 0 || t.negated {
            let value = Value::Number(n);
            options.push(OptionValue { negated: t.negated, name: "ahlen", value });
        }
    }
    if g.has(2) {
        options.push(OptionValue { negated: false, name: "ahres", value: Value::Flag });
    }
    Ok(host(if name == "espspi" { "esp" } else { "ah" }, options))
}
