//! `weir set list`: the sets of a network namespace, and the elements of one.

use anyhow::Result;
use serde::Serialize;
use weir_apply::address_sets::{AddressSetName, OpenAddressSet};
use weir_apply::ipsets::read_sets;
use weir_kernel::ipset_list::read_ipsets;
use weir_kernel::ipset_socket::IpsetSocket;
use weir_kernel::kernel_feature::KernelFeature;
use weir_kernel::nft_objects::read_nft_tables;

use super::YesNoExitStatus;
use super::set::{call_in_namespace, parse_set_name};
use crate::cli::SetListArgs;
use crate::{json_output, terminal};

/// A set without its elements.
#[derive(Serialize)]
struct ListedSet {
    /// `ipset` or `nft`.
    kind: &'static str,
    /// Family and table of a set of nf_tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    name: String,
    /// Type, number of elements and number of references of a set of ipset.
    #[serde(skip_serializing_if = "Option::is_none", rename = "type")]
    type_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elements: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    references: Option<u32>,
}

#[derive(Serialize)]
struct ListedSets {
    sets: Vec<ListedSet>,
}

#[derive(Serialize)]
struct SetElementsJson<'a> {
    set: &'a str,
    elements: Vec<String>,
}

/// Prints the sets, or the elements of one.
pub fn print_sets_or_elements(args: &SetListArgs) -> Result<YesNoExitStatus> {
    let netns = args.namespace.netns.as_deref();
    let Some(name) = &args.name else {
        let sets = call_in_namespace(netns, read_all_sets)?;
        return match args.namespace.json {
            true => terminal::print_escaped_if_terminal(&json_output::render_json_object(
                "set list",
                &ListedSets { sets },
            )?),
            false => terminal::print_escaped_to_stdout(&render_sets(&sets)),
        };
    };
    let set = parse_set_name(name, &args.place)?;
    let elements = call_in_namespace(netns, || read_elements(set))?;
    if args.namespace.json {
        let listed = SetElementsJson { set: name, elements };
        let text = json_output::render_json_object("set list", &listed)?;
        return terminal::print_escaped_if_terminal(&text);
    }
    let lines: String = elements.iter().flat_map(|element| [element, "\n"]).collect();
    terminal::print_escaped_to_stdout(&lines)
}

fn read_all_sets() -> Result<Vec<ListedSet>> {
    let mut sets = Vec::new();
    if KernelFeature::Ipset.is_loaded() {
        sets.extend(read_ipsets()?.into_iter().map(|set| ListedSet {
            kind: "ipset",
            family: None,
            table: None,
            name: set.name,
            type_name: Some(set.set_type),
            elements: Some(set.element_count),
            references: Some(set.reference_count),
        }));
    }
    if KernelFeature::NfTables.is_loaded() {
        for table in read_nft_tables()? {
            sets.extend(table.sets.iter().map(|name| ListedSet {
                kind: "nft",
                family: Some(table.family),
                table: Some(table.name.clone()),
                name: name.clone(),
                type_name: None,
                elements: None,
                references: None,
            }));
        }
    }
    Ok(sets)
}

fn render_sets(sets: &[ListedSet]) -> String {
    if sets.is_empty() {
        return "no sets\n".to_owned();
    }
    let mut out = String::new();
    for set in sets {
        let line = match (set.family, &set.table) {
            (Some(family), Some(table)) => format!("nft {family} {table} {}\n", set.name),
            _ => format!(
                "ipset {} {}: {} elements, used by {} rules and sets\n",
                set.name,
                set.type_name.as_deref().unwrap_or_default(),
                set.elements.unwrap_or_default(),
                set.references.unwrap_or_default()
            ),
        };
        out.push_str(&line);
    }
    out
}

fn read_elements(set: AddressSetName) -> Result<Vec<String>> {
    match set {
        AddressSetName::Ipset(name) => {
            let sets = read_sets(&mut IpsetSocket::open()?, Some(&name))?;
            let elements = sets.iter().flat_map(|set| {
                let print = |element| weir_syntax::ipset::print_element(set, element);
                set.elements.iter().map(print)
            });
            Ok(elements.collect())
        }
        name @ AddressSetName::Nft(_) => {
            let mut open = OpenAddressSet::open(name)?;
            let elements = open.read_elements()?;
            Ok(elements.ranges.iter().map(|range| open.set.display_range(*range)).collect())
        }
    }
}
