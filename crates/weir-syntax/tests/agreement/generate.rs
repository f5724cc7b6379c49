//! Lines generated from the option tables: mostly valid, often wrong in one place.

use weir_model::{Family, Hook, TableName};
use weir_syntax::iptables::extension_descriptions::{ExtensionDescription, OptionDescription};
use weir_testkit::option_samples::ModuleOptionSamples;
use weir_testkit::random_ruleset::TestRng;

use crate::tool::Line;
use crate::values::{
    ADDRESSES_V4, ADDRESSES_V6, BAD, BAD_ADDRESSES_V4, BAD_ADDRESSES_V6, SMALL_NUMBERS,
};

/// A module with the values of its options.
pub struct ModuleSubject {
    pub description: ExtensionDescription,
    pub samples: ModuleOptionSamples,
}

/// Lines of a module, or of the base options alone.
pub fn lines(module: Option<&ModuleSubject>, family: Family, seed: u64, count: usize) -> Vec<Line> {
    let mut random = TestRng::new(seed);
    // The base options have no values of their own to vary: more lines of them.
    let count = if module.is_some() { count } else { count * 4 };
    (0..count).map(|_| line(module, family, &mut random)).collect()
}

fn line(subject: Option<&ModuleSubject>, family: Family, random: &mut TestRng) -> Line {
    let module = subject.map(|s| &s.description);
    let mut tables = TableName::ALL.to_vec();
    let mut hooks = Vec::new();
    if let Some(m) = module {
        if !m.tables.is_empty() && random.chance_percent(90) {
            tables = m.tables.to_vec();
        } else if m.tables.is_empty() && random.chance_percent(60) {
            tables = vec![TableName::Filter];
        }
        if !m.hooks.is_empty() && random.chance_percent(90) {
            hooks = m.hooks.to_vec();
        }
    }
    let has = |t: &TableName| hooks.is_empty() || t.hooks().iter().any(|h| hooks.contains(h));
    tables.retain(has);
    if tables.is_empty() {
        tables = vec![TableName::Mangle];
    }
    let table = random.pick(&tables);
    if module.is_none() && random.chance_percent(6) {
        return Line { table, text: chain_command(random) };
    }
    let mut own: Vec<Hook> = table.hooks().to_vec();
    own.retain(|h| hooks.is_empty() || hooks.contains(h));
    let chain = if own.is_empty() || random.chance_percent(8) {
        "user"
    } else {
        random.pick(&own).chain_name()
    };
    let mut words = vec![format!("-A {chain}")];
    let base = if module.is_some() { 15 } else { 55 };
    protocol(module, family, base, random, &mut words);
    base_options(chain, family, base, random, &mut words);
    match subject {
        Some(s) => module_words(s, table, family, random, &mut words),
        None => jump(table, random, &mut words),
    }
    Line { table, text: words.join(" ") }
}

fn protocol(
    module: Option<&ExtensionDescription>,
    family: Family,
    base: usize,
    random: &mut TestRng,
    words: &mut Vec<String>,
) {
    let names = ["tcp", "udp", "6", "17", "TCP", "icmp", "ipv6-icmp", "esp", "sctp", "all", "47"];
    let wrong = ["nope", "256", "-1", "0x6", "ip", "", "tcp,udp"];
    let needed = module.map_or(&[][..], |m| m.protocols);
    let name = if !needed.is_empty() && random.chance_percent(92) {
        random.pick(needed).to_string()
    } else if random.chance_percent(base + 10) {
        random.pick(&names).to_owned()
    } else if random.chance_percent(3) {
        random.pick(&wrong).to_owned()
    } else {
        return;
    };
    let _ = family;
    let negation = if random.chance_percent(5) { "! " } else { "" };
    let option = random.pick(&["-p", "-p", "-p", "--protocol", "--proto"]);
    let join = match (option, random.number_below(25)) {
        ("-p", 0) => "",
        ("--protocol" | "--proto", 0) => "=",
        _ => " ",
    };
    let name = if join == " " { quoted(&name) } else { name };
    words.push(format!("{negation}{option}{join}{name}"));
}

