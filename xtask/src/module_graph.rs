//! The modules of a crate: the types that each file defines, and the imports between files.
//!
//! Files are parsed with `syn`; code that is compiled only for tests is ignored. Names are resolved
//! as far as the checks need it: through `crate`, `self`, `super`, child modules, imports, glob
//! imports and re-exports. Macro expansions and method calls are not analysed; paths inside a macro
//! call are.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::repository_files::WorkingTreeFiles;

/// The modules of one crate; the first is its root.
pub struct CrateModules {
    modules: Vec<Module>,
    /// Files by their path from the root of the repository, in the order in which they are
    /// declared.
    pub files: Vec<String>,
}

/// A type that a file defines.
pub struct DefinedType {
    /// Its name.
    pub name: String,
    /// The file, from the root of the repository.
    pub path: String,
    /// Line of the name, from 1.
    pub line: usize,
}

/// One file takes a name that another defines.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedFileDependency {
    /// The file that takes the name.
    pub from_file: usize,
    /// The file that defines it.
    pub to_file: usize,
    /// The name.
    pub name: String,
}

#[derive(Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names that are defined here: types, functions, constants, macros.
    item_names: BTreeSet<String>,
    types: Vec<(String, usize)>,
    /// What a name stands for that is imported here.
    imports: BTreeMap<String, Vec<String>>,
    /// Modules of which every name is imported.
    globs: Vec<Vec<String>>,
    /// Paths that the code of the module uses.
    used_paths: BTreeSet<Vec<String>>,
}

impl CrateModules {
    /// Reads a crate from its root, `src/lib.rs` or `src/main.rs`, and the files that it declares.
    ///
    /// # Errors
    /// If a file is not a Rust, or a declared one is not there.
    pub fn read_crate(tree: &WorkingTreeFiles, root: &str) -> Result<CrateModules, String> {
        let mut modules = CrateModules { modules: Vec::new(), files: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        modules.read_file(tree, root, &folder, None)?;
        Ok(modules)
    }

    /// The types of the crate, in the order of its modules.
    pub fn defined_types(&self) -> impl Iterator<Item = DefinedType> {
        self.modules.iter().flat_map(|module| {
            module.types.iter().map(|(name, line)| DefinedType {
                name: name.clone(),
                path: self.files[module.file].clone(),
                line: *line,
            })
        })
    }

    /// Which file takes names from which other. A re-export alone takes nothing.
    pub fn file_dependencies(&self) -> BTreeSet<NamedFileDependency> {
        let mut edges = BTreeSet::new();
        for (at, module) in self.modules.iter().enumerate() {
            for path in &module.used_paths {
                let Some(to) = self.module_defining_item(at, path, 0) else { continue };
                let (from, to) = (module.file, self.modules[to].file);
                if from != to {
                    edges.insert(NamedFileDependency {
                        from_file: from,
                        to_file: to,
                        name: path.join("::"),
                    });
                }
            }
        }
        edges
    }

    /// Reads a file; `folder` is where the files of its children are.
    fn read_file(
        &mut self,
        tree: &WorkingTreeFiles,
        path: &str,
        folder: &str,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let text =
            tree.file_text(path).ok_or_else(|| format!("{path} is declared and not there"))?;
        let file = syn::parse_file(text).map_err(|e| format!("{path}: {e}"))?;
        self.files.push(path.to_owned());
        self.add_module(tree, self.files.len() - 1, &file.items, folder, parent)
    }

    /// Adds a module of the given items.
    fn add_module(
        &mut self,
        tree: &WorkingTreeFiles,
        file: usize,
        items: &[syn::Item],
        folder: &str,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let at = self.modules.len();
        self.modules.push(Module { file, parent, ..Module::default() });
        let mut reader = ItemReader::default();
        for item in items.iter().filter(|item| !is_test_only(item_attributes(item))) {
            let syn::Item::Mod(module) = item else {
                reader.visit_item(item);
                continue;
            };
            let name = module.ident.to_string();
            let inside = format!("{folder}/{name}");
            let child = match &module.content {
                Some((_, items)) => self.add_module(tree, file, items, &inside, Some(at))?,
                None => {
                    let places = [format!("{inside}.rs"), format!("{inside}/mod.rs")];
                    let place = places.iter().find(|p| tree.contains_path(p)).unwrap_or(&places[0]);
                    self.read_file(tree, place, &inside, Some(at))?
                }
            };
            self.modules[at].children.insert(name, child);
        }
        let module = &mut self.modules[at];
        let ItemReader { item_names: items, types, imports, globs, used_paths: paths } = reader;
        (module.item_names, module.types, module.imports) = (items, types, imports);
        (module.globs, module.used_paths) = (globs, paths);
        Ok(at)
    }

    /// The module that defines what a path names, seen from the module `at`; none for a module, and
    /// for names of other crates.
    fn module_defining_item(&self, at: usize, path: &[String], depth: usize) -> Option<usize> {
        // A re-export that leads back to itself is an error of the compiler's.
        if depth > 16 {
            return None;
        }
        let (mut at, mut rest) = self.resolve_path_keywords(at, path);
        while let Some((first, after)) = rest.split_first() {
            let module = &self.modules[at];
            if let Some(&child) = module.children.get(first) {
                (at, rest) = (child, after);
            } else if module.item_names.contains(first) {
                return Some(at);
            } else if let Some(imported) = module.imports.get(first) {
                // An import of a crate under its own name, `use libc`, stands for no module here.
                if imported.first() == Some(first) && imported.len() == 1 {
                    return None;
                }
                let whole: Vec<String> = imported.iter().chain(after).cloned().collect();
                return self.module_defining_item(at, &whole, depth + 1);
            } else {
                return module.globs.iter().find_map(|glob| {
                    let whole: Vec<String> = glob.iter().chain(rest).cloned().collect();
                    self.module_defining_item(at, &whole, depth + 1)
                });
            }
        }
        None
    }

    /// Where `crate`, `self` and `super` lead, and what follows them.
    fn resolve_path_keywords<'a>(
        &self,
        mut at: usize,
        mut path: &'a [String],
    ) -> (usize, &'a [String]) {
        while let Some((first, after)) = path.split_first() {
            at = match first.as_str() {
                "crate" => 0,
                "self" => at,
                "super" => self.modules[at].parent.unwrap_or(at),
                _ => break,
            };
            path = after;
        }
        (at, path)
    }
}

