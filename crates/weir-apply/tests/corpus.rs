//! Published rulesets, compiled to nft: loaded by weir as by `nft -f`.
//!
//! Run by `make test-corpus DIR=…`. Files that end in `.nft` are taken as texts that weir has
//! printed; the others are compiled. It prints a line for each.

#[expect(dead_code, reason = "the other tests count rules")]
#[path = "nftables/kernel_objects.rs"]
mod kernel_objects;
#[path = "nftables/tool_rulesets.rs"]
mod tool_rulesets;

use weir_backends::CompileOptions;
use weir_backends::nft::compile_nft_form_without_passes;
use weir_model::{Family, Firewall};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::testdata::{corpus_folder_from_env, files_with_extension};

use crate::tool_rulesets::{ToolRulesets, parse_nft};

/// The nft text of a ruleset; `None` if weir cannot read it, or nft cannot say it.
fn compile_to_nft(text: &str) -> Option<String> {
    let ruleset = parse(text, &ParserSettings::default()).ok()?;
    let firewall = match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    };
    // Whether the form is right is tested elsewhere.
    let options = CompileOptions { trust: true, ..CompileOptions::default() };
    let form = compile_nft_form_without_passes(&firewall, &options, &mut |_, _| {}).ok()?;
    Some(form.nft_text)
}

#[test]
fn published_rulesets_that_compile_to_nft_are_loaded_as_by_nft_f() {
    let mut tools = ToolRulesets::new("nftcorpus");
    let mut compared = 0;
    for extension in ["iptables", "loadable", "ip6tables", "nft"] {
        for path in files_with_extension(&corpus_folder_from_env(), extension) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).expect("a readable file");
            let text = String::from_utf8_lossy(&bytes);
            let nft = match extension {
                "nft" => Some(text.into_owned()),
                _ => compile_to_nft(&text),
            };
            let Some(nft) = nft else {
                println!("{name}: not compiled to nft");
                continue;
            };
            tools.assert_same_listing_and_bytes(&name, &parse_nft(&nft));
            println!("{name}: {} lines of nft, loaded alike", nft.lines().count());
            compared += 1;
        }
    }
    assert!(compared > 0, "no ruleset was compared");
}
