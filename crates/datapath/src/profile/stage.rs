//! The stages that cycles are attributed to.

macro_rules! stages {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A stage of the data path.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Stage {
            $($(#[doc = $doc])+ $variant,)+
            /// None of them.
            Other,
        }

        impl Stage {
            /// Every stage, in the order in which a packet passes them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in the CLI and in reports, as `flow-cache`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Other => "other",
                }
            }

            /// One sentence on what belongs to it.
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)+
                    Self::Other => {
                        "What no stage claims: the worker's loop, commands, housekeeping, the profile's own sums."
                    }
                }
            }
        }
    };
}

stages! {
    /// Receiving a burst of packets from a port.
    Receive = "rx",
    /// Polls that found nothing, in loops that found packets elsewhere.
    EmptyPolls = "empty-polls",
    /// Headers checked, flow keys made and hashed, of a batch.
    Parse = "parse",
    /// Flow keys looked up, of a batch, and once more for a packet whose flow was not there.
    FlowCache = "flow-cache",
    /// What a packet came in by, of one that has to be decided.
    Ingress = "ingress",
    /// A segment's logical switch: which port or tunnel a MAC address is behind.
    Switch = "switch",
    /// A tier-1 gateway: longest prefix match.
    Tier1 = "tier-1",
    /// A tier-0 gateway: longest prefix match.
    Tier0 = "tier-0",
    /// One of several equal ways, by the flow's hash.
    EqualCost = "ecmp",
    /// The MAC address of a next hop on an uplink.
    Neighbor = "neighbor",
    /// The tunnel to another TEP, and its next hop.
    Tunnel = "tunnel",
    /// A decision made into a rewrite, or found to be one that is there already.
    Compile = "compile",
    /// The flow and its rewrite put into the flow cache.
    Insert = "insert",
    /// Answers, copies, fragments, punts and drops that were decided.
    Answer = "answer",
    /// Rewrites replayed on the packets of a batch or on one that was decided; frames put where they wait for their port.
    Rewrite = "rewrite",
    /// Handing a burst of frames to a port.
    Transmit = "tx",
    /// Buffers of dropped packets given back.
    Free = "free",
}
