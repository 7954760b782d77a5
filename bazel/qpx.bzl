"""qpx_library, qpx_binary, qpx_test: the cc_* rules with this project's warnings, which are errors."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

# The structures of rdma-core are initialised by the members that matter.
_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-missing-field-initializers",
]

def qpexam_copts():
    """The compiler options of our own code, for a rule that is not one of the three below."""
    return _WARNINGS

def qpx_library(copts = [], **kwargs):
    # No shared form: nothing here links it, and it would have everything compiled twice.
    cc_library(copts = _WARNINGS + copts, linkstatic = 1, **kwargs)

def qpx_binary(copts = [], **kwargs):
    cc_binary(copts = _WARNINGS + copts, **kwargs)

def qpx_test(copts = [], deps = [], **kwargs):
    """A GoogleTest program. Tests of threads carry tags = ["tsan"]: CI runs those under ThreadSanitizer."""
    cc_test(
        copts = _WARNINGS + copts,
        deps = deps + ["@com_google_googletest//:gtest_main"],
        **kwargs
    )
