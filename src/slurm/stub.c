typedef int td_slurm_room_is_empty;