fn base_options(
    chain: &str,
    family: Family,
    base: usize,
    random: &mut TestRng,
    words: &mut Vec<String>,
) {
    let (good, bad) = match family {
        Family::V4 => (ADDRESSES_V4, BAD_ADDRESSES_V4),
        Family::V6 => (ADDRESSES_V6, BAD_ADDRESSES_V6),
    };
    let devices = ["eth0", "ppp+", "lo", "+", "a-device-name15", "eth0.100", "eth0:1", "eth+0"];
    let bad_devices = ["", "a-device-name-16"];
    for (option, is_device) in [("-s", false), ("-d", false), ("-i", true), ("-o", true)] {
        if !random.chance_percent(base) {
            continue;
        }
        let misplaced = match option {
            "-i" => matches!(chain, "OUTPUT" | "POSTROUTING"),
            "-o" => matches!(chain, "PREROUTING" | "INPUT"),
            _ => false,
        };
        if misplaced && random.chance_percent(90) {
            continue;
        }
        let (good, bad) = if is_device { (&devices[..], &bad_devices[..]) } else { (good, bad) };
        let value = if random.chance_percent(93) { random.pick(good) } else { random.pick(bad) };
        let negation = if random.chance_percent(12) { "! " } else { "" };
        let long = match option {
            "-s" => "--source",
            "-d" => "--dst",
            "-i" => "--in-interface",
            _ => "--out-int",
        };
        let option = if random.chance_percent(85) { option } else { long };
        let join = match (option.len(), random.number_below(12)) {
            (2, 0) if !value.is_empty() => "",
            (n, 1) if n > 2 => "=",
            _ => " ",
        };
        let value = if join == " " { quoted(value) } else { value.to_owned() };
        words.push(format!("{negation}{option}{join}{value}"));
    }
    if random.chance_percent(base / 8) {
        words.push(random.pick(&["-f", "! -f", "--fragments", "-v", "-n", "-w"]).to_owned());
    }
    if random.chance_percent(base / 8) {
        words.push(random.pick(&MIXED_WORDS).to_owned());
    }
}

/// Counters, matches and stray words, in every form that an argument has.
const MIXED_WORDS: [&str; 17] = [
    "-c 5 6",
    "-c 5,6",
    "-c5,6",
    "-c5 6",
    "-c 5 -v",
    "-c ,6",
    "--set-counters 7 8",
    "--set-counters=7,8",
    "! !",
    "--",
    "stray",
    "-mmark --mark 1",
    "--match=mark --mark -0",
    "-m mark stray --mark 1",
    "-m nope stray",
    "-m nope ! stray",
    "-m -nope",
];

/// Commands that change chains, and names that a chain may not have.
fn chain_command(random: &mut TestRng) -> String {
    let new = format!("new{}", random.next_u64() % 1_000_000_000);
    let names = [&new, "LOG", "MARK", "standard", "ACCEPT", "-x", ""];
    match random.number_below(8) {
        0 | 1 => format!("-N {}", quoted(random.pick(&names))),
        2 => format!("-N{new}"),
        3 => format!("--new-chain={}", random.pick(&names[..5])),
        _ => {
            let forms = ["-F user", "-Fuser", "-Z user", "-Zuser", "--flush=user", "--zero=user"];
            random.pick(&forms).to_owned()
        }
    }
}

fn jump(table: TableName, random: &mut TestRng, words: &mut Vec<String>) {
    let _ = table;
    let targets = ["-j ACCEPT", "-j RETURN", "-j DROP", "-j user", "-g user", "--jump ACCEPT", ""];
    let targets: Vec<&str> = targets.into_iter().chain(["-guser", "--goto=user"]).collect();
    let bad = [
        "-j nope",
        "-j nope stray",
        "-j user stray",
        "-j INPUT",
        "-j standard",
        "-g ACCEPT",
        "-j ACCEPT -j DROP",
        "-j",
        "! -j ACCEPT",
        "-jACCEPT",
        "-juser",
        "-jLOG --log-prefix x",
        "--jump=ACCEPT",
        "--jump=user",
    ];
    let target = if random.chance_percent(92) { random.pick(&targets) } else { random.pick(&bad) };
    // A chain that jumps to itself is a loop of its own test.
    let target =
        if words[0] == "-A user" { target.replace("user", "ACCEPT") } else { target.into() };
    if !target.is_empty() {
        words.push(target);
    }
}

