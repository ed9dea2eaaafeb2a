// The work of operator new when there is no memory: run the new-handler until it helps, throws, or is gone.
//
// In C++ because exceptions must pass through and, for the nothrow forms, must be caught. libstdc++ is not linked: the
// names of its runtime are weak here, and the handler and the exception are looked up when they are needed.

#include <cstddef>
#include <dlfcn.h>
#include <initializer_list>
#include <stdlib.h>

asm(".weak __gxx_personality_v0\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak __cxa_rethrow\n"
    ".weak _Unwind_Resume\n");
#if VCM_SHARED
// The versions that every glibc has; see moved.rs.
#if defined(__x86_64__)
asm(".symver dlsym, dlsym@GLIBC_2.2.5\n");
#elif defined(__aarch64__)
asm(".symver dlsym, dlsym@GLIBC_2.17\n");
#endif
#pragma weak dlsym
#endif

extern "C" void *vcm_new_attempt(std::size_t bytes, std::size_t align, unsigned char maker);

// moved.rs.
extern "C" void *vcm_find(const char *name);

#if !VCM_SHARED
// Linkers say this where a program refers to that name: code compiled for a sanitizer does, and would stop in the first malloc.
#define NOT_WITH(name)                                                                                                            \
    __attribute__((section(".gnu.warning." #name), used)) const char vcm_not_with##name[] =                                       \
        "libvcmalloc.a: a sanitizer brings a malloc of its own, and the program will stop at its start; link it without vcmalloc"
NOT_WITH(__asan_init);
NOT_WITH(__tsan_init);
NOT_WITH(__msan_init);
#undef NOT_WITH

// A static program cannot look names up, but it can refer to them: null where it has no C++ runtime.
extern "C" void vcm_static_throw() __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));
extern "C" void vcm_static_handler() __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
#endif

namespace {

using Handler = void (*)();

// A function of the C++ runtime, also where a plugin brought the runtime into a C program for itself alone.
void *runtime(const char *name) {
    if (void *found = vcm_find(name)) {
        return found;
    }
#if VCM_SHARED
    for (const char *file : {"libstdc++.so.6", "libc++.so.1"}) {
        if (void *library = dlsym ? dlopen(file, RTLD_NOLOAD | RTLD_LAZY) : nullptr) {
            if (void *found = dlsym(library, name)) {
                return found;
            }
        }
    }
#endif
    return nullptr;
}

#if VCM_SHARED
void *get_new_handler() { return runtime("_ZSt15get_new_handlerv"); }
void *throw_bad_alloc() { return runtime("_ZSt17__throw_bad_allocv"); }
#else
void *get_new_handler() {
    return vcm_static_handler ? reinterpret_cast<void *>(vcm_static_handler) : runtime("_ZSt15get_new_handlerv");
}
void *throw_bad_alloc() {
    return vcm_static_throw ? reinterpret_cast<void *>(vcm_static_throw) : runtime("_ZSt17__throw_bad_allocv");
}
#endif

Handler current_handler() {
    using GetHandler = Handler (*)();
    auto get = reinterpret_cast<GetHandler>(get_new_handler());
    return get ? get() : nullptr;
}

} // namespace

// Throws std::bad_alloc, or whatever the handler throws.
extern "C" void *vcm_new_or_throw(std::size_t bytes, std::size_t align, unsigned char maker) {
    while (Handler handler = current_handler()) {
        handler();
        if (void *block = vcm_new_attempt(bytes, align, maker)) {
            return block;
        }
    }
    if (auto raise = reinterpret_cast<void (*)()>(throw_bad_alloc())) {
        raise();
    }
    // A program without libstdc++ cannot catch anything.
    abort();
}

extern "C" void *vcm_new_or_null(std::size_t bytes, std::size_t align, unsigned char maker) noexcept {
    if (!current_handler()) {
        return nullptr;
    }
    try {
        return vcm_new_or_throw(bytes, align, maker);
    } catch (...) {
        return nullptr;
    }
}

// The program's own forms. An alignment of 0 means one without alignment.

namespace {

using New = void *(*)(std::size_t);
using AlignedNew = void *(*)(std::size_t, std::size_t);
using Delete = void (*)(void *);
using AlignedDelete = void (*)(void *, std::size_t);

} // namespace

extern "C" void *vcm_their_new(void *form, std::size_t bytes, std::size_t align) {
    return align ? reinterpret_cast<AlignedNew>(form)(bytes, align) : reinterpret_cast<New>(form)(bytes);
}

extern "C" void *vcm_their_new_or_null(void *form, std::size_t bytes, std::size_t align) noexcept {
    try {
        return vcm_their_new(form, bytes, align);
    } catch (...) {
        return nullptr;
    }
}

extern "C" void vcm_their_delete(void *form, void *block, std::size_t align) {
    align ? reinterpret_cast<AlignedDelete>(form)(block, align) : reinterpret_cast<Delete>(form)(block);
}

// For malloc in gperftools' new mode: whether it is worth another attempt. False where there is no handler, or it threw.
extern "C" bool vcm_run_new_handler() noexcept {
    Handler handler = current_handler();
    if (!handler) {
        return false;
    }
    try {
        handler();
        return true;
    } catch (...) {
        return false;
    }
}
