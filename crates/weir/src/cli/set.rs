//! Arguments of `weir set`.

use clap::{Args, Subcommand};

/// `weir set …`.
#[derive(Debug, Subcommand)]
pub enum SetCommand {
    /// List the sets, or the elements of one.
    #[command(after_help = "\
Without NAME: the sets of ipset and of nf_tables, one on each line. With NAME: its elements, one on
each line, in a form that `weir set sync` reads for sets of addresses. No module is loaded.

Example:
  sudo weir set list
  sudo weir set list blocked > blocked.txt
  sudo weir set list banned --nft inet filter --json")]
    List(SetListArgs),
    /// Add addresses to a set.
    #[command(after_help = "\
Afterwards all addresses of the list are in the set. Adjacent, nested and equal entries are merged
first, as far as the set can hold prefixes or ranges; a set of single addresses gets each of them.
Elements that are in the set stay.

Files have an address, a prefix or a range FIRST-LAST on each line; comments begin with # or ;. If a
line is wrong, it is named, and nothing is changed.

Exit status 0 done, 2 error.

Example:
  sudo weir set add blocked 192.0.2.7 198.51.100.0/24
  sudo weir set add blocked drop.txt edrop.txt --dry-run")]
    Add(SetChangeArgs),
    /// Delete addresses from a set.
    #[command(after_help = "\
Afterwards no address of the list is in the set; what is not in it is no error. An element that lies
partly in the list is replaced by what remains of it, unless it has a timeout or a comment: that is
an error, because the new elements would not have it.

Exit status 0 done, 2 error.

Example:
  sudo weir set del blocked 192.0.2.7
  sudo weir set del banned lifted.txt --nft inet filter")]
    Del(SetChangeArgs),
    /// Make a list all that a set has, by changing only the difference.
    #[command(after_help = "\
Prints how many elements were added, removed and kept. Changes of other weir set commands wait for
each other. A set of nf_tables changes in one transaction. ipset has no transactions: elements are
added before others are removed, so an address that stays in the set is in it all the time; if the
kernel refuses an element, the change is undone.

The list is what several files have together; `-` is standard input. An empty list empties the set.

Exit status 0 done, 2 error.

Example:
  sudo weir set sync blocked drop.txt
  curl -s https://lists.example/drop.txt | sudo weir set sync blocked -
  sudo weir set sync banned drop.txt --nft inet filter --dry-run --json")]
    Sync(SetChangeArgs),
    /// Exchange two sets of ipset, with all rules that use them.
    #[command(after_help = "\
Both sets must have the same type and family. Packets see either the one or the other.

Example:
  sudo weir set swap blocked blocked-new")]
    Swap(SetSwapArgs),
}

/// Where the sets are.
#[derive(Debug, Args)]
pub struct SetNetworkNamespaceArgs {
    /// The network namespace, as `ip netns` lists it; by default the current one.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// A set by its name.
#[derive(Debug, Args)]
pub struct NftTableOfSetArgs {
    /// The set is of nf_tables, in this table: `--nft inet filter`.
    #[arg(long, num_args = 2, value_names = ["FAMILY", "TABLE"])]
    pub nft: Option<Vec<String>>,
}

/// `weir set list`.
#[derive(Debug, Args)]
pub struct SetListArgs {
    /// The set whose elements are listed.
    pub name: Option<String>,
    #[command(flatten)]
    pub place: NftTableOfSetArgs,
    #[command(flatten)]
    pub namespace: SetNetworkNamespaceArgs,
}

/// `weir set add`, `del` and `sync`.
#[derive(Debug, Args)]
pub struct SetChangeArgs {
    /// The set.
    pub name: String,
    /// Addresses, prefixes and ranges, or files of them; `-` is standard input. A file whose name
    /// reads as an address is written with its folder: ./192.0.2.1
    #[arg(required = true, value_name = "FILE|ELEMENT")]
    pub lists: Vec<String>,
    #[command(flatten)]
    pub place: NftTableOfSetArgs,
    /// Print what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub namespace: SetNetworkNamespaceArgs,
}

/// `weir set swap`.
#[derive(Debug, Args)]
pub struct SetSwapArgs {
    /// One set.
    pub name: String,
    /// The other.
    pub other_name: String,
    #[command(flatten)]
    pub namespace: SetNetworkNamespaceArgs,
}
