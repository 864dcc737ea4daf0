// Prices and bills. A bill of a period that is over is a ConfigMap CLUSTER-bill-PERIOD in the SlurmCluster's
// namespace that cannot be changed; the period that goes on is reckoned anew each time somebody looks.
#pragma once

#include "gateway/usage.h"
#include "pool/price.h"

// ---- prices.c: spec.billing of the SlurmCluster and spec.prices of the Tenants ----
struct td_gateway_tariff {
	char *currency;
	enum td_period_kind kind;
	struct td_prices all;
	struct td_gateway_own {
		char *account;
		struct td_prices prices;
	} *own; // of accounts of Tenants that have, or are below one that has, prices of its own
	size_t n_own;
};
// all.n is 0 where no prices are set.
void td_gateway_tariff(struct td_gateway *g, const struct td_gateway_viewer *v, struct td_gateway_tariff *ret);
void td_gateway_tariff_done(struct td_gateway_tariff *t);
#define td_auto_tariff __attribute__((cleanup(td_gateway_tariff_done)))
// Sets the cost of rows, each of which is of one day, account and type.
void td_gateway_reckon(const struct td_gateway_tariff *t, struct td_usage *rows);

// ---- bills.c ----
// Makes bills of periods that are over, until the gateway ends. A thread's function.
void *td_bill_thread(void *gateway);
// A bill as a document: every line, or with too many people sums of accounts only.
yyjson_mut_doc *td_gateway_bill(const struct td_gateway_viewer *v, const struct td_gateway_tariff *t,
				const struct td_period *p, const struct td_usage *rows);
// The same as text that fits into an object: with too many people, of accounts only. TD_INVALID: it does not fit.
int td_gateway_bill_text(const struct td_gateway_viewer *v, const struct td_gateway_tariff *t,
			 const struct td_period *p, const struct td_usage *rows, char **ret, struct td_error *err);
int td_gateway_bill_list(struct td_gateway *g, struct td_cancel *c, struct td_objects *ret, struct td_error *err);
