"""The repositories this project builds from: one list for WORKSPACE and for MODULE.bazel."""

load("//bazel:source_repository.bzl", "source_repository")
load("//third_party/rdma_core:pin.bzl", "rdma_core")

def qpexam_repositories():
    source_repository(
        name = "com_google_googletest",
        build_file = Label("//third_party:googletest.BUILD"),
        dir = "/usr/src/googletest",
        package = "googletest",
        sha256 = "8ad598c73ad796e0d8280b082cebd82a630d73e73cd3c70057938a6501bba5d7",
        strip_prefix = "googletest-1.14.0",
        urls = ["https://github.com/google/googletest/archive/refs/tags/v1.14.0.tar.gz"],
    )
    rdma_core()
