-- Refuses a QOS of spec.preemption to who may not name it, runs the site's own job_submit.lua
-- (spec.scripts.jobSubmitLua), and then refuses mail that nobody would send. slurmctld.sh says when this is
-- used. In front of it stand the tables tandem_qos (src/slurm/preempt.h) and tandem_gpu_types (src/slurm/gres.h),
-- tandem_groups, where there are resource groups, and tandem_pods_only (src/slurm/partitions.h).
local etc = "/run/slurmctld/etc/"
local path, good = "/etc/tandem/site/job-submit.lua", "/run/slurmctld/job-submit-good.lua"

local function text_of(name)
	local f = io.open(name)
	if not f then
		return nil
	end
	local text = f:read("*a")
	f:close()
	return text
end

-- Returns the site's two functions of that file; nil and the error: it is no good.
local function functions_of(name)
	slurm_job_submit, slurm_job_modify = nil, nil
	local ok, err = pcall(dofile, name)
	local submit, modify = slurm_job_submit, slurm_job_modify
	slurm_job_submit, slurm_job_modify = nil, nil
	if ok and not (submit and modify) then
		ok, err = false, name .. ": slurm_job_submit and slurm_job_modify must both be there"
	end
	return ok and submit or nil, ok and modify or err
end

-- A version that does not load replaces none that did; before the first, nobody may submit, because what the
-- site forbids is not known.
local submit, modify
local text = text_of(path)
if text then
	submit, modify = functions_of(path)
	if submit then
		local f = io.open(good, "w")
		if f then
			f:write(text)
			f:close()
		end
	else
		slurm.log_error("tandem: the site's job-submit.lua is not used: " .. tostring(modify))
		submit, modify = functions_of(good)
		if not submit then
			submit = function()
				slurm.log_user("tandem: the site's job_submit.lua does not load; tell the administrator "
					.. "(slurmctld's log has the line)")
				return slurm.ERROR
			end
			modify = submit
		end
	end
end

local sends = io.open(etc .. "tandem-mail")
if sends then
	sends:close()
end

local function check(job)
	-- The commands send 0 when no mail is asked for, REST's allocate sends NO_VAL16 (65534).
	local mail = job.mail_type or 0
	if sends or mail == 0 or mail == 65534 then
		return slurm.SUCCESS
	end
	slurm.log_user("tandem: this cluster sends no mail: remove --mail-type. (spec.config.slurmConf.MailProg of the "
		.. "SlurmCluster may name a program that sends, or /bin/true to drop all mail.)")
	return slurm.ERROR
end

-- What the user himself has said of his QOS; what the site's script makes of it is the site's. Slurm takes a
-- list of QOS, and their names in any case.
local function may(job, user, uid)
	for name in string.gmatch(string.lower(job.qos or ""), "[^,]+") do
		local users = tandem_qos[name]
		if uid ~= 0 and users and not users["*"] and not users[user or ""] then
			slurm.log_user("tandem: the QOS " .. name .. " is not for you: leave --qos out. (spec.preemption.qos of the "
				.. "SlurmCluster says for whom it is.)")
			return false
		end
	end
	return true
end

-- Slurm's own words for a type of GPU that no node has name neither the type nor those that there are. Where no
-- node has a typed GPU, and for what cannot be read here, they are said all the same. The second value: a part that GPUs
-- are cut in when somebody waits for it.
local function types_there(job)
	local there, parts = {}, nil
	for _, type in ipairs(tandem_gpu_types or {}) do
		there[type] = true
	end
	for _, field in ipairs({ "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task" }) do
		for item in string.gmatch(job[field] or "", "[^,]+") do
			-- A part's type is its profile, 1g.10gb (MIG); another number is a count.
			local type = string.match(item, "^gres[:/]gpu[:=]([%a][%w_.-]*)")
				or string.match(item, "^gres[:/]gpu[:=](%d+[gc]%.[%w_.-]*)")
			if type and not there[type] and (tandem_gpu_cuts or {})[type] then
				-- After a cut nodes may have it before this table does: at once, or never, Slurm says.
				parts = parts or (job.immediate ~= 1 and type or nil)
			elseif type and next(there) and not there[type] then
				slurm.log_user("tandem: no node has GPUs of the type " .. type .. ": there are "
					.. table.concat(tandem_gpu_types, ", "))
				return false
			end
		end
	end
	return true, parts
end

