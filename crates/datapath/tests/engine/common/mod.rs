//! What the tests share: headers as bytes, plans, random traffic, and a node that records what its engine does.

pub(crate) mod bytes;
pub(crate) mod dice;
pub(crate) mod node;
pub(crate) mod plans;
pub(crate) mod traffic;
