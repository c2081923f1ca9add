//! Addresses of this node that another station uses too (RFC 5227 section 2.4): two TEPs with one address, for instance. The node keeps its
//! address, as routers do, and says so by an alarm, until nothing was heard of the other station for [`QUIET`].
//!
//! Only the control thread comes here.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_wire::MacAddr;

use super::alarms::{AlarmKind, Alarms};

/// How long nothing is heard of the other station before the conflict is taken to be over: longer than neighbours keep what they know unasked.
const QUIET: Duration = Duration::from_secs(60);

/// The conflicts that there are, with when each was last heard of.
#[derive(Debug, Default)]
pub(super) struct Conflicts(BTreeMap<IpAddr, Timestamp>);

impl Conflicts {
    /// Another station said that it has an address of this node.
    pub(super) fn heard(&mut self, address: IpAddr, mac: MacAddr, alarms: &mut Alarms, now: Timestamp) {
        self.0.insert(address, now);
        let sentence = format!(
            "station {mac} uses {address}, which is an address of this node; packets go to either: give one of the two another address"
        );
        alarms.raise(AlarmKind::AddressConflict, &address.to_string(), sentence);
    }

    /// Ends those that nothing was heard of for long.
    pub(super) fn advance(&mut self, alarms: &mut Alarms, now: Timestamp) {
        self.0.retain(|address, heard| {
            let goes_on = now.since(*heard) < QUIET;
            if !goes_on {
                let sentence =
                    format!("no other station was heard to use {address} for {} s", QUIET.as_secs());
                alarms.clear(AlarmKind::AddressConflict, &address.to_string(), &sentence);
            }
            goes_on
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_lasts_until_nothing_was_heard_of_it_for_a_minute() {
        let (mut conflicts, mut alarms) = (Conflicts::default(), Alarms::default());
        let (address, mac) = (IpAddr::from([172, 16, 1, 10]), MacAddr([2, 0, 0, 0, 0, 9]));
        let open =
            |alarms: &Alarms| alarms.open().map(|(_, object, _)| object.to_owned()).collect::<Vec<_>>();
        conflicts.heard(address, mac, &mut alarms, Timestamp::from_secs(10));
        conflicts.advance(&mut alarms, Timestamp::from_secs(60));
        conflicts.heard(address, mac, &mut alarms, Timestamp::from_secs(60));
        conflicts.advance(&mut alarms, Timestamp::from_secs(119));
        assert_eq!(open(&alarms), ["172.16.1.10"]);
        conflicts.advance(&mut alarms, Timestamp::from_secs(120));
        assert_eq!(open(&alarms), Vec::<String>::new());
    }
}
