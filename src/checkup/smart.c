// What a disk says of its health: NVMe's log, and the text of smartctl.
#include "checkup/checkup.h"

#include "json/json.h"

#include <stdio.h>
#include <string.h>

// Bits of NVMe's critical warning.
enum { SPARE = 1, HOT = 2, DEGRADED = 4, READ_ONLY = 8, BACKUP = 16, KELVIN = 273 };

static void warning(unsigned bits, struct td_checkup_disk *d)
{
	const char *why = bits & READ_ONLY        ? "it takes no more data"
			  : bits & DEGRADED       ? "it is not reliable any more"
			  : bits & SPARE          ? "its spare blocks run out"
			  : bits & BACKUP         ? "its backup of power failed"
			  : bits & ~(unsigned)HOT ? "it warns"
						  : NULL;
	d->hot = bits & HOT;
	if (why) {
		d->failing = true;
		snprintf(d->why, sizeof(d->why), "%s", why);
	}
}

static void spare(int left, int least, struct td_checkup_disk *d)
{
	d->spare = left;
	if (left < least && !d->failing) {
		d->failing = true;
		snprintf(d->why, sizeof(d->why), "its spare blocks run out");
	}
}

void td_smart_nvme(const unsigned char log[512], struct td_checkup_disk *d)
{
	d->smart = true;
	d->failing = false;
	warning(log[0], d);
	const int kelvin = log[1] | log[2] << 8;
	d->temp_c = kelvin ? kelvin - KELVIN : -1;
	spare(log[3], log[4], d);
	d->used = log[5];
	// 128 bits; 63 are enough.
	uint64_t n = 0;
	for (int i = 7; i >= 0; i--)
		n = n << 8 | log[160 + i];
	d->media = (struct td_count){.known = true, .total = (int64_t)(n & INT64_MAX)};
}

static void media(const yyjson_val *root, struct td_checkup_disk *d)
{
	yyjson_val *table = td_jget(root, "ata_smart_attributes.table"), *x;
	size_t i, n;
	int64_t found = -1, reported = -1;
	yyjson_arr_foreach (table, i, n, x) {
		int64_t id = td_jint(x, "id", 0), raw = td_jint(x, "raw.value", -1);
		if (id == 187) // reported to the machine; 198: found by the disk itself
			reported = raw;
		else if (id == 198)
			found = raw;
	}
	const int64_t read = td_jint(root, "scsi_error_counter_log.read.total_uncorrected_errors", -1),
		      written = td_jint(root, "scsi_error_counter_log.write.total_uncorrected_errors", -1);
	int64_t sum = reported >= 0 ? reported : found;
	if (sum < 0 && read >= 0)
		sum = read + (written > 0 ? written : 0);
	if (sum >= 0)
		d->media = (struct td_count){.known = true, .total = sum};
}

bool td_smart_json(const char *text, size_t n, char device[32], struct td_checkup_disk *d)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (td_json_parse(text, n, &j, NULL))
		return false;
	yyjson_val *root = td_json_root(j), *log = td_jget(root, "nvme_smart_health_information_log");
	const char *name = td_jstr(root, "device.name"), *base = name ? strrchr(name, '/') : NULL;
	base = base ? base + 1 : name;
	yyjson_val *passed = td_jget(root, "smart_status.passed");
	if (!base || !*base || strlen(base) >= 32 || (!log && !yyjson_is_bool(passed)))
		return false;
	snprintf(device, 32, "%s", base);
	d->smart = true;
	d->failing = d->hot = false;
	d->used = (int)td_jint(root, "endurance_used.current_percent", -1);
	d->temp_c = (int)td_jint(root, "temperature.current", -1);
	d->spare = -1;
	if (log) {
		warning((unsigned)td_jint(log, "critical_warning", 0) & 0xff, d);
		if (td_jget(log, "available_spare"))
			spare((int)td_jint(log, "available_spare", 0),
			      (int)td_jint(log, "available_spare_threshold", 0), d);
		d->used = (int)td_jint(log, "percentage_used", d->used);
		d->temp_c = (int)td_jint(log, "temperature", d->temp_c);
		if (td_jget(log, "media_errors"))
			d->media = (struct td_count){.known = true, .total = td_jint(log, "media_errors", 0)};
	} else {
		media(root, d);
	}
	// A controller that warns of heat only says that it failed, too.
	if (yyjson_is_false(passed) && !d->failing && !d->hot) {
		d->failing = true;
		snprintf(d->why, sizeof(d->why), "SMART says that it fails");
	}
	return true;
}
