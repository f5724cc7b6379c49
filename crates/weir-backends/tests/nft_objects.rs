//! Objects that rules in iptables use by name are created and configured by the same rules as
//! before.

use weir_backends::{CompileError, CompileOptions, nft};
use weir_model::effect::verdict_or_extension_name;
use weir_model::{Family, Firewall};
use weir_syntax::iptables::{ParserSettings, parse};

fn compiled(asks: &str) -> Result<nft::NftForm, CompileError> {
    let text = format!(
        "*mangle\n:PREROUTING ACCEPT [0:0]\n:U - [0:0]\n-A PREROUTING -p udp -j ACCEPT\n\
         -A U -j RATEEST --rateest-name x --rateest-interval 250ms --rateest-ewmalog 500ms\n\
         COMMIT\n*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -j ACCEPT\n{asks}COMMIT\n"
    );
    let options = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
    let v4 = parse(&text, &options).expect("good rules");
    let firewall = Firewall { v4: Some(v4), ..Firewall::default() };
    nft::compile_nft_form_without_passes(&firewall, &CompileOptions::default(), &mut |_, _| {})
}

#[test]
fn rules_that_create_named_objects_stay_in_iptables_with_users() {
    for asks in ["", "-A INPUT -m rateest --rateest x --rateest-gt --rateest-bps 1mbit -j DROP\n"] {
        let form = compiled(asks).expect("it is equal");
        let kept = form.iptables_tables_with_hooks_left();
        let rules =
            kept.rulesets().flat_map(|r| r.rules_with_table_and_chain()).map(|(_, _, rule)| rule);
        let makers = rules.filter(|r| verdict_or_extension_name(&r.target) == Some("RATEEST"));
        assert_eq!(makers.count(), 1, "{asks}");
    }
}
