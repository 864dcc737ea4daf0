#compdef tandem
# zsh completion of tandem. In ~/.zshrc, after compinit: source <(tandem completion zsh)
_tandem() {
	local table='@TABLE@'
	local line command=$words[2] prev=$words[CURRENT-1]
	local -a commands options values row
	(( ${words[(i)--]} < CURRENT )) && return 1 # the rest is a command of the login pod
	for line in "${(@f)table}"; do
		row=("${(@s:|:)line}")
		if [[ -z $row[2] ]]; then
			commands+=("$row[1]:${(j:|:)row[6,-1]}")
			[[ $row[1] == $command ]] && values=(${=row[5]})
		elif [[ $row[1] == $command ]]; then
			if [[ -n $row[4] && ( $prev == --$row[2] || ( -n $row[3] && $prev == -$row[3] ) ) ]]; then
				case $row[4] in
				FILE | DIR) _files ;;
				*) values=(${=row[5]}) && (( $#values )) && _describe value values ;;
				esac
				return
			fi
			options+=("--$row[2]:${(j:|:)row[6,-1]}")
			[[ -z $row[3] ]] || options+=("-$row[3]:${(j:|:)row[6,-1]}")
		fi
	done
	if (( CURRENT == 2 )) || [[ $command == help && $CURRENT == 3 ]]; then
		_describe command commands
	else
		(( CURRENT == 3 && $#values )) && _describe value values
		_describe option options
	fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
	_tandem "$@"
elif (( $+functions[compdef] )); then
	compdef _tandem tandem
fi
