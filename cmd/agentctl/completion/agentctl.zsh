#compdef agentctl
# zsh completion for agentctl; load it with: source <(agentctl completion zsh)
_agentctl() {
  local cur="${words[CURRENT]}"
  local -a asked=("${(@)words[1,CURRENT-1]}") answers
  [[ "$cur" == -* ]] && asked+=("$cur")
  answers=("${(@f)$("${asked[@]}" --generate-bash-completion 2>/dev/null)}")
  if [[ -n "${answers[1]}" ]]; then
    _describe agentctl answers
  else
    _files
  fi
}
compdef _agentctl agentctl
