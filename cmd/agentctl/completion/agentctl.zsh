#compdef agentctl
# zsh completion for agentctl; load it with: source <(agentctl completion zsh)
_agentctl() {
  local cur="${words[CURRENT]}" flag=""
  local -a asked=("${(@)words[1,CURRENT-1]}") answers
  if [[ "$cur" == -*=* ]]; then
    flag="${cur%%=*}="
    asked+=("${cur%%=*}")
  elif [[ "$cur" == -* ]]; then
    asked+=("$cur")
  fi
  answers=("${(@f)$(AGENTCTL_WORD="${cur#"$flag"}" "${asked[@]}" --generate-bash-completion 2>/dev/null)}")
  if [[ -n "${answers[1]}" ]]; then
    compadd -- "${(@)answers/#/$flag}"
  else
    _files
  fi
}
compdef _agentctl agentctl
