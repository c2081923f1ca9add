//! The engine as a whole: against a plain model of the logical network, under changes of its tables, and in what it counts and allocates.

mod changes;
mod common;
mod counts;
mod differential;
mod flows;
mod next_hops;
mod profile;
mod reference;
mod regressions;
mod tep_groups;
mod tep_loads;
mod tep_stay;
mod trio;
