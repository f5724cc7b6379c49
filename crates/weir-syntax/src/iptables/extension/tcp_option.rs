//! Matches of TCP options and of ECN bits: tcpmss, ecn.

use weir_model::Match;
use weir_model::matching::{OptionValue, Value};

use super::build::host;
use super::value;
use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::option::{ANYWHERE, Extension, ExtensionScope, Given, flag, opt};

pub(super) static TCPMSS: Extension<Match> = Extension {
    name: "tcpmss",
    family: None,
    options: &[opt("mss", 0).invert().mandatory()],
    build: |g| {
        let Some(t) = g.first(0) else { return g.problem("tcpmss without --mss").fail() };
        let (lo, hi) = value::range(t, 0xffff)?;
        if lo > hi {
            return t.problem(format!("the lower end of {} is above its upper end", t.arg)).fail();
        }
        let value = Value::Range(lo, hi);
        Ok(host("tcpmss", vec![OptionValue { negated: t.negated, name: "mss", value }]))
    },
    place: ExtensionScope::protocols(&[6]),
};

pub(super) static ECN: Extension<Match> = Extension {
    name: "ecn",
    family: None,
    options: &[
        flag("ecn-tcp-cwr", 0).invert(),
        flag("ecn-tcp-ece", 1).invert(),
        opt("ecn-ip-ect", 2).invert(),
    ],
    build: ecn,
    place: ANYWHERE,
};

fn ecn(g: &Given) -> Fallible<Match> {
    let mut options = Vec::new();
    for id in [1, 0, 2] {
        let Some(t) = g.first(id) else { continue };
        let value = match id {
            2 => Value::Number(value::integer(t, 0, 3)?),
            _ => Value::Flag,
        };
        let tcp = g.base.proto.is_some_and(|p| p.proto == 6 && !p.negated);
        if id != 2 && !tcp {
            return Diagnostic::new("test of TCP bits in a rule that is not for TCP only", t.span)
                .help("write -p tcp in the rule")
                .fail();
        }
        options.push(OptionValue { negated: t.negated, name: g.spelled(id), value });
    }
    if options.is_empty() {
        return g.problem("ecn without an option").fail();
    }
    Ok(host("ecn", options))
}