-- Slurm refuses what no node has, but not from a job that is held. The bridge releases this one when a node has such parts
-- (src/bridge/cuts.h); it knows it by the word in its admin comment, which no user can write.
local function waits_for(job, part)
	job.priority = 0
	job.admin_comment = "tandem-part:" .. part
	slurm.log_user("tandem: no node has a GPU part " .. part .. " now: the job waits until a GPU is cut for it "
		.. "(tandem why tells how it goes)")
end

-- At most 16 have a part of one GPU, because the node's gate has places for so many (TD_GPU_LEAST, src/base/names.h): one
-- more would fail in its Prolog, which drains the node. Without a number Slurm takes 1.
local function parts_fit(job)
	for _, field in ipairs({ "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task" }) do
		for item in string.gmatch(job[field] or "", "[^,]+") do
			local said = item:match("^gres[:/]shard[:=](.*)$") or item:match("^gres[:/]shard$") and "1"
			local part = said and tonumber(said)
			if said and not (part and part <= 100 and (part >= 6 or part == 0)) then
				slurm.log_user("tandem: shard counts hundredths of one GPU: ask for 6 to 100, or for whole "
					.. "GPUs by --gpus")
				return false
			end
		end
	end
	return true
end

-- Which signal a job hears before it has to make room (src/pool/leave.h): a word that cannot be read would be found out
-- too late.
local signals = { HUP = 1, INT = 1, QUIT = 1, USR1 = 1, USR2 = 1, ALRM = 1, TERM = 1, CONT = 1, URG = 1, WINCH = 1 }
local function signal_known(job)
	local said = string.match(" " .. (job.comment or ""), "[ ,;]slurm%.tandem%.dev/signal=([^ ,;]*)")
	if not said then
		return true
	end
	local name, before = string.match((said:gsub("^B:", "")), "^([%u%d]+)@(%d+)$")
	name = string.gsub(name or said:gsub("^B:", ""), "^SIG", "")
	if signals[name] and #(before or "") <= 5 and tonumber(before or 0) <= 65535 then
		return true
	end
	slurm.log_user("tandem: the word slurm.tandem.dev/signal=" .. said .. " in --comment is not known: say USR1, or "
		.. "USR1@60 for 60 s before the end, and B: before that for the script alone (B:USR1@60)")
	return false
end

-- Resource groups. What the site's script makes of the partition is the site's; Slurm's AllowAccounts holds for it.
local function has(group, account, user)
	return group.accounts[string.lower(account or "")] or group.users[user or ""]
end

local function in_group(partitions, account, user, uid)
	for name in string.gmatch(uid ~= 0 and partitions or "", "[^,]+") do
		for _, group in ipairs(tandem_groups or {}) do
			if group.name == name and not has(group, account, user) then
				slurm.log_user("tandem: the resource group " .. name .. " is not granted to account "
					.. (account or "(none)") .. (user and " or user " .. user or "")
					.. ": name another partition, or another account. (A Tenant's spec.resourceGroups and "
					.. "spec.resourceGroups of the SlurmCluster say whose it is.)")
				return false
			end
		end
	end
	return true
end

-- On a node of another Kubernetes cluster nothing can run but what the bridge stands in for. It says a word that nobody
-- else knows.
local pods_word = (text_of(etc .. "tandem-pods-word") or ""):gsub("%s", "")
local function stands_in(job)
	return #pods_word == 64 and string.match(job.comment or "", "^(%S+) tandem/.+$") == pods_word
end

local function only_pods(partitions, uid)
	for name in string.gmatch(uid ~= 0 and partitions or "", "[^,]+") do
		if (tandem_pods_only or {})[name] then
			slurm.log_user("tandem: the nodes of partition " .. name .. " are another Kubernetes cluster's, where only "
				.. "pods run: name another partition, or make a pod with the label tandem.dev/other-cluster")
			return false
		end
	end
	return true
end

local function route(job, account, stands)
	local to = {}
	for _, group in ipairs(job.partition == nil and tandem_groups or {}) do
		if has(group, account, job.user_name) and group.name ~= tandem_usual
			and (stands or not (tandem_pods_only or {})[group.name]) then
			table.insert(to, group.name)
		end
	end
	if #to > 0 then
		table.insert(to, tandem_usual)
		job.partition = table.concat(to, ",")
	end
end

