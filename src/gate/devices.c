// Reads and writes sets of devices, and reads what a pod's annotations grant.
#include "gate/devices.h"

#include "api/grant.h"
#include "base/indexes.h"
#include "base/names.h"

#include <ctype.h>
#include <string.h>

int td_dev_parse(const char *ranges, int n, uint64_t *ret, struct td_error *err)
{
	uint64_t m = 0;
	const char *s = ranges ? ranges : "";
	if (td_streq(s, "-"))
		s = "";

	while (*s) {
		if (!isdigit((unsigned char)*s))
			return td_fail(err, TD_INVALID,
				       "device list \"%.80s\": want indexes and ranges, as in \"0-1,4\"", ranges);
		char *e;
		unsigned long a = strtoul(s, &e, 10), b = a;
		if (*e == '-') {
			if (!isdigit((unsigned char)e[1]))
				return td_fail(err, TD_INVALID,
					       "device list \"%.80s\": a range needs an end, as in \"0-1,4\"", ranges);
			b = strtoul(e + 1, &e, 10);
		}
		if (b < a || b >= (unsigned long)n || b >= TD_DEV_MAX)
			return td_fail(err, TD_INVALID, "device list \"%.80s\": the node has devices 0 to %d", ranges,
				       n - 1);
		for (unsigned long i = a; i <= b; i++)
			m |= (uint64_t)1 << i;
		if (*e && *e != ',')
			return td_fail(err, TD_INVALID,
				       "device list \"%.80s\": want indexes and ranges, as in \"0-1,4\"", ranges);
		if (*e == ',' && !e[1])
			return td_fail(err, TD_INVALID, "device list \"%.80s\" ends with a comma", ranges);
		s = *e ? e + 1 : e;
	}

	*ret = m;
	return 0;
}

char *td_dev_format(uint64_t mask)
{
	return mask ? td_indexes_text(mask) : td_strdup("-");
}

static int number(const yyjson_val *ann, const char *key, int64_t *ret, struct td_error *err)
{
	const char *s = td_jkey_str(ann, key);
	long long v = 0;
	if (s && (!td_parse_i64(s, &v) || v < 0))
		return td_fail(err, TD_INVALID, "annotation %s is \"%.40s\": want a number", key, s);
	*ret = v;
	return 0;
}

int td_gate_grant_read(const yyjson_val *pod, int gpus, struct td_gate_grant *ret, struct td_error *err)
{
	struct td_gate_grant g = {0};
	yyjson_val *ann = td_jget(pod, "metadata.annotations");
	g.all = td_streq(td_jkey_str(ann, TD_ANN_ALL_DEVICES), "true");
	g.granted = td_jkey_str(ann, TD_ANN_JOB) != NULL;
	int r = number(ann, TD_ANN_JOB, &g.job, err);
	if (!r)
		r = number(ann, TD_ANN_START, &g.start, err);
	if (r)
		return r;

	const char *dev = td_jkey_str(ann, TD_ANN_DEVICES);
	if (dev && *dev) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		r = td_json_parse(dev, strlen(dev), &j, err);
		if (r)
			return td_wrap(err, "annotation " TD_ANN_DEVICES);
		// Whatever they are called, an index means one device of the node, unless it is an adapter's.
		yyjson_val *k, *v;
		size_t i, n;
		yyjson_obj_foreach (td_json_root(j), i, n, k, v) {
			uint64_t some = 0;
			if (!r && td_api_grant_is_gpus(k))
				r = td_dev_parse(yyjson_get_str(v), gpus, &some, err);
			g.devices |= some;
		}
		if (r)
			return td_wrap(err, "annotation " TD_ANN_DEVICES);
		g.share = td_api_grant_share(td_json_root(j));
		if (g.share < 0)
			return td_fail(err, TD_INVALID, "annotation " TD_ANN_DEVICES ": \"%.20s\" is no share",
				       td_jstr_or(td_json_root(j), TD_GRANT_SHARE, ""));
	}

	*ret = g;
	return 0;
}
