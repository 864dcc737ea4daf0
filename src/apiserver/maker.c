// Who made the object: the annotation tandem.dev/made-by of NodeActions and NodeUpgrades, which are records of who did
// what, and tandem.dev/action-by of a Node, beside the annotation that asks for an act. The server writes both, whatever
// the request says: so nobody writes another's name. Nor does he by tandem.dev/action-taken, where the operator moves the
// two to: anybody may take it away, and only the operator writes it. (On clusters admission policies see to all that:
// deploy/kustomize/base.)
#include "apiserver/srv.h"

#include "base/names.h"

#include <string.h>

static const char *was(const struct td_item *old, const char *key)
{
	return old ? td_jkey_str(td_jget(td_item_root(old), "metadata.annotations"), key) : NULL;
}

static void say(yyjson_mut_doc *d, const char *key, const char *who)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	if (who)
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.annotations"), key, who);
	else if (yyjson_mut_is_obj(td_jm_get(o, "metadata.annotations")))
		yyjson_mut_obj_remove_key(td_jm_get(o, "metadata.annotations"), key);
}

void td_srv_maker(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d)
{
	const struct td_kind *k = q->k;
	if (!strcmp(k->group, "tandem.dev") &&
	    (!strcmp(k->plural, "nodeactions") || !strcmp(k->plural, "nodeupgrades")))
		say(d, TD_ANN_MADE_BY, old ? was(old, TD_ANN_MADE_BY) : q->user.name);
	if (*k->group || strcmp(k->plural, "nodes") != 0)
		return;

	bool operators = td_streq(q->user.name, "system:tandem:operator") && td_auth_is_role(&q->user);
	yyjson_mut_val *notes = td_jm_get(yyjson_mut_doc_get_root(d), "metadata.annotations"),
		       *v = yyjson_mut_is_obj(notes) ? yyjson_mut_obj_get(notes, TD_ANN_ACTION) : NULL;
	if (!operators && yyjson_mut_is_obj(notes) && yyjson_mut_obj_get(notes, TD_ANN_ACTION_TAKEN))
		say(d, TD_ANN_ACTION_TAKEN, was(old, TD_ANN_ACTION_TAKEN));
	const char *now = v ? yyjson_mut_get_str(v) : NULL;
	if (!now)
		say(d, TD_ANN_ACTION_BY, NULL);
	else
		say(d, TD_ANN_ACTION_BY,
		    td_streq(now, was(old, TD_ANN_ACTION)) ? was(old, TD_ANN_ACTION_BY) : q->user.name);
}
