# What a build needs from the machine, and getting it. Sourced by ./qpexam and .ci/*; bash.
#
# A need is a test of the machine and the Debian package that satisfies it. Tests look for what the build uses, never
# for a package: elsewhere than on Debian the same things may have come another way.

qpx_say() { printf 'qpexam: %s\n' "$*" >&2; }

qpx_bazel() {
  if [ -n "${QPEXAM_BAZEL:-}" ]; then
    echo "$QPEXAM_BAZEL"
  else
    command -v bazel || command -v bazelisk
  fi
}

# Prints the packages that group $1 lacks: build (./qpexam), packaged (packaged:), test (./qpexam test),
# pyverbs (.ci/pyverbs), guest (vm:), clang (sanitizers), afl, lint, tidy, coverage.
qpx_missing() {
  case $1 in
    build)
      qpx_bazel > /dev/null || echo bazel-bootstrap
      command -v g++ > /dev/null || command -v c++ > /dev/null || echo g++
      command -v python3 > /dev/null || echo python3
      [ -d /usr/share/bazel/rules/cc ] || [ -n "${RULES_CC_DIR:-}${QPEXAM_BAZEL:-}" ] ||
        ! qpx_is_debian_bazel || echo bazel-rules-cc
      [ -d /usr/src/googletest/googletest ] || echo googletest
      [ -e /usr/include/CLI/CLI.hpp ] || echo libcli11-dev
      [ -e /usr/include/fmt/core.h ] || echo libfmt-dev
      [ -e /usr/include/nlohmann/json.hpp ] || echo nlohmann-json3-dev
      [ -e /usr/include/benchmark/benchmark.h ] || echo libbenchmark-dev
      qpx_has_library libibverbs.so.1 || echo libibverbs1
      ;;
    clang)
      command -v clang++-14 > /dev/null || echo clang-14
      [ -n "$(find /usr/lib/llvm-14/lib/clang -name 'libclang_rt.asan*.a' -print -quit 2> /dev/null)" ] ||
        echo libclang-rt-14-dev
      command -v ld.lld > /dev/null || echo lld
      ;;
    afl)
      qpx_missing clang
      command -v afl-fuzz > /dev/null || echo afl++
      ;;
    packaged)
      qpx_has_plugin rxe || echo ibverbs-providers
      ;;
    test)
      qpx_missing packaged
      command -v ibv_devinfo > /dev/null || echo ibverbs-utils
      ;;
    pyverbs)
      qpx_missing packaged
      [ -e /usr/share/doc/rdma-core/tests/run_tests.py ] || echo python3-pyverbs
      ;;
    guest)
      command -v qemu-system-x86_64 > /dev/null || echo qemu-system-x86
      command -v xz > /dev/null || echo xz-utils
      qpx_has_plugin rxe || echo ibverbs-providers
      ;;
    lint)
      command -v clang-format-14 > /dev/null || command -v clang-format > /dev/null || echo clang-format-14
      ;;
    tidy) command -v clang-tidy-14 > /dev/null || echo clang-tidy-14 ;;
    coverage)
      qpx_missing clang
      command -v llvm-cov-14 > /dev/null || echo llvm-14
      ;;
  esac
}

# Debian's bazel is the one that takes rules_cc from a package; it is also what would be installed.
qpx_is_debian_bazel() { [ -e /usr/share/bazel/A-server.jar ] || ! qpx_bazel > /dev/null; }

qpx_has_library() {
  local folder
  for folder in /lib /lib64 /usr/lib /usr/lib64 /usr/lib/*-linux-gnu* /usr/local/lib; do
    [ -e "$folder/$1" ] && return 0
  done
  return 1
}

# The installed libibverbs' plugin of provider $1.
qpx_has_plugin() {
  [ -n "$(find /usr/lib /usr/lib64 -path "*libibverbs/lib$1-rdmav*" -print -quit 2> /dev/null)" ]
}

# Installs what the groups "$@" lack, when root and apt-get are there; else says how, and returns 4.
qpx_set_up() {
  local group missing=
  for group in "$@"; do missing+=" $(qpx_missing "$group" | tr '\n' ' ')"; done
  missing=$(echo $missing)
  [ -n "$missing" ] || return 0
  if ! command -v apt-get > /dev/null; then
    qpx_say "this machine lacks what these Debian packages provide: $missing"
    return 4
  fi
  if [ "$(id -u)" != 0 ]; then
    qpx_say 'packages are missing; install them and start again:'
    echo "  sudo apt-get install -y --no-install-recommends $missing" >&2
    return 4
  fi
  qpx_say "installing $missing"
  local install=(apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends)
  # The lists of a fresh machine or image are empty or old: update them only when they do not serve.
  if ! { DEBIAN_FRONTEND=noninteractive "${install[@]}" $missing ||
    { apt-get -q update && DEBIAN_FRONTEND=noninteractive "${install[@]}" $missing; }; } > "${TMPDIR:-/tmp}/qpexam-apt.$$" 2>&1
  then
    tail -n 20 "${TMPDIR:-/tmp}/qpexam-apt.$$" >&2
    rm -f "${TMPDIR:-/tmp}/qpexam-apt.$$"
    qpx_say "apt-get could not install: $missing"
    return 4
  fi
  rm -f "${TMPDIR:-/tmp}/qpexam-apt.$$"
}

# Bazel wants a home for its output tree.
qpx_home() {
  if [ -z "${HOME:-}" ] || ! [ -d "$HOME" ] || ! [ -w "$HOME" ]; then
    HOME=${TMPDIR:-/tmp}/qpexam-home-$(id -u)
    mkdir -p "$HOME" && [ -O "$HOME" ] || { qpx_say "no home folder, and $HOME cannot serve as one"; exit 4; }
    export HOME
  fi
}
