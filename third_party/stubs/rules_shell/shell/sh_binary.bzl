"""sh_binary of Bazel releases before 8."""

sh_binary = native.sh_binary
