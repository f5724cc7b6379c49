//! The ancestors of a process, and the sockets that a process has open.

use std::fs;

/// A longer chain of parents is invalid.
const MAX_ANCESTORS: usize = 256;

/// A process and its ancestors, as far as `/proc` shows them: itself first.
pub fn list_process_and_ancestors(pid: u32) -> Vec<u32> {
    let mut chain = vec![pid];
    while let Some(parent) = chain.last().copied().and_then(read_parent)
        && parent != 0
        && chain.len() < MAX_ANCESTORS
    {
        chain.push(parent);
    }
    chain
}

fn read_parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses and may hold anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    fields.nth(1)?.parse().ok()
}

/// The inodes of the sockets that a process has open; empty if it has exited or access is denied.
pub fn list_socket_inodes(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let inode = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.flatten().filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_process_has_a_parent_and_the_sockets_that_it_opens() {
        let own = std::process::id();
        let chain = list_process_and_ancestors(own);
        assert!(chain.len() > 1 && chain[0] == own, "{chain:?}");
        let before = list_socket_inodes(own);
        let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).expect("a link");
        let is_it = |inode: &u64| link.to_str() == Some(&format!("socket:[{inode}]"));
        assert!(!before.iter().any(is_it));
        assert!(list_socket_inodes(own).iter().any(is_it));
    }
}
