//! Print-then-parse is the identity on what the parser accepts: on generated rulesets, and on seeds
//! with modified bytes.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_model::Family;
use weir_syntax::fuzz;

/// Rulesets and sets with something of everything.
const SEEDS: [(&str, Kind); 4] = [
    (include_str!("seeds/v4.rules"), Kind::Rules(Family::V4)),
    (include_str!("seeds/odd.rules"), Kind::Rules(Family::V4)),
    (include_str!("seeds/v6.rules"), Kind::Rules(Family::V6)),
    (include_str!("seeds/sets.ipset"), Kind::Sets),
];

/// Of the changes; another one with `PROPTEST_RNG_SEED`.
const SEED: RngSeed = RngSeed::Fixed(0x7765_6972);

#[derive(Clone, Copy)]
enum Kind {
    Rules(Family),
    Sets,
}

fn check(kind: Kind, data: &[u8]) {
    match kind {
        Kind::Rules(family) => fuzz::check_iptables_round_trip(data, family),
        Kind::Sets => fuzz::check_ipset_round_trip(data),
    }
}

#[test]
fn the_unchanged_seeds_are_accepted() {
    use weir_syntax::iptables::{ParserSettings, parse};
    for (seed, kind) in SEEDS {
        match kind {
            Kind::Rules(family) => {
                let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
                if let Err(errors) = parse(seed, &options) {
                    panic!("{}", weir_syntax::render_diagnostics(&errors, "seed", seed, false));
                }
            }
            Kind::Sets => {
                if let Err(errors) = weir_syntax::ipset::parse(seed) {
                    panic!("{}", weir_syntax::render_diagnostics(&errors, "seed", seed, false));
                }
            }
        }
        check(kind, seed.as_bytes());
    }
}

/// One change of a text: a byte, a piece out, a piece doubled, a line elsewhere, a word swapped in.
fn change(data: &mut Vec<u8>, kind: u8, at: usize, len: usize, byte: u8) {
    if data.is_empty() {
        return;
    }
    let at = at % data.len();
    let end = (at + len % 24).min(data.len());
    match kind % 6 {
        0 => data[at] = byte,
        1 => drop(data.drain(at..end)),
        2 => {
            let piece = data[at..end].to_vec();
            data.splice(at..at, piece);
        }
        3 => data.insert(at, byte),
        4 => {
            const WORDS: [&[u8]; 12] = [
                b" ! ",
                b" -m tcp ",
                b"\"",
                b" -j ",
                b"\\",
                b"\n",
                b"[1:2]",
                b" --dport ",
                b"\r\n",
                b"/0",
                b" -I INPUT 1 ",
                b"-D ",
            ];
            data.splice(at..at, WORDS[byte as usize % WORDS.len()].iter().copied());
        }
        _ => {
            let lines: Vec<Vec<u8>> = data.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            let (a, b) = (at % lines.len(), byte as usize % lines.len());
            let mut lines = lines;
            lines.swap(a, b);
            *data = lines.join(&b'\n');
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 15_000, failure_persistence: None, rng_seed: SEED, ..ProptestConfig::default() })]

    #[test]
    fn changed_seeds_are_read_back_the_same_or_refused(
        seed in 0..SEEDS.len(),
        changes in prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>(), any::<u8>()), 1..6),
    ) {
        let (text, kind) = SEEDS[seed];
        let mut data = text.as_bytes().to_vec();
        for (how, at, len, byte) in changes {
            change(&mut data, how, at, len, byte);
        }
        check(kind, &data);
    }

    #[test]
    fn single_lines_of_seeds_are_read_back_the_same_or_refused(
        seed in 0..SEEDS.len(),
        pick in any::<usize>(),
        changes in prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>(), any::<u8>()), 1..4),
    ) {
        let (text, kind) = SEEDS[seed];
        let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("-A") || l.starts_with("add")).collect();
        let mut line = lines[pick % lines.len()].as_bytes().to_vec();
        for (how, at, len, byte) in changes {
            change(&mut line, how, at, len, byte);
        }
        let mut data = match kind {
            Kind::Rules(_) => b"*mangle\n:user - [0:0]\n".to_vec(),
            Kind::Sets => text.lines().filter(|l| l.starts_with("create")).flat_map(|l| format!("{l}\n").into_bytes()).collect(),
        };
        data.extend(line);
        data.extend(if matches!(kind, Kind::Sets) { &b"\n"[..] } else { b"\nCOMMIT\n" });
        check(kind, &data);
    }
}
