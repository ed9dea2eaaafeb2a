//! The pages of docs/reference that are made from the code. With RENEW_GOLDEN their tests write them.

use std::path::Path;

/// Fails where the page of that name in docs/reference is another one.
pub fn compare_or_renew(name: &str, made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("RENEW_GOLDEN").is_some() {
        std::fs::write(&file, made).expect("the page can be written");
    }
    let kept = vcm_foreign::file::text(&file).unwrap_or_default();
    assert!(
        kept == made,
        "docs/reference/{name} is outdated; renew it: RENEW_GOLDEN=1 cargo test -p vcm --bin vcm reference_page"
    );
}
