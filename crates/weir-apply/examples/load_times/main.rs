//! Times of loading rulesets and sets: weir and the tools, interleaved.
//!
//! `cargo run --release -p weir-apply --example load_times -- KIND COUNT…`, as root. KIND is one of
//!
//! - `tables`: tables of legacy iptables, beside `iptables-legacy-restore`;
//! - `ipsets`: sets of ipset, beside `ipset restore`.
//!
//! Each line has the median and the range of the rounds, in milliseconds. A file is read by weir as
//! the tool does it; other rows begin with the model. Afterwards the tool's listings of both loads
//! are compared.

mod ipsets;
mod rounds;
mod tables;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().expect("tables or ipsets");
    let tools = rounds::Tools::new();
    for argument in arguments {
        let count: usize = argument.parse().expect("a number");
        match kind.as_str() {
            "tables" => tables::compare_table_loads(&tools, count),
            "ipsets" => ipsets::compare_ipset_loads(&tools, count),
            other => panic!("{other} is none of tables, ipsets"),
        }
    }
}
