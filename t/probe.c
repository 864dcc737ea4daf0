// Tries to open every device of a node and says which are let: "allowed=0,3 denied=1,2 other=-".
// usage: probe MAJOR FIRST_MINOR COUNT. It makes the device nodes itself (mknod) where it may, else uses /dev/tandem-gpu<i>.
// In /dev: a job's own /tmp has no devices. ENXIO: the device cgroup lets us (there is no driver); EPERM: it does not.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	char lists[3][1024] = {"", "", ""};
	for (int i = 0; i < atoi(argv[3]); i++) {
		char path[64];
		int made = 0;
		snprintf(path, sizeof(path), "/dev/probe-%d-%d", getpid(), i);
		made = mknod(path, S_IFCHR | 0600, makedev(atoi(argv[1]), atoi(argv[2]) + i)) == 0;
		if (!made)
			snprintf(path, sizeof(path), "/dev/tandem-gpu%d", i);
		int fd = open(path, O_RDWR);
		int which = fd < 0 && errno == ENXIO ? 0 : fd < 0 && (errno == EPERM || errno == ENOENT) ? 1 : 2;
		size_t n = strlen(lists[which]);
		snprintf(lists[which] + n, sizeof(lists[which]) - n, "%s%d", n ? "," : "", i);
		if (made)
			unlink(path);
	}
	printf("allowed=%s denied=%s other=%s\n", *lists[0] ? lists[0] : "-", *lists[1] ? lists[1] : "-", *lists[2] ? lists[2] : "-");
	return *lists[2] ? 1 : 0;
}
