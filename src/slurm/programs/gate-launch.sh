#!/bin/sh
# Slurm's Prolog where slurmd runs it at a job's first launch on the node: what Slurm then says of its devices is whole.
# The site's own program follows.
[ -e /etc/tandem/site/prolog ] || exec /opt/tandem/tandem-standin gate --launch
/opt/tandem/tandem-standin gate --launch || exit
exec /etc/tandem/site/prolog
