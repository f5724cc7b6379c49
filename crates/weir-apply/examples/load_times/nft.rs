//! Rulesets and sets of nf_tables: weir and `nft -f`.

use std::fmt::Write as _;

use weir_apply::address_sets::element_diff::AddressListOperation;
use weir_apply::address_sets::{AddressSetName, OpenAddressSet};
use weir_apply::nftables::load_ruleset;
use weir_kernel::nft_socket::{NftSetPlace, NftSocket};
use weir_model::Family;
use weir_syntax::address_list::parse_address_list;

use crate::rounds::{ROUNDS, Tools, print_row, time_ms};

/// `NFPROTO_IPV4`.
const FAMILY_IP: u8 = 2;

/// Rules as the nft form has them, 100 in each chain.
fn generate_rules(count: usize) -> String {
    let mut out = String::from("create table ip weir_filter\ntable ip weir_filter {\n");
    for rule in 0..count {
        if rule % 100 == 0 {
            let _ = writeln!(out, "\tchain net_{:05} {{", rule / 100);
        }
        let (a, b, c) = (rule >> 16 & 255, rule >> 8 & 255, rule & 255);
        let _ = write!(out, "\t\tip saddr == 10.{a}.{b}.{c} ");
        out.push_str(match rule % 5 {
            0 => "meta l4proto == 6 th dport == 22 counter accept\n",
            1 => "ether saddr == 02:00:5e:10:00:01 counter return\n",
            2 => "iifname == \"eth0.100\" ct state & 0x8 != 0 counter drop\n",
            3 => "meta l4proto == 6 th dport == 8000-8100 counter accept\n",
            _ => "oifname == \"eth1\" counter drop\n",
        });
        if rule % 100 == 99 || rule + 1 == count {
            out.push_str("\t}\n");
        }
    }
    out.push_str("}\n");
    out
}

/// A verdict map of single addresses.
fn generate_map(count: usize) -> String {
    let mut out = String::from("create table ip weir_filter\ntable ip weir_filter {\n\tmap m {\n");
    let _ = write!(out, "\t\ttype ipv4_addr : verdict\n\t\tsize {count}\n\t\tcounter\n");
    out.push_str("\t\telements = {\n");
    for number in 0..count {
        let comma = if number + 1 < count { "," } else { "" };
        let _ = writeln!(out, "\t\t\t{} : drop{comma}", distinct_address(number));
    }
    out.push_str("\t\t}\n\t}\n}\n");
    out
}

/// An odd factor: no two are equal.
fn distinct_address(number: usize) -> std::net::Ipv4Addr {
    (number as u32).wrapping_mul(2_654_435_761).wrapping_add(1 << 24).into()
}

/// Loads rules, or a map, in each round, and prints a row for each loader.
pub fn compare_nft_ruleset_load_times(tools: &Tools, what: &str, count: usize) {
    let mut socket = tools.namespace.call_inside(NftSocket::open).expect("inside").expect("nft");
    let file = tools.folder.join("ruleset.nft");
    let text = if what == "rules" { generate_rules(count) } else { generate_map(count) };
    std::fs::write(&file, text).expect("a writable folder");
    let flush = || tools.run_on_file(&["nft", "flush", "ruleset"], None);
    let (mut tool, mut from_file, mut from_model) = (vec![], vec![], vec![]);
    for round in 0..ROUNDS {
        time_ms(&mut tool, || tools.run_on_file(&["nft", "-f"], Some(&file)));
        // Listing a large ruleset takes long: once is enough.
        let list = || match round {
            0 => tools.run_on_file(&["nft", "list", "ruleset"], None),
            _ => String::new(),
        };
        let theirs = list();
        flush();
        let ruleset = time_ms(&mut from_file, || {
            let text = std::fs::read_to_string(&file).expect("the file is there");
            let ruleset = weir_syntax::nft::parse(&text).expect("weir's nft");
            load_ruleset(&mut socket, &ruleset, &[]).expect("known statements");
            ruleset
        });
        let ours = list();
        assert!(ours == theirs, "nft lists both loads alike");
        flush();
        time_ms(&mut from_model, || {
            load_ruleset(&mut socket, &ruleset, &[]).expect("known statements");
        });
        flush();
    }
    println!("nft {what}, {count}, {ROUNDS} rounds");
    let tool = print_row("nft -f", tool);
    let from_file = print_row("weir, file to kernel", from_file);
    let from_model = print_row("weir, model to kernel", from_model);
    print_speedups(tool, from_file, Some(from_model));
}

fn print_speedups(tool: f64, from_file: f64, from_model: Option<f64>) {
    let model = from_model.map(|time| format!(", {:.2} from the model", tool / time));
    println!("  faster: {:.2} from the file{}", tool / from_file, model.unwrap_or_default());
}

/// Fills a set with a list in each round, and prints a row for each loader.
pub fn compare_nft_set_fill_times(tools: &Tools, count: usize) {
    for flags in ["", "flags interval;"] {
        let declared = format!("table ip t {{\n set s {{ type ipv4_addr; {flags} }}\n}}\n");
        let (declaration, list) = (tools.folder.join("declared.nft"), tools.folder.join("list"));
        let file = tools.folder.join("elements.nft");
        std::fs::write(&declaration, declared).expect("a writable folder");
        let entry = |number| match flags {
            "" => distinct_address(number).to_string(),
            // No two touch each other.
            _ => {
                let base = u32::try_from(number).expect("a small number") * 1024 + (1 << 24);
                format!("{}/24", std::net::Ipv4Addr::from(base))
            }
        };
        let entries: Vec<String> = (0..count).map(entry).collect();
        std::fs::write(&list, entries.join("\n") + "\n").expect("a writable folder");
        let elements = format!("add element ip t s {{ {} }}\n", entries.join(", "));
        std::fs::write(&file, elements).expect("a writable folder");
        let declare = || {
            tools.run_on_file(&["nft", "flush", "ruleset"], None);
            tools.run_on_file(&["nft", "-f"], Some(&declaration));
        };
        let (mut tool, mut from_list) = (vec![], vec![]);
        for _ in 0..ROUNDS {
            declare();
            time_ms(&mut tool, || tools.run_on_file(&["nft", "-f"], Some(&file)));
            let theirs = read_ranges(tools);
            declare();
            time_ms(&mut from_list, || {
                let text = std::fs::read_to_string(&list).expect("the file is there");
                let ranges = parse_address_list(&text, Family::V4).expect("addresses");
                let mut open = open_set(tools);
                let planned =
                    open.plan_change(ranges, AddressListOperation::Sync).expect("it fits");
                open.commit(&planned).expect("the kernel takes it");
            });
            assert!(read_ranges(tools) == theirs, "both filled it alike");
            assert_eq!(theirs.len(), count);
        }
        println!("nft set, ipv4_addr {flags} {count} elements, {ROUNDS} rounds");
        let tool = print_row("nft -f, add element", tool);
        let from_list = print_row("weir set sync, list to kernel", from_list);
        print_speedups(tool, from_list, None);
    }
}

fn open_set(tools: &Tools) -> OpenAddressSet {
    let place = NftSetPlace { family: FAMILY_IP, table: "t".to_owned(), set: "s".to_owned() };
    let open = || OpenAddressSet::open(AddressSetName::Nft(place));
    tools.namespace.call_inside(open).expect("inside").expect("the set is there")
}

fn read_ranges(tools: &Tools) -> Vec<(u128, u128)> {
    open_set(tools).read_elements().expect("the set is there").ranges
}
