-- Refuses mail that nobody would send. slurmctld.sh says when this is used.
local function check(job)
	-- The commands send 0 when no mail is asked for, REST's allocate sends NO_VAL16 (65534).
	local mail = job.mail_type or 0
	if mail == 0 or mail == 65534 then
		return slurm.SUCCESS
	end
	slurm.log_user("tandem: this cluster sends no mail: remove --mail-type. (spec.config.slurmConf.MailProg of the "
		.. "SlurmCluster may name a program that sends, or /bin/true to drop all mail.)")
	return slurm.ERROR
end

function slurm_job_submit(job, partitions, uid)
	return check(job)
end

function slurm_job_modify(job, record, partitions, uid)
	return check(job)
end
