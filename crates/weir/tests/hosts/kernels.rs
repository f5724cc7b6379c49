//! Boots between kernels. A boot is simulated: the listening ssh server ends, and another one
//! starts with another boot ID.

use super::*;

/// As short as a study can be that has something to draw.
const ONCE: &str = r#"
title = "A very small study"
question = "Which kernel ran it?"
subjects = ["linear"]
[axes.pattern]
title = "which packets: none that is listed, or all of them"
values = ["far", "uniform"]
[ruleset]
axes = []
command = '"$WEIR" example rules --count 16 --seed "$SEED" > "$RULESET"'
[traffic]
axes = ["pattern"]
command = '"$WEIR" traffic "$RULESET" --pattern "$PATTERN" --count 64 --seed "$SEED" -o "$FRAMES"'
[presets.once]
label = "for a test"
trial_seconds = 0.05
blocks = 1
loads = 0
"#;

/// `FOLDER` holds what the server needs. It removes `sshd.pid` after it has closed its socket, and
/// writes it before it takes connections.
const BOOT: &str = r#"set -e
cd FOLDER
echo boot >> boots
kill "$(cat sshd.pid)"
while [ -e sshd.pid ]; do :; done
id=$PWD/boot_id.$$
cat /proc/sys/kernel/random/uuid > "$id"
exec unshare --mount sh -c '
    mount --bind "$1" /proc/sys/kernel/random/boot_id && exec SSHD -f sshd_config
' sh "$id"
"#;

impl Lan {
    /// The file of the hosts with kernels, each booted by a command.
    fn kernels(&self, boot_limit_seconds: u32, kernels: &[(&str, &str)]) -> PathBuf {
        let one = |(name, boot): &(&str, &str)| format!("{{ name = '{name}', boot = '{boot}' }}");
        let list: Vec<String> = kernels.iter().map(one).collect();
        let list = list.join(", ");
        let more = format!("boot_limit_seconds = {boot_limit_seconds}\nkernels = [{list}]\nssh =");
        self.hosts("ssh =", &more)
    }

    fn with_boots(name: &str) -> Option<(Lan, String)> {
        let lan = Lan::new(name)?;
        fs::write(lan.folder.join("study/study.toml"), ONCE).unwrap();
        let folder = lan.folder.display().to_string();
        fs::write(
            lan.folder.join("boot.sh"),
            BOOT.replace("FOLDER", &folder).replace("SSHD", SSHD),
        )
        .unwrap();
        let boot = format!("sh {folder}/boot.sh");
        Some((lan, boot))
    }

    fn boots(&self) -> usize {
        fs::read_to_string(self.folder.join("boots")).unwrap_or_default().lines().count()
    }
}

#[test]
fn a_study_is_run_once_for_each_kernel() {
    let Some((lan, boot)) = Lan::with_boots("hosts-kernels") else { return };
    let before = (Lan::devices(&lan.ends), Lan::devices(&lan.firewall));
    let hosts = lan.kernels(60, &[("one", &boot), ("two", &boot)]);
    let run = |more: &[&str]| lan.run("out", "once", Some(&hosts)).args(more).output().unwrap();
    let whole = |output: &Output| assert!(output.status.success(), "{}", said(output));
    let out = lan.folder.join("out");
    let record = |name: &str| run_folder::load_record_recomputing_claims(&out.join(name)).unwrap();

    let ended = run(&[]);
    whole(&ended);
    let release = record("one").run.firewall_environment().kernel.clone();
    assert!(said(&ended).contains(&format!("one and two ran the same kernel release, {release}")));
    assert_eq!(lan.boots(), 2);
    for name in ["one", "two"] {
        assert!(record(name).run.complete && out.join(name).join("report.html").exists());
    }
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    for words in ["2 runs in one plot", "one: ", "two: "] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!((Lan::devices(&lan.ends), Lan::devices(&lan.firewall)), before);

    // Finished runs are not repeated, and nothing is booted for them.
    let ended = run(&[]);
    assert!(ended.status.code() == Some(2) && said(&ended).contains("not empty"));
    assert_eq!(lan.boots(), 2);

    // Finished kernels are not repeated.
    let one = fs::read(out.join("one/trials.jsonl.gz")).unwrap();
    fs::remove_dir_all(out.join("two")).unwrap();
    whole(&run(&["--resume"]));
    assert!(record("two").run.complete);
    assert_eq!((lan.boots(), fs::read(out.join("one/trials.jsonl.gz")).unwrap() == one), (3, true));

    // One that was interrupted continues after a boot; on another kernel it would not be one run.
    let text = fs::read_to_string(out.join("two/run.json")).unwrap();
    let cut_short = text.replace("\"complete\": true", "\"complete\": false");
    assert_ne!(cut_short, text);
    fs::write(out.join("two/run.json"), cut_short.replace(&release, "0.0")).unwrap();
    let ended = run(&["--resume"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(said(&ended).contains("it was started on kernel 0.0"), "{}", said(&ended));
    fs::write(out.join("two/run.json"), cut_short).unwrap();
    whole(&run(&["--resume"]));
    assert!(record("two").run.complete);
    assert_eq!(lan.boots(), 5);
}

#[test]
fn a_host_that_did_not_reboot_is_detected() {
    let Some((lan, boot)) = Lan::with_boots("hosts-not-booted") else { return };
    // The other test shows that this command boots.
    let stops = boot.replace("sh ", r"sed /^exec/,\$d ") + " | sh";
    let cases = [
        ("true", "it is still running, and was not rebooted"),
        ("exit 7", "`boot` ended with exit status: 7"),
        ("sleep 60", "`boot` has not ended"),
        (stops.as_str(), "it does not answer"),
    ];
    for (boot, why) in cases {
        let hosts = lan.kernels(2, &[("one", boot)]);
        let ended = lan.run("out", "once", Some(&hosts)).output().unwrap();
        let said = said(&ended);
        assert_eq!(ended.status.code(), Some(2), "{boot}: {said}");
        assert!(said.contains("hosts.toml:9: ") && said.contains(why), "{boot}: {said}");
        assert!(!lan.folder.join("out").exists(), "{boot}: no records of nothing");
    }
    assert_eq!(lan.boots(), 1);
}

#[test]
fn kernel_list_errors_are_reported_before_any_reboot() {
    let Some((lan, boot)) = Lan::with_boots("hosts-kernels-wrong") else { return };
    let boot = boot.as_str();
    let refused = |kernels: &[(&str, &str)], preset: &str, more: &[&str], why: &str| {
        let hosts = lan.kernels(60, kernels);
        let ended = lan.run("out", preset, Some(&hosts)).args(more).output().unwrap();
        let said = said(&ended);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    };
    refused(&[("a/b", boot)], "once", &[], "hosts.toml:9: `name` is \"a/b\": it takes letters");
    let twice = [("a", boot), ("a", boot)];
    refused(&twice, "once", &[], "hosts.toml:9: `kernels` has `a` twice as `name`");
    let one = [("a", boot)];
    refused(&one, "no-such", &[], "no preset `no-such`");
    refused(&one, "once", &["--aa", "linear"], "hosts.toml:9: a subject is measured");
    assert_eq!(lan.boots(), 0);
}
