/* A host as XLA was when it exported the functions of a status: it loads a library and calls its
 * target with a status of its own. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void target(void* out, const void** in, void* status);

/* Not one of the SDK's, and at a multiple of their alignment. */
static _Alignas(65536) int own[16384] = {7};

void XlaCustomCallStatusSetSuccess(int* status) { printf("%d: success\n", *status); }
void XlaCustomCallStatusSetFailure(int* status, const char* message, size_t length) {
  printf("%d: %.*s\n", *status, (int)length, message);
}

int main(int count, char** arguments) {
  static float b[128] = {-1}, c[2048], a[2048];
  const void* in[2] = {b, c};
  void* library = dlopen(arguments[count - 1], RTLD_NOW | RTLD_LOCAL);
  target* call = library != NULL ? (target*)dlsym(library, "tiled_add_status") : NULL;
  int plain = 8;
  if (call == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  call(a, in, own);
  call(a, in, &plain);
  fflush(stdout);
  _Exit(0);
}
