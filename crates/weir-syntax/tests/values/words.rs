//! Values by chance: what stands in braces in a subject's rule.

use weir_model::Family;
use weir_testkit::random::Dice;

/// Replaces each `{kind}` or `{kind:LIMITS}` by a value.
pub fn expand(rule: &str, family: Family, dice: &mut Dice) -> String {
    let mut out = String::new();
    let mut rest = rule;
    while let Some((before, after)) = rest.split_once('{') {
        let (kind, after) = after.split_once('}').expect("braces are closed");
        out.push_str(before);
        out.push_str(&value(kind, family, dice));
        rest = after;
    }
    out + rest
}

fn value(kind: &str, family: Family, dice: &mut Dice) -> String {
    let (kind, limits) = kind.split_once(':').unwrap_or((kind, ""));
    let (lo, hi) = limits.split_once('-').unwrap_or(("0", limits));
    let bound = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let (lo, hi) = (bound(lo), bound(hi));
    match kind {
        "n" => spelled(number(lo, hi, dice), dice),
        "decimal" => number(lo, hi, dice).to_string(),
        "range" => range(lo, hi, ':', dice),
        "dash" => range(lo, hi, '-', dice),
        "masked" => {
            let (v, m) = (number(lo, hi, dice), number(lo, hi, dice));
            let (v, m) = (spelled(v, dice), spelled(m, dice));
            if dice.chance(70) { format!("{v}/{m}") } else { v }
        }
        "rate" => {
            let unit = dice.pick(&["", "/s", "/sec", "/minute", "/m", "/hour", "/d", "/DAY"]);
            format!("{}{unit}", number(1, hi, dice))
        }
        "bytes" => {
            let (unit, max) = dice.pick(&[("b", hi), ("kb", hi >> 10), ("mb", hi >> 20)]);
            format!("{}{unit}/{}", number(1, max.max(1), dice), dice.pick(&["s", "sec", "s"]))
        }
        "burst" => {
            let (unit, max) =
                dice.pick(&[("b", hi), ("kb", hi >> 10), ("mb", hi >> 20), ("k", hi >> 10)]);
            format!("{}{unit}", number(lo.min(max), max.max(1), dice))
        }
        "probability" => probability(dice),
        "clock" => {
            let (h, m, s) = (dice.below(24), dice.below(60), dice.below(60));
            if dice.chance(50) { format!("{h}:{m:02}:{s:02}") } else { format!("{h:02}:{m}") }
        }
        "date" => date(dice),
        "days" => {
            let days: Vec<String> =
                (0..=dice.below(5)).map(|_| (1 + dice.below(hi as usize)).to_string()).collect();
            days.join(",")
        }
        "name" => format!("h{}", dice.number()),
        "x" => "x".repeat(1 + dice.below(hi as usize)),
        "addr" => address(family, dice),
        "net" => network(family, dice),
        "u32" => u32_test(dice),
        "flags" => {
            let flags =
                ["SYN", "ACK", "FIN", "RST", "URG", "PSH", "ALL", "NONE", "SYN,ACK", "SYN,RST,FIN"];
            format!("{} {}", dice.pick(&flags), dice.pick(&flags))
        }
        "chunks" => chunks(dice),
        "ports" => {
            let some: Vec<String> = (0..=dice.below(4))
                .map(|_| range(0, 65_535, ':', dice))
                .filter(|r| r.len() > 1 && !r.starts_with(':') && !r.ends_with(':'))
                .collect();
            if some.is_empty() { "5".to_owned() } else { some.join(",") }
        }
        "not" => dice.pick(&["", "", "! "]).to_owned(),
        _ => panic!("no values of kind {kind}"),
    }
}

/// A number from `lo` to `hi`: at the ends, around powers of two and ten, or of any size.
fn number(lo: u64, hi: u64, dice: &mut Dice) -> u64 {
    let n = match dice.below(8) {
        0 => lo.saturating_add(dice.below(3) as u64),
        1 => hi.saturating_sub(dice.below(3) as u64),
        2 => (1u64 << dice.below(64)).wrapping_add(dice.below(3) as u64).wrapping_sub(1),
        3 => 10u64.pow(dice.below(19) as u32).wrapping_add(dice.below(3) as u64).wrapping_sub(1),
        4 => dice.below(1000) as u64,
        _ => dice.number() >> dice.below(64),
    };
    if (lo..=hi).contains(&n) {
        return n;
    }
    match hi - lo {
        u64::MAX => n,
        width => lo + n % (width + 1),
    }
}

/// A number as `strtoul` reads it.
fn spelled(n: u64, dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => format!("{n:#x}"),
        1 => format!("0{n:o}"),
        _ => n.to_string(),
    }
}

fn range(lo: u64, hi: u64, between: char, dice: &mut Dice) -> String {
    let (a, b) = (number(lo, hi, dice), number(lo, hi, dice));
    let (a, b) = (a.min(b), a.max(b));
    match dice.below(6) {
        0 => a.to_string(),
        1 if between == ':' => format!("{a}:"),
        2 if between == ':' => format!(":{b}"),
        _ => format!("{a}{between}{b}"),
    }
}

