//! How failures of tunnels and TEPs are noticed: what the schema did not judge already.

use super::Scope;
use crate::draft::Slot;
use crate::plan;
use crate::problem::{Findings, Path};

/// BFD needs tunnels to watch.
pub(super) fn check_bfd(scope: &Scope<'_>, findings: &mut Findings) -> Option<plan::Bfd> {
    let Slot::Present(bfd) = &scope.draft.bfd else { return None };
    require_teps(scope, "bfd", findings);
    Some(plan::Bfd { interval_ms: bfd.interval_ms, multiplier: bfd.multiplier })
}

/// High availability needs TEPs that can fail.
pub(super) fn check_teps(scope: &Scope<'_>, findings: &mut Findings) -> Option<plan::TepHighAvailability> {
    let Slot::Present(profile) = &scope.draft.tep_high_availability else { return None };
    require_teps(scope, "tep-high-availability", findings);
    Some(plan::TepHighAvailability {
        failover_timeout_s: profile.failover_timeout_s,
        auto_recovery: profile.auto_recovery,
        auto_recovery_initial_wait_s: profile.auto_recovery_initial_wait_s,
        auto_recovery_max_backoff_s: profile.auto_recovery_max_backoff_s,
    })
}

fn require_teps(scope: &Scope<'_>, section: &'static str, findings: &mut Findings) {
    if scope.local_teps().next().is_none() && !scope.teps.incomplete() {
        let message = "there is no TEP whose tunnels could be watched; add TEPs, or remove the section";
        findings.report(Path::root().field(section), message);
    }
}
