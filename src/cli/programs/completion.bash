# shellcheck shell=bash
# bash completion of tandem. In ~/.bashrc: eval "$(tandem completion bash)"
_tandem_table='@TABLE@'

_tandem() {
	local cur=$2 prev=$3 command=${COMP_WORDS[1]} of name letter value choices any=() i
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [ "${COMP_WORDS[i]}" = -- ]; then # the rest is a command of the login pod
			COMPREPLY=()
			return
		fi
	done
	while IFS='|' read -r of name letter value choices _; do
		if ((COMP_CWORD == 1)) || { ((COMP_CWORD == 2)) && [ "$command" = help ]; }; then
			[ -n "$name" ] || any+=("$of")
		elif [ "$of" != "$command" ]; then
			continue
		elif [ -z "$name" ]; then
			((COMP_CWORD != 2)) || any+=("$choices")
		elif [ -n "$value" ] && { [ "$prev" = "--$name" ] || [ "$prev" = "-$letter" ]; }; then
			any=("$choices")
			case $value in FILE | DIR)
				compopt -o filenames 2>/dev/null
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
				return
				;;
			esac
			break
		else
			any+=("--$name")
			[ -z "$letter" ] || any+=("-$letter")
		fi
	done <<<"$_tandem_table"
	mapfile -t COMPREPLY < <(compgen -W "${any[*]}" -- "$cur")
}
complete -F _tandem tandem
