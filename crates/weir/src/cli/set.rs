//! Arguments of `weir set`.

use clap::{Args, Subcommand};

/// `weir set …`.
#[derive(Debug, Subcommand)]
pub enum SetCommand {
    /// List the sets, or the elements of one.
    #[command(after_help = "\
Without NAME: the sets of ipset and of nf_tables, one per line. With NAME: its elements, one per line,
for sets of addresses in the format that `weir set sync` reads. No kernel module is loaded.

Example:
  sudo weir set list
  sudo weir set list blocked > blocked.txt
  sudo weir set list banned --nft inet filter --json")]
    List(SetListArgs),
    /// Add addresses to a set.
    #[command(after_help = "\
Adds all addresses of the list. Adjacent, nested and equal entries are merged first if the set holds
prefixes or ranges; to a set of single addresses, each address is added. Existing elements are kept.

Files have an address, a prefix or a range FIRST-LAST on each line; comments start with # or ;. If a
line is invalid, it is reported and nothing is changed.

Exit status 0 done, 2 error.

Example:
  sudo weir set add blocked 192.0.2.7 198.51.100.0/24
  sudo weir set add blocked drop.txt edrop.txt --dry-run")]
    Add(SetChangeArgs),
    /// Delete addresses from a set.
    #[command(after_help = "\
Deletes all addresses of the list; addresses that are not in the set are ignored. An element that is
partly in the list is replaced by its remaining addresses. If it has a timeout or a comment, this is
an error, because the new elements would not have it.

Exit status 0 done, 2 error.

Example:
  sudo weir set del blocked 192.0.2.7
  sudo weir set del banned lifted.txt --nft inet filter")]
    Del(SetChangeArgs),
    /// Make a set contain exactly the addresses of a list, changing only the difference.
    #[command(after_help = "\
Prints how many elements were added, removed and kept. Concurrent weir set commands wait for each
other. A set of nf_tables changes in one transaction. ipset has no transactions: elements are added
before others are removed, so an address that stays in the set is always in it; if the kernel refuses
an element, the change is undone.

Several files form one list; `-` is standard input. An empty list is refused, because it may be a
failed download.

Exit status 0 done, 2 error.

Example:
  sudo weir set sync blocked drop.txt
  curl -s https://lists.example/drop.txt | sudo weir set sync blocked -
  sudo weir set sync banned drop.txt --nft inet filter --dry-run --json")]
    Sync(SetChangeArgs),
    /// Swap two sets of ipset: rules that use one then use the other.
    #[command(after_help = "\
Both sets must have the same type and family. The swap is atomic for packets.

Example:
  sudo weir set swap blocked blocked-new")]
    Swap(SetSwapArgs),
}

/// Network namespace and output.
#[derive(Debug, Args)]
pub struct SetNetworkNamespaceArgs {
    /// Network namespace, as listed by `ip netns`; by default the current one.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The nftables table of a set; none for a set of ipset.
#[derive(Debug, Args)]
pub struct NftTableOfSetArgs {
    /// Use the set of nftables in this table: `--nft inet filter`.
    #[arg(long, num_args = 2, value_names = ["FAMILY", "TABLE"])]
    pub nft: Option<Vec<String>>,
}

/// `weir set list`.
#[derive(Debug, Args)]
pub struct SetListArgs {
    /// Set whose elements are listed.
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
    /// Addresses, prefixes and ranges, or files with them; `-` is standard input. A file whose name
    /// is a valid address needs its directory: ./192.0.2.1
    #[arg(required = true, value_name = "FILE|ELEMENT")]
    pub lists: Vec<String>,
    #[command(flatten)]
    pub place: NftTableOfSetArgs,
    /// Print the changes without making them.
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
