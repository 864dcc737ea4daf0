// File systems of storage groups in the sessions of a login pod's sshd: a module of PAM, `session optional
// /opt/tandem/tandem-login.so` (operator/programs/sshd.sh). sshd calls it as root, for each connection in a process of
// its own, before it becomes the user; all that the connection starts is in the mounts that are made here.
//
// What it needs of PAM is declared anew from its documentation (pam_get_item(3), pam_conv(3)): sshd has the library.
#include "spank/groupfs.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

enum { PAM_SUCCESS = 0, PAM_USER = 2, PAM_CONV = 5, PAM_ERROR_MSG = 3, PAM_IGNORE = 25 };

struct pam_handle;
struct pam_message {
	int msg_style;
	const char *msg;
};
struct pam_response {
	char *resp;
	int resp_retcode;
};
struct pam_conv {
	int (*conv)(int n, const struct pam_message **message, struct pam_response **response, void *ctx);
	void *appdata_ptr;
};
extern int pam_get_item(const struct pam_handle *h, int item, const void **ret);

#define EXPORT __attribute__((visibility("default")))
EXPORT int pam_sm_open_session(struct pam_handle *h, int flags, int argc, const char **argv);
EXPORT int pam_sm_close_session(struct pam_handle *h, int flags, int argc, const char **argv);

// sshd shows it before the shell begins, and to no program that only wants data.
static void say(const struct pam_handle *h, const char *text)
{
	const struct pam_message m = {PAM_ERROR_MSG, text}, *list = &m;
	struct pam_response *answer = NULL;
	const void *item = NULL;
	const struct pam_conv *c;
	if (pam_get_item(h, PAM_CONV, &item) || !(c = item) || !c->conv)
		return;
	if (!c->conv(1, &list, &answer, c->appdata_ptr) && answer) {
		free(answer->resp);
		free(answer);
	}
}

// A login without them is better than none: what is not shown stays closed.
EXPORT int pam_sm_open_session(struct pam_handle *h, int flags, int argc, const char **argv)
{
	(void)flags, (void)argc, (void)argv;
	char room[16 << 10], why[256] = "", text[512];
	struct passwd p, *who = NULL;
	const void *user = NULL;
	if (pam_get_item(h, PAM_USER, &user) || !user || getpwnam_r(user, &p, room, sizeof(room), &who) || !who ||
	    !who->pw_uid)
		return PAM_IGNORE;
	if (td_groupfs_login(TD_GROUPFS, TD_GROUPFS_LIST, who->pw_name, why, sizeof(why))) {
		snprintf(text, sizeof(text),
			 "tandem: file systems of your storage groups cannot be shown here: %s. Tell whoever runs the "
			 "cluster.",
			 why);
		say(h, text);
	}
	return PAM_SUCCESS;
}

EXPORT int pam_sm_close_session(struct pam_handle *h, int flags, int argc, const char **argv)
{
	(void)h, (void)flags, (void)argc, (void)argv;
	return PAM_SUCCESS; // its mounts end with its processes
}
