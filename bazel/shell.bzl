"""sh_binary and sh_test, wherever this Bazel has them: native before Bazel 8, @rules_shell from then on.

WORKSPACE provides a @rules_shell of the native rules, MODULE.bazel the real one.
"""

load("@rules_shell//shell:sh_binary.bzl", _sh_binary = "sh_binary")
load("@rules_shell//shell:sh_test.bzl", _sh_test = "sh_test")

sh_binary = _sh_binary
sh_test = _sh_test
