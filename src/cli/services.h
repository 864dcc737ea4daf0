// What services hold now and how much their devices computed, from their pods (kube/service.h).
#pragma once

#include "kube/kube.h"

struct td_cli_service {
	char *name; // "NAMESPACE/KIND/NAME"
	size_t pods;
	double devices;    // whole ones; a half counts 0.5
	double busy, idle; // device seconds that were measured in the time that is asked about
	double held;       // device seconds
};
struct td_cli_services {
	struct td_cli_service *v;
	size_t n;
};
void td_cli_services_done(struct td_cli_services *l);
#define td_auto_services __attribute__((cleanup(td_cli_services_done)))
// Those that hold devices now, sorted by name. from, now: epoch seconds; what was before is not counted.
void td_cli_services_read(const struct td_objects *pods, int64_t from, int64_t now, struct td_cli_services *ret);
// The part of the measured time that they computed, 0 to 1; below 0: it is not known.
double td_cli_use(double busy, double idle);
