//! The removal of all sessions of a process that still uses them. A program of its own, because its
//! sessions cannot be changed afterwards. Needs root.

use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use weir_kernel::process::PidWithStartTime;
use weir_kernel::{Session, reaper};

/// Entries of a directory whose names contain a word.
fn list_entries(directory: &str, word: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.contains(word)).collect()
}

#[test]
fn nothing_is_created_after_the_removal_of_all_sessions_of_a_process() {
    assert!(rustix::process::geteuid().is_root(), "needs root: it makes network namespaces");
    let session = Session::new().unwrap();
    let run = session.run_name().to_owned();
    let (created, namespaces) = mpsc::channel();
    let creator = std::thread::spawn(move || {
        for number in 0.. {
            // Fails once if the removal begins in the middle of it, and then never returns.
            let Ok(namespace) = session.create_namespace(&format!("n{number}")) else { continue };
            let child = namespace.command("sh").args(["-c", "sleep 1000 & sleep 1000"]).spawn();
            let child = child.ok().and_then(|child| PidWithStartTime::from_pid(child.id()));
            created.send((namespace.inode(), child)).unwrap();
        }
    });
    let limit = Duration::from_secs(60);
    let created: Vec<_> = (0..3).map(|_| namespaces.recv_timeout(limit).unwrap()).collect();

    reaper::remove_sessions_of_this_process();
    let left = |directory| list_entries(directory, &run);
    assert_eq!((left("/run/netns"), left("/run/weir/sessions")), (Vec::new(), Vec::new()));
    for (inode, child) in created {
        assert!(!child.expect("it was started").is_alive());
        let is_inside = |pid: &String| {
            fs::read_link(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|link| link.to_string_lossy() == format!("net:[{inode}]"))
        };
        let inside: Vec<String> = list_entries("/proc", "").into_iter().filter(is_inside).collect();
        assert_eq!(inside, Vec::<String>::new(), "child processes are killed, too");
    }
    // Everything that it began before the removal has ended: it waits for the end of the process.
    while namespaces.recv_timeout(Duration::from_millis(500)).is_ok() {}
    assert!(!creator.is_finished());
    assert_eq!((left("/run/netns"), left("/run/weir/sessions")), (Vec::new(), Vec::new()));
}