-- Tandem's bridge raises an allocation of a pod above those who wait, where it has shown that nobody of them
-- could use this very room: it says a word that nobody else knows. "?" only asks whether this script runs.
local word = (text_of(etc .. "tandem-word") or ""):gsub("%s", "")
local function raise(job, stands)
	local said, comment = string.match(job.comment or "", "^(%S+) (tandem/.+)$")
	if stands then
		job.comment = comment
	end
	local knows = #word == 64 and said == word
	if not knows and said ~= "?" then
		return
	end
	job.comment = comment
	if knows and job.immediate == 1 and job.script == nil then
		job.site_factor = 2000000000
	end
end

-- The site's comes before mail: Tandem's own looks at what it has made of the job.
function slurm_job_submit(job, partitions, uid)
	local account = job.account or job.default_account
	local stands = stands_in(job)
	local there, part = types_there(job)
	if not may(job, job.user_name, uid) or not there or not parts_fit(job)
		or not signal_known(job) or not in_group(job.partition, account, job.user_name, uid) or not (stands or only_pods(job.partition, uid)) then
		return slurm.ERROR
	end
	route(job, account, stands)
	-- A Tenant's job is within its quota while that lasts, and beyond it borrows (src/pool/reclaim.h).
	local own = string.match(job.qos == nil and job.default_qos or "", "^(.+)%.quota$")
	if own then
		job.qos = own .. ".quota," .. own .. ".borrowed"
	end
	raise(job, stands)
	-- Who holds it himself (-H) releases it himself; then Slurm holds it. The bridge asks for a pod when a node has such
	-- parts, and takes the admin comment for itself: what is held would be so for good.
	if part and job.priority ~= 0 and not string.match(job.comment or "", "^tandem/") then
		waits_for(job, part)
	end
	local rc = submit and submit(job, partitions, uid) or slurm.SUCCESS
	return rc ~= slurm.SUCCESS and rc or check(job)
end

-- Who changed somebody else's job, and what of it: a line in slurmctld's state directory, which `tandem history --slurm` reads.
-- Nothing in it is a user's text: times, numbers and names of fields. Tandem's own changes (as slurm, or of fields that are not
-- listed) are not told. It has 1 MiB twice.
local changed_file, changed_most = "/var/lib/slurm/slurmctld/tandem-changes", 1048576
local function changed(job, record, uid)
	if uid == record.user_id or uid == 64030 then
		return
	end
	local what = {}
	for _, field in ipairs({ "account", "comment", "dependency", "exc_nodes", "features", "name", "partition", "qos", "req_nodes",
		"reservation", "wckey", "tres_per_job", "tres_per_node" }) do
		if job[field] then
			what[#what + 1] = field
		end
	end
	for _, field in ipairs({ "max_nodes", "min_cpus", "min_nodes", "nice", "priority", "time_limit" }) do
		local value = job[field]
		if value and value ~= slurm.NO_VAL and value ~= slurm.NO_VAL16 and value ~= slurm.NO_VAL64 then
			if field == "nice" then
				value = value - 2147483648 -- as slurmctld keeps it
			end
			local any = field == "priority" and "released" or field .. "=unlimited"
			what[#what + 1] = value == 4294967295 and any or string.format("%s=%.0f", field, value)
		end
	end
	if #what == 0 then
		return
	end
	local f = io.open(changed_file, "a")
	if f and f:seek("end") > changed_most then
		f:close()
		os.rename(changed_file, changed_file .. ".old")
		f = io.open(changed_file, "a")
	end
	if f then
		f:write(string.format("%d|%.0f|Update Job|%.0f|of uid %.0f: %s\n", os.time(), uid, record.job_id, record.user_id,
			table.concat(what, " ")))
		f:close()
	end
end

function slurm_job_modify(job, record, partitions, uid)
	-- Either may change, the partition or the account, and both together must fit.
	local moves = job.partition or (job.account and record.partition)
	if not may(job, record.user_name, uid) or not parts_fit(job)
		or not signal_known(job) or not in_group(moves, job.account or record.account, record.user_name, uid)
		or not only_pods(job.partition, uid) then
		return slurm.ERROR
	end
	local rc = modify and modify(job, record, partitions, uid) or slurm.SUCCESS
	rc = rc ~= slurm.SUCCESS and rc or check(job)
	if rc == slurm.SUCCESS then
		pcall(changed, job, record, uid) -- what cannot be written keeps nobody from changing it
	end
	return rc
end
