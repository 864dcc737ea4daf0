#!/bin/sh
# Starts the command of a container that --container-save wrote. enroot runs this file too, as the image's /etc/rc.
mkdir -p @WORKDIR@ 2>/dev/null
cd @WORKDIR@ || exit 1
[ ! -s /etc/rc.local ] || . /etc/rc.local
[ $# -gt 0 ] || set -- /bin/sh
exec @ENTRYPOINT@ "$@"
