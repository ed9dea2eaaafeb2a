//! The global allocator of this build: at most one feature, and the system's without any.

macro_rules! allocators {
    ($($feature:literal: $type:ty = $value:expr;)*) => {
        $(
            #[cfg(feature = $feature)]
            #[global_allocator]
            static ALLOCATOR: $type = $value;
            #[cfg(feature = $feature)]
            pub const NAME: &str = $feature;
        )*
        #[cfg(not(any($(feature = $feature),*)))]
        pub const NAME: &str = "system";
    };
}

allocators! {
    "vcmalloc": vcmalloc::Vcmalloc = vcmalloc::Vcmalloc;
    "vcmalloc-janitor": vcmalloc::Vcmalloc = vcmalloc::Vcmalloc;
    "jemalloc": tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
    "mimalloc": mimalloc::MiMalloc = mimalloc::MiMalloc;
    "mimalloc-pprof": mimalloc_pprof::MiMalloc = mimalloc_pprof::MiMalloc;
    "snmalloc": snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;
    "rpmalloc": rpmalloc::RpMalloc = rpmalloc::RpMalloc;
    "sefer": sefer_alloc::SeferAlloc = sefer_alloc::SeferAlloc::new();
    "tcmalloc-better": tcmalloc_better::TCMalloc = tcmalloc_better::TCMalloc;
    "ferroc": ferroc::Ferroc = ferroc::Ferroc;
}

/// What a program does before all else, where its allocator wants something.
pub fn begin() {
    #[cfg(feature = "vcmalloc-janitor")]
    let _ = vcmalloc::start_janitor();
}
