// What is still to come.
#include "api/kinds_priv.h"
const struct td_kind_rules *td_kind_rules(const char *group, const char *kind)
{
	return NULL;
}
struct td_json *td_kind_crd(const char *kind)
{
	return NULL;
}
int td_kind_from_crd(const yyjson_val *crd, struct td_kind ***ret, size_t *ret_n, struct td_causes *causes, struct td_error *err)
{
	return td_fail(err, TD_UNSUPPORTED, "CRDs are not ready");
}
int td_strategic_merge(const struct td_schema *s, const yyjson_val *target, const yyjson_val *patch, struct td_json **ret,
		       struct td_error *err)
{
	return td_json_merge_patch(target, patch, ret, err);
}
int td_schema_apply(const struct td_schema *s, const yyjson_val *live, const yyjson_val *applied, const struct td_apply *o,
		    struct td_causes *ret_conflicts, struct td_json **ret, struct td_error *err)
{
	return td_json_merge_patch(live, applied, ret, err);
}
void td_schema_track(const struct td_schema *s, const yyjson_val *old, yyjson_mut_doc *d, yyjson_mut_val *now, const struct td_apply *o)
{
}
