//! How much of each hook a form changed, and why it left the rest unchanged.

use weir_artefact::manifest::{FormRuleCoverage, HookRuleCoverage};
use weir_backends::nft::{self, NftForm};
use weir_backends::{CompileError, CompileOptions, CompiledForm, compile};
use weir_model::Firewall;
use weir_syntax::iptables::{self, ParserSettings};

fn firewall(text: &str) -> Firewall {
    let parsed = iptables::parse(text, &ParserSettings::default()).expect("the text is read");
    Firewall { v4: Some(parsed), ..Firewall::default() }
}

fn options() -> CompileOptions {
    CompileOptions { check_packets_per_family: 500, ..CompileOptions::default() }
}

fn nft_form(text: &str) -> NftForm {
    nft::compile_nft_form_without_passes(&firewall(text), &options(), &mut |_, _| ())
        .expect("there is such a form")
}

/// `in_form/left/rules` of each hook, with its causes.
fn shares(share: &FormRuleCoverage) -> Vec<String> {
    let hook = |h: &HookRuleCoverage| {
        let causes = h.causes.iter().map(|c| format!("; {} {}", c.causing_rules, c.why));
        format!("{} {}/{}/{}{}", h.hook, h.in_form, h.left, h.rules, causes.collect::<String>())
    };
    share.hooks.iter().map(hook).collect()
}

#[test]
fn nft_rule_share_of_each_hook_is_reported_with_reasons() {
    let whole = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:own - [0:0]\n:idle - [0:0]\n\
                 -A INPUT -s 192.0.2.1/32 -j ACCEPT\n-A INPUT -j own\n-A FORWARD -j own\n\
                 -A own -s 192.0.2.2/32 -j DROP\n-A own -s 192.0.2.3/32 -j DROP\n\
                 -A idle -j DROP\nCOMMIT\n";
    let share = nft_form(whole).share;
    assert_eq!(shares(&share), ["iptables/filter/INPUT 4/0/4", "iptables/filter/FORWARD 3/0/3"]);
    assert_eq!(
        (share.hook_entered_rules, share.in_form, share.left),
        (5, 5, 0),
        "no hook enters `idle`"
    );
    // Two rules that nft cannot express, one of them in a chain that both hooks enter.
    let recent = "-A own -m recent --name a --set\n";
    let text = whole.replace("-A idle", &format!("{recent}-A INPUT -m recent --rcheck\n-A idle"));
    let form = nft_form(&text);
    assert_eq!(form.moved_tables.len(), 1, "OUTPUT is moved to nft");
    assert_eq!(
        shares(&form.share),
        [
            "iptables/filter/INPUT 0/6/6; 2 nft cannot express -m recent",
            "iptables/filter/FORWARD 0/4/4; 1 nft cannot express -m recent",
        ]
    );
    assert_eq!((form.share.hook_entered_rules, form.share.in_form, form.share.left), (7, 0, 7));
    let moved = form.equality_check.passes.iter().map(|step| step.rules_before);
    assert_eq!(moved.collect::<Vec<_>>(), [0], "rules that stay are not counted as rewritten");
    // Only one of the two hooks stays in iptables: both iptables and nft evaluate the shared chain.
    let text = whole.replace("-A idle", "-A INPUT -m recent --rcheck\n-A idle");
    let share = nft_form(&text).share;
    assert_eq!(
        shares(&share),
        [
            "iptables/filter/INPUT 0/5/5; 1 nft cannot express -m recent",
            "iptables/filter/FORWARD 3/0/3",
        ]
    );
    assert_eq!((share.hook_entered_rules, share.in_form, share.left), (6, 3, 5));
}

