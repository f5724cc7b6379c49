//! Published rulesets: the text that weir prints of them loads to the same tables.
//!
//! Run by `make test-corpus DIR=…` over a folder, in fresh network namespaces; files of
//! `ip6tables-save` end in `.ip6tables`. If the tool itself refuses a file, weir must refuse it
//! with a line and a cure, or all errors in it must be ones that weir reports.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_model::Family;
use weir_syntax::iptables::{ParserSettings, parse, print};
use weir_syntax::render_diagnostics;

/// Loads a file in a new namespace and prints what is in force, without the dated comments.
fn saved(family: Family, file: &Path) -> Result<String, String> {
    let tool = match family {
        Family::V4 => "iptables-legacy",
        Family::V6 => "ip6tables-legacy",
    };
    let script = format!("{tool}-restore < \"$1\" && {tool}-save");
    let out = Command::new("unshare")
        .args(["-n", "sh", "-c", &script, "sh"])
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("unshare: {e}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(said.lines().next().unwrap_or("no reason given").to_owned());
    }
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let kept = text.lines().filter(|l| !l.starts_with('#'));
    Ok(kept.map(|l| format!("{l}\n")).collect())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|e| panic!("read {}: {e}", folder.display()));
    let mut out: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| {
            let name = p.file_name().map(|n| n.to_string_lossy().into_owned());
            name.is_some_and(|n| n.contains("tables") && !n.ends_with(".md"))
        })
        .collect();
    out.sort();
    out
}

/// What weir makes of one file: the text it prints, or the errors it draws.
fn formatted(family: Family, name: &str, text: &str) -> Result<String, String> {
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    match parse(text, &options) {
        Ok(ruleset) => {
            let printed = print(&ruleset, false);
            let again = parse(&printed, &options).map(|r| print(&r, false));
            assert_eq!(again.as_ref(), Ok(&printed), "{name}: printed text is read back the same");
            Ok(printed)
        }
        Err(errors) => Err(render_diagnostics(&errors, name, text, false)),
    }
}

#[test]
fn published_rulesets_load_the_same_after_printing() {
    let folder = weir_testkit::testdata::corpus_folder_from_env();
    let temporary = std::env::temp_dir().join(format!("weir-corpus-{}", std::process::id()));
    let (mut same, mut refused, mut bad) = (0, 0, Vec::new());
    for file in files(&folder) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let family = if name.contains("ip6tables") { Family::V6 } else { Family::V4 };
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        match (formatted(family, &name, &text), saved(family, &file)) {
            (Ok(printed), Ok(theirs)) => {
                std::fs::write(&temporary, &printed).expect("the temporary folder is writable");
                match saved(family, &temporary) {
                    Ok(ours) if ours == theirs => same += 1,
                    Ok(_) => bad.push(format!("{name}: does not load the same")),
                    Err(why) => bad.push(format!("{name}: what weir prints is refused: {why}")),
                }
            }
            (Err(drawn), Err(why)) => {
                refused += 1;
                println!("{name}: refused by both ({why})");
                let place = drawn.contains(&format!("--> {name}:"));
                if !place || !drawn.contains("help: ") {
                    bad.push(format!("{name}: refused without a place and a cure\n{drawn}"));
                }
            }
            (Ok(_), Err(why)) => {
                bad.push(format!("{name}: weir takes it, the tool does not: {why}"))
            }
            (Err(drawn), Ok(_)) => {
                let first = drawn.lines().take(6).collect::<Vec<_>>().join("\n");
                bad.push(format!("{name}: the tool takes it, weir does not:\n{first}"));
            }
        }
    }
    let _ = std::fs::remove_file(&temporary);
    println!("corpus: {same} load the same, {refused} refused by both");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(same > 0, "no ruleset in {}", folder.display());
}
