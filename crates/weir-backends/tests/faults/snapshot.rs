//! The ruleset in force, in a form that can be compared.

/// Rules of iptables, nft and ipset without what changes by itself: counters, dates, the order of
/// tables and of elements. Tables without rules are omitted: a table that was used once stays in
/// the kernel.
pub fn snapshot(iptables: &str, nft: &str, sets: &str) -> String {
    let mut tables: Vec<String> = iptables.split("COMMIT\n").map(rules_of_table).collect();
    tables.retain(|t| t.contains("\n-A ") || t.contains(" DROP "));
    let mut nft: Vec<&str> = nft.split_inclusive("\n}\n").collect();
    nft.sort_unstable();
    let mut sets: Vec<String> = sets.lines().map(element).collect();
    sets.sort_unstable();
    format!("{}\n{}\n{}\n", tables.concat(), without_counters(&nft.concat()), sets.join("\n"))
}

fn rules_of_table(table: &str) -> String {
    let lines = table.lines().filter(|l| !l.starts_with('#'));
    lines.map(|l| without_brackets(l) + "\n").collect()
}

/// A line of iptables-save without `[packets:bytes]`.
fn without_brackets(line: &str) -> String {
    let is_counter = |w: &str| w.starts_with('[') && w.ends_with(']') && w.contains(':');
    line.split(' ').filter(|w| !is_counter(w)).collect::<Vec<_>>().join(" ")
}

fn without_counters(text: &str) -> String {
    let mut out = Vec::new();
    let mut after_counter = false;
    for word in text.split(' ') {
        if !after_counter {
            out.push(word);
        }
        after_counter = word == "packets" || word == "bytes";
    }
    out.join(" ")
}

/// A line of `ipset save` without counters and the size of the hash.
fn element(line: &str) -> String {
    let mut out = Vec::new();
    let mut words = line.split(' ');
    while let Some(word) = words.next() {
        match word {
            "packets" | "bytes" | "hashsize" | "initval" | "bucketsize" => drop(words.next()),
            _ => out.push(word),
        }
    }
    out.join(" ")
}

#[test]
fn snapshots_omit_only_counters_and_empty_tables() {
    let save = |packets| {
        format!(
            "# on\n*filter\n:FORWARD DROP [{packets}:9]\n[{packets}:9] -A FORWARD -j x\nCOMMIT\n"
        )
    };
    let empty = "*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n";
    let nft = |packets| format!("table ip a {{\n\tcounter packets {packets} bytes 5 drop\n}}\n");
    let sets =
        |packets| format!("create s hash:ip hashsize 64\nadd s 10.0.0.1 packets {packets}\n");
    let one = snapshot(&save(1), &nft(1), &sets(1));
    assert_eq!(one, snapshot(&(save(2) + empty), &nft(2), &sets(2)));
    for part in ["-A FORWARD -j x", "FORWARD DROP", "bytes drop", "add s 10.0.0.1"] {
        assert!(one.contains(part), "{one}");
    }
    assert_ne!(one, snapshot(&save(1), "", &sets(1)));
}
