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
    _Znwm => "vcm_interposer_Znwm";
    _Znam => "vcm_interposer_Znam";
    _ZnwmRKSt9nothrow_t => "vcm_interposer_ZnwmRKSt9nothrow_t";
    _ZnamRKSt9nothrow_t => "vcm_interposer_ZnamRKSt9nothrow_t";
    _ZnwmSt11align_val_t => "vcm_interposer_ZnwmSt11align_val_t";
    _ZnamSt11align_val_t => "vcm_interposer_ZnamSt11align_val_t";
    _ZnwmSt11align_val_tRKSt9nothrow_t => "vcm_interposer_ZnwmSt11align_val_tRKSt9nothrow_t";
    _ZnamSt11align_val_tRKSt9nothrow_t => "vcm_interposer_ZnamSt11align_val_tRKSt9nothrow_t";
    _ZdlPv => "vcm_interposer_ZdlPv";
    _ZdaPv => "vcm_interposer_ZdaPv";
    _ZdlPvm => "vcm_interposer_ZdlPvm";
    _ZdaPvm => "vcm_interposer_ZdaPvm";
    _ZdlPvRKSt9nothrow_t => "vcm_interposer_ZdlPvRKSt9nothrow_t";
    _ZdaPvRKSt9nothrow_t => "vcm_interposer_ZdaPvRKSt9nothrow_t";
    _ZdlPvSt11align_val_t => "vcm_interposer_ZdlPvSt11align_val_t";
    _ZdaPvSt11align_val_t => "vcm_interposer_ZdaPvSt11align_val_t";
    _ZdlPvmSt11align_val_t => "vcm_interposer_ZdlPvmSt11align_val_t";
    _ZdaPvmSt11align_val_t => "vcm_interposer_ZdaPvmSt11align_val_t";
    _ZdlPvSt11align_val_tRKSt9nothrow_t => "vcm_interposer_ZdlPvSt11align_val_tRKSt9nothrow_t";
    _ZdaPvSt11align_val_tRKSt9nothrow_t => "vcm_interposer_ZdaPvSt11align_val_tRKSt9nothrow_t";
}
