# bash completion for idmint-restore
#   source <(idmint-restore completion bash)

_idmint_restore() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]} words=""
  if [[ $COMP_CWORD -eq 1 ]]; then
    words="keep dump ready oplog find show run verify fence promote seed completion version --help --version"
  else
    case $previous in
      --uri | --target | --against | --live | --from | --to)
        words="mongodb:// mongodb+srv:// env: file:"
        ;;
      --base | --oplog | --out | --data-copy | --spare | --mongod | --expected | --html | --save | --svg | --report)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
      --op)
        words="insert update delete command create drop dropDatabase renameCollection createIndexes dropIndexes collMod"
        ;;
      --limit | --before | --base-at | --skip | --since | --until | --ns | --id | --field | --list | --top | --include | --exclude | --readers | --writers | --warn-below | --counter | --used-in | --mistake-to | --set | --member | --argument) ;;
      *)
        if [[ $current == -* ]]; then
          words="--help --json"
          case $command in
            dump) words+=" --uri --out --exclude --archive --gzip --readers --not-sharded" ;;
            keep) words+=" --uri --to --every --keep --slice --exclude --gzip --once --readers --not-sharded" ;;
            ready) words+=" --uri --from --behind --prometheus --base --base-at --warn-below --not-sharded" ;;
            oplog) words+=" --uri --since --base --out --follow --not-sharded" ;;
            find) words+=" --oplog --since --until --ns --op --id --field --list --top --svg --html --not-sharded" ;;
            show) words+=" --oplog --since --until --not-sharded" ;;
            run) words+=" --from --at --base --data-copy --oplog --limit --before --all --target --spare --mongod --mongod-argument --base-at --include --exclude --users --skip --force-skip --writers --index-errors --allow-replica-set --stop --report --dry-run --yes --not-sharded" ;;
            verify) words+=" --target --spare --mongod --against --expected --include --exclude --html --save --oplog --raise --restore-report --forget --not-sharded" ;;
            fence) words+=" --target --oplog --live --limit --restore-report --leave-gap --reopen --counter --used-in --exclude --allow-production --report --yes" ;;
            seed) words+=" --spare --set --member --mongod --argument --dry-run --yes" ;;
            promote) words+=" --from --to --ns --exclude --limit --restore-report --oplog --mistake-to --merge-later --mistake-alike --counter --leave-gap --undo --finish --dry-run --yes" ;;
          esac
        elif [[ $command == completion ]]; then
          words="bash zsh fish"
        fi
        ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}

complete -F _idmint_restore idmint-restore
