# bash completion for agentctl; load it with: source <(agentctl completion bash)
_agentctl() {
  # Words are told apart by blanks: bash itself also breaks them at = and :, which names of contexts hold.
  local line="${COMP_LINE:0:COMP_POINT}" flag="" answer
  local cur="${line##*[[:space:]]}" asked
  read -ra asked <<< "${line%"$cur"}"
  local broken="${cur%"${cur##*[:=]}"}"
  if [[ "$cur" == -*=* ]]; then
    flag="${cur%%=*}="
    asked+=("${cur%%=*}")
  elif [[ "$cur" == -* ]]; then
    asked+=("$cur")
  fi
  COMPREPLY=()
  while IFS= read -r answer; do
    answer="$flag$answer"
    [[ "$answer" == "$cur"* ]] && COMPREPLY+=("${answer#"$broken"}")
  done < <(AGENTCTL_WORD="${cur#"$flag"}" "${asked[@]}" --generate-bash-completion 2>/dev/null)
  [[ ${#COMPREPLY[@]} == 1 && "${COMPREPLY[0]}" == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o bashdefault -o default -F _agentctl agentctl
