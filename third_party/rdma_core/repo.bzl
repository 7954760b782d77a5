"""@rdma_core: rdma-core's sources, from the first place that has them.

  dir      RDMA_CORE_DIR, an unpacked release or a checkout. Not held against the pin: whoever names a tree means it.
  tarball  RDMA_CORE_TARBALL, a local copy of the pinned tarball (checked).
  apt      Debian's source package by `apt-get source`, with an apt state of its own: no root, no change to the machine
           (checked). RDMA_CORE_APT_MIRROR names another mirror than the machine's first.
  http     the release tarball (checked).

RDMA_CORE_FETCH, a comma-separated list of these names, restricts and orders them (default: as above). When none
works, the message lists every attempt and why it failed. A tree named by RDMA_CORE_DIR never falls through to another.
"""

_PROVIDERS = ["rxe", "mlx5", "efa", "hns", "bnxt_re", "ionic"]

# Prints the path of the downloaded orig tarball. $1 suite, $2 version of the source package.
_APT_SOURCE = """
set -eu
state=$PWD/_apt
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
: > "$state/status"
mirror=${RDMA_CORE_APT_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
  | grep -v security | grep '/debian/*$' | sort -u | head -n 1)}
[ -n "$mirror" ] || { echo "no Debian mirror in this machine's apt configuration" >&2; exit 1; }
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" > "$state/sources.list"
options=(
  -q
  -o "Dir::Etc::sourcelist=$state/sources.list"
  -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State=$state"
  -o "Dir::State::status=$state/status"
  -o "Dir::State::Lists=$state/lists"
  -o "Dir::Cache=$state/cache"
  -o Acquire::Check-Valid-Until=false
  -o Acquire::Languages=none
  -o Acquire::Retries=3
  -o APT::Sandbox::User=
)
apt-get "${options[@]}" update >&2
cd "$state"
apt-get "${options[@]}" source --tar-only --download-only "rdma-core=$2" >&2
ls "$state"/rdma-core_*.orig.tar.*
"""

def _unpack(ctx, tarball):
    """Checks and unpacks. Returns None, or what is wrong."""
    sum = ctx.execute(["sha256sum", tarball])
    if sum.return_code:
        return sum.stderr.strip()
    found = sum.stdout.split(" ")[0]
    if found != ctx.attr.sha256:
        return "%s has sha256 %s, the pinned one is %s" % (tarball, found, ctx.attr.sha256)
    tar = ctx.execute(["tar", "-xf", tarball, "--strip-components=1"])
    return tar.stderr.strip() if tar.return_code else None

def _from_dir(ctx):
    name = ctx.os.environ.get("RDMA_CORE_DIR", "")
    if not name:
        return "RDMA_CORE_DIR is not set"
    tree = ctx.path(name)
    if not tree.get_child("libibverbs").get_child("verbs.h").exists:
        fail("RDMA_CORE_DIR=%s: no libibverbs/verbs.h there; name the top folder of an rdma-core tree by an absolute path" % name)
    for part in ["CMakeLists.txt", "buildlib", "ccan", "kernel-headers", "libibverbs", "providers", "util"]:
        ctx.symlink(tree.get_child(part), part)
    return None

def _from_tarball(ctx):
    name = ctx.os.environ.get("RDMA_CORE_TARBALL", "")
    return _unpack(ctx, name) if name else "RDMA_CORE_TARBALL is not set"

def _from_apt(ctx):
    if not ctx.which("apt-get"):
        return "no apt-get on this machine"
    errors = []
    for suite, version in ctx.attr.apt.items():
        ctx.report_progress("apt-get source rdma-core=%s from %s" % (version, suite))
        got = ctx.execute(["bash", "-c", _APT_SOURCE, "apt", suite, version], timeout = 600)
        error = _unpack(ctx, got.stdout.strip()) if got.return_code == 0 else got.stderr.strip()[-600:]
        ctx.delete("_apt")
        if not error:
            return None
        errors.append("%s %s: %s" % (suite, version, error))
    return "; ".join(errors)

def _from_http(ctx):
    got = ctx.download(ctx.attr.urls, "_source.tar.gz", allow_fail = True, sha256 = ctx.attr.sha256)
    error = _unpack(ctx, "_source.tar.gz") if got.success else "download failed: " + ", ".join(ctx.attr.urls)
    ctx.delete("_source.tar.gz")
    return error

_WAYS = {"dir": _from_dir, "tarball": _from_tarball, "apt": _from_apt, "http": _from_http}

def _fetch(ctx):
    """Returns the name of the way that worked."""
    tried = []
    for way in ctx.os.environ.get("RDMA_CORE_FETCH", "dir,tarball,apt,http").split(","):
        if way not in _WAYS:
            fail("RDMA_CORE_FETCH: '%s' is none of %s" % (way, ", ".join(_WAYS)))
        error = _WAYS[way](ctx)
        if not error:
            return way
        tried.append("%s: %s" % (way, error))
    fail("rdma-core %s could not be had. Tried:\n  %s\nRemedy: set RDMA_CORE_DIR to the absolute path of an unpacked rdma-core." %
         (ctx.attr.version, "\n  ".join(tried)))

def _between(text, before, after, what):
    parts = text.split(before)
    if len(parts) < 2:
        fail("rdma-core's CMakeLists.txt does not say its " + what)
    return parts[1].split(after)[0]

def _rdma_core_repository_impl(ctx):
    way = _fetch(ctx)
    cmake = ctx.read("CMakeLists.txt")
    version = _between(cmake, 'PACKAGE_VERSION "', '"', "version")
    pabi = _between(cmake, 'IBVERBS_PABI_VERSION "', '"', "private ABI version")
    providers = [p for p in _PROVIDERS if ctx.path("providers/" + p).exists]
    ctx.file("version.bzl", """# Written by the repository rule.
VERSION = {version}
PABI = {pabi}
FETCHED_BY = {way}
PROVIDERS = {providers}
""".format(version = repr(version), pabi = repr(pabi), way = repr(way), providers = repr(providers)))

    # rdma-core's own stand-ins for libnl and valgrind (its CMake uses the former with ENABLE_RESOLVE_NEIGH=0): nothing
    # extra to install or to link.
    for stand_in in ctx.path("buildlib/fixup-include").readdir():
        for folder in ["netlink-route-link-", "netlink-route-", "netlink-", "valgrind-"]:
            if stand_in.basename.startswith(folder):
                ctx.symlink(stand_in, "stand-ins/" + folder.replace("-", "/") + stand_in.basename[len(folder):])
                break

    # Labels as seen from here, so that the overlay also works when this project is not the main repository.
    seam = str(ctx.attr.seam.relative(":x"))[:-len(":x")]
    ctx.template("BUILD.bazel", ctx.attr.build_file, {"{SEAM}": seam if seam.startswith("@") else "@" + seam})

rdma_core_repository = repository_rule(
    implementation = _rdma_core_repository_impl,
    environ = [
        "RDMA_CORE_APT_MIRROR",
        "RDMA_CORE_DIR",
        "RDMA_CORE_FETCH",
        "RDMA_CORE_TARBALL",
    ],
    attrs = {
        "apt": attr.string_dict(doc = "Debian suite -> version of its source package"),
        "build_file": attr.label(default = "//third_party/rdma_core:rdma_core.BUILD"),
        "seam": attr.label(default = "//third_party/rdma_core/seam:seam.h"),
        "sha256": attr.string(mandatory = True, doc = "of the release tarball"),
        "urls": attr.string_list(),
        "version": attr.string(mandatory = True),
    },
)
