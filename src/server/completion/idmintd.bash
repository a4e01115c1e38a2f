# bash completion for idmintd

_idmintd() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local words="" urls="sqlite: mongodb: postgresql: mysql: redis: etcd: zookeeper: env: file:"
  case $previous in
    --config | --timeout) ;;
    --store) words="$urls memory:" ;;
    --also | --over) words=$urls ;;
    --redis | --http) words="127.0.0.1: tls: unix:" ;;
    --allow) words="next peek raise create extend retire lease metrics all" ;;
    *)
      if [[ ${COMP_WORDS[1]} == token && $COMP_CWORD -gt 1 ]]; then
        words="--allow --help"
      elif [[ ${COMP_WORDS[1]} == probe && $COMP_CWORD -gt 1 ]]; then
        words="--live --timeout --config --http --help 127.0.0.1: tls: unix:"
      else
        words="--config --check --store --also --over --redis --http --help --version"
        if [[ $COMP_CWORD -eq 1 ]]; then words="token probe $words"; fi
      fi
      ;;
  esac
  COMPREPLY=()
  if [[ $previous == --config ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    if [[ ${COMPREPLY[0]} == *: ]]; then compopt -o nospace 2>/dev/null; fi
  fi
  if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$current"; fi
}

complete -F _idmintd idmintd
