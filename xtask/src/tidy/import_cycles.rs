//! Modules that import from each other in a cycle: none of them can be read, tested or moved alone.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::tidy_finding::TidyFinding;
use crate::module_graph::{CrateModules, list_workspace_crate_roots};
use crate::repository_files::WorkingTreeFiles;

const RULE_ID: &str = "cycle";

pub fn find_import_cycles(tree: &WorkingTreeFiles) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    for root in list_workspace_crate_roots(tree) {
        match CrateModules::read_crate(tree, &root) {
            Ok(modules) => found.extend(check_crate_cycles(&modules)),
            Err(message) => found.push(TidyFinding::new_error(RULE_ID, &root, 0, message)),
        }
    }
    found
}

/// A finding for each group of files that reach each other, at the first of the group.
fn check_crate_cycles(modules: &CrateModules) -> Vec<TidyFinding> {
    let mut names: BTreeMap<usize, BTreeMap<usize, String>> = BTreeMap::new();
    for edge in modules.file_dependencies() {
        names.entry(edge.from_file).or_default().entry(edge.to_file).or_insert(edge.name);
    }
    let mut found = Vec::new();
    let mut done = BTreeSet::new();
    for start in 0..modules.files.len() {
        if done.contains(&start) {
            continue;
        }
        let Some(cycle) = find_shortest_cycle_through(&names, start) else { continue };
        let group = find_strong_component_of(&names, start);
        let mut message = format!("{} files take names from each other:", group.len());
        for pair in cycle.windows(2) {
            let name = &names[&pair[0]][&pair[1]];
            message += &format!(" {} takes `{name}`;", modules.files[pair[0]]);
        }
        message += " move what they share below both";
        found.push(TidyFinding::new_error(RULE_ID, &modules.files[start], 0, message));
        done.extend(group);
    }
    found
}

type FileGraph = BTreeMap<usize, BTreeMap<usize, String>>;

/// The shortest way from a file back to itself, with the file at both ends.
fn find_shortest_cycle_through(graph: &FileGraph, start: usize) -> Option<Vec<usize>> {
    let mut before = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(at) = next.pop_front() {
        for &to in graph.get(&at).into_iter().flat_map(BTreeMap::keys) {
            if to == start {
                let mut cycle = vec![start, at];
                while let Some(&previous) = before.get(cycle.last()?) {
                    cycle.push(previous);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if let Entry::Vacant(entry) = before.entry(to) {
                entry.insert(at);
                next.push_back(to);
            }
        }
    }
    None
}

/// The files that a file reaches and that reach it.
fn find_strong_component_of(graph: &FileGraph, start: usize) -> BTreeSet<usize> {
    let reached = |from: usize| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(at) = next.pop() {
            let used = graph.get(&at).into_iter().flat_map(BTreeMap::keys);
            next.extend(used.filter(|to| reached.insert(**to)));
        }
        reached
    };
    reached(start).into_iter().filter(|&file| reached(file).contains(&start)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        find_import_cycles(&WorkingTreeFiles::from_texts(files))
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    const ROOT: (&str, &str) = ("crates/c/src/lib.rs", "mod a; mod b; mod d;");

    #[test]
    fn acyclic_imports_are_accepted() {
        let files = [
            ROOT,
            ("crates/c/src/a.rs", "use crate::b::B;"),
            ("crates/c/src/b.rs", "pub struct B(crate::d::D);"),
            ("crates/c/src/d.rs", "pub struct D;"),
        ];
        assert!(messages(&files).is_empty());
    }

    #[test]
    fn a_cycle_is_reported_once_with_its_imports() {
        let files = [
            ROOT,
            ("crates/c/src/a.rs", "use crate::b::B;"),
            ("crates/c/src/b.rs", "pub struct B(crate::d::D);"),
            ("crates/c/src/d.rs", "pub struct D; fn f() { super::a::f() }"),
        ];
        // `a::f` is not defined: there is no edge.
        assert!(messages(&files).is_empty());
        let a = ("crates/c/src/a.rs", "use crate::b::B; pub fn f() {}");
        let found = messages(&[ROOT, a, files[2], files[3]]);
        assert_eq!(
            found,
            ["3 files take names from each other: crates/c/src/a.rs takes `crate::b::B`; \
              crates/c/src/b.rs takes `crate::d::D`; crates/c/src/d.rs takes `super::a::f`; \
              move what they share below both"]
        );
    }

    #[test]
    fn mutual_imports_of_parent_and_child_are_a_cycle() {
        let files = [
            ("crates/c/src/lib.rs", "mod a; struct Root; fn f() { a::g() }"),
            ("crates/c/src/a.rs", "use super::Root; pub fn g() {}"),
        ];
        assert!(messages(&files)[0].starts_with("2 files take names"), "{:?}", messages(&files));
    }
}
