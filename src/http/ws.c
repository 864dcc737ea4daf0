#include "http/server_priv.h"
struct td_ws *td_ws_free(struct td_ws *ws)
{
	return NULL;
}
