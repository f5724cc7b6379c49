//! Sets of ipset: weir and `ipset restore`.

use std::fmt::Write as _;

use weir_apply::ipsets::{load_sets, read_sets};
use weir_kernel::ipset_socket::IpsetSocket;

use crate::rounds::{ROUNDS, Tools, print_row, time_ms};

/// Addresses or prefixes of a block list, spread over the address space.
fn generate_set(type_name: &str, count: usize) -> String {
    let mut out = format!(
        "create s {type_name} family inet hashsize 1024 maxelem {count} bucketsize 12 initval 0x12345678\n"
    );
    for number in 0..count as u32 {
        // An odd factor: no two are equal.
        let [a, b, c, d] = match type_name {
            "hash:net" => (number.wrapping_mul(2_654_435_761) << 8).to_be_bytes(),
            _ => number.wrapping_mul(2_654_435_761).wrapping_add(1 << 24).to_be_bytes(),
        };
        let prefix_len = if type_name == "hash:net" { "/24" } else { "" };
        let _ = writeln!(out, "add s {a}.{b}.{c}.{d}{prefix_len}");
    }
    out
}

/// Loads a set of each type with so many elements in each round, and prints a row for each loader.
pub fn compare_ipset_load_times(tools: &Tools, count: usize) {
    let mut socket =
        tools.namespace.call_inside(IpsetSocket::open).expect("inside").expect("ipset");
    for type_name in ["hash:ip", "hash:net"] {
        let file = tools.folder.join("set");
        std::fs::write(&file, generate_set(type_name, count)).expect("a writable folder");
        let (mut tool, mut from_file, mut from_model, mut reading) =
            (vec![], vec![], vec![], vec![]);
        let mut listings = [String::new(), String::new()];
        for _ in 0..ROUNDS {
            time_ms(&mut tool, || {
                tools.run_on_file(&["ipset", "-exist", "restore", "-file"], Some(&file))
            });
            listings[0] = tools.run_on_file(&["ipset", "save"], None);
            socket.destroy_set("s").expect("it is there");

            let sets = time_ms(&mut from_file, || {
                let text = std::fs::read_to_string(&file).expect("the file is there");
                let sets = weir_syntax::ipset::parse(&text).expect("a set");
                load_sets(&mut socket, &sets).expect("a known type");
                sets
            });
            socket.destroy_set("s").expect("it is there");

            time_ms(&mut from_model, || load_sets(&mut socket, &sets).expect("a known type"));
            listings[1] = tools.run_on_file(&["ipset", "save"], None);
            let read = time_ms(&mut reading, || read_sets(&mut socket, None).expect("known"));
            assert_eq!(read[0].elements.len(), count);
            socket.destroy_set("s").expect("it is there");
        }
        for listing in &mut listings {
            let mut lines: Vec<&str> = listing.lines().collect();
            lines.sort_unstable();
            *listing = lines.join("\n");
        }
        assert!(listings[0] == listings[1], "the tool lists both loads alike");
        println!("{type_name}, {count} elements, {ROUNDS} rounds");
        let tool = print_row("ipset restore", tool);
        let from_file = print_row("weir, file to kernel", from_file);
        let from_model = print_row("weir, model to kernel", from_model);
        print_row("weir, kernel to model", reading);
        println!(
            "  faster: {:.2} from the file, {:.2} from the model",
            tool / from_file,
            tool / from_model
        );
    }
}
