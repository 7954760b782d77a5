/* Included by the compiler before each source of a provider in a fuzzer's build: the provider's
 * code lies in a section of its own, so that a fuzz target can tell how much of that code it has
 * reached (fuzzers/provider_coverage.h). */
#if defined(__clang__) && defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
#if defined(QPX_PROVIDER_bnxt_re)
#pragma clang section text = "qpx_text_bnxt_re"
#elif defined(QPX_PROVIDER_efa)
#pragma clang section text = "qpx_text_efa"
#elif defined(QPX_PROVIDER_hns)
#pragma clang section text = "qpx_text_hns"
#elif defined(QPX_PROVIDER_ionic)
#pragma clang section text = "qpx_text_ionic"
#elif defined(QPX_PROVIDER_mlx5)
#pragma clang section text = "qpx_text_mlx5"
#elif defined(QPX_PROVIDER_rxe)
#pragma clang section text = "qpx_text_rxe"
#endif
#endif
