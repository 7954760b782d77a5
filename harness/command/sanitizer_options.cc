// What a sanitized build of the command runs with, where ASAN_OPTIONS says nothing else.

// Memory that was freed is held back before it is given out again, so that a late use is seen: as
// long as a megabyte lasts, which is longer than a Program. By default it is 256 of them, and every
// object of every Program would lie in pages that were never touched before. Ten frames lead from
// an allocation in a provider to the call of the API.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=1:malloc_context_size=10";
}
