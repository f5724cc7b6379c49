//! The rulesets of the tests: all accept UDP port 5001 and drop port 5002.

use std::sync::LazyLock;

use weir_backends::{Artefact, CompileOptions, CompiledForm, compile};
use weir_model::{Family, Firewall};
use weir_syntax::iptables::{self, ParserSettings};

/// What is in force before anything is loaded.
pub const BARE: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    :mine - [0:0]\n-A FORWARD -s 192.0.2.0/24 -j mine\n-A FORWARD -p udp -m udp --dport 5001 \
    -j ACCEPT\n-A mine -j ACCEPT\nCOMMIT\n";

/// The same of IPv6.
pub const BARE6: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n\
    :OUTPUT ACCEPT [0:0]\n-A FORWARD -s 2001:db8:1::/48 -j ACCEPT\nCOMMIT\n";

/// What a ruleset has in addition to the rules that all have.
#[derive(Clone, Copy, PartialEq)]
enum More {
    Nothing,
    /// A mangle table, and a rule in INPUT that keeps the hook in iptables.
    KeptInput,
    /// A rule in FORWARD that keeps the hook in iptables, and nft rules in INPUT.
    KeptForward,
}

/// The artefacts: name, ruleset and form.
const ARTEFACTS: [(&str, More, CompiledForm); 7] = [
    ("linear", More::Nothing, CompiledForm::Linear),
    ("tree", More::KeptInput, CompiledForm::Tree),
    ("ipset", More::Nothing, CompiledForm::Ipset),
    ("ipset-other", More::KeptForward, CompiledForm::Ipset),
    ("nft", More::Nothing, CompiledForm::Nft),
    ("nft-kept-input", More::KeptInput, CompiledForm::Nft),
    ("nft-kept-forward", More::KeptForward, CompiledForm::Nft),
];

fn text(more: More) -> String {
    let mut text = String::new();
    if more == More::KeptInput {
        text += "*mangle\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n\
            :OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n\
            -A FORWARD -s 192.0.2.1/32 -j MARK --set-xmark 0x1/0xffffffff\nCOMMIT\n";
    }
    text += "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n";
    let kept = "-m recent --set --name seen --mask 255.255.255.255 --rsource -j ACCEPT";
    match more {
        More::Nothing => {}
        More::KeptInput => text += &format!("-A INPUT -s 198.51.100.1/32 {kept}\n"),
        More::KeptForward => {
            text += &format!("-A FORWARD -s 198.51.100.1/32 {kept}\n");
            text += "-A INPUT -s 198.51.100.2/32 -j DROP\n";
        }
    }
    for i in 0..80 {
        text += &format!("-A FORWARD -s 10.{}.{i}.1/32 -j ACCEPT\n", 200 + i % 5);
    }
    text + "-A FORWARD -p udp -m udp --dport 5001 -j ACCEPT\nCOMMIT\n"
}

fn firewall(more: More) -> Firewall {
    let parse = |text: &str, family| {
        let options = ParserSettings { family: Some(family), ..Default::default() };
        Some(iptables::parse(text, &options).expect("the ruleset is read"))
    };
    let mut v6 = BARE6.replace("COMMIT\n", "");
    for i in 0..30 {
        v6 += &format!("-A FORWARD -d 2001:db8:{i:x}::/48 -p tcp -m tcp --dport 22 -j DROP\n");
    }
    let v6 = parse(&(v6 + "COMMIT\n"), Family::V6);
    Firewall { v4: parse(&text(more), Family::V4), v6, sets: Vec::new() }
}

/// All artefacts, compiled once.
pub static ALL: LazyLock<Vec<(&str, Artefact)>> = LazyLock::new(|| {
    let options = CompileOptions { check_packets_per_family: 200, ..Default::default() };
    let compiled = ARTEFACTS.iter().map(|&(name, more, form)| {
        let made = compile(&firewall(more), form, &options, &mut |_, _| {});
        (name, made.unwrap_or_else(|e| panic!("{name}: {e}")))
    });
    compiled.collect()
});
