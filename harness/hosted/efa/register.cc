// `hosted:efa`.
#include <infiniband/efadv.h>

#include "harness/hosted/efa/efa_model.h"
#include "harness/hosted/hosted_provider.h"

namespace qpexam::hosted {
namespace {

ibv_qp* CreateSrd(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  efadv_qp_init_attr efa = {};
  efa.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD;
  return efadv_create_qp_ex(context, attr, &efa, sizeof efa);
}

const RegisterHostedKind kRegistered("efa", MakeEfaModel, CreateSrd);

}  // namespace
}  // namespace qpexam::hosted
