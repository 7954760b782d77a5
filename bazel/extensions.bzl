"""What WORKSPACE declares for older Bazel, as a module extension."""

load(":repositories.bzl", "qpexam_repositories")

def _repositories_impl(_module_ctx):
    qpexam_repositories()

repositories = module_extension(implementation = _repositories_impl)
