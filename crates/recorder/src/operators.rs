//! C++'s operators under their names: jumps to operators.c, so that no frame of ours is in an exception's way.

macro_rules! operators {
    ($($name:ident => $target:literal;)+) => {
        $(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!(concat!("jmp ", $target));
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!(concat!("b ", $target));
            }
        )+
    };
}

operators! {
    _Znwm => "vcm_recorder_Znwm";
    _Znam => "vcm_recorder_Znam";
    _ZnwmRKSt9nothrow_t => "vcm_recorder_ZnwmRKSt9nothrow_t";
    _ZnamRKSt9nothrow_t => "vcm_recorder_ZnamRKSt9nothrow_t";
    _ZnwmSt11align_val_t => "vcm_recorder_ZnwmSt11align_val_t";
    _ZnamSt11align_val_t => "vcm_recorder_ZnamSt11align_val_t";
    _ZnwmSt11align_val_tRKSt9nothrow_t => "vcm_recorder_ZnwmSt11align_val_tRKSt9nothrow_t";
    _ZnamSt11align_val_tRKSt9nothrow_t => "vcm_recorder_ZnamSt11align_val_tRKSt9nothrow_t";
    _ZdlPv => "vcm_recorder_ZdlPv";
    _ZdaPv => "vcm_recorder_ZdaPv";
    _ZdlPvm => "vcm_recorder_ZdlPvm";
    _ZdaPvm => "vcm_recorder_ZdaPvm";
    _ZdlPvRKSt9nothrow_t => "vcm_recorder_ZdlPvRKSt9nothrow_t";
    _ZdaPvRKSt9nothrow_t => "vcm_recorder_ZdaPvRKSt9nothrow_t";
    _ZdlPvSt11align_val_t => "vcm_recorder_ZdlPvSt11align_val_t";
    _ZdaPvSt11align_val_t => "vcm_recorder_ZdaPvSt11align_val_t";
    _ZdlPvmSt11align_val_t => "vcm_recorder_ZdlPvmSt11align_val_t";
    _ZdaPvmSt11align_val_t => "vcm_recorder_ZdaPvmSt11align_val_t";
    _ZdlPvSt11align_val_tRKSt9nothrow_t => "vcm_recorder_ZdlPvSt11align_val_tRKSt9nothrow_t";
    _ZdaPvSt11align_val_tRKSt9nothrow_t => "vcm_recorder_ZdaPvSt11align_val_tRKSt9nothrow_t";
}
