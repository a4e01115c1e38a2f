# fish completion for idmintd

set -l urls 'sqlite: mongodb: postgresql: mysql: redis: etcd: zookeeper: env: file:'
complete -c idmintd -f
complete -c idmintd -n __fish_use_subcommand -a token -d 'Make a token, and its table for the file'
complete -c idmintd -n __fish_use_subcommand -a probe -d 'Ask the daemon of this host if it is ready'
complete -c idmintd -s h -l help -d 'Print help'
complete -c idmintd -n 'not __fish_seen_subcommand_from token probe' -l version -d 'Print the version'
complete -c idmintd -n 'not __fish_seen_subcommand_from token' -l config -r -F -d 'A file of settings'
complete -c idmintd -n 'not __fish_seen_subcommand_from token probe' -l check -d 'Say what is wrong in the settings'
complete -c idmintd -n 'not __fish_seen_subcommand_from token probe' -l store -x -a "$urls memory:" -d 'The store'
complete -c idmintd -n 'not __fish_seen_subcommand_from token probe' -l also -x -a "$urls" -d 'Where sequences were moved to'
complete -c idmintd -n 'not __fish_seen_subcommand_from token probe' -l over -x -a "$urls" -d 'Replaces a URL of a definition'
complete -c idmintd -n 'not __fish_seen_subcommand_from token probe' -l redis -x -a '127.0.0.1: tls: unix:' -d 'Where to listen for clients of Redis'
complete -c idmintd -n 'not __fish_seen_subcommand_from token' -l http -x -a '127.0.0.1: tls: unix:' -d 'Where to listen for HTTP'
complete -c idmintd -n '__fish_seen_subcommand_from token' -l allow -x -a 'next peek raise create extend retire lease metrics all' -d 'What it may do'
complete -c idmintd -n '__fish_seen_subcommand_from probe' -x -a '127.0.0.1: tls: unix:' -d 'Its HTTP address'
complete -c idmintd -n '__fish_seen_subcommand_from probe' -l live -d 'Ask whether it serves'
complete -c idmintd -n '__fish_seen_subcommand_from probe' -l timeout -x -d 'How many seconds it may take'
