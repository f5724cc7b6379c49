//! The text of one table of legacy iptables: beginning with `*TABLE`, ending with `COMMIT`.

use std::collections::BTreeMap;

use weir_model::{Family, TableName};

use super::FamilyTable;

/// Prefix of the empty chain that names the artefact of a table.
const ARTEFACT_MARK_PREFIX: &str = ":weir:";

/// Splits a text of `iptables-save` into its tables. Lines outside of tables are dropped.
pub fn split_tables(text: &str, family: Family) -> BTreeMap<FamilyTable, String> {
    let mut tables = BTreeMap::new();
    let mut open: Option<(FamilyTable, String)> = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(table) = line.strip_prefix('*').and_then(|name| TableName::parse(name.trim())) {
            open = Some((FamilyTable { family, table }, String::new()));
        }
        let Some((_, lines)) = &mut open else { continue };
        lines.push_str(line);
        lines.push('\n');
        if line.trim() == "COMMIT" {
            tables.extend(open.take());
        }
    }
    tables
}

/// A table without rules, which accepts everything.
pub fn empty_table_text(table: TableName) -> String {
    let chains = table.hooks().iter().map(|hook| format!(":{} ACCEPT [0:0]\n", hook.chain_name()));
    format!("*{table}\n{}COMMIT\n", chains.collect::<String>())
}

/// Adds the empty chain that names the artefact, unless the text has one.
pub fn add_artefact_mark(text: &str, artefact_id: &str) -> String {
    if find_artefact_mark(text).is_some() {
        return text.to_owned();
    }
    let (mut marked, mut is_marked) = (String::with_capacity(text.len() + 32), false);
    for line in text.lines() {
        if !is_marked && !line.starts_with(['*', ':']) {
            marked.push_str(&format!("{ARTEFACT_MARK_PREFIX}{artefact_id} - [0:0]\n"));
            is_marked = true;
        }
        marked.push_str(line);
        marked.push('\n');
    }
    marked
}

/// The artefact of a table, according to the empty chain that names it.
pub fn find_artefact_mark(text: &str) -> Option<&str> {
    let mut chains = text.lines().take_while(|line| line.starts_with(['*', ':']));
    chains.find_map(|line| line.strip_prefix(ARTEFACT_MARK_PREFIX)?.split(' ').next())
}

/// The first line that ends inside quotes, because of a comment or name with a line break, which no
/// tool can read.
pub fn find_line_with_unclosed_quote(text: &str) -> Option<&str> {
    let is_broken = |line: &&str| {
        let mut quotes = 0;
        let mut is_escaped = false;
        for byte in line.bytes() {
            quotes += usize::from(byte == b'"' && !is_escaped);
            is_escaped = byte == b'\\' && !is_escaped;
        }
        quotes % 2 == 1
    };
    text.lines().find(is_broken)
}

/// The chains that a text declares.
pub fn list_chain_names(text: &str) -> Vec<&str> {
    let declared = text.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next());
    declared.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_into_tables_without_comments() {
        let text = "# Generated\n*nat\n:OUTPUT ACCEPT [1:2]\nCOMMIT\n# x\n*filter\n\
                    :INPUT DROP [0:0]\n-A INPUT -m comment --comment \"*raw\" -j ACCEPT\nCOMMIT\n";
        let tables = split_tables(text, Family::V6);
        let names: Vec<String> = tables.keys().map(|table| table.file_name()).collect();
        assert_eq!(names, ["ip6tables-nat", "ip6tables-filter"]);
        assert!(tables.values().all(|t| t.starts_with('*') && t.ends_with("\nCOMMIT\n")));
        assert!(names.iter().all(|name| FamilyTable::from_file_name(name).is_some()));
    }

    #[test]
    fn a_mark_names_the_artefact_of_a_table() {
        let text = empty_table_text(TableName::Raw);
        assert_eq!(find_artefact_mark(&text), None);
        let marked = add_artefact_mark(&text, "0a1b2c3d");
        assert_eq!(find_artefact_mark(&marked), Some("0a1b2c3d"));
        assert_eq!(add_artefact_mark(&marked, "ffffffff"), marked);
        assert_eq!(list_chain_names(&marked), ["PREROUTING", "OUTPUT", "weir:0a1b2c3d"]);
        let rule =
            "*raw\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -m comment --comment \":weir:1 \"\nCOMMIT\n";
        assert_eq!(find_artefact_mark(rule), None);
    }
}
