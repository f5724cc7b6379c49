//! Failing writes: a disk that is full at every size, and truncated saves.

use std::fs;
use std::path::Path;

use crate::number;
use crate::snapshot::snapshot;
use crate::world::{Ended, World};

/// In its own mount namespace: `$2` is loaded on a file system with room, then `$1` with `$3` pages
/// and `$4` inodes left, then unloaded with none left. What happened is in the folder `$5`.
const ON_A_FULL_DISK: &str = r#"
set -u
look() {
    { iptables-legacy-save && ip6tables-legacy-save; } >"$1.iptables" || exit 98
    nft list ruleset >"$1.nft" || exit 98
    ipset save >"$1.sets" || exit 98
}
mkdir -p "$WEIR_STATE"
mount -t tmpfs -o size=64m,mode=700 weir "$WEIR_STATE" || exit 99
if [ "$2" != bare ]; then
    sh "$2/load.sh" >"$5/first" 2>&1 || exit 97
fi
look "$5/old"
blocks=$(stat -f -c '%b - %f' "$WEIR_STATE")
inodes=$(stat -f -c '%c - %d' "$WEIR_STATE")
room="size=$((($blocks + $3) * 4))k,nr_inodes=$(($inodes + $4))"
mount -o "remount,$room" "$WEIR_STATE" || exit 99
sh "$1/load.sh" >"$5/said" 2>&1
echo $? >"$5/status"
look "$5/new"
blocks=$(stat -f -c '%b - %f' "$WEIR_STATE")
mount -o "remount,size=$((($blocks) * 4))k" "$WEIR_STATE" || exit 99
if [ "$(cat "$5/status")" = 0 ]; then
    sh "$1/unload.sh" >"$5/unloaded" 2>&1 || exit 96
fi
look "$5/back"
if [ "$2" != bare ]; then
    sh "$2/unload.sh" >>"$5/unloaded" 2>&1 || exit 95
fi
exit 0
"#;

struct Full {
    loaded: bool,
    said: String,
    old: String,
    new: String,
    back: String,
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
}

fn on_a_full_disk(world: &World, name: &str, before: &str, pages: u64, inodes: u64) -> Full {
    let folder = world.path("outcome");
    fs::create_dir_all(&folder).expect("a folder");
    let path = |name: &str| match name {
        "bare" => name.to_owned(),
        name => world.path(name).display().to_string(),
    };
    let mut command = world.command("unshare");
    command.args(["-m", "sh", "-c", ON_A_FULL_DISK, "sh"]);
    command.args([path(name), path(before), pages.to_string(), inodes.to_string()]);
    let out = command.arg(&folder).output().expect("unshare runs");
    let look = |what: &str| {
        let part = |end| read(&folder.join(format!("{what}.{end}")));
        snapshot(&part("iptables"), &part("nft"), &part("sets"))
    };
    let context = format!("{name} over {before}, {pages} pages, {inodes} inodes: {out:?}");
    assert!(out.status.success(), "{context}: {}", world_said(&folder));
    let loaded = read(&folder.join("status")).trim() == "0";
    let said = read(&folder.join("said"));
    Full { loaded, said, old: look("old"), new: look("new"), back: look("back") }
}

fn world_said(folder: &Path) -> String {
    ["first", "said", "unloaded"]
        .iter()
        .filter_map(|f| fs::read_to_string(folder.join(f)).ok())
        .collect()
}

/// Loads with more and more room, from `first` on in steps, until it loads; how often it did not.
fn fill(
    world: &World,
    (name, before): (&str, &str),
    by_inodes: bool,
    (first, step): (usize, usize),
) -> u64 {
    // A tmpfs of size 0 has no limit.
    let rooms = (first.max(1) as u64..400).step_by(step);
    for (refused, room) in rooms.enumerate() {
        let (pages, inodes) = if by_inodes { (4000, room) } else { (room, 4000) };
        let full = on_a_full_disk(world, name, before, pages, inodes);
        assert_eq!(full.back, full.old, "{name} over {before}: {}", full.said);
        if full.loaded {
            assert_ne!(full.new, full.old, "{name} over {before}");
            return refused as u64;
        }
        assert_eq!(full.new, full.old, "{name} over {before}: {}", full.said);
        assert!(
            full.said.contains("nothing was changed: the old ruleset is in force"),
            "{}",
            full.said
        );
    }
    panic!("{name} over {before} never loads");
}

#[test]
fn a_full_disk_preserves_the_old_ruleset_and_unload_works() {
    let Some(world) = World::new("full") else { return };
    world.load_bare();
    // Every size if WEIR_WRITE_STEP is 1; otherwise every n-th, starting at one chosen by the seed.
    let step = number("WEIR_WRITE_STEP", 5) as usize;
    let first = number("WEIR_SEED", 1) as usize % step;
    let mut failed = 0;
    for (name, before) in [("nft-kept-input", "bare"), ("ipset", "nft"), ("tree", "ipset-other")] {
        for by_inodes in [false, true] {
            let sizes = fill(&world, (name, before), by_inodes, (first, step));
            assert!(sizes > 0, "{name} over {before} needs more room than that");
            failed += sizes;
        }
    }
    println!("{failed} loads on a full disk: the old ruleset was in force after each");
}

#[test]
fn a_truncated_save_is_detected() {
    let Some(world) = World::new("cut") else { return };
    world.load_bare();
    let (mut refused, mut whole) = (0, 0);
    let saves = [
        ("iptables-legacy-save", "bare", "nft"),
        ("ip6tables-legacy-save", "bare", "tree"),
        ("nft", "nft-kept-forward", "nft-kept-input"),
        ("ipset", "ipset", "ipset"),
        ("sha256sum", "bare", "tree"),
        ("awk", "bare", "ipset"),
        ("cat", "bare", "nft"),
    ];
    for (tool, before, name) in saves {
        if before != "bare" {
            world.done(&format!("{before}/load.sh"));
        }
        let old = world.snapshot();
        let mut cut = 0;
        while cut < 40_000 {
            let mut command = world.faulty("sh", "count");
            command.env("FAULT_TOOL", tool).env("FAULT_CUT", cut.to_string());
            let line = format!("{name}/load.sh");
            let ended = Ended::of(&command.args(world.words(&line)).output().expect("sh runs"));
            if ended.is_done() {
                whole += 1;
                if before != name {
                    world.done(&format!("{name}/unload.sh"));
                }
            } else {
                refused += 1;
                let told = "nothing was changed: the old ruleset is in force";
                assert!(ended.said.contains(told), "{tool} {cut}: {}", ended.said);
            }
            assert_eq!(world.snapshot(), old, "{tool} ends after {cut} bytes: {}", ended.said);
            cut = cut * 4 + 3;
        }
        world.unload_all();
    }
    println!("{refused} truncated saves refused, {whole} complete saves accepted");
    assert!(refused > 15 && whole > 3, "{refused} refused, {whole} complete");
}
