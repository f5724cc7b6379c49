//! `weir set`: sets of ipset and of nftables, changed by lists.

use std::path::PathBuf;

use serde_json::Value;
use weir_kernel::{Namespace, Session};
use weir_testkit::skip_without_root;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A namespace and a folder for lists.
struct Sets {
    namespace: Namespace,
    folder: PathBuf,
    _session: Session,
}

impl Sets {
    fn new(role: &str) -> Sets {
        let session = Session::new().expect("a session");
        let namespace = session.create_namespace(role).expect("a namespace");
        Sets { namespace, folder: session.session_directory(), _session: session }
    }

    fn load(&self, words: &[&str], text: &str) {
        self.namespace.run_command(words, text.as_bytes()).expect("it is loaded");
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        std::fs::write(&path, text).expect("a writable folder");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// Exit status, standard output and standard error of `weir set`.
    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = self.namespace.command(WEIR);
        let output = command.arg("set").args(words).output().expect("weir runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("a status"), text(output.stdout), text(output.stderr))
    }

    fn done(&self, words: &[&str]) -> String {
        let (status, out, errors) = self.run(words);
        assert_eq!(status, 0, "{words:?}: {errors}");
        out
    }

    fn refused(&self, words: &[&str]) -> String {
        let (status, out, errors) = self.run(words);
        assert_eq!((status, out.as_str()), (2, ""), "{words:?}: {errors}");
        errors
    }

    /// The elements of an ipset, sorted.
    fn elements(&self, set: &str) -> Vec<String> {
        let saved = self.namespace.run_command(&["ipset", "save", set], b"").expect("it is there");
        let saved = String::from_utf8(saved).expect("UTF-8");
        let prefix = format!("add {set} ");
        let mut elements: Vec<String> = saved
            .lines()
            .filter_map(|line| line.strip_prefix(&prefix))
            .map(str::to_owned)
            .collect();
        elements.sort();
        elements
    }

    fn nft_list(&self) -> String {
        let listed = self.namespace.run_command(&["nft", "list", "ruleset"], b"").expect("nft");
        String::from_utf8(listed).expect("UTF-8")
    }
}

#[test]
fn invalid_addresses_and_swapped_operands_are_refused_with_the_reason() {
    if skip_without_root() {
        return;
    }
    let sets = Sets::new("setinvalid");
    sets.load(&["ipset", "restore"], "create a hash:net family inet\n");
    for (word, reason) in [
        ("300.1.1.1", "300.1.1.1 is not an IPv4 address"),
        ("192.0.2.1/33", "does not have a prefix length from 0 to 32"),
        ("192.0.2.1/24", "write 192.0.2.0/24 for the prefix, or 192.0.2.1 for the address"),
        ("192.0.2.9-192.0.2.1", "ends before it starts"),
        ("2001:db8::1", "the set is for IPv4"),
        ("no-such-file.txt", "there is no such file"),
    ] {
        let errors = sets.refused(&["add", "a", "192.0.2.7", word]);
        assert!(errors.contains(reason) && errors.contains("nothing was changed"), "{errors}");
        assert!(sets.elements("a").is_empty(), "{word}");
    }
    let list = sets.file("list.txt", "192.0.2.0/24\n");
    let errors = sets.refused(&["sync", &list, "a"]);
    assert!(errors.contains("is a file: give the set first"), "{errors}");
    assert_eq!(sets.done(&["sync", "a", &list]), "a: +1 -0 =0\n");
}

#[test]
fn a_set_of_prefixes_is_synced_to_a_merged_list() {
    if skip_without_root() {
        return;
    }
    let sets = Sets::new("setsync");
    sets.load(&["ipset", "restore"], "create s hash:net\nadd s 192.0.2.0/24\nadd s 203.0.113.9\n");
    let list = "; list\n192.0.2.0/25\n192.0.2.128/25 # the other half\n192.0.2.7\n\
                198.51.100.10-198.51.100.13\n";
    let file = sets.file("drop.txt", list);
    assert_eq!(
        sets.done(&["sync", "s", &file, "--dry-run"]),
        "s: +2 -1 =1 (dry run: nothing was changed)\n"
    );
    assert_eq!(sets.elements("s"), ["192.0.2.0/24", "203.0.113.9"]);
    assert_eq!(sets.done(&["sync", "s", &file]), "s: +2 -1 =1\n");
    assert_eq!(sets.elements("s"), ["192.0.2.0/24", "198.51.100.10/31", "198.51.100.12/31"]);
    assert_eq!(sets.done(&["sync", "s", &file]), "s: +0 -0 =3\n");
    // What `list` prints is a list.
    let listed = sets.file("listed.txt", &sets.done(&["list", "s"]));
    assert_eq!(sets.done(&["sync", "s", &listed]), "s: +0 -0 =3\n");
    let json: Value =
        serde_json::from_str(&sets.done(&["add", "s", "192.0.2.0-192.0.3.255", "--json"]))
            .expect("JSON");
    assert_eq!((&json["command"], &json["version"]), (&"set add".into(), &1.into()));
    assert_eq!(
        (&json["added"], &json["removed"], &json["kept"]),
        (&1.into(), &0.into(), &3.into())
    );
    let empty = sets.file("empty.txt", "# nothing\n");
    // A download that failed is an empty list as well.
    let errors = sets.refused(&["sync", "s", &empty]);
    assert!(errors.contains("the list is empty") && errors.contains("ipset flush"), "{errors}");
    assert_eq!(sets.elements("s").len(), 4);
}

/// More elements than a message has: the kernel refuses one of the first.
#[test]
fn a_refused_element_leaves_the_set_unchanged() {
    if skip_without_root() {
        return;
    }
    let sets = Sets::new("setrefused");
    let create = "create s hash:ip maxelem 200000\nadd s 192.0.2.1\n";
    sets.load(&["ipset", "restore"], create);
    let prefixes: String = (0..100).map(|third| format!("10.9.{third}.0/24\n")).collect();
    let good = sets.file("good.txt", &prefixes);
    let bad = sets.file("bad.txt", &format!("0.0.0.0\n{prefixes}"));
    let errors = sets.refused(&["sync", "s", &bad]);
    assert!(errors.contains("0.0.0.0"), "{errors}");
    assert_eq!(sets.elements("s"), ["192.0.2.1"]);
    assert_eq!(sets.done(&["sync", "s", &good]), "s: +25600 -1 =0\n");
}

#[test]
fn a_rejected_line_is_named_and_nothing_is_changed() {
    if skip_without_root() {
        return;
    }
    let sets = Sets::new("setreject");
    sets.load(&["ipset", "restore"], "create s hash:net\nadd s 192.0.2.0/24\n");
    let file = sets.file("bad.txt", "198.51.100.0/24\n198.51.100.7/24\n2001:db8::1\n");
    let errors = sets.refused(&["sync", "s", &file]);
    for part in ["bad.txt:2:1", "bits beyond", "198.51.100.0/24", "bad.txt:3:1", "2 lines were"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert_eq!(sets.elements("s"), ["192.0.2.0/24"]);
    let errors = sets.refused(&["add", "s", "nowhere.txt"]);
    assert!(errors.contains("is not an address, prefix or range"), "{errors}");
    let errors = sets.refused(&["add", "nowhere", "192.0.2.1"]);
    assert!(errors.contains("ipset create nowhere hash:net"), "{errors}");
    let good = sets.file("good.txt", "198.51.100.0/24\n");
    assert_eq!(sets.done(&["add", "s", &good, "203.0.113.1"]), "s: +2 -0 =1\n");
}

#[test]
fn deleting_part_of_a_prefix_keeps_the_rest_unless_it_has_a_comment() {
    if skip_without_root() {
        return;
    }
    let sets = Sets::new("setdel");
    let text = "create s hash:net comment\nadd s 192.0.2.0/30\n\
                add s 198.51.100.0/24 comment \"why\"\nadd s 203.0.113.7\n";
    sets.load(&["ipset", "restore"], text);
    assert_eq!(sets.done(&["del", "s", "192.0.2.1", "203.0.113.7", "10.0.0.0/8"]), "s: +2 -2 =1\n");
    let left = ["192.0.2.0", "192.0.2.2/31", "198.51.100.0/24 comment \"why\""];
    assert_eq!(sets.elements("s"), left);
    let errors = sets.refused(&["del", "s", "198.51.100.1", "192.0.2.0"]);
    assert!(errors.contains("198.51.100.0/24") && errors.contains("a comment"), "{errors}");
    assert_eq!(sets.elements("s"), left);
    assert_eq!(sets.done(&["del", "s", "198.51.100.0/23"]), "s: +0 -1 =2\n");
}

#[test]
fn single_addresses_and_ipv6_are_changed_and_a_full_set_is_refused() {
    if skip_without_root() {
        return;
    }
    let sets = Sets::new("setip");
    let text = "create a hash:ip maxelem 64\ncreate b hash:ip family inet6\n\
                create c hash:net family inet6\ncreate d bitmap:ip range 192.0.2.0/28\n\
                create e hash:ip,port\ncreate f hash:net\nadd f 192.0.2.0/24 nomatch\n";
    sets.load(&["ipset", "restore"], text);
    assert_eq!(sets.done(&["add", "a", "192.0.2.0/30"]), "a: +4 -0 =0\n");
    assert_eq!(sets.elements("a"), ["192.0.2.0", "192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    let errors = sets.refused(&["sync", "a", "192.0.2.0/24"]);
    assert!(errors.contains("at most 64 elements"), "{errors}");
    assert_eq!(sets.done(&["sync", "b", "2001:db8::1-2001:db8::2"]), "b: +2 -0 =0\n");
    assert_eq!(sets.done(&["sync", "c", "2001:db8::/33", "2001:db8:8000::/33"]), "c: +1 -0 =0\n");
    assert_eq!(sets.elements("c"), ["2001:db8::/32"]);
    assert_eq!(sets.done(&["add", "d", "192.0.2.3"]), "d: +1 -0 =0\n");
    let errors = sets.refused(&["add", "d", "192.0.2.16"]);
    assert!(errors.contains("192.0.2.16 is outside 192.0.2.0/28"), "{errors}");
    let errors = sets.refused(&["add", "e", "192.0.2.16"]);
    assert!(errors.contains("hash:ip,port has elements other than"), "{errors}");
    let errors = sets.refused(&["sync", "f", "192.0.2.16"]);
    assert!(
        errors.contains("element 192.0.2.0/24 nomatch") && errors.contains("ipset del"),
        "{errors}"
    );
    assert_eq!(sets.done(&["list", "f"]), "192.0.2.0/24 nomatch\n");
}

#[test]
fn a_full_set_is_synced_within_its_size() {
    if skip_without_root() {
        return;
    }
    let sets = Sets::new("setfull");
    sets.load(&["ipset", "restore"], "create s hash:net maxelem 64\n");
    let list = |start: u32| (0..64).map(|i| format!("10.{start}.{i}.1\n")).collect::<String>();
    assert_eq!(sets.done(&["sync", "s", &sets.file("a", &list(1))]), "s: +64 -0 =0\n");
    assert_eq!(sets.done(&["sync", "s", &sets.file("b", &list(2))]), "s: +64 -64 =0\n");
    assert_eq!(sets.elements("s").len(), 64);
}

const NFT: &str = "table inet filter {\n set banned {\n type ipv4_addr\n flags interval\n\
    elements = { 192.0.2.0/25, 203.0.113.7 }\n }\n\
    set six {\n type ipv6_addr\n }\n\
    set ports {\n type inet_service\n }\n\
    chain input {\n type filter hook input priority 0;\n ip saddr @banned drop\n }\n}\n";

#[test]
fn sets_of_nftables_are_changed_in_one_transaction() {
    if skip_without_root() {
        return;
    }
    let sets = Sets::new("setnft");
    sets.load(&["nft", "-f", "-"], NFT);
    let nft = ["--nft", "inet", "filter"];
    let run = |words: &[&str]| sets.done(&[words, &nft].concat());
    assert_eq!(run(&["add", "banned", "192.0.2.128-192.0.2.200"]), "banned: +1 -1 =1\n");
    assert!(
        sets.nft_list().contains("{ 192.0.2.0-192.0.2.200, 203.0.113.7 }"),
        "{}",
        sets.nft_list()
    );
    assert_eq!(run(&["del", "banned", "192.0.2.1", "203.0.113.0/24"]), "banned: +2 -2 =0\n");
    assert_eq!(run(&["list", "banned"]), "192.0.2.0\n192.0.2.2-192.0.2.200\n");
    let whole = sets.file("whole", "0.0.0.0/0\n");
    assert_eq!(run(&["sync", "banned", &whole]), "banned: +1 -2 =0\n");
    assert!(sets.nft_list().contains("{ 0.0.0.0/0 }"), "{}", sets.nft_list());
    // nft keeps a flag with an interval without an end, which is no comment.
    sets.load(&["nft", "-f", "-"], "flush set inet filter banned\n");
    sets.load(&["nft", "-f", "-"], "add element inet filter banned { 224.0.0.0/3 }\n");
    assert_eq!(run(&["del", "banned", "255.0.0.0/8"]), "banned: +1 -1 =0\n");
    assert_eq!(run(&["sync", "banned", "255.255.255.255", "0.0.0.0"]), "banned: +2 -1 =0\n");
    assert!(sets.nft_list().contains("{ 0.0.0.0, 255.255.255.255 }"), "{}", sets.nft_list());
    assert_eq!(run(&["add", "six", "2001:db8::/127"]), "six: +2 -0 =0\n");
    assert!(sets.nft_list().contains("{ 2001:db8::,\n"), "{}", sets.nft_list());
    let before = sets.nft_list();
    let errors = sets.refused(&["add", "ports", "192.0.2.1", "--nft", "inet", "filter"]);
    assert!(errors.contains("its keys are not ipv4_addr"), "{errors}");
    let errors = sets.refused(&["add", "nowhere", "192.0.2.1", "--nft", "inet", "filter"]);
    assert!(errors.contains("nft list table inet filter"), "{errors}");
    let errors = sets.refused(&["add", "banned", "192.0.2.1", "--nft", "ipv4", "filter"]);
    assert!(errors.contains("unknown family ipv4"), "{errors}");
    assert_eq!(sets.nft_list(), before);
}

#[test]
fn sets_of_a_named_namespace_are_listed_and_swapped() {
    if skip_without_root() {
        return;
    }
    let sets = Sets::new("setlist");
    let outside = |words: &[&str]| {
        let mut command = std::process::Command::new(WEIR);
        command.arg("set").args(words).args(["--netns", sets.namespace.name()]);
        let output = command.output().expect("weir runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(outside(&["list"]), "no sets\n");
    sets.load(&["ipset", "restore"], "create a hash:ip\nadd a 192.0.2.1\ncreate b hash:ip\n");
    sets.load(&["nft", "-f", "-"], NFT);
    let listed = outside(&["list"]);
    assert!(listed.contains("ipset a hash:ip: 1 elements, used by 0 rules and sets\n"), "{listed}");
    assert!(listed.contains("nft inet filter banned\n"), "{listed}");
    let json: Value = serde_json::from_str(&outside(&["list", "--json"])).expect("JSON");
    assert_eq!(json["sets"].as_array().map(Vec::len), Some(5), "{json}");
    assert_eq!(outside(&["swap", "a", "b"]), "swapped a and b\n");
    assert_eq!(
        (outside(&["list", "a"]), outside(&["list", "b"])),
        (String::new(), "192.0.2.1\n".into())
    );
    assert_eq!(outside(&["add", "a", "192.0.2.9"]), "a: +1 -0 =0\n");
    let errors = sets.refused(&["swap", "a", "nowhere"]);
    assert!(errors.contains("there is no set") || errors.contains("swap set a"), "{errors}");
}

#[test]
fn a_change_waits_for_another_and_a_dry_run_does_not() {
    if skip_without_root() {
        return;
    }
    use weir_apply::address_sets::AddressSetsLock;
    let sets = Sets::new("setlock");
    sets.load(&["ipset", "restore"], "create s hash:ip\n");
    let take = || AddressSetsLock::acquire(std::time::Duration::ZERO);
    let lock = sets.namespace.call_inside(take).expect("inside").expect("a free lock");
    let mut waiting = sets.namespace.command(WEIR);
    waiting.args(["set", "add", "s", "192.0.2.1"]).stdout(std::process::Stdio::piped());
    let mut waiting = waiting.spawn().expect("weir runs");
    // This one ends while the other waits.
    assert_eq!(
        sets.done(&["add", "s", "192.0.2.1", "--dry-run"]),
        "s: +1 -0 =0 (dry run: nothing was changed)\n"
    );
    assert!(waiting.try_wait().expect("a process").is_none(), "it waits");
    assert!(sets.elements("s").is_empty());
    drop(lock);
    assert!(waiting.wait().expect("a process").success());
    assert_eq!(sets.elements("s"), ["192.0.2.1"]);
}
