#!/bin/sh
# Slurm's TaskProlog with a site's own: the gate looks once more, then the site's program runs. What
# either prints, Slurm reads.
/opt/tandem/task-prolog || exit
exec /etc/tandem/site/task-prolog
