#!/bin/sh
# Slurm's Prolog: the node's agent must have given the job its devices.
exec /opt/tandem/tandem-standin gate
