//! A program that has jemalloc_pprof write a profile of itself, once as pprof's and once as jemalloc's own text.

use std::io::BufReader;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[allow(non_upper_case_globals)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static malloc_conf: &[u8] = b"prof:true,prof_active:true,lg_prof_sample:14\0";

const BLOCKS: usize = 1000;
const BYTES: usize = 10_000;

#[inline(never)]
fn held() -> Vec<Vec<u8>> {
    (0..BLOCKS).map(|_| vec![7u8; BYTES]).collect()
}

fn main() {
    let held = held();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let control = jemalloc_pprof::PROF_CTL.as_ref().expect("a profile was begun");
        let mut control = control.lock().await;
        assert!(control.activated() && control.lg_sample() == 14);
        let text = BufReader::new(control.dump().expect("a dump"));
        let stacks = pprof_util::parse_jeheap(text, None).expect("jemalloc's form");
        let bytes: f64 = stacks.iter().map(|(stack, _)| stack.weight).sum();
        let is_right = (0.8..1.25).contains(&(bytes / (BLOCKS * BYTES) as f64));
        let deepest = stacks.iter().map(|(stack, _)| stack.addrs.len()).max().unwrap_or(0);
        println!("bytes {is_right} stacks {}", deepest > 5);
        let packed = control.dump_pprof().expect("a profile in pprof's form");
        // gzip's beginning.
        println!("pprof {}", packed.starts_with(&[0x1f, 0x8b]) && packed.len() > 200);
        control.deactivate().expect("it ends");
        control.activate().expect("it begins again");
    });
    println!("held {}", held.len());
}
