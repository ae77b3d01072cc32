#include "calls/wrappers.h"

__attribute__((visibility("default"))) const agent_wrapper *scalana_mpi_wrappers(const agent_api *api);
const agent_wrapper *scalana_mpi_wrappers(const agent_api *api)
{
    if (api->version != AGENT_VERSION || api->recorder->version != RECORDER_API_VERSION) {
        return NULL;
    }
    agent = *api;
    return generated_wrappers;
}
