// What a plug-in needs of Slurm's SPANK interface, declared anew from its documentation (spank(8)):
// names, the order of the items and the struct of an option are the interface, and are the same from
// Slurm 20 to 26. So one plug-in serves every version, and none of Slurm's headers is needed.
#pragma once

#include <sys/types.h>

#define TD_SPANK_EXPORT __attribute__((visibility("default")))
// Every plug-in has these; version.c fills in the last.
extern const char plugin_name[], plugin_type[];
extern const unsigned int spank_plugin_version;
extern unsigned int plugin_version;

typedef struct spank_handle *spank_t;

// The first items, in their documented order; what the plug-in does not ask for is left out.
enum spank_item {
	S_JOB_UID = 0,                 // uid_t *
	S_JOB_GID = 1,                 // gid_t *
	S_JOB_ID = 2,                  // uint32_t *
	S_JOB_STEPID = 3,              // uint32_t *
	S_JOB_NNODES = 4,              // uint32_t *, of the step
	S_JOB_LOCAL_TASK_COUNT = 6,    // uint32_t *
	S_JOB_ENV = 10,                // char ***
	S_JOB_SUPPLEMENTARY_GIDS = 19, // gid_t **, int *
};

typedef int (*spank_opt_cb_f)(int val, const char *optarg, int remote);
struct spank_option {
	char *name, *arginfo, *usage;
	int has_arg, val;
	spank_opt_cb_f cb;
};

enum spank_context { S_CTX_ERROR, S_CTX_LOCAL, S_CTX_REMOTE, S_CTX_ALLOCATOR, S_CTX_SLURMD, S_CTX_JOB_SCRIPT };
enum spank_context spank_context(void);
int spank_option_register(spank_t sp, struct spank_option *opt);
int spank_remote(spank_t sp); // 1: in slurmstepd
int spank_get_item(spank_t sp, enum spank_item item, ...);
int spank_getenv(spank_t sp, const char *name, char *buf, int len);
int spank_setenv(spank_t sp, const char *name, const char *value, int overwrite);
int spank_prepend_task_argv(spank_t sp, int argc, const char *argv[]);
void slurm_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void slurm_spank_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

// What Slurm calls.
int slurm_spank_init(spank_t sp, int ac, char **av);
int slurm_spank_init_post_opt(spank_t sp, int ac, char **av);
int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av);
int slurm_spank_task_init(spank_t sp, int ac, char **av);
int slurm_spank_task_post_fork(spank_t sp, int ac, char **av);
int slurm_spank_exit(spank_t sp, int ac, char **av);