fn probability(dice: &mut Dice) -> String {
    let p = dice.number() as f64 / u64::MAX as f64;
    match dice.below(6) {
        // Of the kernel's own steps of 2^-31, and half of one.
        0 => format!("{:.12}", dice.below(1 << 31) as f64 / f64::from(1u32 << 31)),
        1 => format!("{:.15}", (dice.below(1 << 20) as f64 + 0.5) / f64::from(1u32 << 31)),
        2 => format!("{:e}", p / 10f64.powi(dice.below(12) as i32)),
        3 => dice
            .pick(&["0", "1", "0.5", "1e-9", ".25", "1.0", "0.99999999999", "4e-10", "2e-10"])
            .to_owned(),
        _ => format!("{p:.*}", 1 + dice.below(16)),
    }
}

fn date(dice: &mut Dice) -> String {
    let (y, m, d) = (1970 + dice.below(68), 1 + dice.below(12), 1 + dice.below(28));
    let (h, i, s) = (dice.below(24), dice.below(60), dice.below(60));
    match dice.below(6) {
        0 => format!("{y}"),
        1 => format!("{y}-{m:02}"),
        2 => format!("{y}-{m:02}-{d:02}"),
        3 => format!("{y}-{m}-{d}T{h}"),
        4 => "2038-01-19T03:14:07".to_owned(),
        _ => format!("{y}-{m:02}-{d:02}T{h:02}:{i:02}:{s:02}"),
    }
}

fn address(family: Family, dice: &mut Dice) -> String {
    match family {
        Family::V4 => std::net::Ipv4Addr::from(dice.number() as u32).to_string(),
        Family::V6 => {
            let mut a = u128::from(dice.number()) << 64 | u128::from(dice.number());
            if dice.chance(50) {
                a &= u128::MAX << dice.below(127);
            }
            std::net::Ipv6Addr::from(a).to_string()
        }
    }
}

fn network(family: Family, dice: &mut Dice) -> String {
    let a = address(family, dice);
    match (family, dice.below(4)) {
        (_, 0) => a,
        // Masks need not be contiguous.
        (_, 1) => format!("{a}/{}", address(family, dice)),
        (Family::V4, _) => format!("{a}/{}", dice.below(33)),
        (Family::V6, _) => format!("{a}/{}", dice.below(129)),
    }
}

fn u32_test(dice: &mut Dice) -> String {
    let word = |dice: &mut Dice| spelled(number(0, u32::MAX.into(), dice), dice);
    let tests: Vec<String> = (0..=dice.below(3))
        .map(|_| {
            let mut test = word(dice);
            for _ in 0..dice.below(4) {
                let operator = dice.pick(&["<<", ">>", "&", "@", " & ", " @ "]);
                test.push_str(operator);
                test.push_str(&match operator {
                    "<<" | ">>" => spelled(dice.below(33) as u64, dice),
                    _ => word(dice),
                });
            }
            let (a, b) = (number(0, u32::MAX.into(), dice), number(0, u32::MAX.into(), dice));
            format!("{test}={}:{},{}", a.min(b), a.max(b), word(dice))
        })
        .collect();
    format!("\"{}\"", tests.join("&&"))
}

fn chunks(dice: &mut Dice) -> String {
    // In the order of printing: the kernel's list of flags has the order of the text.
    const CHUNKS: [&str; 22] = [
        "DATA",
        "INIT",
        "INIT_ACK",
        "SACK",
        "HEARTBEAT",
        "HEARTBEAT_ACK",
        "ABORT",
        "SHUTDOWN",
        "SHUTDOWN_ACK",
        "ERROR",
        "COOKIE_ECHO",
        "COOKIE_ACK",
        "ECN_ECNE",
        "ECN_CWR",
        "SHUTDOWN_COMPLETE",
        "I_DATA",
        "RE_CONFIG",
        "PAD",
        "ASCONF",
        "ASCONF_ACK",
        "FORWARD_TSN",
        "I_FORWARD_TSN",
    ];
    let percent = dice.pick(&[10, 50, 100]);
    let mut words = Vec::new();
    for chunk in CHUNKS {
        if !dice.chance(percent) {
            continue;
        }
        let flags = match chunk {
            "DATA" | "I_DATA" => dice.pick(&["", ":B", ":be", ":IUBE", ":iU"]),
            "ABORT" | "SHUTDOWN_COMPLETE" => dice.pick(&["", ":T", ":t"]),
            _ => "",
        };
        words.push(format!("{chunk}{flags}"));
    }
    let list =
        if words.is_empty() { dice.pick(&["ALL", "NONE"]).to_owned() } else { words.join(",") };
    format!("{} {list}", dice.pick(&["all", "any", "only"]))
}