/// Gathers what the items of a module define, import and use.
#[derive(Default)]
struct ItemReader {
    item_names: BTreeSet<String>,
    types: Vec<(String, usize)>,
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    used_paths: BTreeSet<Vec<String>>,
}

impl ItemReader {
    fn record_type(&mut self, name: &syn::Ident) {
        self.item_names.insert(name.to_string());
        self.types.push((name.to_string(), name.span().start().line));
    }

    fn collect_imports_of_use_tree(&mut self, tree: &syn::UseTree, before: &[String], takes: bool) {
        let mut path = before.to_vec();
        match tree {
            syn::UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.collect_imports_of_use_tree(&part.tree, &path, takes);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.collect_imports_of_use_tree(tree, &path, takes);
                }
            }
            syn::UseTree::Glob(_) => self.globs.push(path),
            syn::UseTree::Name(name) if name.ident == "self" => {
                let last = path.last().cloned().unwrap_or_default();
                self.record_import_name_and_path(last, path, takes);
            }
            syn::UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.record_import_name_and_path(name.ident.to_string(), path, takes);
            }
            syn::UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    path.push(rename.ident.to_string());
                }
                self.record_import_name_and_path(rename.rename.to_string(), path, takes);
            }
        }
    }

    fn record_import_name_and_path(&mut self, name: String, path: Vec<String>, takes: bool) {
        if takes {
            self.used_paths.insert(path.clone());
        }
        self.imports.insert(name, path);
    }

    /// The paths that are written in the arguments of a macro.
    fn collect_macro_paths(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.take_and_record_macro_path(&mut path);
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.take_and_record_macro_path(&mut path);
                    self.collect_macro_paths(group.stream());
                    colons = 0;
                }
                _ => {
                    self.take_and_record_macro_path(&mut path);
                    colons = 0;
                }
            }
        }
        self.take_and_record_macro_path(&mut path);
    }

    fn take_and_record_macro_path(&mut self, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.used_paths.insert(std::mem::take(path));
        }
    }
}

