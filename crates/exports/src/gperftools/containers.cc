// The part that must be C++: adding to a program's std::string and std::vector, whose layout only the compiler knows.
//
// libstdc++ is not linked. Its templates are compiled into this object (build.rs says why), memory comes from our own
// operator new, and what it calls when a container grows beyond all bounds is weak: a program that owns a container
// brings the library.

#include <cstddef>
#include <string>
#include <vector>

asm(".weak _ZSt20__throw_length_errorPKc\n"
    ".weak _ZSt17__throw_bad_allocv\n"
    ".weak _ZSt28__throw_bad_array_new_lengthv\n");

namespace {

// MallocExtension::FreeListInfo.
struct FreeListInfo {
    std::size_t min_object_size;
    std::size_t max_object_size;
    std::size_t total_bytes_free;
    const char *type;
};

} // namespace

extern "C" void vcm_string_append(std::string *string, const char *text, std::size_t bytes) {
    string->append(text, bytes);
}

extern "C" void vcm_free_list_clear(std::vector<FreeListInfo> *vector) { vector->clear(); }

extern "C" void vcm_free_list_append(std::vector<FreeListInfo> *vector, std::size_t least, std::size_t most,
                                     std::size_t bytes, const char *type) {
    vector->push_back({least, most, bytes, type});
}
