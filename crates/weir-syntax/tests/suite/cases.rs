//! The files of the suite.

use std::path::Path;

use weir_model::Family;

/// One file.
pub struct File {
    /// Its name.
    pub name: String,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// One rule in one chain.
pub struct Case {
    /// Line of the file.
    pub line: usize,
    /// Which of the tools.
    pub family: Family,
    /// Table.
    pub table: String,
    /// Chain.
    pub chain: String,
    /// The rule in the quotes of `iptables-restore`.
    pub rule: String,
    /// Commands that come before it, and those that undo them.
    pub before: Vec<String>,
}

/// All files of the folder that are for iptables or ip6tables.
pub fn files(folder: &Path) -> Vec<File> {
    let only = std::env::var("WEIR_MODULE").unwrap_or_default();
    let mut out = Vec::new();
    for path in weir_testkit::testdata::files_with_extension(folder, "t") {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let families: &[Family] = match name.split('_').next() {
            Some("libxt") => &[Family::V4, Family::V6],
            Some("libipt") => &[Family::V4],
            Some("libip6t") => &[Family::V6],
            Some("libarpt" | "libebt") => continue,
            _ => &[Family::V4],
        };
        if !name.contains(&only) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let cases = families.iter().flat_map(|family| read(&text, *family)).collect();
        out.push(File { name, cases });
    }
    out
}

fn read(text: &str, family: Family) -> Vec<Case> {
    let mut out = Vec::new();
    let (mut chains, mut table) = (Vec::new(), "filter".to_owned());
    let mut before: Vec<String> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        match line.as_bytes().first() {
            None | Some(b'#') => {}
            Some(b':') => chains = line[1..].trim().split(',').map(str::to_owned).collect(),
            Some(b'*') => line[1..].trim().clone_into(&mut table),
            Some(b'@' | b'%') => before.push(line[1..].trim().to_owned()),
            Some(_) => {
                let rule = line.split(';').next().unwrap_or("");
                for chain in &chains {
                    out.push(Case {
                        line: at + 1,
                        family,
                        table: table.clone(),
                        chain: chain.clone(),
                        rule: of_shell(rule),
                        before: before.clone(),
                    });
                }
            }
        }
    }
    out
}

/// The words of a shell in the quotes of `iptables-restore`.
fn of_shell(rule: &str) -> String {
    let mut out = String::new();
    let mut quote = None;
    let mut chars = rule.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '\'' | '"') => {
                quote = Some(c);
                out.push('"');
            }
            (Some(q), _) if q == c => {
                quote = None;
                out.push('"');
            }
            (Some('\''), '"' | '\\') => out.extend(['\\', c]),
            (Some('"'), '\\') => match chars.next() {
                Some(next @ ('"' | '\\')) => out.extend(['\\', next]),
                Some(next) => out.extend(['\\', '\\', next]),
                None => out.push('\\'),
            },
            _ => out.push(c),
        }
    }
    out
}
