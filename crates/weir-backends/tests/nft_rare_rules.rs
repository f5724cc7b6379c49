//! Rules that few rulesets have, in the nft form.

use weir_backends::{CompileOptions, CompiledForm, compile};
use weir_model::Firewall;
use weir_syntax::iptables::{ParserSettings, parse};

/// The nft text of a rule of FORWARD.
fn nft_text(rule: &str) -> Result<String, String> {
    let text = format!("*filter\n:FORWARD DROP [0:0]\n-A FORWARD {rule}\nCOMMIT\n");
    let v4 = Some(parse(&text, &ParserSettings::default()).expect("the rule is read"));
    let firewall = Firewall { v4, ..Firewall::default() };
    let artefact =
        compile(&firewall, CompiledForm::Nft, &CompileOptions::default(), &mut |_, _| {})
            .map_err(|error| error.to_string())?;
    Ok(artefact.contents.nft.expect("the hook is in nft"))
}

#[test]
fn dccp_port_rules_compile_like_udp_port_rules() {
    // The control: a UDP header is truncated if any byte is missing.
    for rule in ["-p udp -m udp --dport 5 -j ACCEPT", "-p dccp -m dccp --dport 5 -j ACCEPT"] {
        let text = nft_text(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
        assert!(text.contains("dport == 5"), "{rule}: {text}");
    }
    nft_text("-p dccp -m dccp ! --sport 5:9 -j ACCEPT").expect("a negated range");
}

#[test]
fn a_reversed_range_of_addresses_contains_none() {
    let forward = nft_text("-m iprange --src-range 10.0.0.1-10.0.0.9 -j ACCEPT").expect("a range");
    assert!(forward.contains("ip saddr == 10.0.0.1-10.0.0.9"), "{forward}");
    let never = nft_text("-m iprange --src-range 10.0.0.9-10.0.0.1 -j ACCEPT").expect("no address");
    assert!(!never.contains("10.0.0.9"), "{never}");
    let always = nft_text("-m iprange ! --src-range 10.0.0.9-10.0.0.1 -j ACCEPT").expect("all");
    assert!(!always.contains("10.0.0.9") && always.contains("accept"), "{always}");
}
