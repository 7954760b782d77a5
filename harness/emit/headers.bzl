"""headers_of: the headers of a cc_library as files, for a test that runs a compiler."""

def _headers_of_impl(ctx):
    headers = ctx.attr.dep[CcInfo].compilation_context.headers
    return [DefaultInfo(files = headers, runfiles = ctx.runfiles(transitive_files = headers))]

headers_of = rule(
    implementation = _headers_of_impl,
    attrs = {"dep": attr.label(mandatory = True, providers = [CcInfo])},
)
