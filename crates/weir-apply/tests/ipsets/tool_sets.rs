//! Sets of a namespace, loaded and listed by ipset: the oracle of these tests.

use weir_apply::ipsets::load_sets;
use weir_kernel::ipset_socket::IpsetSocket;
use weir_kernel::{Namespace, Session};
use weir_model::{IpSet, SetOption, Span};
use weir_syntax::ipset;

/// A namespace, and the tool in it.
pub struct ToolSets {
    pub namespace: Namespace,
    pub socket: IpsetSocket,
    _session: Session,
}

impl ToolSets {
    pub fn new(role: &str) -> ToolSets {
        let session = Session::new().expect("a session");
        let namespace = session.create_namespace(role).expect("a namespace");
        let socket = namespace.call_inside(IpsetSocket::open).expect("inside").expect("a socket");
        ToolSets { namespace, socket, _session: session }
    }

    pub fn restore(&self, text: &str) {
        self.try_restore(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    pub fn try_restore(&self, text: &str) -> Result<(), String> {
        let restored = self.namespace.run_command(&["ipset", "restore"], text.as_bytes());
        restored.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Loads a text of [`SET_TEXTS`](crate::every_type::SET_TEXTS) by the tool; false if this
    /// kernel lacks its type, which weir then says, too.
    pub fn restore_if_type_exists(&mut self, text: &str) -> bool {
        let Err(error) = self.try_restore(text) else { return true };
        assert!(error.contains("set type not supported"), "{text}: {error}");
        let refused = load_sets(&mut self.socket, &parse_sets(text)).expect_err("no such type");
        assert!(refused.to_string().contains("the kernel has no such set type"), "{refused}");
        false
    }

    pub fn save(&self) -> String {
        let saved = self.namespace.run_command(&["ipset", "save"], b"").expect("ipset save");
        String::from_utf8(saved).expect("UTF-8")
    }

    pub fn destroy_all(&self) {
        // A list lets go of its members when it is flushed; when it is destroyed, later.
        for command in ["flush", "destroy"] {
            self.namespace.run_command(&["ipset", command], b"").expect(command);
        }
    }
}

/// Sets of a text.
pub fn parse_sets(text: &str) -> Vec<IpSet> {
    ipset::parse(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

/// Sets without places in a text, without `forceadd`, and without the seconds that are left of a
/// timeout.
pub fn without_places_and_seconds(mut sets: Vec<IpSet>) -> Vec<IpSet> {
    for set in &mut sets {
        set.span = Span::NONE;
        // ipset 7.17 does not print it.
        set.options.retain(|option| *option != SetOption::ForceAdd);
        for element in std::sync::Arc::make_mut(&mut set.elements) {
            element.span = Span::NONE;
            element.timeout = element.timeout.map(|seconds| seconds.min(1));
        }
    }
    sets
}

/// A listing without the seconds that are left of a timeout; the texts here have none but these.
pub fn without_seconds(listing: &str) -> String {
    let mut out = listing.to_owned();
    for seconds in ["2000000", "1999999", "1999998", "1999997", "1999996", "1999995"] {
        out = out.replace(&format!(" timeout {seconds}"), " timeout LEFT");
    }
    out
}

/// The lines of `ipset save` without the number that the kernel draws, elements sorted.
pub fn comparable_listing(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = without_seconds(text)
        .lines()
        .map(|line| match line.split_once(" initval ") {
            Some((before, after)) => {
                let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
                format!("{before} {rest}").trim_end().to_owned()
            }
            None => line.to_owned(),
        })
        .collect();
    lines.sort();
    lines
}

/// The initial value of the hash: equal values give equal orders.
pub fn has_initval(set: &IpSet) -> bool {
    set.options.iter().any(|option| matches!(option, SetOption::InitVal(_)))
}
