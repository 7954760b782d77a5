"""@rules_cc from Debian's package, mended for Bazel releases before 5."""

# Bazel 4 has no use_cpp_toolchain() in @bazel_tools; Debian's rules_cc 0.0.4 loads it in these two files.
_LOADS_USE_CPP_TOOLCHAIN = [
    "cc/private/rules_impl/cc_flags_supplier.bzl",
    "cc/private/rules_impl/compiler_flag.bzl",
]

def _rules_cc_repository_impl(ctx):
    source = ctx.os.environ.get("RULES_CC_DIR", ctx.attr.dir)
    if not ctx.path(source).exists:
        fail("rules_cc: %s does not exist. On Debian: apt-get install bazel-rules-cc; elsewhere set RULES_CC_DIR to an unpacked rules_cc, or use Bazel 7 or later." % source)
    copy = ctx.execute(["cp", "-r", "--no-preserve=mode", source + "/.", "."])
    if copy.return_code:
        fail("rules_cc: " + copy.stderr)
    if hasattr(config_common, "toolchain_type"):
        return
    for name in _LOADS_USE_CPP_TOOLCHAIN:
        if ctx.path(name).exists:
            text = ctx.read(name)
            text = text.replace(', "use_cpp_toolchain")', ")")
            text = text.replace("use_cpp_toolchain()", '["@bazel_tools//tools/cpp:toolchain_type"]')
            ctx.file(name, text)

rules_cc_repository = repository_rule(
    implementation = _rules_cc_repository_impl,
    attrs = {"dir": attr.string(default = "/usr/share/bazel/rules/cc")},
    environ = ["RULES_CC_DIR"],
    local = True,
)
