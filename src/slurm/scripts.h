// Shell scripts that come with a cluster's configuration (ConfigMap → /etc/slurm).
#ifndef TD_SLURM_SCRIPTS_H
#define TD_SLURM_SCRIPTS_H

extern const char td_slurm_gate_sh[];      // Prolog
extern const char td_slurm_slurmctld_sh[]; // starts slurmctld: `sh slurmctld.sh slurmctld -D`

#endif
