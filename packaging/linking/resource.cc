// As program.c, with containers on the resource of the C++ header.
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <memory_resource>
#include <string>
#include <vector>
#include <vcmalloc.h>
#include <vcmalloc_memory_resource.h>

int main() {
    std::pmr::vector<std::pmr::string> words(1000, std::pmr::string(100, 'x'), vcmalloc::memory_resource());
    Dl_info own;
    if (words.back().size() != 100 || !dladdr(reinterpret_cast<void *>(malloc), &own)) return 1;
    std::printf("%s %s\n", vcm_version(), own.dli_fname);
}
