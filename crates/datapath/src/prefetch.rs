//! The one place of this crate that needs `unsafe`: a hint to the processor to load a cache line.
//!
//! Used by the flow cache and the rewrite table to have the lines of a whole batch on their way before the first is read.
//! A prefetch never faults and changes no state that a program can observe, whatever the address; there is no safe
//! intrinsic for it.

#![allow(unsafe_code)]

/// Asks for the cache line that holds `target` to be brought into the first-level cache, for reading.
#[inline(always)]
pub(crate) fn prefetch<T>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the pointer comes from a reference, and a prefetch of any address is free of side effects.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(target).cast::<i8>());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = target;
}
