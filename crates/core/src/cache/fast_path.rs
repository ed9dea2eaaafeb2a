//! The fast paths written whole, as text for `naked_asm!`, for libraries whose heap is one static.
//!
//! They do what `Front::pop_for`, `Pages::class_of_allocated` and `Front::push` do, in fewer steps, by three
//! means. Knowing where the heap is, they compare with its words in memory. They leave for the slow path from
//! anywhere, with the arguments still in their registers. And all of them share **one** sequence descriptor,
//! which stays in the thread's area from call to call: they look whether it is there, where other sequences
//! have to store theirs. That store, not its instruction, is what costs (decision 0018).
//!
//! The rules that make this right:
//! - The look is inside the sequence. The kernel takes the descriptor away only when it interrupts the thread
//!   outside of the sequence, so if it is there at the look, every interruption from then on aborts; if it is
//!   not, nothing has been done yet.
//! - Only `announce` stores the descriptor, after it has seen that the thread is registered and that the
//!   sequences are on. So where the descriptor is, both hold, and are not asked again. glibc ends a process
//!   in which a thread cannot be registered whose creator was, so an area that a new thread inherits from an
//!   old one is a registered one again. A thread that takes back its registration itself, and goes on
//!   allocating, breaks this rule.
//! - A freed block of up to 64 bytes carries a key (`policy::keys`), stored and cleared inside the sequences: an interrupted
//!   one may leave a free block without its key, or a live one with it, and both are harmless.
//! - A sequence may end in one store only, and these two have one descriptor: they end in the same
//!   instruction.
//! - An abort begins the sequence again, not the function: a debugger's breakpoint on the function is an
//!   interruption outside of the sequence each time, and would never be passed.
//! - To switch the sequences off, `Cache::stop` lets every virtual CPU find the empty slab.
//!
//! Registers: rdi and rsi are arguments and stay. ecx is the class and stays within the sequence, as does
//! r10, the address of the entry's two jumps: to the beginning of its sequence and to its slow path. rax,
//! rdx, r8 and r9 are scratch. Operands: `heap` and `by_size` are symbols, `slow` is the function that does
//! the whole work, the others are offsets in the heap. Each entry is followed by its `ways_out`.
//!
//! Labels, most of them shared by all entries:
//! - `vcm_sequence_pop`, `vcm_sequence_push`: the beginnings of the two sequences
//! - `.Lvcm_commit`, `.Lvcm_end`: the store that both end in, and what lies behind it
//! - `.Lvcm_descriptor`: tells the kernel of them
//! - `.Lvcm_abort`: the kernel has an interrupted one go on here: to the beginning again
//! - `.Lvcm_leave`: to the slow path, out of a sequence that changes nothing
//! - `.Lvcm_announce`: stores the descriptor in a thread's area, and begins again
//! - `.Lvcm_unkeyed`: the way of a freed block that is too large for a key
//! - `vcm_scoped_pop`, `vcm_scoped_push`, `vcm_heap_pop_of`: the same for the slabs of a tenant's heap; r11 leads to it, and stays as r10 does
//! - `ways_out_label`: the two jumps that r10 holds; a number, since each entry has its own
//! - `counted_label`: the way of an entry while somebody watches, and its own two ways out behind that

/// The label of `ways_out`. They follow the code of their entry: `f` finds the entry's own.
#[macro_export]
macro_rules! ways_out_label {
    () => {
        "671"
    };
}

/// The two jumps of an entry, found through r10: 0 begins the sequence again, 8 is the slow path. Without a
/// path that is taken usually, so it lies away from the code; it has its own unwind information, as every
/// interrupted instruction must.
#[macro_export]
macro_rules! ways_out {
    ($sequence:literal) => {
        concat!(
            ".pushsection __rseq_abort, \"ax\"
            .cfi_startproc
            .balign 8
            ",
            $crate::ways_out_label!(),
            ": jmp ",
            $sequence,
            "
            .balign 8
            jmp {slow}
            .cfi_endproc
            .popsection
            "
        )
    };
}

/// The label of `counted`, as `ways_out_label`.
#[macro_export]
macro_rules! counted_label {
    () => {
        "672"
    };
}

