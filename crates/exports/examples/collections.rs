//! Rust's own collections, of types of every alignment, from threads that free each other's: the daily work of a
//! program in Rust must run on every library of the crate, in debug and in release.
//!
//!     cargo run -p vcmalloc --features hardened --example collections

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::ffi::{CString, OsString};
use std::fmt::Debug;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::{Arc, Mutex, RwLock, mpsc};
use std::thread;

#[global_allocator]
static ALLOCATOR: vcmalloc::Vcmalloc = vcmalloc::Vcmalloc;

macro_rules! aligned {
    ($($name:ident $align:literal),+) => { $(
        #[repr(align($align))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        struct $name(u8);

        impl From<u8> for $name {
            fn from(value: u8) -> Self {
                $name(value)
            }
        }
    )+ };
}

// Up to 16 all alignments go the same way; `layouts` has the rest of them.
aligned!(By32 32, By128 128);

trait Value: Copy + Debug + Ord + std::hash::Hash + From<u8> + Send + Sync + 'static {}
impl<T: Copy + Debug + Ord + std::hash::Hash + From<u8> + Send + Sync + 'static> Value for T {}

fn main() {
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(everything)).collect();
    everything();
    threads.into_iter().for_each(|thread| thread.join().expect("no thread fails"));
    println!("all collections are kept");
}

fn everything() {
    // The least that there is.
    drop(Box::new(5u64));
    drop(vec![1u32, 2, 3]);
    drop(Arc::<str>::from("shared"));
    of::<u8>();
    of::<u64>();
    of::<u128>();
    of::<By32>();
    of::<By128>();
    texts();
    trees_of_trees();
    layouts();
}

/// All that `alloc` and `std` keep values in, grown, shrunk, turned into each other and dropped.
fn of<T: Value>() {
    let values = |count: usize| (0..count).map(|at| T::from(at as u8));
    let mut vec: Vec<T> = values(100).collect();
    vec.extend(values(1000));
    vec.truncate(17);
    vec.shrink_to_fit();
    vec.reserve_exact(5);
    let boxed: Box<[T]> = vec.into_boxed_slice();
    let shared: Arc<[T]> = Arc::from(boxed.clone());
    let counted: Rc<[T]> = Rc::from(boxed.to_vec());
    assert_eq!((&*shared, &*counted), (&*boxed, &*boxed));
    let mut deque: VecDeque<T> = boxed.into_vec().into();
    values(40).for_each(|value| deque.push_front(value));
    deque.make_contiguous().sort();
    let mut heap = BinaryHeap::from(Vec::from(deque));
    heap.extend(values(30));
    assert!(heap.into_sorted_vec().is_sorted());
    let mut list: LinkedList<T> = values(50).collect();
    let tail = list.split_off(20);
    assert_eq!(list.len() + tail.len(), 50);
    let mut map: BTreeMap<T, Box<T>> = values(200).map(|value| (value, Box::new(value))).collect();
    map.retain(|value, _| *value != T::from(3));
    assert!(map.iter().all(|(key, value)| *key == **value));
    let set: BTreeSet<T> = map.into_keys().collect();
    let mut hashes: HashMap<T, Vec<T>> = set.iter().map(|value| (*value, vec![*value; 3])).collect();
    hashes.shrink_to_fit();
    let hashed: HashSet<T> = hashes.into_values().flatten().collect();
    assert_eq!(hashed.len(), set.len());
    let (give, take) = mpsc::channel::<Box<T>>();
    let other = thread::spawn(move || take.iter().map(|value| *value).max());
    values(100).for_each(|value| give.send(Box::new(value)).expect("it listens"));
    drop(give);
    assert_eq!(other.join().expect("it ends"), Some(T::from(99)));
    let weak = Arc::downgrade(&Arc::new(Mutex::new(T::from(1))));
    assert!(weak.upgrade().is_none());
    let object: Box<dyn Fn(T) -> bool> = Box::new(move |value| set.contains(&value));
    assert!(object(T::from(1)));
}

fn texts() {
    let mut text = String::from("a");
    (0..12).for_each(|_| text = text.repeat(2) + "b");
    let pieces: Vec<Cow<'_, str>> = text.split('b').map(Cow::from).collect();
    let boxed: Box<str> = pieces.concat().into_boxed_str();
    let shared: (Rc<str>, Arc<str>) = (Rc::from(&*boxed), Arc::from(boxed.clone()));
    assert_eq!(&*shared.0, &*shared.1);
    let name = CString::new(boxed.into_string()).expect("no zero in it");
    let other = OsString::from(format!("{name:?}"));
    assert!(RwLock::new(other).into_inner().expect("nobody fails").len() > 100);
}

fn trees_of_trees() {
    let mut tree: BTreeMap<String, BTreeMap<u16, Vec<String>>> = BTreeMap::new();
    for at in 0..500u16 {
        tree.entry(format!("{}", at % 23)).or_default().entry(at % 7).or_default().push(format!("{at:>40}"));
    }
    let copy = tree.clone();
    tree.retain(|key, _| key.len() == 1);
    assert!(copy.len() == 23 && tree.len() == 10);
}

/// The functions below all of them, also where a block was zeroed and where it moves from small to large and back.
fn layouts() {
    for align in (0..14).map(|power| 1 << power) {
        for bytes in [1, 8, 24, 100, 4096, 40_000, 300_000] {
            let layout = Layout::from_size_align(bytes, align).expect("a layout");
            let grown = Layout::from_size_align(bytes * 3, align).expect("a layout");
            // SAFETY: each block is given back as it was asked for last.
            unsafe {
                dealloc(black_box(alloc(layout)), layout);
                let block = black_box(realloc(alloc_zeroed(layout), layout, bytes * 3));
                assert!((0..bytes).all(|at| *block.add(at) == 0));
                // The optimiser takes a realloc away whose block is only freed: the block before is freed, by this layout.
                dealloc(realloc(block, grown, bytes), layout);
                dealloc(realloc(black_box(alloc(layout)), layout, bytes * 3), grown);
            }
        }
    }
}
