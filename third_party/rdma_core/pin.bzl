"""Which rdma-core @rdma_core is, unless RDMA_CORE_DIR names a tree."""

load(":repo.bzl", "rdma_core_repository")

def rdma_core():
    rdma_core_repository(
        name = "rdma_core",
        version = "56.1",
        # The orig tarball of this source package is the release tarball; the Debian revision is only how apt names it.
        apt = {"trixie": "56.1-1"},
        sha256 = "63ce7f2baa7242c2dbc76375dac957c420187dd27f8c5e148efc07971ee522a8",
        urls = ["https://github.com/linux-rdma/rdma-core/releases/download/v56.1/rdma-core-56.1.tar.gz"],
    )
