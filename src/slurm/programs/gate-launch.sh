#!/bin/sh
# Slurm's Prolog where slurmd runs it at a job's first launch on the node: what Slurm then says of its devices is whole.
exec /opt/tandem/tandem-standin gate --launch
