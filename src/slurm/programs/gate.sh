#!/bin/sh
# Slurm's Prolog: the node's agent must have given the job its devices; then the site's own program runs.
[ -e /etc/tandem/site/prolog ] || exec /opt/tandem/tandem-standin gate
/opt/tandem/tandem-standin gate || exit
exec /etc/tandem/site/prolog
