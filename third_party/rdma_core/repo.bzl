"""@rdma_core: rdma-core's sources, from the first place that has them.

  dir      RDMA_CORE_DIR, an unpacked release or a checkout. Not held against the pin: whoever names a tree means it.
  tarball  RDMA_CORE_TARBALL, a local copy of the pinned tarball (checked).
  apt      Debian's source package by `apt-get source`, with an apt state of its own: no root, no change to the machine
           (checked). RDMA_CORE_APT_MIRROR names another mirror than the machine's first.
  http     the release tarball (checked).

RDMA_CORE_VERSION chooses another of the pinned releases (pin.bzl) than the default one, for all ways but dir.
RDMA_CORE_FETCH, a comma-separated list of these names, restricts and orders them (default: as above). When none
works, the message lists every attempt and why it failed. A tree named by RDMA_CORE_DIR never falls through to another.
"""

_PROVIDERS = ["rxe", "mlx5", "efa", "hns", "bnxt_re", "ionic"]

# Prints the path of the downloaded orig tarball. $1 suite, $2 release. Whatever the Debian revision, the tarball is the
# release's.
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
package=$(apt-cache "${options[@]}" showsrc rdma-core | sed -n 's/^Version: //p' | grep -m 1 -F "$2-") ||
  { echo "E: $1 has no rdma-core $2" >&2; exit 1; }
apt-get "${options[@]}" source --tar-only --download-only "rdma-core=$package" >&2
ls "$state"/rdma-core_*.orig.tar.*
"""

def _unpack(ctx, version, tarball):
    """Checks and unpacks. Returns None, or what is wrong."""
    sum = ctx.execute(["sha256sum", tarball])
    if sum.return_code:
        return sum.stderr.strip()
    found = sum.stdout.split(" ")[0]
    if found != ctx.attr.sha256s[version]:
        return "%s has sha256 %s, the pinned one of %s is %s" % (tarball, found, version, ctx.attr.sha256s[version])
    tar = ctx.execute(["tar", "-xf", tarball, "--strip-components=1"])
    return tar.stderr.strip() if tar.return_code else None

def _from_dir(ctx, _version):
    name = ctx.os.environ.get("RDMA_CORE_DIR", "")
    if not name:
        return "RDMA_CORE_DIR is not set"
    tree = ctx.path(name)
    if not tree.get_child("libibverbs").get_child("verbs.h").exists:
        fail("RDMA_CORE_DIR=%s: no libibverbs/verbs.h there; name the top folder of an rdma-core tree by an absolute path" % name)
    for part in ["CMakeLists.txt", "buildlib", "ccan", "kernel-headers", "libibverbs", "providers", "util"]:
        ctx.symlink(tree.get_child(part), part)
    for licence in tree.readdir():
        if licence.basename.startswith("COPYING"):
            ctx.symlink(licence, licence.basename)
    return None

def _from_tarball(ctx, version):
    name = ctx.os.environ.get("RDMA_CORE_TARBALL", "")
    return _unpack(ctx, version, name) if name else "RDMA_CORE_TARBALL is not set"

def _from_apt(ctx, version):
    if not ctx.which("apt-get"):
        return "no apt-get on this machine"
    suite = ctx.attr.suites[version]
    ctx.report_progress("apt-get source rdma-core %s of %s" % (version, suite))
    got = ctx.execute(["bash", "-c", _APT_SOURCE, "apt", suite, version], timeout = 600)
    if got.return_code:
        error = "; ".join([line for line in got.stderr.split("\n") if line[:2] in ["E:", "W:"]]) or got.stderr[-300:]
    else:
        error = _unpack(ctx, version, got.stdout.strip())
    ctx.delete("_apt")
    return error

def _from_http(ctx, version):
    url = ctx.attr.urls[version]
    got = ctx.download(url, "_source.tar.gz", allow_fail = True, sha256 = ctx.attr.sha256s[version])
    error = _unpack(ctx, version, "_source.tar.gz") if got.success else "download failed: " + url
    ctx.delete("_source.tar.gz")
    return error

_WAYS = {"dir": _from_dir, "tarball": _from_tarball, "apt": _from_apt, "http": _from_http}

def _fetch(ctx):
    """Returns the name of the way that worked."""
    version = ctx.os.environ.get("RDMA_CORE_VERSION", "") or ctx.attr.default_version
    if version not in ctx.attr.sha256s:
        fail("RDMA_CORE_VERSION=%s: the pinned releases are %s; for another one set RDMA_CORE_DIR" %
             (version, ", ".join(sorted(ctx.attr.sha256s))))
    tried = []
    for way in ctx.os.environ.get("RDMA_CORE_FETCH", "dir,tarball,apt,http").split(","):
        if way not in _WAYS:
            fail("RDMA_CORE_FETCH: '%s' is none of %s" % (way, ", ".join(_WAYS)))
        error = _WAYS[way](ctx, version)
        if not error:
            return way
        tried.append("%s: %s" % (way, error))
    fail("rdma-core %s could not be had. Tried:\n  %s\nRemedy: set RDMA_CORE_DIR to the absolute path of an unpacked rdma-core." %
         (version, "\n  ".join(tried)))

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
        "RDMA_CORE_VERSION",
    ],
    attrs = {
        "build_file": attr.label(default = "//third_party/rdma_core:rdma_core.BUILD"),
        "default_version": attr.string(mandatory = True),
        "seam": attr.label(default = "//third_party/rdma_core/seam:seam.h"),
        "sha256s": attr.string_dict(doc = "release -> checksum of its tarball"),
        "suites": attr.string_dict(doc = "release -> a Debian suite with its source package"),
        "urls": attr.string_dict(doc = "release -> its tarball"),
    },
)
