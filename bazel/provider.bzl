"""qpexam_provider: a vendor judges their own provider from their own Bazel repository (docs/vendors.md)."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
load("//bazel:shell.bzl", "sh_test")
load("//third_party/rdma_core/seam:provider_copts.bzl", "provider_copts")

# A macro of libibverbs that each provider expands once takes the address of a member of a null structure.
_SANITIZERS = [
    "-fno-sanitize=null",
    "-fno-sanitize=object-size",
]

def qpexam_provider(name, srcs, device_model, copts = [], deps = [], size = "medium", **kwargs):
    """`hosted:NAME` under judgement, and its verdict as tests.

    Makes NAME, a `qpexam` that knows this provider beside the reference (`bazel run //:NAME -- check`), NAME_check_test
    (the corpus) and NAME_conform_test (the suites), which fail with any finding.

    Args:
      name: as the device model registers itself (RegisterHostedKind).
      srcs: the provider's sources for rdma-core, .c and .h, unmodified: one that registers itself by PROVIDER_DRIVER().
      device_model: a cc_library with alwayslink = 1: a hosted::DeviceModel and its registration.
      copts: more of the provider's own.
      deps: what its sources include besides rdma-core's headers.
      size: of the tests.
      **kwargs: of all rules: visibility, tags.
    """
    cc_library(
        name = name + "_library",
        srcs = srcs,
        copts = provider_copts([]) + _SANITIZERS + copts,
        linkstatic = 1,
        deps = deps + [
            "@rdma_core//:ibverbs",
            "@rdma_core//:source_h",
        ],
        alwayslink = 1,
        **kwargs
    )
    linked = [
        device_model,
        name + "_library",
    ]
    cc_binary(
        name = name,
        deps = ["@qpexam//harness:qpexam_for_provider"] + linked,
        **kwargs
    )
    cc_binary(
        name = name + "_suites",
        deps = ["@qpexam//conformance:suites_for_provider"] + linked,
        **kwargs
    )
    for command in ["check", "conform"]:
        sh_test(
            name = "%s_%s_test" % (name, command),
            size = size,
            srcs = ["@qpexam//bazel:provider_test.sh"],
            args = [
                "$(rootpath %s)" % name,
                "$(rootpath %s_suites)" % name,
                command,
                name,
            ],
            data = [
                name,
                name + "_suites",
            ],
            **kwargs
        )
