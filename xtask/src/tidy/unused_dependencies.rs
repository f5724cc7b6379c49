//! Dependencies that a crate declares but does not use: each costs build time and trust.

use super::tidy_finding::TidyFinding;
use crate::repository_files::WorkingTreeFiles;

pub fn find_unused_dependencies(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    // Fuzz targets lie where cargo-fuzz wants them; their workspace is their own.
    let ours = |path: &str| !path.starts_with("fuzz/");
    for (path, text) in tree.files_with_suffix("Cargo.toml").filter(|(path, _)| ours(path)) {
        let folder = path.strip_suffix("Cargo.toml").unwrap_or_default();
        let Ok(manifest) = text.parse::<toml::Table>() else { continue };
        for (section, places) in
            [("dependencies", &["src/"][..]), ("build-dependencies", &["build.rs"])]
        {
            let names = manifest.get(section).and_then(toml::Value::as_table).into_iter();
            for name in names.flat_map(|table| table.keys()) {
                if !is_dependency_mentioned(tree, folder, places, &name.replace('-', "_")) {
                    let message = format!("nothing in {} uses {name}", places.join(", "));
                    found.push(TidyFinding::new_error("dependency", path, 0, message));
                }
            }
        }
    }
    found
}

fn is_dependency_mentioned(
    tree: &WorkingTreeFiles,
    folder: &str,
    places: &[&str],
    name: &str,
) -> bool {
    tree.files_with_suffix(".rs")
        .filter_map(|(path, text)| Some((path.strip_prefix(folder)?, text)))
        .filter(|(path, _)| places.iter().any(|place| path.starts_with(place)))
        .any(|(_, text)| text.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(manifest: &str, source: &str) -> Vec<String> {
        let files = [("crates/a/Cargo.toml", manifest), ("crates/a/src/lib.rs", source)];
        find_unused_dependencies(&WorkingTreeFiles::from_texts(&files))
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn a_dependency_that_no_source_names_is_refused() {
        let manifest = "[dependencies]\nserde-json = \"1\"\n";
        assert!(messages(manifest, "use serde_json::Value;").is_empty());
        assert_eq!(messages(manifest, "use std::fmt;"), ["nothing in src/ uses serde-json"]);
    }

    #[test]
    fn dependencies_only_for_build_rs_are_checked_against_it() {
        let manifest = "[build-dependencies]\nlibbpf-cargo = \"1\"\n";
        let unused = messages(manifest, "use libbpf_cargo::X;");
        assert_eq!(unused, ["nothing in build.rs uses libbpf-cargo"]);
    }
}
