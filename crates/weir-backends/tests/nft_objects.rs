//! What rules that stay in iptables use by name is made and configured by the same rules as before.

use weir_backends::{CompileError, CompileOptions, nft};
use weir_model::{Family, Firewall};
use weir_syntax::iptables::{ParseOptions, parse};

fn compiled(asks: &str) -> Result<nft::NftForm, CompileError> {
    let text = format!(
        "*mangle\n:PREROUTING ACCEPT [0:0]\n:U - [0:0]\n-A PREROUTING -p udp -j ACCEPT\n\
         -A U -j RATEEST --rateest-name x --rateest-interval 250ms --rateest-ewmalog 500ms\n\
         COMMIT\n*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -j ACCEPT\n{asks}COMMIT\n"
    );
    let options = ParseOptions { family: Some(Family::V4), ..ParseOptions::default() };
    let v4 = parse(&text, &options).expect("good rules");
    let firewall = Firewall { v4: Some(v4), ..Firewall::default() };
    nft::compile(&firewall, &CompileOptions::default(), &mut |_, _| {})
}

#[test]
fn a_form_that_loses_the_rule_that_makes_an_object_is_refused() {
    // The control: an estimator that nobody asks is lost with its chain.
    let form = compiled("").expect("it is equal");
    assert!(form.kept().rulesets().all(|r| r.rules().next().is_none()));
    let asks = "-A INPUT -m rateest --rateest x --rateest-gt --rateest-bps 1mbit -j DROP\n";
    let Err(CompileError::Unsupported { refusals, .. }) = compiled(asks) else {
        panic!("the rest does not load")
    };
    let said: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("(iptables/mangle/U/1)"), "{said:?}");
}
