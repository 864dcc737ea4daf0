// Shares of a device in a gate's table: several holders at once, each of some hundredths, never more than 100 together,
// and never beside who holds it whole. Pure, as table.h.
//
// A table is told of claims, never of ends. So a holder of a share stays in the table when its job is over, and only a
// claim for which there is no room asks who still lives. Who does not is marked idle: it counts for nothing, and is let
// in anew (if there is room then) when it starts something after all, as a job does between two of its steps. So what
// counts is never more than 100, whoever was taken for what.
#pragma once

#include "gate/table.h"

// May h, which has a share, join those who hold a share of the device, as it is now? False also when the device is held
// whole, or nobody holds it: then it is taken as ever.
bool td_shares_join(const struct td_gate_dev *d, const struct td_holder *h);
// True when the device is held in shares.
bool td_shares_on(const struct td_gate_dev *d);
// The hundredths that are held by others than h and count.
int td_shares_sum(const struct td_gate_dev *d, const struct td_holder *h);
// The entry of h among those who hold a share; NULL: none.
struct td_holder *td_shares_find(struct td_gate_dev *d, const struct td_holder *h);
// Copies those who count on devices of the mask where h, which has a share, does not find room, oldest start first, to
// out; at most max. Returns how many.
int td_shares_in_the_way(const struct td_gate_table *t, uint64_t mask, const struct td_holder *h, struct td_holder *out,
			 int max);
// Marks h as idle wherever it holds a share on devices of the mask.
void td_shares_idle(struct td_gate_table *t, uint64_t mask, const struct td_holder *h);
// Takes device d for h, which may join (td_shares_join). True: something changed.
bool td_shares_take(struct td_gate_dev *d, const struct td_holder *h);
