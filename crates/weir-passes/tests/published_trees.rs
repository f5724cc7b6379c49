//! The checks and jumps of the trees that Hagtheil's page publishes for a /13, computed exactly:
//! 2 bits per level need 39 checks and 11 jumps, 3 bits 51 and 8, 4 bits 73 and 6, 5 bits 113 and 5
//! (H26 to H29), and an address outside of the tree one check (H31).
//!
//! The most costly packet is that of the last address: at every level all siblings are tested
//! before the one that matches. The ruleset therefore has the last address of the /13, and one
//! address below each sibling on its path; other addresses do not lie on it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use weir_model::{Addr, Family, Firewall, Packet};
use weir_passes::{CheckedPassesOptions, PassOptions, passes, run_passes_until_first_refusal};
use weir_semantics::{AlwaysFalseOracle, CountedObject, Interpreter, JourneyKind, Verdict};
use weir_syntax::iptables::{self, ParserSettings};

/// Length of the published network's prefix.
const NETWORK_PREFIX: u8 = 13;
/// Its last address.
const LAST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 143, 255, 255);

/// The addresses below each sibling on the path of the last one, itself included.
fn list_addresses_on_last_path(levels: &[u8]) -> BTreeSet<u32> {
    let last = u32::from(LAST_ADDRESS);
    let mut addresses = BTreeSet::from([last]);
    let mut above = NETWORK_PREFIX;
    for level in levels.iter().copied().chain([32]).filter(|level| *level > NETWORK_PREFIX) {
        let parent = last >> (32 - above) << (32 - above);
        for sibling in 0..1_u32 << (level - above) {
            let below = if level == 32 { 0 } else { u32::MAX >> level };
            addresses.insert(parent | sibling << (32 - level) | below);
        }
        above = level;
    }
    addresses
}

/// A tree with a chain per address, whose levels branch at `levels`.
fn compile_tree_of_levels(levels: &[u8]) -> Firewall {
    let addresses = list_addresses_on_last_path(levels);
    let mut text = "*filter\n:FORWARD ACCEPT [0:0]\n".to_owned();
    for address in &addresses {
        let _ = writeln!(text, ":ip_{address} - [0:0]");
    }
    for address in &addresses {
        let _ = writeln!(text, "-A FORWARD -s {}/32 -j ip_{address}", Ipv4Addr::from(*address));
    }
    for address in &addresses {
        let _ = writeln!(text, "-A ip_{address} -j ACCEPT");
    }
    let settings = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
    let v4 = iptables::parse(&(text + "COMMIT\n"), &settings).expect("good rules");
    let list = Firewall { v4: Some(v4), ..Firewall::default() };
    let pass = passes::find_pass("chain_tree").expect("the pass is there");
    let options = CheckedPassesOptions {
        pass: PassOptions { levels: Some(levels.to_vec()), ..PassOptions::default() },
        ..CheckedPassesOptions::default()
    };
    run_passes_until_first_refusal(&list, &[pass], &options, &mut |_, _| {})
        .expect("the tree is equal to the list")
        .firewall
}

/// Rules that the packet of an address evaluates before the rule of its own chain, and the jumps
/// among them.
fn count_checks_and_jumps(tree: &Firewall, source: Ipv4Addr) -> (u32, usize) {
    let destination = Addr(u32::from(Ipv4Addr::new(198, 51, 100, 1)).into());
    let packet = Packet::new(Family::V4, Addr(u32::from(source).into()), destination, 17);
    let interpreter = Interpreter::new(tree);
    let outcome =
        interpreter.evaluate_journey(&packet, JourneyKind::Forward, &mut AlwaysFalseOracle);
    assert_eq!(outcome.verdict, Verdict::Accept);
    let is_rule = |object: &CountedObject<'_>| matches!(object, CountedObject::Rule { .. });
    let matched = outcome.hits.iter().filter(|hit| is_rule(&hit.counted_object)).count();
    // The last rule that matches is that of the address, which accepts.
    let own = usize::from(matched > 0);
    (outcome.rules_tried - own as u32, matched - own)
}

/// Levels of the published trees, from the network that FORWARD tests once.
const PUBLISHED_CHECK_AND_JUMP_COUNTS: [(&[u8], u32, usize); 4] = [
    (&[12, 14, 16, 18, 20, 22, 24, 26, 28, 30], 39, 11),
    (&[11, 14, 17, 20, 23, 26, 29], 51, 8),
    (&[12, 16, 20, 24, 28], 73, 6),
    (&[12, 17, 22, 27], 113, 5),
];

#[test]
fn the_last_address_costs_the_published_number_of_checks_and_jumps() {
    for (levels, checks, jumps) in PUBLISHED_CHECK_AND_JUMP_COUNTS {
        let tree = compile_tree_of_levels(levels);
        assert_eq!(count_checks_and_jumps(&tree, LAST_ADDRESS), (checks, jumps), "{levels:?}");
        for address in list_addresses_on_last_path(levels) {
            let (of_checks, of_jumps) = count_checks_and_jumps(&tree, address.into());
            assert!(of_checks <= checks && of_jumps <= jumps, "{}", Ipv4Addr::from(address));
        }
    }
}

#[test]
fn an_address_outside_the_published_trees_costs_one_check() {
    for (levels, ..) in PUBLISHED_CHECK_AND_JUMP_COUNTS {
        let outside = Ipv4Addr::new(192, 0, 2, 1);
        assert_eq!(
            count_checks_and_jumps(&compile_tree_of_levels(levels), outside),
            (1, 0),
            "{levels:?}"
        );
    }
}
