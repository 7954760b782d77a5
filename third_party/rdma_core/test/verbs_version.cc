// Prints where its libibverbs comes from: the test of //third_party:verbs in both its forms.

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstring>

int main() {
  // A library function's home: this program itself, or a shared library.
  Dl_info home;
  if (dladdr(reinterpret_cast<void*>(&ibv_free_device_list), &home) == 0) return 1;
  std::puts(std::strstr(home.dli_fname, "libibverbs.so.1") != nullptr ? "sys" : "src");
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list != nullptr) ibv_free_device_list(list);
  return 0;
}
