//! Random values for the braces in a subject's rule.

use weir_model::Family;
use weir_testkit::random_ruleset::TestRng;

/// Replaces each `{kind}` or `{kind:LIMITS}` by a value.
pub fn expand(rule: &str, family: Family, rng: &mut TestRng) -> String {
    let mut out = String::new();
    let mut rest = rule;
    while let Some((before, after)) = rest.split_once('{') {
        let (kind, after) = after.split_once('}').expect("braces are closed");
        out.push_str(before);
        out.push_str(&value(kind, family, rng));
        rest = after;
    }
    out + rest
}

fn value(kind: &str, family: Family, rng: &mut TestRng) -> String {
    let (kind, limits) = kind.split_once(':').unwrap_or((kind, ""));
    let (lo, hi) = limits.split_once('-').unwrap_or(("0", limits));
    let bound = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let (lo, hi) = (bound(lo), bound(hi));
    match kind {
        "n" => spelled(number(lo, hi, rng), rng),
        "decimal" => number(lo, hi, rng).to_string(),
        "range" => range(lo, hi, ':', rng),
        "dash" => range(lo, hi, '-', rng),
        "masked" => {
            let (v, m) = (number(lo, hi, rng), number(lo, hi, rng));
            let (v, m) = (spelled(v, rng), spelled(m, rng));
            if rng.chance_percent(70) { format!("{v}/{m}") } else { v }
        }
        "rate" => {
            let unit = rng.pick(&["", "/s", "/sec", "/minute", "/m", "/hour", "/d", "/DAY"]);
            format!("{}{unit}", number(1, hi, rng))
        }
        "bytes" => {
            let (unit, max) = rng.pick(&[("b", hi), ("kb", hi >> 10), ("mb", hi >> 20)]);
            format!("{}{unit}/{}", number(1, max.max(1), rng), rng.pick(&["s", "sec", "s"]))
        }
        "burst" => {
            let (unit, max) =
                rng.pick(&[("b", hi), ("kb", hi >> 10), ("mb", hi >> 20), ("k", hi >> 10)]);
            format!("{}{unit}", number(lo.min(max), max.max(1), rng))
        }
        "probability" => probability(rng),
        "clock" => {
            let (h, m, s) = (rng.number_below(24), rng.number_below(60), rng.number_below(60));
            if rng.chance_percent(50) {
                format!("{h}:{m:02}:{s:02}")
            } else {
                format!("{h:02}:{m}")
            }
        }
        "date" => date(rng),
        "days" => {
            let days: Vec<String> = (0..=rng.number_below(5))
                .map(|_| (1 + rng.number_below(hi as usize)).to_string())
                .collect();
            days.join(",")
        }
        "name" => format!("h{}", rng.next_u64()),
        "x" => "x".repeat(1 + rng.number_below(hi as usize)),
        "addr" => address(family, rng),
        "net" => network(family, rng),
        "u32" => u32_test(rng),
        "flags" => {
            let flags =
                ["SYN", "ACK", "FIN", "RST", "URG", "PSH", "ALL", "NONE", "SYN,ACK", "SYN,RST,FIN"];
            format!("{} {}", rng.pick(&flags), rng.pick(&flags))
        }
        "chunks" => chunks(rng),
        "ports" => {
            let some: Vec<String> = (0..=rng.number_below(4))
                .map(|_| range(0, 65_535, ':', rng))
                .filter(|r| r.len() > 1 && !r.starts_with(':') && !r.ends_with(':'))
                .collect();
            if some.is_empty() { "5".to_owned() } else { some.join(",") }
        }
        "not" => rng.pick(&["", "", "! "]).to_owned(),
        _ => panic!("no values of kind {kind}"),
    }
}

