//! Rulesets of a namespace, loaded and listed by nft: the oracle of these tests.

use weir_apply::nftables::load_ruleset;
use weir_kernel::nft_socket::NftSocket;
use weir_kernel::{Namespace, Session};
use weir_model::nft::Ruleset;
use weir_syntax::nft;

use crate::kernel_objects::{KernelObjects, read_kernel_objects};

/// A namespace, and nft in it.
pub struct ToolRulesets {
    pub namespace: Namespace,
    pub socket: NftSocket,
    _session: Session,
}

/// What is loaded, as nft lists it and as the kernel has it.
#[derive(Debug, PartialEq)]
pub struct LoadedRuleset {
    pub listing: String,
    pub objects: KernelObjects,
}

impl ToolRulesets {
    pub fn new(role: &str) -> ToolRulesets {
        let session = Session::new().expect("a session");
        let namespace = session.create_namespace(role).expect("a namespace");
        let socket = namespace.call_inside(NftSocket::open).expect("inside").expect("a socket");
        ToolRulesets { namespace, socket, _session: session }
    }

    pub fn load_by_tool(&self, text: &str) -> Result<(), String> {
        let loaded = self.namespace.run_command(&["nft", "-f", "-"], text.as_bytes());
        loaded.map(|_| ()).map_err(|error| error.to_string())
    }

    pub fn flush(&self) {
        self.namespace.run_command(&["nft", "flush", "ruleset"], b"").expect("nft");
    }

    pub fn list(&self) -> String {
        let listed = self.namespace.run_command(&["nft", "list", "ruleset"], b"").expect("nft");
        String::from_utf8(listed).expect("UTF-8")
    }

    fn read(&self) -> LoadedRuleset {
        LoadedRuleset { listing: self.list(), objects: read_kernel_objects(&self.namespace) }
    }

    /// Loads a ruleset by the tool, then by weir into an empty namespace: both results, weir's
    /// first.
    pub fn load_both(&mut self, ruleset: &Ruleset) -> (LoadedRuleset, LoadedRuleset) {
        let text = nft::print(ruleset);
        self.load_by_tool(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let theirs = self.read();
        self.flush();
        load_ruleset(&mut self.socket, ruleset, &[]).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let ours = self.read();
        self.flush();
        (ours, theirs)
    }

    /// Loads a ruleset by both, and compares listing and kernel objects.
    pub fn assert_same_listing_and_bytes(&mut self, name: &str, ruleset: &Ruleset) {
        let (ours, theirs) = self.load_both(ruleset);
        let lines = ours.listing.lines().zip(theirs.listing.lines());
        if let Some((ours, theirs)) = lines.into_iter().find(|(ours, theirs)| ours != theirs) {
            panic!("{name}: listed as\n{ours}\nafter weir, as\n{theirs}\nafter nft -f");
        }
        assert_eq!(ours.listing.lines().count(), theirs.listing.lines().count(), "{name}");
        ours.objects.assert_equal(&theirs.objects, name);
    }
}

pub fn parse_nft(text: &str) -> Ruleset {
    nft::parse(text).unwrap_or_else(|errors| {
        panic!("{}", weir_syntax::render_diagnostics(&errors, "text", text, false))
    })
}
