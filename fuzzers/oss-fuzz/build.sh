#!/bin/bash -eu
# OSS-Fuzz's and ClusterFuzzLite's build: every target of //fuzzers into $OUT. Compiler, engine and sanitizer come from
# the environment; --config=oss-fuzz adds none. QPEXAM_TARGETS: only these (labels).
cd "$SRC/${QPEXAM_PROJECT:-qpexam}"

flags=(--config=oss-fuzz "--repo_env=CC=$CC" "--repo_env=CXX=$CXX")
for flag in $CFLAGS; do flags+=("--conlyopt=$flag"); done
for flag in $CXXFLAGS; do flags+=("--cxxopt=$flag" "--linkopt=$flag"); done
flags+=("--linkopt=$LIB_FUZZING_ENGINE")
case $CXXFLAGS in
  *-fsanitize=*undefined* | *-fsanitize=array-bounds*) flags+=(--linkopt=-fsanitize-link-c++-runtime) ;;
esac

all=$(bazel query --noshow_progress 'attr(tags, "fuzz-test", //fuzzers/...) except attr(tags, "no-oss-fuzz", //fuzzers/...)')
targets=()
for target in ${QPEXAM_TARGETS:-$all}; do targets+=("${target}_oss_fuzz"); done
bazel build --noshow_progress "${flags[@]}" "${targets[@]}"
for target in "${targets[@]}"; do
  path=${target#//}
  tar --no-same-owner -xf "bazel-bin/${path/://}.tar" -C "$OUT"
done

# Coverage builds want the sources beside the profile.
if [ "$SANITIZER" = coverage ]; then
  mkdir -p "$OUT/proc/self/cwd"
  rsync -aLk --include='*.h' --include='*.c' --include='*.cc' --include='*/' --exclude='*' \
    "$(bazel info execution_root)/" "$OUT/proc/self/cwd/"
fi