#[test]
fn a_strict_form_is_complete_or_refused_naming_the_rules() {
    let whole = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -s 192.0.2.1/32 -j DROP\nCOMMIT\n";
    let strict =
        CompileOptions { refuse_rules_left_in_iptables: true, ..CompileOptions::default() };
    assert!(
        nft::compile_nft_form_without_passes(&firewall(whole), &strict, &mut |_, _| ()).is_ok()
    );
    let text = whole.replace("COMMIT", "-A INPUT -m recent --set\nCOMMIT");
    let split = text.replace("*filter", "*filter\n:FORWARD DROP [0:0]");
    let default = CompileOptions::default();
    assert!(
        nft::compile_nft_form_without_passes(&firewall(&split), &default, &mut |_, _| ()).is_ok(),
        "a mixture"
    );
    let refused = nft::compile_nft_form_without_passes(&firewall(&split), &strict, &mut |_, _| ())
        .unwrap_err();
    let CompileError::RulesLeftInIptables { share, refusals, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!((share.in_form, share.left), (0, 2));
    assert_eq!(refusals[0].rule_id, "iptables/filter/INPUT/2");
    assert_eq!(refusals[0].construct, "-m recent");
}

#[test]
fn iptables_forms_report_unchanged_rules_with_reasons() {
    let listed: String =
        (1..=200).map(|n| format!("-A FORWARD -s 192.0.2.{n}/32 -j DROP\n")).collect();
    let text = |more: &str| {
        format!(
            "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:DOCKER-USER - [0:0]\n\
             {listed}{more}COMMIT\n"
        )
    };
    let more = "-A FORWARD -m recent --set -j DROP\n-A FORWARD -j DOCKER-USER\n\
                -A DOCKER-USER -s 203.0.113.1/32 -j DROP\n-A INPUT -p udp -j DROP\n\
                -A INPUT -m limit --limit 1/sec -j LOG\n";
    for form in [CompiledForm::Tree, CompiledForm::Ipset] {
        let share = |text: &str| {
            let made = compile(&firewall(text), form, &options(), &mut |_, _| ());
            made.expect("it is equal").manifest.share
        };
        let whole = share(&text(""));
        assert_eq!(shares(&whole), ["iptables/filter/FORWARD 200/0/200"], "{form}");
        let alone = "too few similar rules are adjacent there";
        let state = "has a stateful match";
        let mixed = share(&text(more));
        assert_eq!(
            shares(&mixed),
            [
                format!("iptables/filter/INPUT 0/2/2; 1 {state}; 1 {alone}"),
                format!(
                    "iptables/filter/FORWARD 200/3/203; 1 {state}; 1 its chain belongs to docker; \
                     1 {alone}"
                ),
            ],
            "{form}"
        );
        assert_eq!((mixed.hook_entered_rules, mixed.in_form, mixed.left), (205, 200, 5));
    }
    let without = CompileOptions { skipped_passes: vec!["chain_tree".into()], ..options() };
    let made = compile(&firewall(&text("")), CompiledForm::Tree, &without, &mut |_, _| ());
    assert_eq!(
        shares(&made.expect("it is the ruleset").manifest.share),
        ["iptables/filter/FORWARD 0/200/200; 200 without chain_tree, no pass changes them"]
    );
    let linear = compile(&firewall(&text(more)), CompiledForm::Linear, &options(), &mut |_, _| ());
    assert_eq!(linear.expect("it is the ruleset").manifest.share, FormRuleCoverage::default());
}

#[test]
fn an_uncalled_chain_with_load_effects_keeps_its_table_in_iptables() {
    let form = |rule: &str| {
        nft_form(&format!(
            "*mangle\n:PREROUTING ACCEPT [0:0]\n:nobody - [0:0]\n\
             -A PREROUTING -s 192.0.2.1/32 -j ACCEPT\n-A nobody {rule} -j ACCEPT\nCOMMIT\n\
             *filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -s 192.0.2.1/32 -j ACCEPT\nCOMMIT\n"
        ))
    };
    // The control: a rule without load effects. Both tables are moved to nft.
    let nft = form("-m string --string a --algo bm");
    assert_eq!(names(&nft), ["weir_mangle", "weir_filter"]);
    for rule in [
        "-m recent --name R --rcheck --mask 255.255.0.0 --rsource",
        "-m hashlimit --hashlimit-upto 1/sec --hashlimit-burst 1 --hashlimit-mode srcip \
         --hashlimit-name h",
        "-m socket",
        "-m unheard --of",
    ] {
        let nft = form(rule);
        assert_eq!(names(&nft), ["weir_filter"], "{rule}");
        let kept = nft.iptables_tables_with_hooks_left().v4.expect("the family is there");
        let mangle = kept.table(&weir_model::TableName::Mangle).expect("it is kept");
        assert_eq!(mangle.chain("nobody").map(|c| c.rules.len()), Some(1), "{rule}");
        assert!(nft.barriers.iter().any(|k| k.why.contains("by being loaded")), "{rule}");
    }
}

/// The names of the nft tables.
fn names(form: &NftForm) -> Vec<&str> {
    form.nft_ruleset.tables.iter().map(|t| &*t.name).collect()
}
