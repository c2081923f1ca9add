//! Heap allocations by thread, so that a worker can show that it makes none for its packets.
//!
//! A program names [`CountingAllocator`] as its global allocator, which costs each allocation one increment of a number of its thread.
//! **Limits.** It counts what Rust code allocates. DPDK and its drivers are C and take memory by themselves, mostly when a port starts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Without a destructor and known when compiled: reading it never allocates, at no time in the life of a thread.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which also counts for [`heap_allocations`].
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

/// Allocations and reallocations of the calling thread since it began; 0 in a program with another allocator than
/// [`CountingAllocator`].
#[inline]
pub fn heap_allocations() -> u64 {
    ALLOCATIONS.get()
}

#[inline]
fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get().wrapping_add(1));
}

// SAFETY: every call goes to the system's allocator as it came, and counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that the system's allocator asks for; so below.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    fn counted(work: impl FnOnce()) -> u64 {
        let before = heap_allocations();
        work();
        heap_allocations() - before
    }

    #[test]
    fn each_allocation_is_counted_once_and_frees_are_not() {
        assert_eq!(counted(|| drop(black_box(Box::new(1u64)))), 1);
        assert_eq!(counted(|| drop(black_box(vec![0u8; 100_000]))), 1, "zeroed memory");
        let mut grows: Vec<u64> = Vec::with_capacity(1);
        assert_eq!(counted(|| grows.extend(black_box([1, 2, 3]))), 1, "memory that grows");
        assert_eq!(counted(|| drop(black_box(grows))), 0);
        assert_eq!(counted(|| assert_eq!(black_box(3) + 4, 7)), 0);
    }

    #[test]
    fn a_thread_does_not_count_what_others_allocate() {
        let (start, started) = std::sync::mpsc::sync_channel(0);
        let (done, finished) = std::sync::mpsc::sync_channel(0);
        let other = std::thread::spawn(move || {
            started.recv().unwrap();
            let own = counted(|| (0..1000).for_each(|number: u64| drop(black_box(Box::new(number)))));
            done.send(()).unwrap();
            own
        });
        start.send(()).unwrap();
        // What waiting itself allocates comes on top, and is far less than the thousand.
        let here = counted(|| finished.recv().unwrap());
        assert_eq!(other.join().unwrap(), 1000);
        assert!(here < 100, "{here}");
    }
}
