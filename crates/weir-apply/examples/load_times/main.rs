//! Times of loading rulesets and sets: weir and the tools, interleaved.
//!
//! `cargo run --release -p weir-apply --example load_times -- KIND COUNT…`, as root. KIND is one of
//!
//! - `tables`: tables of legacy iptables, next to `iptables-legacy-restore`;
//! - `ipsets`: sets of ipset, next to `ipset restore`;
//! - `nft-rules`, `nft-map`: rules and a verdict map of the nft form, next to `nft -f`;
//! - `nft-sets`: sets of addresses of nftables, next to `nft -f`.
//!
//! Each line has the median and the range of the rounds, in milliseconds. A file is read by weir as
//! the tool does it; other rows begin with the model. The tool's listings of both loads are
//! compared.

mod ipsets;
mod nft;
mod rounds;
mod tables;

const KINDS: &str = "tables, ipsets, nft-rules, nft-map, nft-sets";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| panic!("a kind is one of {KINDS}"));
    let tools = rounds::Tools::new();
    for argument in arguments {
        let count: usize = argument.parse().expect("a number");
        match kind.as_str() {
            "tables" => tables::compare_legacy_table_load_times(&tools, count),
            "ipsets" => ipsets::compare_ipset_load_times(&tools, count),
            "nft-rules" => nft::compare_nft_ruleset_load_times(&tools, "rules", count),
            "nft-map" => nft::compare_nft_ruleset_load_times(&tools, "map", count),
            "nft-sets" => nft::compare_nft_set_fill_times(&tools, count),
            other => panic!("{other} is none of {KINDS}"),
        }
    }
}
