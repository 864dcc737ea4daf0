#include "base/fault.h"

#ifdef TD_FAULTS
#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPEC_MAX = 512 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards hits, counted and written
static char place[512];                                  // $TANDEM_HOME/fault/<role>, or ""
static long long hits;
static char counted[SPEC_MAX];  // the line that hits counts for
static struct timespec written; // when that line was written

static void find_place(void)
{
	char line[1024];
	const char *home = getenv("TANDEM_HOME");
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	if (fd >= 0)
		close(fd);

	if (!home || n <= 0)
		return;

	line[n] = '\0';
	const char *role = line + strlen(line) + 1;
	if (role < line + n && *role && !strchr(role, '/'))
		snprintf(place, sizeof(place), "%s/fault/%s", home, role);
}

static void trace(const char *point)
{
	char path[sizeof(place) + 8];
	snprintf(path, sizeof(path), "%s.trace", place);
	td_auto_close int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	td_auto_free char *line = fd < 0 ? NULL : td_asprintf("%s\n", point);
	if (line)
		td_write_all(fd, line, strlen(line), NULL);
}

static bool read_place(char spec[SPEC_MAX])
{
	struct stat st;
	td_auto_close int fd = open(place, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 || fstat(fd, &st) < 0 ? -1 : read(fd, spec, SPEC_MAX - 1);
	if (n <= 0)
		return false;

	spec[n] = '\0';
	spec[strcspn(spec, "\n")] = '\0';

	if (st.st_mtim.tv_sec != written.tv_sec || st.st_mtim.tv_nsec != written.tv_nsec)
		*counted = '\0';
	written = st.st_mtim;
	return true;
}

// Returns the action when the line `spec` is due at this point now, else NULL. Counts a match in
// hits.
static const char *due(char *spec, const char *point)
{
	char *action = strchr(spec, ':'), *count = strchr(spec, '#');
	long long nth = 1;
	if (!action)
		return NULL;

	*action++ = '\0';
	if (count) {
		*count++ = '\0';
		if (!td_parse_i64(count, &nth))
			return NULL;
	}

	return fnmatch(spec, point, 0) == 0 && ++hits == nth ? action : NULL;
}

// Says whether a fault is armed for this point, with its action. At most one caller gets it,
// because rename() decides. The caller holds the lock.
static bool armed(const char *point, char ret_action[SPEC_MAX])
{
	char spec[SPEC_MAX], fired[sizeof(place) + 8];
	bool from_place = *place && read_place(spec);
	const char *env = getenv("TD_FAULT");

	if (!from_place && !env)
		return false;
	if (!from_place)
		snprintf(spec, sizeof(spec), "%s", env);

	if (strcmp(counted, spec) != 0) {
		snprintf(counted, sizeof(counted), "%s", spec);
		hits = 0;
	}

	const char *action = due(spec, point);
	if (!action)
		return false;

	memcpy(ret_action, action, strlen(action) + 1);
	snprintf(fired, sizeof(fired), "%s.fired", place);
	return !from_place || rename(place, fired) == 0;
}

int td_fault_at(struct td_error *err, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *point = td_vasprintf(fmt, ap);
	va_end(ap);

	pthread_once(&once, find_place);
	if (*place)
		trace(point);

	char action[SPEC_MAX];
	pthread_mutex_lock(&lock);
	bool now = armed(point, action);
	pthread_mutex_unlock(&lock);

	if (!now)
		return 0;
	if (!strcmp(action, "crash")) {
		kill(getpid(), SIGKILL);
		pause();
	}

	long long ms;
	if (td_starts(action, "delay=") && td_parse_i64(action + 6, &ms)) {
		td_cancel_wait(NULL, ms);
		return 0;
	}

	bool after = td_ends(point, ".after");
	if (!strcmp(action, "lose") || (after && !strcmp(action, "fail")))
		return td_fail(err, TD_UNCERTAIN, "fault: %s at %s", action, point);
	if (!strcmp(action, "fail"))
		return td_fail(err, TD_TRANSIENT, "fault: %s at %s", action, point);
	return td_fail(err, TD_INTERNAL, "fault: \"%s\" is no action (crash, lose, fail, delay=MS)", action);
}
#else
typedef int td_fault_unit_is_empty;
#endif