/// The class of a request of rdi bytes. Followed by its `counted`.
#[macro_export]
macro_rules! class_of_request {
    () => {
        concat!(
            "cmp rdi, [rip + {heap} + {direct}]
            ja ",
            $crate::counted_label!(),
            "f
            lea eax, [rdi + 15]
            shr eax, 4
            lea rcx, [rip + {by_size}]
            movzx ecx, byte ptr [rcx + rax]
            lea r10, [rip + ",
            $crate::ways_out_label!(),
            "f]
            "
        )
    };
}

/// The cell of this virtual CPU in rdx. Any cell will do: threads without a number find one, too.
#[macro_export]
macro_rules! cell {
    () => {
        "mov rax, [rip + {heap} + {index}]
        mov eax, fs:[rax]
        and eax, {last_cell}
        shl eax, {cell_shift}
        lea rdx, [rip + {heap} + {cells}]
        add rdx, rax
        "
    };
}

/// Requests that are not served unseen. Where threads have heaps of their own, one of a thread that has none goes on to the
/// sequence: its word is 0, and where no thread has any, the word at the thread pointer is looked at, which never is. While somebody watches, each is counted as `Sampling::count` does. A request
/// that does not end its interval goes on to the sequence; if it is to leave that for the slow path, which counts, it
/// was not counted here.
#[macro_export]
macro_rules! counted {
    () => {
        concat!(
            ".pushsection .text.fast.counted, \"ax\"
            .cfi_startproc
            ",
            $crate::counted_label!(),
            ": mov rax, [rip + {heap} + {scope}]
            cmp qword ptr fs:[rax], 0
            jne 674f
            cmp rdi, {tabled}
            ja {slow}
            lea eax, [rdi + 15]
            shr eax, 4
            lea rcx, [rip + {by_size}]
            movzx ecx, byte ptr [rcx + rax]
            lea r10, [rip + ",
            $crate::ways_out_label!(),
            "b]
            jmp vcm_sequence_pop
            674: test rax, rax
            jnz 675f
            cmp byte ptr [rip + {heap} + {counts_each}], 0
            je {slow}
            cmp rdi, {tabled}
            ja {slow}
            ",
            $crate::cell!(),
            "mov rax, [rdx]
            sub rax, rdi
            jle {slow}
            mov [rdx], rax
            lea eax, [rdi + 15]
            shr eax, 4
            lea rcx, [rip + {by_size}]
            movzx ecx, byte ptr [rcx + rax]
            lea r10, [rip + 673f]
            jmp vcm_sequence_pop
            .balign 8
            673: jmp vcm_sequence_pop
            .balign 8
            ",
            $crate::cell!(),
            "add [rdx], rdi
            jmp {slow}
            675: cmp rdi, {tabled}
            ja {slow}
            mov r11, rax
            lea eax, [rdi + 15]
            shr eax, 4
            lea rcx, [rip + {by_size}]
            movzx ecx, byte ptr [rcx + rax]
            lea r10, [rip + 676f]
            jmp vcm_scoped_pop
            .balign 8
            676: jmp vcm_scoped_pop
            .balign 8
            jmp {slow}
            .cfi_endproc
            .popsection
            "
        )
    };
}

/// `ways_out` of a free. A block of a tenant's heap shows as a large one, so it leaves the sequence: its span says of which heap and
/// class it is, and it goes on to the sequence for that heap's slabs.
#[macro_export]
macro_rules! ways_out_of_free {
    () => {
        concat!(
            ".pushsection __rseq_abort, \"ax\"
            .cfi_startproc
            .balign 8
            ",
            $crate::ways_out_label!(),
            ": jmp vcm_sequence_push
            .balign 8
            cmp ecx, {large}
            jne {slow}
            cmp dword ptr [rip + {heap} + {cpus}], 0
            je {slow}
            mov rax, rdi
            sub rax, [rip + {heap} + {start}]
            shr rax, 14
            mov rdx, [rip + {heap} + {owners}]
            mov eax, [rdx + rax * 4]
            imul rax, rax, {span_bytes}
            add rax, [rip + {heap} + {spans}]
            movzx ecx, byte ptr [rax + {span_class}]
            lea edx, [rcx - 1]
            cmp edx, {large} - 1
            jae {slow}
            mov r11, rax
            lea r10, [rip + 677f]
            jmp vcm_scoped_push
            .balign 8
            677: jmp vcm_scoped_push
            .balign 8
            jmp {slow}
            .cfi_endproc
            .popsection
            "
        )
    };
}

/// The class of the block at rdi, and the carry flag: whether its span gave it out.
#[macro_export]
macro_rules! class_of_allocated {
    () => {
        // Turned, so that an address that is no multiple of 16 lies beyond every bound.
        concat!(
            "mov rax, rdi
            sub rax, [rip + {heap} + {start}]
            ror rax, 4
            cmp rax, [rip + {heap} + {grown_granules}]
            jae {slow}
            mov rdx, [rip + {heap} + {allocated}]
            mov rcx, rax
            shr rcx, 5
            mov r8d, [rdx + rcx * 4]
            mov rdx, rdi
            shr rdx, 14
            mov rcx, [rip + {heap} + {class_of_unit}]
            movzx ecx, byte ptr [rcx + rdx]
            lea r10, [rip + ",
            $crate::ways_out_label!(),
            "f]
            bt r8d, eax
            "
        )
    };
}

/// The entry of free for the block at rdi.
#[macro_export]
macro_rules! push_allocated {
    () => {
        concat!(
            $crate::class_of_allocated!(),
            "jc vcm_sequence_push
            jmp {slow}
            "
        )
    };
}

/// The entry of a sized free for the block at rdi, if it is one for rsi bytes.
#[macro_export]
macro_rules! push_sized {
    () => {
        concat!(
            $crate::class_of_allocated!(),
            "jnc {slow}
            cmp rsi, {tabled}
            ja {slow}
            lea eax, [rsi + 15]
            shr eax, 4
            lea rdx, [rip + {by_size}]
            ",
            // A block that shrank in place may be larger than a new one of its size would be.
            "cmp cl, [rdx + rax]
            jae vcm_sequence_push
            jmp {slow}
            "
        )
    };
}

/// The slab of the virtual CPU in rdx, the address of the class's word in r8, its top in r9d.
#[macro_export]
macro_rules! find_word {
    () => {
        concat!(
            $crate::is_announced!(),
            "mov rax, [rip + {heap} + {index}]
            mov eax, fs:[rax]
            mov rdx, [rip + {heap} + {slabs}]
            mov rdx, [rdx + rax * 8]
            lea r8, [rdx + rcx * 8]
            mov r9d, [r8]
            "
        )
    };
}

/// The look whether the descriptor is there.
#[macro_export]
macro_rules! is_announced {
    () => {
        "mov rdx, [rip + {heap} + {area}]
        lea rax, [rip + .Lvcm_descriptor]
        cmp fs:[rdx + 8], rax
        jne .Lvcm_announce
        "
    };
}

/// Both sequences. Follows the entry that falls into the first, which returns a block of the class; the
/// second takes the block at rdi. It begins a quarter into a cache line: of all places the fastest (decision 0018).
#[macro_export]
macro_rules! sequences {
    () => {
        concat!(
            ".globl vcm_sequence_pop, vcm_sequence_push
            .hidden vcm_sequence_pop, vcm_sequence_push
            vcm_sequence_pop:
            ",
            $crate::find_word!(),
            // A freed block that carries a key leaves without it. Interrupted behind that, it stays free without one.
            ".Lvcm_pop_found:
            mov rax, [rdx + r9]
            sub r9d, 8
            test rax, rax
            jz .Lvcm_leave
            cmp ecx, {last_keyed}
            ja .Lvcm_commit
            mov qword ptr [rax + 8], 0
            jmp .Lvcm_commit

            // The block freed last, or the one before it, once more: the slow path looks closer.
            .Lvcm_unkeyed:
            cmp [rdx + r9], rdi
            je .Lvcm_leave
            cmp [rdx + r9 - 8], rdi
            je .Lvcm_leave
            mov [rdx + r9 + 8], rdi
            add r9d, 8
            jmp .Lvcm_commit

            ",
            // The same on the slabs of a tenant's heap: of the one that serves this thread, whose word r11 leads to, and of the one
            // that has the span at r11. Each slab says whose it is, and the span is asked inside: before a heap ends, or hands
            // its spans on, its slabs are frozen, which ends sequences that have begun.
            ".globl vcm_scoped_pop, vcm_scoped_push, vcm_heap_pop_of
            .hidden vcm_scoped_pop, vcm_scoped_push, vcm_heap_pop_of
            vcm_scoped_pop:
            ",
            $crate::is_announced!(),
            "mov rax, [rip + {heap} + {index}]
            mov eax, fs:[rax]
            mov rdx, fs:[r11 + 8]
            mov rdx, [rdx + {entry_slabs}]
            mov rdx, [rdx + rax * 8]
            mov rax, fs:[r11]
            cmp [rdx + {owned}], rax
            jne .Lvcm_leave
            lea r8, [rdx + rcx * 8]
            mov r9d, [r8]
            jmp .Lvcm_pop_found
            ",
            // That of the heap whose name is in rdi, and whose entry r11 leads to.
            "vcm_heap_pop_of:
            ",
            $crate::is_announced!(),
            "mov rax, [rip + {heap} + {index}]
            mov eax, fs:[rax]
            mov rdx, [r11 + {entry_slabs}]
            mov rdx, [rdx + rax * 8]
            cmp [rdx + {owned}], rdi
            jne .Lvcm_leave
            lea r8, [rdx + rcx * 8]
            mov r9d, [r8]
            jmp .Lvcm_pop_found
            vcm_scoped_push:
            ",
            $crate::is_announced!(),
            "mov edx, [r11 + {span_heap}]
            imul rdx, rdx, {entry_bytes}
            add rdx, [rip + {heap} + {entries}]
            mov r8, [rdx + {entry_id}]
            mov rdx, [rdx + {entry_slabs}]
            mov rax, [rip + {heap} + {index}]
            mov eax, fs:[rax]
            mov rdx, [rdx + rax * 8]
            cmp [rdx + {owned}], r8
            jne .Lvcm_leave
            lea r8, [rdx + rcx * 8]
            mov r9d, [r8]
            jmp .Lvcm_push_found

            .p2align 6, 0xcc
            .skip 16, 0xcc
            .type vcm_sequence_push, @function
            vcm_sequence_push:
            ",
            $crate::find_word!(),
            // A block with its key is free already: the slow path looks closer, also where this was interrupted between the
            // last two stores, and began again: so they are neighbours.
            ".Lvcm_push_found:
            cmp r9d, [r8 + 4]
            jae .Lvcm_leave
            cmp ecx, {last_keyed}
            ja .Lvcm_unkeyed
            mov rax, [rip + {heap} + {key}]
            xor rax, rdi
            cmp [rdi + 8], rax
            je .Lvcm_leave
            mov [rdx + r9 + 8], rdi
            add r9d, 8
            mov [rdi + 8], rax
            .Lvcm_commit:
            mov [r8], r9d
            .Lvcm_end:
            ret
            .size vcm_sequence_push, . - vcm_sequence_push
            "
        )
    };
}

/// The parts of the sequences that lie elsewhere: the descriptor, the abort handler, the announcement.
#[macro_export]
macro_rules! beside_sequences {
    () => {
        ".pushsection __rseq_cs, \"aw\"
        .balign 32
        .Lvcm_descriptor:
        .long 0, 0
        .quad vcm_sequence_pop, .Lvcm_end - vcm_sequence_pop, .Lvcm_abort
        .popsection

        .pushsection __rseq_abort, \"ax\"
        .byte 0x0f, 0xb9, 0x3d
        .long 0x53053053
        .cfi_startproc
        .Lvcm_abort: jmp r10
        .Lvcm_leave: add r10, 8
        jmp r10
        .Lvcm_announce:
        mov eax, [rip + {heap} + {cpus}]
        mov rdx, [rip + {heap} + {area}]
        cmp eax, fs:[rdx + 4]
        jbe .Lvcm_leave
        lea rax, [rip + .Lvcm_descriptor]
        mov fs:[rdx + 8], rax
        jmp r10
        .cfi_endproc
        .popsection
        "
    };
}
