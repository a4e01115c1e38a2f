# bash completion for idmint
#   source <(idmint completion bash)

_idmint_first_column() {
  local name _ header=1
  while read -r name _; do
    if [[ $header -eq 1 ]]; then header=0; else printf '%s\n' "$name"; fi
  done < <("$@" 2>/dev/null)
}

_idmint_pools() {
  local name strategy _
  while read -r name strategy _; do
    if [[ $strategy == pool ]]; then printf '%s\n' "$name"; fi
  done < <(idmint list 2>/dev/null)
}

_idmint() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]} words=""
  if [[ $COMP_CWORD -eq 1 ]]; then
    words="next create raise alter retire move list peek workers inspect bounds convert check name plan plan-change bench doctor apply insert sweep formats completion version --help --version"
  elif [[ $command/$previous == move/--from || $command/$previous == move/--to || $previous == --also || $previous == --over ]]; then
    words="sqlite: mongodb: postgresql: mysql: redis: etcd: zookeeper: env: file:"
  elif [[ $previous == --store || $command/$previous == raise/--uri || $command/$previous == raise/--past-from ]]; then
    words="sqlite: mongodb: postgresql: mysql: redis: etcd: zookeeper: memory: env: file:"
  elif [[ $previous == -n || $previous == --count || $previous == --start || $previous == --max || $previous == --past || $previous == --workers || $previous == --from-collection || $previous == --from-table ]]; then
    words=""
  elif [[ $previous == --strategy ]]; then
    words="counter striped interleaved cached random permuted gapless"
  elif [[ $previous == --kind ]]; then
    words="sequence pool"
  elif [[ $previous == --adopt ]]; then
    words="counter counters ids: row: sequence: tickets key:"
  elif [[ $previous == --worker ]]; then
    words="env: ordinal address mac random"
  elif [[ $previous == --node ]]; then
    words="mac random"
  elif [[ $previous == --domain ]]; then
    words="person group org"
  elif [[ $previous == --layout || $command/$previous == plan-change/--from || $command/$previous == plan-change/--to ]]; then
    words="sequence-generator twitter discord instagram sonyflake sonyflake-v1 baidu js-safe"
  elif [[ $previous == --to ]]; then
    words="canonical decimal hex base32 base32-lower base32hex base36 base58 base62 @IDMINT_KINDS_TO_CONVERT_TO@ upper braces urn bare microsoft bson"
  elif [[ $previous == --from && $command == insert ]]; then
    words="$(_idmint_first_column idmint formats) $(_idmint_first_column idmint list)"
  elif [[ $previous == --from || $previous == --as ]]; then
    words="@IDMINT_KINDS@"
  elif [[ $previous == --encoding ]]; then
    words="canonical decimal hex base32 base32-lower base32hex base36 base58 base62"
  elif [[ $previous == --check ]]; then
    words="luhn damm verhoeff mod11-10 mod97-10 mod37"
  elif [[ $previous == --at || $previous == --since || $previous == --from-workers || $previous == --to-workers || $previous == --drift || $previous == --clock-error || $previous == --timeout || $previous == --past-each || $previous == --used-in || $previous == --until || $previous == --prefix || $previous == --digits || $previous == --width || $previous == --field || $previous == --proxy || $previous == --attempts || $previous == --older-than ]]; then
    words=""
  elif [[ $previous == --ignore ]]; then
    words="disk data-folder record sequence pool state-file clock layout"
  elif [[ $previous == --stored-as ]]; then
    words="usual text number"
  elif [[ $previous == --order ]]; then
    words="none per-host strict gapless"
  elif [[ $previous == --database ]]; then
    words="none mongodb postgresql mysql sqlite redis"
  elif [[ $previous == --svg ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
    return
  elif [[ $current == -* ]]; then
    words="--help --json"
    case $command in
      next) words+=" -n --count --prefix --encoding --check --digits --no-leading-zeros --worker --layout --epoch --unit --run-ahead --window --timeout --wait --node --domain --local-id --numbers --over --store --also" ;;
      create) words+=" --kind --layout --workers --strategy --start --max --stride --offset --over --stripes --step --largest-count --prefix --encoding --check --digits --no-leading-zeros --width --adopt --where --make --validator --yes --numbers --store" ;;
      raise) words+=" --all --past --past-each --past-from --moved --from-collection --field --from-table --uri --dry-run --yes --numbers --over --store" ;;
      alter) words+=" --max --numbers --over --store" ;;
      retire) words+=" --yes --numbers --over --store" ;;
      move) words+=" --from --to --dry-run --yes --numbers" ;;
      formats) words+=" --layouts" ;;
      inspect) words+=" --layout" ;;
      bounds) words+=" --at --until --layout" ;;
      convert) words+=" --to --from --prefix --check --width" ;;
      check) words+=" --as --check --prefix --encoding --digits --width --store" ;;
      name) words+=" --version" ;;
      list) words+=" --toml --numbers --over --store" ;;
      peek) words+=" --numbers --over --store" ;;
      workers) words+=" --past --all --numbers --store" ;;
      plan) words+=" --digits --bits --count --hosts --rate --order --database --round-trip --shared-store --unguessable --all" ;;
      plan-change) words+=" --from --to --at --from-workers --to-workers --since --drift --clock-error" ;;
      bench) words+=" --threads --seconds --batch --svg --worker --layout --epoch --unit --run-ahead --store" ;;
      doctor) words+=" --warn-below --horizon --rate --used-in --ignore --all --over --store" ;;
      apply) words+=" --dry-run --store --yes" ;;
      insert) words+=" --field --from --stored-as --attempts --create-index --proxy --heal --timeout --prefix --encoding --check --digits --no-leading-zeros --worker --layout --epoch --unit --run-ahead --numbers --store" ;;
      sweep) words+=" --field --proxy --older-than --store" ;;
    esac
  else
    case $command in
      apply)
        COMPREPLY=($(compgen -f -- "$current"))
        return
        ;;
      next | bench) words="$(_idmint_first_column idmint formats) $(_idmint_first_column idmint list)" ;;
      peek | raise | alter | retire | move) words="$(_idmint_first_column idmint list)" ;;
      workers)
        if [[ $COMP_CWORD -eq 2 ]]; then
          words="list release raise"
        elif [[ $COMP_CWORD -eq 3 ]]; then
          words="$(_idmint_pools)"
        fi
        ;;
      name) words="dns url oid x500" ;;
      bounds) words="@IDMINT_FORMATS_WITH_BOUNDS@" ;;
      completion) words="bash zsh fish" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}

complete -F _idmint idmint