/// A number from `lo` to `hi`: at the ends, around powers of two and ten, or of any size.
fn number(lo: u64, hi: u64, rng: &mut TestRng) -> u64 {
    let n = match rng.number_below(8) {
        0 => lo.saturating_add(rng.number_below(3) as u64),
        1 => hi.saturating_sub(rng.number_below(3) as u64),
        2 => {
            (1u64 << rng.number_below(64)).wrapping_add(rng.number_below(3) as u64).wrapping_sub(1)
        }
        3 => 10u64
            .pow(rng.number_below(19) as u32)
            .wrapping_add(rng.number_below(3) as u64)
            .wrapping_sub(1),
        4 => rng.number_below(1000) as u64,
        _ => rng.next_u64() >> rng.number_below(64),
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
fn spelled(n: u64, rng: &mut TestRng) -> String {
    match rng.number_below(6) {
        0 => format!("{n:#x}"),
        1 => format!("0{n:o}"),
        _ => n.to_string(),
    }
}

fn range(lo: u64, hi: u64, between: char, rng: &mut TestRng) -> String {
    let (a, b) = (number(lo, hi, rng), number(lo, hi, rng));
    let (a, b) = (a.min(b), a.max(b));
    match rng.number_below(6) {
        0 => a.to_string(),
        1 if between == ':' => format!("{a}:"),
        2 if between == ':' => format!(":{b}"),
        _ => format!("{a}{between}{b}"),
    }
}

fn probability(rng: &mut TestRng) -> String {
    let p = rng.next_u64() as f64 / u64::MAX as f64;
    match rng.number_below(6) {
        // Of the kernel's own steps of 2^-31, and half of one.
        0 => format!("{:.12}", rng.number_below(1 << 31) as f64 / f64::from(1u32 << 31)),
        1 => format!("{:.15}", (rng.number_below(1 << 20) as f64 + 0.5) / f64::from(1u32 << 31)),
        2 => format!("{:e}", p / 10f64.powi(rng.number_below(12) as i32)),
        3 => rng
            .pick(&["0", "1", "0.5", "1e-9", ".25", "1.0", "0.99999999999", "4e-10", "2e-10"])
            .to_owned(),
        _ => format!("{p:.*}", 1 + rng.number_below(16)),
    }
}

fn date(rng: &mut TestRng) -> String {
    let (y, m, d) =
        (1970 + rng.number_below(68), 1 + rng.number_below(12), 1 + rng.number_below(28));
    let (h, i, s) = (rng.number_below(24), rng.number_below(60), rng.number_below(60));
    match rng.number_below(6) {
        0 => format!("{y}"),
        1 => format!("{y}-{m:02}"),
        2 => format!("{y}-{m:02}-{d:02}"),
        3 => format!("{y}-{m}-{d}T{h}"),
        4 => "2038-01-19T03:14:07".to_owned(),
        _ => format!("{y}-{m:02}-{d:02}T{h:02}:{i:02}:{s:02}"),
    }
}

fn address(family: Family, rng: &mut TestRng) -> String {
    match family {
        Family::V4 => std::net::Ipv4Addr::from(rng.next_u64() as u32).to_string(),
        Family::V6 => {
            let mut a = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            if rng.chance_percent(50) {
                a &= u128::MAX << rng.number_below(127);
            }
            std::net::Ipv6Addr::from(a).to_string()
        }
    }
}

fn network(family: Family, rng: &mut TestRng) -> String {
    let a = address(family, rng);
    match (family, rng.number_below(4)) {
        (_, 0) => a,
        // Masks need not be contiguous.
        (_, 1) => format!("{a}/{}", address(family, rng)),
        (Family::V4, _) => format!("{a}/{}", rng.number_below(33)),
        (Family::V6, _) => format!("{a}/{}", rng.number_below(129)),
    }
}

fn u32_test(rng: &mut TestRng) -> String {
    let word = |rng: &mut TestRng| spelled(number(0, u32::MAX.into(), rng), rng);
    let tests: Vec<String> = (0..=rng.number_below(3))
        .map(|_| {
            let mut test = word(rng);
            for _ in 0..rng.number_below(4) {
                let operator = rng.pick(&["<<", ">>", "&", "@", " & ", " @ "]);
                test.push_str(operator);
                test.push_str(&match operator {
                    "<<" | ">>" => spelled(rng.number_below(33) as u64, rng),
                    _ => word(rng),
                });
            }
            let (a, b) = (number(0, u32::MAX.into(), rng), number(0, u32::MAX.into(), rng));
            format!("{test}={}:{},{}", a.min(b), a.max(b), word(rng))
        })
        .collect();
    format!("\"{}\"", tests.join("&&"))
}

fn chunks(rng: &mut TestRng) -> String {
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
    let percent = rng.pick(&[10, 50, 100]);
    let mut words = Vec::new();
    for chunk in CHUNKS {
        if !rng.chance_percent(percent) {
            continue;
        }
        let flags = match chunk {
            "DATA" | "I_DATA" => rng.pick(&["", ":B", ":be", ":IUBE", ":iU"]),
            "ABORT" | "SHUTDOWN_COMPLETE" => rng.pick(&["", ":T", ":t"]),
            _ => "",
        };
        words.push(format!("{chunk}{flags}"));
    }
    let list =
        if words.is_empty() { rng.pick(&["ALL", "NONE"]).to_owned() } else { words.join(",") };
    format!("{} {list}", rng.pick(&["all", "any", "only"]))
}
