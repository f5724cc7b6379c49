//! Checks of the path between a study's clients and servers.

use crate::StudyError;
use crate::connection_path::{ConnectionPath, MAX_ONE_ARMED_NEIGHBOURS};
use crate::loaded_study::LoadedStudy;

impl LoadedStudy {
    /// Whether its subjects' paths fit its traffic.
    pub(crate) fn check_connection_paths(&self) -> Result<(), StudyError> {
        for name in &self.study.subjects {
            let (name, at) = (name.get_ref(), name.span().start);
            if let Some(why) = self.unsupported_connection_path_reason(name) {
                let message = format!("subject `{name}` {why}");
                return Err(self.study_error_at_offset(at, message));
            }
        }
        Ok(())
    }

    /// Why a subject's path does not go with this study.
    pub(crate) fn unsupported_connection_path_reason(&self, name: &str) -> Option<String> {
        let subject = &self.subjects.0[name];
        let load = match (subject.path, self.study.connection_load()) {
            (ConnectionPath::Gateway, _) => return None,
            (_, None) => {
                return Some("has a `path`, which takes `[traffic]` of connections".to_owned());
            }
            (_, Some(load)) => load,
        };
        if load.kernel_socket_clients.is_some() {
            return Some("has a `path`: sockets only go through a gateway".to_owned());
        }
        let endpoints = &load.endpoints;
        let neighbours = endpoints.client_count.saturating_add(endpoints.server_count);
        match subject.path {
            ConnectionPath::Direct if !subject.loads_no_rules => Some(
                "takes the direct path, where nothing can filter: it must be a `baseline`"
                    .to_owned(),
            ),
            ConnectionPath::OneArmed if neighbours > MAX_ONE_ARMED_NEIGHBOURS => Some(format!(
                "takes the one-armed path, where clients and servers are neighbours: at most \
                 {MAX_ONE_ARMED_NEIGHBOURS} together, not {neighbours}"
            )),
            _ => None,
        }
    }
}
