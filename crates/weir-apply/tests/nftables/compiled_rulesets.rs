//! Rulesets that weir compiles: the cases of `testdata`.

use weir_backends::CompileOptions;
use weir_backends::nft::compile_nft_form_without_passes;
use weir_model::{Family, Firewall};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::testdata::{testdata_files_with_extension, testdata_path};
use weir_testkit::verdict_cases::read_verdict_cases;

use crate::tool_rulesets::{ToolRulesets, parse_nft};

#[test]
fn cases_of_the_nft_form_are_loaded_as_by_nft_f() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolRulesets::new("nftcases");
    let files = testdata_files_with_extension("backends/nft", "txt");
    assert!(files.len() >= 10, "the cases are there");
    for file in files {
        let case = std::fs::read_to_string(&file).expect("a readable file");
        let (_, text) = case.split_once("\n---\n").expect("rules and nft text");
        tools.assert_same_listing_and_bytes(&file.display().to_string(), &parse_nft(text));
    }
}

#[test]
fn verdict_cases_that_compile_to_nft_are_loaded_as_by_nft_f() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolRulesets::new("nftverdicts");
    let mut compared = 0;
    for case in read_verdict_cases(&testdata_path("verdicts")) {
        if !case.sets.is_empty() {
            continue;
        }
        let family = if case.family == "v6" { Family::V6 } else { Family::V4 };
        let settings = ParserSettings { family: Some(family), ..ParserSettings::default() };
        let Ok(ruleset) = parse(&case.rules, &settings) else { continue };
        let firewall = match family {
            Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
            Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
        };
        let options = CompileOptions { trust: true, ..CompileOptions::default() };
        // Some cases have what nft cannot say.
        let Ok(form) = compile_nft_form_without_passes(&firewall, &options, &mut |_, _| {}) else {
            continue;
        };
        tools.assert_same_listing_and_bytes(&case.name, &parse_nft(&form.nft_text));
        compared += 1;
    }
    assert!(compared > 50, "{compared} cases");
}
