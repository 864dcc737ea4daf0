// What the commands about nodes share: nodes, their NodeActions, and one JSON view of both.
#pragma once

#include "cli/remote.h"
#include "local/instance.h"
#include "json/json.h"

struct td_nodeview {
	struct td_kube *kube;
	struct td_objects nodes, acts; // acts: all NodeActions, the oldest first
	struct td_object *history;     // of the node that was listed: what of its acts is folded; NULL: none
};
void td_nodeview_done(struct td_nodeview *v);
#define td_auto_nodeview __attribute__((cleanup(td_nodeview_done)))
// Connects to the home's API or to the cluster of the flags.
int td_cli_nodes_open(const struct td_remote *r, struct td_nodeview *ret, struct td_error *err);
// Lists nodes and acts. node: only this one, TD_NOT_FOUND when there is none; NULL: all.
int td_cli_nodes_list(struct td_nodeview *v, const char *node, struct td_error *err);
// Lists the acts, and reads the history of the node (NULL: none), whether the node is there or not.
int td_cli_nodes_records(struct td_nodeview *v, const char *node, struct td_error *err);
// Adds the view of a node to list: name, ready, inService, health, since, who, next, faults, devices.
void td_cli_nodes_view(const struct td_nodeview *v, const struct td_object *node, yyjson_mut_doc *d,
		       yyjson_mut_val *list);
// Adds the node's acts to list, the oldest first, each as its record says it.
void td_cli_nodes_history(const struct td_nodeview *v, const char *node, yyjson_mut_doc *d, yyjson_mut_val *list);
// Takes a GPU ("gpu3") of the node out of service, or brings it back, and says so.
int td_cli_node_device(struct td_kube *k, const char *node, const char *device, bool out, struct td_error *err);
// Who asks, for the records: the user, also behind sudo.
const char *td_cli_me(void);
// Writes into a new NodeAction or NodeUpgrade who makes it, as the API server knows him, where no policy of the cluster
// writes it. Servers before 1.28 do not tell: then nothing is written.
void td_cli_made_by(struct td_kube *k, yyjson_mut_doc *d, yyjson_mut_val *object);
// What a test of a node says, in words: its figures, which it says as JSON, and which devices were wrong. Other texts stay as they
// are. The caller frees it.
char *td_cli_test_words(const char *said);
// The last tests of the node with others, a line each, the oldest first; head: before the first line, then its length in blanks.
void td_cli_nodes_together(yyjson_val *tests, const char *head);
// Prints a record as a story.
void td_cli_nodes_story(yyjson_val *act);
