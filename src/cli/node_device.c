// tandem node out and in: one device of a node leaves service, or comes back, while the others work.
#include "cli/nodeview.h"

#include "base/names.h"
#include "pool/aside.h"

#include <stdio.h>
#include <string.h>

enum { TRIES = 5 };

// Writes the list anew, if nobody has changed the Node since.
static int write_list(struct td_kube *k, const struct td_object *o, uint64_t mask, struct td_error *err)
{
	td_auto_free char *text = td_pool_aside_write(mask);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *a = td_jm_obj(d, root, "metadata.annotations");
	td_jm_str(d, root, "metadata.resourceVersion", o->rv);
	if (text)
		td_jm_key_str(d, a, TD_ANN_DEVICES_OUT, text);
	else
		td_jm_key_set(d, a, TD_ANN_DEVICES_OUT, yyjson_mut_null(d));
	return td_kube_patch(k, TD_AT(&td_nodes, NULL, o->name), TD_PATCH_MERGE, root, NULL, NULL, err);
}

int td_cli_node_device(struct td_kube *k, const char *node, const char *device, bool out, struct td_error *err)
{
	uint64_t one, all;
	if (!td_pool_aside_read(device, &one) || !one)
		return td_fail(err, TD_INVALID, "--device %.40s: give a GPU, such as gpu3", device);
	int r = TD_CONFLICT;
	for (int i = 0; i < TRIES && r == TD_CONFLICT; i++) {
		td_auto(td_object_unref) struct td_object *o = NULL;
		if ((r = td_kube_get(k, &td_nodes, NULL, node, NULL, &o, err)))
			break;
		if (!td_pool_aside_read(td_object_annotation(o, TD_ANN_DEVICES_OUT), &all))
			return td_fail(err, TD_INVALID,
				       "node %s: its annotation " TD_ANN_DEVICES_OUT " cannot be read: remove it with "
				       "`kubectl annotate node %s " TD_ANN_DEVICES_OUT "-`",
				       node, node);
		if (!out && !(all & one))
			return td_fail(err, TD_INVALID, "%s of %s is not out of service", device, node);
		r = write_list(k, o, out ? all | one : all & ~one, err);
	}
	if (!r && out)
		printf("%s of %s leaves service; a job that holds it goes on. `tandem node %s` tells when it is out.\n",
		       device, node, node);
	else if (!r)
		printf("%s of %s comes back into service.\n", device, node);
	return r;
}
