//! Elements and their counters out of what `ipset save` and `nft list table` print.

use weir_kernel::xtables::Count;
use weir_model::Counter;

/// Counters of `ipset save`: those of elements of sets that have counters.
pub(crate) fn ipset(text: &str, out: &mut Vec<(Counter, Count)>) {
    for line in text.lines() {
        let Some((set, rest)) = line.strip_prefix("add ").and_then(|l| l.split_once(' ')) else {
            continue;
        };
        let Some((before, after)) = rest.split_once(" packets ") else { continue };
        let Some((packets, after)) = after.split_once(" bytes ") else { continue };
        let (bytes, more) = after.split_once(' ').map_or((after, ""), |(b, more)| (b, more));
        let (Ok(packets), Ok(bytes)) = (packets.parse(), bytes.parse()) else { continue };
        let element = if more.is_empty() { before.to_owned() } else { format!("{before} {more}") };
        let counter = Counter::Element { set: set.to_owned(), element };
        out.push((counter, Count { packets, bytes }));
    }
}

/// Counters of `nft list table`: those of elements.
pub(crate) fn nft(family: &str, table: &str, text: &str, out: &mut Vec<(Counter, Count)>) {
    let mut set = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = block(line, "map ").or_else(|| block(line, "set ")) {
            set = Some(name);
        } else if line == "}" {
            set = None;
        } else if let Some(set) = set {
            elements(family, table, set, line, out);
        }
    }
}

fn block<'l>(line: &'l str, kind: &str) -> Option<&'l str> {
    line.strip_prefix(kind)?.strip_suffix(" {")
}

/// `counter packets 1 bytes 2`, where the line has one.
fn count(line: &str) -> Option<Count> {
    let (_, rest) = line.split_once("counter packets ")?;
    let mut words = rest.split_ascii_whitespace();
    let packets = words.next()?.parse().ok()?;
    let bytes = words.nth(1)?.trim_end_matches(',').parse().ok()?;
    Some(Count { packets, bytes })
}

/// Elements of one line: `elements = { a counter packets 1 bytes 2 : jump b,`.
fn elements(family: &str, table: &str, set: &str, line: &str, out: &mut Vec<(Counter, Count)>) {
    let line = line.strip_prefix("elements = {").unwrap_or(line).trim_end_matches('}');
    for element in line.split(", ") {
        let element = element.trim().trim_end_matches(',');
        let (Some((key, _)), Some(count)) = (element.split_once(" counter "), count(element))
        else {
            continue;
        };
        let counter = Counter::NftElement {
            family: family.to_owned(),
            table: table.to_owned(),
            set: set.to_owned(),
            element: key.to_owned(),
        };
        out.push((counter, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_set_with_counters_are_read() {
        let text = "create s hash:ip family inet counters\n\
                    add s 192.0.2.1 packets 3 bytes 90\n\
                    add t 192.0.2.2\n\
                    add s 192.0.2.3 packets 4 bytes 80 comment \"x\"\n";
        let mut out = Vec::new();
        ipset(text, &mut out);
        assert_eq!(out.len(), 2);
        let first = Counter::Element { set: "s".into(), element: "192.0.2.1".into() };
        assert_eq!(out[0], (first, Count { packets: 3, bytes: 90 }));
    }

    #[test]
    fn elements_of_a_map_are_read() {
        let text = "table ip t {\n\tmap m {\n\t\ttype ipv4_addr : verdict\n\
                    \t\telements = { 192.0.2.1 counter packets 1 bytes 2 : jump a,\n\
                    \t\t\t     192.0.2.2 counter packets 3 bytes 4 : drop }\n\t}\n\n\
                    \tchain FORWARD {\n\t\tcounter packets 7 bytes 8 accept\n\t}\n}\n";
        let mut out = Vec::new();
        nft("ip", "t", text, &mut out);
        let counts: Vec<_> = out.iter().map(|(_, c)| (c.packets, c.bytes)).collect();
        assert_eq!(counts, [(1, 2), (3, 4)]);
        let Counter::NftElement { element, .. } = &out[1].0 else { panic!() };
        assert_eq!(element, "192.0.2.2");
    }
}
