"""cc_fuzz_test: a fuzz target and what engines, CI and OSS-Fuzz want of it, under the names of rules_fuzzing.

For `name` it declares
  name            a test: runs every file of the corpus once, whatever the engine
  name_bin        the fuzzer
  name_run        bazel run --config=asan-libfuzzer :name_run -- -max_total_time=60
  name_corpus     the seeds, name_dict the dictionaries
  name_oss_fuzz   a tar of what OSS-Fuzz expects in $OUT: fuzzer, seed corpus, dictionary, options

The engine is a flag, //bazel/fuzzing:engine: replay (the default: a main of our own, any compiler), libfuzzer, afl,
oss-fuzz (the engine comes with $LIB_FUZZING_ENGINE). .bazelrc has a configuration for each.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load(":qpx.bzl", "qpexam_copts")
load(":shell.bzl", "sh_binary")

_ENGINE_LINKOPTS = select({
    "//bazel/fuzzing:libfuzzer": ["-fsanitize=fuzzer"],
    # Not -fsanitize=fuzzer: afl-clang-fast does not look into the parameter files that Bazel passes it.
    "//bazel/fuzzing:afl": ["/usr/lib/afl/libAFLDriver.a"],
    "//bazel/fuzzing:oss-fuzz": [],
    "//conditions:default": [],
})

_ENGINE_DEPS = select({
    "//bazel/fuzzing:libfuzzer": [],
    "//bazel/fuzzing:afl": [],
    "//bazel/fuzzing:oss-fuzz": [],
    "//conditions:default": ["//bazel/fuzzing:replay_main"],
})

def cc_fuzz_test(
        name,
        srcs,
        deps = [],
        corpus = [],
        dicts = [],
        data = [],
        max_len = 0,
        copts = [],
        linkopts = [],
        tags = [],
        **kwargs):
    """Declares the targets above.

    Args:
      name: by convention ends in _fuzz_test or _fuzzer.
      srcs: define LLVMFuzzerTestOneInput, and a custom mutator if wanted.
      deps: libraries.
      corpus: seed files.
      dicts: libFuzzer dictionaries; joined.
      data: files that the target reads at run time.
      max_len: largest input the engine may make, 0 for the engine's own choice.
      copts: beyond this project's warnings.
      linkopts: of the binaries.
      tags: no-oss-fuzz keeps the target out of OSS-Fuzz's build.
      **kwargs: of the test (size, timeout, shard_count, ...).
    """
    library = name + "_lib"
    binary = name + "_bin"
    seeds = name + "_corpus"
    dictionary = name + "_dict"

    cc_library(
        name = library,
        testonly = 1,
        srcs = srcs,
        copts = qpexam_copts() + copts,
        linkstatic = 1,
        alwayslink = 1,
        deps = deps,
    )
    native.filegroup(
        name = seeds,
        testonly = 1,
        srcs = corpus,
    )
    native.filegroup(
        name = dictionary,
        testonly = 1,
        srcs = dicts,
    )
    cc_binary(
        name = binary,
        testonly = 1,
        data = data,
        linkopts = _ENGINE_LINKOPTS + linkopts,
        linkstatic = 1,
        tags = tags + ["manual"],
        deps = [library] + _ENGINE_DEPS,
    )
    cc_test(
        name = name,
        # Every engine's binary takes files as arguments and runs each once.
        args = ["$(locations :%s)" % seeds] if corpus else [],
        data = data + [seeds],
        linkopts = _ENGINE_LINKOPTS + linkopts,
        linkstatic = 1,
        tags = tags + ["fuzz-test"],
        deps = [library] + _ENGINE_DEPS,
        **kwargs
    )
    sh_binary(
        name = name + "_run",
        testonly = 1,
        srcs = ["//bazel/fuzzing:run.sh"],
        args = [
            "$(rootpath :%s)" % binary,
            name,
            str(max_len),
            "$(rootpaths :%s)" % dictionary if dicts else "",
            "--",
            "$(rootpaths :%s)" % seeds if corpus else "",
            "--",
        ],
        data = [
            binary,
            dictionary,
            seeds,
        ],
        tags = ["manual"],
    )
    native.genrule(
        name = name + "_oss_fuzz",
        testonly = 1,
        srcs = [
            binary,
            dictionary,
            seeds,
        ],
        outs = [name + "_oss_fuzz.tar"],
        cmd = "$(execpath //bazel/fuzzing:oss_fuzz_package) $@ {name} $(execpath :{binary}) {max_len} -- {seeds} -- {dicts}".format(
            binary = binary,
            dicts = "$(execpaths :%s)" % dictionary if dicts else "",
            max_len = max_len,
            name = name,
            seeds = "$(execpaths :%s)" % seeds if corpus else "",
        ),
        tags = ["manual"],
        tools = ["//bazel/fuzzing:oss_fuzz_package"],
    )
