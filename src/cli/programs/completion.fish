# fish completion of tandem. In ~/.config/fish/config.fish: tandem completion fish | source
set -l table '@TABLE@'
complete -c tandem -f
for line in (string split \n -- $table)
	set -l row (string split -m 5 '|' -- $line)
	set -l used "__fish_seen_subcommand_from $row[1]; and not contains -- -- (commandline -opc)"
	if test -z "$row[2]"
		complete -c tandem -n __fish_use_subcommand -a $row[1] -d "$row[6]"
		complete -c tandem -n '__fish_seen_subcommand_from help' -a $row[1] -d "$row[6]"
		test -z "$row[5]"; or complete -c tandem -n $used -a "$row[5]"
		continue
	end
	set -l option -c tandem -n $used -l $row[2] -d "$row[6]"
	test -z "$row[3]"; or set -a option -s $row[3]
	if contains -- "$row[4]" FILE DIR
		set -a option -r -F
	else if test -n "$row[4]"
		set -a option -x
		test -z "$row[5]"; or set -a option -a "$row[5]"
	end
	complete $option
end