impl<'ast> Visit<'ast> for ItemReader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test_only(item_attributes(item)) {
            return;
        }
        match item {
            syn::Item::Struct(item) => self.record_type(&item.ident),
            syn::Item::Enum(item) => self.record_type(&item.ident),
            syn::Item::Union(item) => self.record_type(&item.ident),
            syn::Item::Trait(item) => self.record_type(&item.ident),
            syn::Item::Type(item) => self.record_type(&item.ident),
            syn::Item::Fn(item) => drop(self.item_names.insert(item.sig.ident.to_string())),
            syn::Item::Const(item) => drop(self.item_names.insert(item.ident.to_string())),
            syn::Item::Static(item) => drop(self.item_names.insert(item.ident.to_string())),
            syn::Item::Macro(item) => {
                self.item_names.extend(item.ident.as_ref().map(ToString::to_string));
            }
            syn::Item::Use(item) => {
                let takes = matches!(item.vis, syn::Visibility::Inherited);
                self.collect_imports_of_use_tree(&item.tree, &[], takes);
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.used_paths.insert(path.segments.iter().map(|s| s.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.collect_macro_paths(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

fn item_attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

/// The roots of all crates: `src/lib.rs` and `src/main.rs`.
pub fn list_workspace_crate_roots(tree: &WorkingTreeFiles) -> Vec<String> {
    let is_root = |path: &&str| {
        (path.starts_with("crates/") || path.starts_with("xtask/"))
            && (path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"))
    };
    tree.text_files().map(|(path, _)| path).filter(is_root).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let modules = CrateModules::read_crate(&WorkingTreeFiles::from_texts(files), "c/lib.rs")
            .expect("a crate");
        let name = |at: usize| modules.files[at].trim_start_matches("c/").to_owned();
        let edges = modules.file_dependencies().into_iter();
        edges.map(|e| format!("{} -> {}: {}", name(e.from_file), name(e.to_file), e.name)).collect()
    }

    const B: (&str, &str) = ("c/b.rs", "pub struct B; pub fn f() {}");

    #[test]
    fn imports_and_paths_create_edges_to_the_defining_file() {
        let root = ("c/lib.rs", "mod a; mod b;");
        for text in [
            "use crate::b::B;",
            "use super::b::{B};",
            "use crate::b::*; fn g(_: B) {}",
            "fn g() -> crate::b::B { todo!() }",
            "use crate::b; fn g() { b::f() }",
            "use crate::b as other; fn g() { other::f() }",
            "fn g() { assert!(super::b::f()) }",
        ] {
            let found = edges(&[root, ("c/a.rs", text), B]);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with("a.rs -> b.rs"), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_name_is_followed_through_a_re_export() {
        let files = [
            ("c/lib.rs", "mod a; mod b; pub use b::B;"),
            ("c/a.rs", "use crate::B;"),
            ("c/b.rs", "pub struct B;"),
        ];
        assert_eq!(edges(&files), ["a.rs -> b.rs: crate::B"]);
    }

    #[test]
    fn declarations_and_re_exports_create_no_edge() {
        let root = ("c/lib.rs", "mod a; mod b; pub use b::B;");
        assert!(edges(&[root, ("c/a.rs", ""), B]).is_empty());
        let root = ("c/lib.rs", "mod a; mod b; pub use b::B; fn g(_: B) {}");
        assert_eq!(edges(&[root, ("c/a.rs", ""), B]), ["lib.rs -> b.rs: B"]);
    }

    #[test]
    fn tests_other_crates_and_local_names_create_no_edge() {
        let root = ("c/lib.rs", "mod a; mod b;");
        for text in [
            "#[cfg(test)] mod tests { use crate::b::B; }",
            "#[cfg(test)] use crate::b::B;",
            "use std::fmt; struct B; fn g(_: B) -> fmt::Result { libc::b() }",
            "use libc; fn g() { libc::f() }",
        ] {
            assert_eq!(edges(&[root, ("c/a.rs", text), B]), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn types_are_found_at_any_visibility_outside_tests() {
        let text = "struct A;\npub enum B {}\ntrait C {}\ntype D = A;\nfn f() { struct E; }\n\
            #[cfg(test)]\nmod tests { struct F; }\nmod inner { pub(crate) union G { a: u8 } }\n";
        let modules = CrateModules::read_crate(
            &WorkingTreeFiles::from_texts(&[("c/lib.rs", text)]),
            "c/lib.rs",
        )
        .expect("a crate");
        let found: Vec<_> =
            modules.defined_types().map(|t| format!("{}{}", t.name, t.line)).collect();
        assert_eq!(found, ["A1", "B2", "C3", "D4", "E5", "G8"]);
    }
}
