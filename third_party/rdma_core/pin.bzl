"""The releases of rdma-core that @rdma_core can be, with the checksums of their tarballs."""

load(":repo.bzl", "rdma_core_repository")

# What is built unless RDMA_CORE_VERSION names another of _SHA256S, or RDMA_CORE_DIR a tree.
_DEFAULT = "56.1"

_SHA256S = {
    "44.0": "25d6601e60f27bbcd75e07fe340400cb80e6c3c487679700535385cfc9d9858b",
    "56.1": "63ce7f2baa7242c2dbc76375dac957c420187dd27f8c5e148efc07971ee522a8",
    "65.0": "f6ba3d8b2c4aa334c5c883c1ad0772de339011123cff4fb1db32ae7a443fb7ca",
}

# Debian suites whose source package has that release's tarball.
_SUITES = {
    "44.0": "bookworm",
    "56.1": "trixie",
    "65.0": "sid",
}

def rdma_core():
    rdma_core_repository(
        name = "rdma_core",
        default_version = _DEFAULT,
        sha256s = _SHA256S,
        suites = _SUITES,
        urls = {
            version: "https://github.com/linux-rdma/rdma-core/releases/download/v{0}/rdma-core-{0}.tar.gz".format(version)
            for version in _SHA256S
        },
    )