fn module_words(
    subject: &ModuleSubject,
    table: TableName,
    family: Family,
    random: &mut TestRng,
    words: &mut Vec<String>,
) {
    let m = &subject.description;
    words.push(format!("{} {}", if m.is_target { "-j" } else { "-m" }, m.name));
    if m.name == "TCPMSS" && random.chance_percent(90) {
        let last = words.len() - 1;
        words.insert(last, "-m tcp --tcp-flags SYN,RST SYN".to_owned());
    }
    let mut chosen: Vec<&OptionDescription> = Vec::new();
    let mut ids: Vec<u8> = m.options.iter().map(|o| o.id).collect();
    ids.sort_unstable();
    ids.dedup();
    // Depends on what is pinned on the host.
    ids.retain(|id| !m.options.iter().any(|o| o.id == *id && o.name == "object-pinned"));
    let optional = if ids.len() > 4 { 22 } else { 55 };
    for id in &ids {
        let rows: Vec<&OptionDescription> = m.options.iter().filter(|o| o.id == *id).collect();
        let wanted = if rows.iter().any(|o| o.mandatory) { 95 } else { optional };
        if random.chance_percent(wanted) {
            chosen.push(random.pick(&rows));
        }
    }
    if chosen.is_empty() && !m.options.is_empty() && random.chance_percent(85) {
        let all: Vec<&OptionDescription> =
            m.options.iter().filter(|o| o.name != "object-pinned").collect();
        chosen.push(random.pick(&all));
    }
    if random.chance_percent(6) && !chosen.is_empty() {
        chosen.push(chosen[0]);
    }
    // The tool reads options in order, and some of them change what earlier ones said.
    while !chosen.is_empty() {
        let next = chosen.swap_remove(random.number_below(chosen.len()));
        words.push(option_words(subject, next, family, random));
    }
    if random.chance_percent(2) {
        words.push(random.pick(&["--nope", "--nope 5", "! --nope"]).to_owned());
    }
    if !m.is_target && random.chance_percent(60) {
        // No jumps here: what a chain of one's own may hold depends on who jumps to it.
        let drop = if table == TableName::Nat { "-j RETURN" } else { "-j DROP" };
        words.push(random.pick(&["-j ACCEPT", "-j RETURN", drop]).to_owned());
    }
}

fn option_words(
    subject: &ModuleSubject,
    o: &OptionDescription,
    family: Family,
    random: &mut TestRng,
) -> String {
    let mut name = o.name.to_owned();
    if random.chance_percent(8) {
        let keep = 1 + random.number_below(name.len());
        name.truncate(keep);
        // Of these the tool prints its help or version, and says that all is well.
        if "help".starts_with(&name) || "version".starts_with(&name) {
            name = o.name.to_owned();
        }
    }
    let negation = if random.chance_percent(if o.invertible { 22 } else { 3 }) { "! " } else { "" };
    let mut out = format!("{negation}--{name}");
    if o.argument_count == 0 {
        return out;
    }
    let value = value(subject, o, family, random);
    let equals = random.chance_percent(6) && o.argument_count == 1 && !value.contains([' ', '"']);
    out.push_str(if equals { "=" } else { " " });
    out.push_str(&if equals { value } else { quoted(&value) });
    if o.argument_count == 2 && random.chance_percent(97) {
        out.push(' ');
        out.push_str(&second(subject, o, random));
    }
    out
}

/// The names of an option.
fn spellings<'m>(m: &'m ExtensionDescription, o: &OptionDescription) -> Vec<&'m str> {
    // Its own first: spellings may take other words.
    let (own, others): (Vec<_>, Vec<_>) =
        m.options.iter().filter(|other| other.id == o.id).partition(|other| other.name == o.name);
    own.into_iter().chain(others).map(|o| o.name).collect()
}

fn second(subject: &ModuleSubject, o: &OptionDescription, random: &mut TestRng) -> String {
    let spellings = spellings(&subject.description, o);
    let (good, bad) = subject.samples.second_argument_values(&spellings);
    let values = if random.chance_percent(93) { good } else { bad };
    assert!(!values.is_empty(), "testdata/options has no second values of --{}", o.name);
    quoted(&values[random.number_below(values.len())])
}

fn value(
    subject: &ModuleSubject,
    o: &OptionDescription,
    family: Family,
    random: &mut TestRng,
) -> String {
    let m = &subject.description;
    let family = if family == Family::V4 { "v4" } else { "v6" };
    // Other paths and names depend on the host.
    let of_host = matches!((m.name, o.name), (_, "path") | ("connlabel", "label"))
        || (m.name == "CT" && matches!(o.name, "helper" | "timeout"));
    let samples = subject.samples.option_values(&spellings(m, o), family).unwrap_or_default();
    // Rules of one name share an object, and the kernel refuses those that differ.
    let names_shared_object = samples.iter().any(|value| value.contains(UNIQUE_NAME_MARK));
    if !of_host && !names_shared_object && !random.chance_percent(86) {
        return random.pick(BAD).to_owned();
    }
    match samples.len() {
        0 => random.pick(SMALL_NUMBERS).to_owned(),
        count => {
            let unique = format!("h{}", random.next_u64() % 1_000_000_000);
            samples[random.number_below(count)].replace(UNIQUE_NAME_MARK, &unique)
        }
    }
}

/// In values of `testdata/options`, where a name of the rule's own is.
const UNIQUE_NAME_MARK: &str = "{unique}";

/// A word as it must be written to be read as it is.
fn quoted(word: &str) -> String {
    if !word.is_empty() && !word.contains([' ', '"', '\\', '\t']) {
        return word.to_owned();
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
