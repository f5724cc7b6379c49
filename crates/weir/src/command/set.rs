//! `weir set add`, `del`, `sync` and `swap`: updates of sets of addresses from lists.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use weir_apply::address_sets::element_diff::AddressListOperation;
use weir_apply::address_sets::{AddressSetName, AddressSetsLock, OpenAddressSet};
use weir_kernel::call_inside_named_namespace;
use weir_kernel::ipset_socket::IpsetSocket;
use weir_kernel::nft_objects::find_nft_family_number;
use weir_kernel::nft_socket::NftSetPlace;
use weir_model::Family;
use weir_syntax::address_list::{AddressRange, is_address_list_entry, parse_address_list};

use super::YesNoExitStatus;
use crate::cli::{NftTableOfSetArgs, SetChangeArgs, SetSwapArgs};
use crate::operand::print_first_diagnostics;
use crate::ruleset_texts::read_file_or_stdin;
use crate::{json_output, terminal};

/// How long to wait for the lock of another weir.
const LOCK_WAIT_LIMIT: Duration = Duration::from_secs(30);

/// Numbers of changed elements; with `dry_run`, of elements that would change.
#[derive(Serialize)]
struct SetChangeJson<'a> {
    set: &'a str,
    added: usize,
    removed: usize,
    kept: usize,
    dry_run: bool,
}

/// Updates a set from lists and prints what changed.
pub fn change_set_and_print(
    args: &SetChangeArgs,
    change: AddressListOperation,
    color: bool,
) -> Result<YesNoExitStatus> {
    let name = parse_set_name(&args.name, &args.place)?;
    let counts = call_in_namespace(args.namespace.netns.as_deref(), || {
        change_set(&name, args, change, color)
    })?;
    let command = match change {
        AddressListOperation::Add => "set add",
        AddressListOperation::Delete => "set del",
        AddressListOperation::Sync => "set sync",
    };
    if args.namespace.json {
        return terminal::print_escaped_if_terminal(&json_output::render_json_object(
            command, &counts,
        )?);
    }
    let SetChangeJson { set, added, removed, kept, dry_run } = counts;
    let would = if dry_run { " (dry run: nothing was changed)" } else { "" };
    terminal::print_escaped_to_stdout(&format!("{set}: +{added} -{removed} ={kept}{would}\n"))
}

fn change_set<'a>(
    name: &AddressSetName,
    args: &'a SetChangeArgs,
    change: AddressListOperation,
    color: bool,
) -> Result<SetChangeJson<'a>> {
    let before_reading = match OpenAddressSet::open(name.clone()) {
        Err(error) if Path::new(&args.name).is_file() => {
            bail!("{} is a file: give the set first, then the files ({error})", args.name)
        }
        open => open?.set,
    };
    let list = read_lists(&args.lists, before_reading.family, color)?;
    if list.is_empty() && change == AddressListOperation::Sync {
        bail!(
            "the list is empty: nothing was changed; to remove all elements, use `ipset flush` or \
             `nft flush set`"
        );
    }
    let lock = match args.dry_run {
        true => None,
        false => Some(AddressSetsLock::acquire(LOCK_WAIT_LIMIT)?),
    };
    let mut open = OpenAddressSet::open(name.clone())?;
    let planned = open.plan_change(list, change)?;
    // Reading a list may take long, and a recreated set may have other elements.
    let after_planning = OpenAddressSet::open(name.clone())?.set;
    if open.set != before_reading || open.set != after_planning {
        bail!("another program recreated set {}: nothing was changed; try again", args.name);
    }
    if lock.is_some() {
        open.commit(&planned)?;
    }
    let plan = &planned.plan;
    Ok(SetChangeJson {
        set: &args.name,
        added: plan.added.len(),
        removed: plan.removed.len(),
        kept: plan.kept,
        dry_run: args.dry_run,
    })
}

/// Reads files, and the entries on the command line.
fn read_lists(lists: &[String], family: Family, color: bool) -> Result<Vec<AddressRange>> {
    // A word that is neither an entry nor the name of a file is refused as an entry, with the reason.
    let is_entry =
        |word: &str| is_address_list_entry(word) || word != "-" && !Path::new(word).exists();
    let (entries, files): (Vec<&String>, Vec<&String>) =
        lists.iter().partition(|word| is_entry(word));
    if files.iter().filter(|file| **file == "-").count() > 1 {
        bail!("standard input can be read only once");
    }
    let mut texts = Vec::new();
    for file in files {
        texts.push(read_file_or_stdin(Path::new(file))?);
    }
    if !entries.is_empty() {
        let lines: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        texts.push(("<arguments>".to_owned(), lines));
    }
    let mut ranges = Vec::new();
    let mut rejected = 0;
    for (name, text) in texts {
        match parse_address_list(&text, family) {
            Ok(list) if ranges.is_empty() => ranges = list,
            Ok(list) => ranges.extend(list),
            Err(errors) => {
                print_first_diagnostics(&name, &text, &errors, "error", color);
                rejected += errors.len();
            }
        }
    }
    let missing: Vec<&str> = entries
        .iter()
        .map(|word| word.as_str())
        .filter(|word| !is_address_list_entry(word))
        .collect();
    if let Some(first) = missing.first() {
        bail!(
            "{first} is not an address, prefix or range, and there is no such file: nothing was \
             changed"
        );
    }
    match rejected {
        0 => Ok(ranges),
        1 => bail!("1 line was rejected: nothing was changed"),
        lines => bail!("{lines} lines were rejected: nothing was changed"),
    }
}

/// Swaps two sets.
pub fn swap_sets(args: &SetSwapArgs) -> Result<YesNoExitStatus> {
    call_in_namespace(args.namespace.netns.as_deref(), || {
        let _lock = AddressSetsLock::acquire(LOCK_WAIT_LIMIT)?;
        Ok(IpsetSocket::open()?.swap_sets(&args.name, &args.other_name)?)
    })?;
    if args.namespace.json {
        #[derive(Serialize)]
        struct SwappedSetsJson<'a> {
            swapped: [&'a str; 2],
        }
        let swapped = SwappedSetsJson { swapped: [&args.name, &args.other_name] };
        let text = json_output::render_json_object("set swap", &swapped)?;
        return terminal::print_escaped_if_terminal(&text);
    }
    terminal::print_escaped_to_stdout(&format!("swapped {} and {}\n", args.name, args.other_name))
}

/// Calls a function in a network namespace, by default the current one.
pub(super) fn call_in_namespace<T: Send>(
    netns: Option<&str>,
    f: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    match netns {
        Some(name) => call_inside_named_namespace(name, f)?,
        None => f(),
    }
}

/// Parses the set given on the command line.
pub(super) fn parse_set_name(name: &str, place: &NftTableOfSetArgs) -> Result<AddressSetName> {
    let Some(family_and_table) = &place.nft else {
        return Ok(AddressSetName::Ipset(name.to_owned()));
    };
    let [family, table] = &family_and_table[..] else {
        bail!("--nft takes a family and a table, e.g. --nft inet filter");
    };
    let number = find_nft_family_number(family).with_context(|| {
        format!(
            "unknown family {family}: nft has the families inet, ip, ip6, arp, bridge and netdev"
        )
    })?;
    Ok(AddressSetName::Nft(NftSetPlace {
        family: number,
        table: table.clone(),
        set: name.to_owned(),
    }))
}
