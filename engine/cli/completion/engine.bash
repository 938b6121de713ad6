# Completion of `engine` for bash. Written by scripts/command_files.py from the table of commands.
# Install it with:
#   mkdir -p ~/.local/share/bash-completion/completions
#   engine completion bash > ~/.local/share/bash-completion/completions/engine
# or, without the package bash-completion, load it in ~/.bashrc:
#   eval "$(engine completion bash)"

_engine() {
    local words=() subcommands=() flags=() found=()
    local path="" action="" position=0 ended="" helping="" current="" prefix="" word="" i
    _engine_join_words
    current=${words[${#words[@]} - 1]}
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        word=${words[i]}
        if [[ -z $ended && $word == -- ]]; then
            ended=1
        elif [[ -z $ended && $word == -?* ]]; then
            if _engine_value "$path" "$word"; then ((i++)); fi
        elif [[ -z $path && -z $helping && $word == help ]]; then
            helping=1
        elif [[ $position == 0 ]] && _engine_is_subcommand "$path" "$word"; then
            path=${path:+$path }$word
        else
            ((position++))
        fi
    done
    COMPREPLY=()
    _engine_command "$path"
    if ((i > ${#words[@]} - 1)); then # the flag in front of the cursor takes this word
        _engine_value "$path" "$word"
    elif [[ -z $ended && $current == --*=* ]]; then
        prefix=${current%%=*}=
        _engine_value "$path" "${current%%=*}" || return 0
        current=${current#*=}
    elif [[ -z $ended && $current == -* ]]; then
        found=("${flags[@]}")
        action=""
    elif [[ -n $helping || $position == 0 ]] && ((${#subcommands[@]})); then
        found=("${subcommands[@]}")
        action=""
        [[ -z $path && -z $helping ]] && found+=(help)
    elif [[ -z $helping ]]; then
        _engine_argument "$path" "$position"
    fi
    _engine_offer
}

# Join what readline has cut at characters such as `=` and `:`, which flags and models' names have.
_engine_join_words() {
    local line=$COMP_LINE i word rest
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        rest=${line#"${line%%[![:blank:]]*}"}
        if ((i > 0)) && [[ $rest == "$line" ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        line=${rest#"$word"}
    done
}

_engine_is_subcommand() {
    local subcommands=() flags=() each
    _engine_command "$1"
    for each in "${subcommands[@]}"; do
        [[ $each == "$2" ]] && return 0
    done
    return 1
}

# Put what fits into COMPREPLY.
_engine_offer() {
    local each kind file list=() start=""
    case $action in
    file) return 0 ;; # readline's own completion of files
    directory) compopt +o default +o bashdefault -o dirnames; return 0 ;;
    esac
    compopt +o default +o bashdefault
    if [[ $action == words* ]]; then
        read -r kind file list <<<"$action"
        read -r -a found <<<"$list"
        file=${XDG_CACHE_HOME:-$HOME/.cache}/engine/completion/$file
        if [[ -r $file ]]; then
            while IFS=$'\t' read -r each _; do found+=("$each"); done <"$file"
        fi
    fi
    # Readline replaces only what follows the last of its break characters.
    case $COMP_WORDBREAKS in *=*) prefix="" ;; esac
    case $COMP_WORDBREAKS$current in *:*:*) start=${current%"${current##*:}"} ;; esac
    for each in "${found[@]}"; do
        if [[ -n $each && $each == "$current"* ]]; then
            each=$prefix${each#"$start"}
            COMPREPLY+=("$each")
        fi
    done
}

# The subcommands and the flags of a command.
_engine_command() {
    subcommands=() flags=()
    case $1 in
    "")
        subcommands=(chat run batch sessions stats trace models tools mcp plugins agents permissions auth doctor config serve attach worker fleet acp completion schema demo)
        flags=(--help --version)
        ;;
    "chat")
        flags=(--cwd --color --accessible --max-steps --max-tokens --max-cost --timeout --continue --resume --fork --store --ephemeral --no-snapshots --profile --yes --rule --trust --add-dir --unattended --sandbox --network --model --fallback --agent --effort --temperature --max-output --cache --config --profile-file --set --help)
        ;;
    "run")
        flags=(--attach --stdin --stdin-max --cwd --output --json --stream --output-file --color --quiet --verbose --very-verbose --debug-log --schema --no-input --deny-ok --max-steps --max-tokens --max-cost --timeout --max-wait --continue --resume --fork --store --ephemeral --no-snapshots --profile --yes --rule --trust --add-dir --unattended --sandbox --network --model --fallback --agent --effort --temperature --max-output --cache --config --profile-file --set --help)
        ;;
    "batch")
        subcommands=(merge)
        flags=(--task --format --repos --trust-tasks --scripted --jobs --retry --retry-delay --fresh --allow-changed --on --cpus --memory --shard --results-dir --predictions --name --keep --min-free --store --json --quiet --color --max-cost --max-tokens --reserve --rpm --tpm --max-steps --timeout --profile --yes --rule --trust --add-dir --unattended --sandbox --network --model --fallback --agent --effort --temperature --max-output --cache --config --profile-file --set --help)
        ;;
    "batch merge")
        flags=(--results-dir --allow-changed --help)
        ;;
    "sessions")
        subcommands=(list search show diff versions context undo redo restore compact uncompact rename fork export import share delete prune repair)
        flags=(--all --limit --json --store --help)
        ;;
    "sessions list")
        flags=(--all --limit --json --store --help)
        ;;
    "sessions search")
        flags=(--all --limit --json --store --help)
        ;;
    "sessions show")
        flags=(--usage --results --json --store --help)
        ;;
    "sessions diff")
        flags=(--turn --store --help)
        ;;
    "sessions versions")
        flags=(--store --help)
        ;;
    "sessions context")
        flags=(--model --config --profile-file --set --json --store --help)
        ;;
    "sessions undo")
        flags=(--to --only --list --show --force --store --help)
        ;;
    "sessions redo")
        flags=(--force --store --help)
        ;;
    "sessions restore")
        flags=(--turn --version --force --store --help)
        ;;
    "sessions compact")
        flags=(--heed --model --config --profile-file --set --store --help)
        ;;
    "sessions uncompact")
        flags=(--store --help)
        ;;
    "sessions rename")
        flags=(--store --help)
        ;;
    "sessions fork")
        flags=(--at --store --help)
        ;;
    "sessions export")
        flags=(--format --output --force --store --help)
        ;;
    "sessions import")
        flags=(--cwd --store --help)
        ;;
    "sessions share")
        flags=(--output --force --store --help)
        ;;
    "sessions delete")
        flags=(--yes --store --help)
        ;;
    "sessions prune")
        flags=(--older-than --keep --dry-run --store --help)
        ;;
    "sessions repair")
        flags=(--output --store --help)
        ;;
    "stats")
        flags=(--days --all --by --json --store --help)
        ;;
    "trace")
        flags=(--html --force --requests --config --profile-file --set --store --help)
        ;;
    "models")
        flags=(--all --json --config --profile-file --set --help)
        ;;
    "tools")
        flags=(--model --json --config --help)
        ;;
    "mcp")
        subcommands=(add list test approve login remove serve)
        flags=(--cwd --config --profile-file --set --json --help)
        ;;
    "mcp add")
        flags=(--url --env --header --config --help)
        ;;
    "mcp list")
        flags=(--cwd --config --profile-file --set --json --help)
        ;;
    "mcp test")
        flags=(--cwd --config --profile-file --set --help)
        ;;
    "mcp approve")
        flags=(--cwd --config --profile-file --set --yes --help)
        ;;
    "mcp login")
        flags=(--cwd --config --profile-file --set --help)
        ;;
    "mcp remove")
        flags=(--config --help)
        ;;
    "mcp serve")
        flags=(--http --port --cwd --root --store --question-timeout --profile --yes --rule --trust --add-dir --unattended --sandbox --network --model --fallback --agent --effort --temperature --max-output --cache --config --profile-file --set --help)
        ;;
    "plugins")
        subcommands=(list add update remove approve)
        flags=(--json --help)
        ;;
    "plugins list")
        flags=(--json --help)
        ;;
    "plugins add")
        flags=(--folder --yes --help)
        ;;
    "plugins update")
        flags=(--yes --help)
        ;;
    "plugins remove")
        flags=(--help)
        ;;
    "plugins approve")
        flags=(--yes --help)
        ;;
    "agents")
        flags=(--cwd --trust --config --profile-file --set --json --help)
        ;;
    "permissions")
        subcommands=(list explain revoke unasked lint trust distrust)
        flags=(--cwd --config --profile-file --set --profile --json --help)
        ;;
    "permissions list")
        flags=(--cwd --config --profile-file --set --profile --json --help)
        ;;
    "permissions explain")
        flags=(--cwd --config --profile-file --set --profile --help)
        ;;
    "permissions revoke")
        flags=(--cwd --config --profile-file --set --profile --help)
        ;;
    "permissions unasked")
        flags=(--cwd --config --profile-file --set --profile --help)
        ;;
    "permissions lint")
        flags=(--cwd --config --profile-file --set --profile --help)
        ;;
    "permissions trust")
        flags=(--cwd --config --profile-file --set --profile --help)
        ;;
    "permissions distrust")
        flags=(--cwd --config --profile-file --set --profile --help)
        ;;
    "auth")
        subcommands=(add list test remove import)
        flags=(--json --config --help)
        ;;
    "auth add")
        flags=(--keyring --config --help)
        ;;
    "auth list")
        flags=(--json --config --help)
        ;;
    "auth test")
        flags=(--config --help)
        ;;
    "auth remove")
        flags=(--config --help)
        ;;
    "auth import")
        flags=(--copy --config --help)
        ;;
    "doctor")
        flags=(--bundle --online --json --cwd --store --config --profile-file --set --help)
        ;;
    "config")
        subcommands=(list explain get set unset edit check path migrate)
        flags=(--cwd --trust --config --profile-file --set --json --help)
        ;;
    "config list")
        flags=(--cwd --trust --config --profile-file --set --json --help)
        ;;
    "config explain")
        flags=(--cwd --trust --config --profile-file --set --help)
        ;;
    "config get")
        flags=(--cwd --trust --config --profile-file --set --json --help)
        ;;
    "config set")
        flags=(--project --cwd --config --help)
        ;;
    "config unset")
        flags=(--project --cwd --config --help)
        ;;
    "config edit")
        flags=(--project --cwd --config --help)
        ;;
    "config check")
        flags=(--cwd --trust --config --profile-file --set --help)
        ;;
    "config path")
        flags=(--cwd --trust --config --profile-file --set --help)
        ;;
    "config migrate")
        flags=(--project --cwd --config --help)
        ;;
    "serve")
        subcommands=(keys)
        flags=(--port --listen --tls-cert --tls-key --insecure-plain --public-url --stdio --drain --require-new --takeover --exit-idle --max-memory --notify --opencode --open --audit --cwd --store --profile --yes --rule --trust --add-dir --unattended --sandbox --network --model --fallback --agent --effort --temperature --max-output --cache --config --profile-file --set --help)
        ;;
    "serve keys")
        subcommands=(list add revoke)
        flags=(--store --help)
        ;;
    "serve keys list")
        flags=(--store --help)
        ;;
    "serve keys add")
        flags=(--role --store --help)
        ;;
    "serve keys revoke")
        flags=(--store --help)
        ;;
    "attach")
        flags=(--prompt --cancel --resume --url --store --color --accessible --help)
        ;;
    "worker")
        flags=(--slots --drain --attempts --cwd --store --profile --yes --rule --trust --add-dir --unattended --sandbox --network --max-steps --max-tokens --max-cost --timeout --model --fallback --agent --effort --temperature --max-output --cache --config --profile-file --set --help)
        ;;
    "fleet")
        subcommands=(status enqueue tasks cancel)
        flags=(--json --store --help)
        ;;
    "fleet status")
        flags=(--json --store --help)
        ;;
    "fleet enqueue")
        flags=(--key --wait --json --store --cwd --model --agent --resume --help)
        ;;
    "fleet tasks")
        flags=(--ended --limit --json --store --help)
        ;;
    "fleet cancel")
        flags=(--store --help)
        ;;
    "acp")
        flags=(--cwd --store --question-timeout --profile --yes --rule --trust --add-dir --unattended --sandbox --network --model --fallback --agent --effort --temperature --max-output --cache --config --profile-file --set --help)
        ;;
    "completion")
        flags=(--help)
        ;;
    "schema")
        flags=(--help)
        ;;
    "demo")
        flags=(--serve --html --help)
        ;;
    esac
}

# How the value of a flag is completed; fails if it takes none.
_engine_value() {
    case "$1 $2" in
    "chat --cwd" | "chat --add-dir" | "run --cwd" | "run --add-dir" | "batch --repos" | "batch --results-dir" | "batch --add-dir" | "batch merge --results-dir" | "sessions --cwd" | "sessions import --cwd" | "mcp --cwd" | "mcp --root" | "mcp --add-dir" | "mcp list --cwd" | "mcp test --cwd" | "mcp approve --cwd" | "mcp login --cwd" | "mcp serve --cwd" | "mcp serve --root" | "mcp serve --add-dir" | "agents --cwd" | "permissions --cwd" | "permissions list --cwd" | "permissions explain --cwd" | "permissions revoke --cwd" | "permissions unasked --cwd" | "permissions lint --cwd" | "permissions trust --cwd" | "permissions distrust --cwd" | "doctor --cwd" | "config --cwd" | "config list --cwd" | "config explain --cwd" | "config get --cwd" | "config set --cwd" | "config unset --cwd" | "config edit --cwd" | "config check --cwd" | "config path --cwd" | "config migrate --cwd" | "serve --cwd" | "serve --add-dir" | "worker --cwd" | "worker --add-dir" | "fleet --cwd" | "fleet enqueue --cwd" | "acp --cwd" | "acp --add-dir") action=directory ;;
    "chat --color" | "run --color" | "batch --color" | "attach --color") action='words - always never auto' ;;
    "chat --max-steps" | "chat --max-tokens" | "chat --max-cost" | "chat --max-seconds" | "chat --timeout" | "chat --rule" | "chat --temperature" | "chat --max-output" | "chat --profile-file" | "chat --set" | "run --stdin-max" | "run --max-steps" | "run --max-tokens" | "run --max-cost" | "run --max-seconds" | "run --timeout" | "run --max-wait" | "run --rule" | "run --temperature" | "run --max-output" | "run --profile-file" | "run --set" | "batch --task" | "batch --scripted" | "batch -j" | "batch --jobs" | "batch --retry" | "batch --retry-delay" | "batch --on" | "batch --cpus" | "batch --memory" | "batch --shard" | "batch --name" | "batch --min-free" | "batch --max-cost" | "batch --max-tokens" | "batch --reserve" | "batch --rpm" | "batch --tpm" | "batch --max-steps" | "batch --timeout" | "batch --rule" | "batch --temperature" | "batch --max-output" | "batch --profile-file" | "batch --set" | "sessions --limit" | "sessions --turn" | "sessions --profile-file" | "sessions -c" | "sessions --set" | "sessions --to" | "sessions --version" | "sessions --heed" | "sessions --at" | "sessions --older-than" | "sessions --keep" | "sessions list --limit" | "sessions search --limit" | "sessions diff --turn" | "sessions context --profile-file" | "sessions context -c" | "sessions context --set" | "sessions undo --to" | "sessions restore --turn" | "sessions restore --version" | "sessions compact --heed" | "sessions compact --profile-file" | "sessions compact -c" | "sessions compact --set" | "sessions fork --at" | "sessions prune --older-than" | "sessions prune --keep" | "stats --days" | "trace --profile-file" | "trace -c" | "trace --set" | "models --profile-file" | "models -c" | "models --set" | "mcp --url" | "mcp --env" | "mcp --header" | "mcp --profile-file" | "mcp -c" | "mcp --set" | "mcp --port" | "mcp --question-timeout" | "mcp --rule" | "mcp --temperature" | "mcp --max-output" | "mcp add --url" | "mcp add --env" | "mcp add --header" | "mcp list --profile-file" | "mcp list -c" | "mcp list --set" | "mcp test --profile-file" | "mcp test -c" | "mcp test --set" | "mcp approve --profile-file" | "mcp approve -c" | "mcp approve --set" | "mcp login --profile-file" | "mcp login -c" | "mcp login --set" | "mcp serve --port" | "mcp serve --question-timeout" | "mcp serve --rule" | "mcp serve --temperature" | "mcp serve --max-output" | "mcp serve --profile-file" | "mcp serve --set" | "plugins --folder" | "plugins add --folder" | "agents --profile-file" | "agents -c" | "agents --set" | "permissions --profile-file" | "permissions -c" | "permissions --set" | "permissions list --profile-file" | "permissions list -c" | "permissions list --set" | "permissions explain --profile-file" | "permissions explain -c" | "permissions explain --set" | "permissions revoke --profile-file" | "permissions revoke -c" | "permissions revoke --set" | "permissions unasked --profile-file" | "permissions unasked -c" | "permissions unasked --set" | "permissions lint --profile-file" | "permissions lint -c" | "permissions lint --set" | "permissions trust --profile-file" | "permissions trust -c" | "permissions trust --set" | "permissions distrust --profile-file" | "permissions distrust -c" | "permissions distrust --set" | "doctor --profile-file" | "doctor -c" | "doctor --set" | "config --profile-file" | "config -c" | "config --set" | "config list --profile-file" | "config list -c" | "config list --set" | "config explain --profile-file" | "config explain -c" | "config explain --set" | "config get --profile-file" | "config get -c" | "config get --set" | "config check --profile-file" | "config check -c" | "config check --set" | "config path --profile-file" | "config path -c" | "config path --set" | "serve --port" | "serve --listen" | "serve --public-url" | "serve --drain" | "serve --exit-idle" | "serve --max-memory" | "serve --notify" | "serve --rule" | "serve --temperature" | "serve --max-output" | "serve --profile-file" | "serve --set" | "attach -p" | "attach --prompt" | "attach --url" | "worker --slots" | "worker --drain" | "worker --attempts" | "worker --rule" | "worker --max-steps" | "worker --max-tokens" | "worker --max-cost" | "worker --max-seconds" | "worker --timeout" | "worker --temperature" | "worker --max-output" | "worker --profile-file" | "worker --set" | "fleet --store" | "fleet --key" | "fleet --limit" | "fleet status --store" | "fleet enqueue --key" | "fleet enqueue --store" | "fleet tasks --limit" | "fleet tasks --store" | "fleet cancel --store" | "acp --question-timeout" | "acp --rule" | "acp --temperature" | "acp --max-output" | "acp --profile-file" | "acp --set") action='' ;;
    "chat --resume" | "run --resume" | "fleet --resume" | "fleet enqueue --resume") action='words sessions last' ;;
    "chat --store" | "chat --config" | "run --attach" | "run -o" | "run --output-file" | "run --debug-log" | "run --schema" | "run --store" | "run --config" | "batch --predictions" | "batch --store" | "batch --config" | "sessions --store" | "sessions --config" | "sessions -o" | "sessions --output" | "sessions list --store" | "sessions search --store" | "sessions show --store" | "sessions diff --store" | "sessions versions --store" | "sessions context --config" | "sessions context --store" | "sessions undo --store" | "sessions redo --store" | "sessions restore --store" | "sessions compact --config" | "sessions compact --store" | "sessions uncompact --store" | "sessions rename --store" | "sessions fork --store" | "sessions export -o" | "sessions export --output" | "sessions export --store" | "sessions import --store" | "sessions share -o" | "sessions share --output" | "sessions share --store" | "sessions delete --store" | "sessions prune --store" | "sessions repair -o" | "sessions repair --output" | "sessions repair --store" | "stats --store" | "trace --html" | "trace --config" | "trace --store" | "models --config" | "tools --config" | "mcp --config" | "mcp --store" | "mcp add --config" | "mcp list --config" | "mcp test --config" | "mcp approve --config" | "mcp login --config" | "mcp remove --config" | "mcp serve --store" | "mcp serve --config" | "agents --config" | "permissions --config" | "permissions list --config" | "permissions explain --config" | "permissions revoke --config" | "permissions unasked --config" | "permissions lint --config" | "permissions trust --config" | "permissions distrust --config" | "auth --config" | "auth add --config" | "auth list --config" | "auth test --config" | "auth remove --config" | "auth import --config" | "doctor --store" | "doctor --config" | "config --config" | "config list --config" | "config explain --config" | "config get --config" | "config set --config" | "config unset --config" | "config edit --config" | "config check --config" | "config path --config" | "config migrate --config" | "serve --tls-cert" | "serve --tls-key" | "serve --audit" | "serve --store" | "serve --config" | "serve keys --store" | "serve keys list --store" | "serve keys add --store" | "serve keys revoke --store" | "attach --store" | "worker --store" | "worker --config" | "acp --store" | "acp --config" | "demo --html") action=file ;;
    "chat --profile" | "run --profile" | "batch --profile" | "mcp --profile" | "mcp serve --profile" | "permissions --profile" | "permissions list --profile" | "permissions explain --profile" | "permissions revoke --profile" | "permissions unasked --profile" | "permissions lint --profile" | "permissions trust --profile" | "permissions distrust --profile" | "serve --profile" | "worker --profile" | "acp --profile") action='words - ask auto-edit read-only full' ;;
    "chat --unattended" | "run --unattended" | "batch --unattended" | "mcp --unattended" | "mcp serve --unattended" | "serve --unattended" | "worker --unattended" | "acp --unattended") action='words - deny rules' ;;
    "chat --sandbox" | "run --sandbox" | "batch --sandbox" | "mcp --sandbox" | "mcp serve --sandbox" | "serve --sandbox" | "worker --sandbox" | "acp --sandbox") action='words - auto landlock bwrap off' ;;
    "chat -m" | "chat --model" | "chat --fallback" | "run -m" | "run --model" | "run --fallback" | "batch -m" | "batch --model" | "batch --fallback" | "sessions --model" | "sessions context --model" | "sessions compact --model" | "tools --model" | "mcp -m" | "mcp --model" | "mcp --fallback" | "mcp serve -m" | "mcp serve --model" | "mcp serve --fallback" | "serve -m" | "serve --model" | "serve --fallback" | "worker -m" | "worker --model" | "worker --fallback" | "fleet --model" | "fleet enqueue --model" | "acp -m" | "acp --model" | "acp --fallback") action='words models' ;;
    "chat --agent" | "run --agent" | "batch --agent" | "mcp --agent" | "mcp serve --agent" | "serve --agent" | "worker --agent" | "fleet --agent" | "fleet enqueue --agent" | "acp --agent") action='words agents build plan general explore' ;;
    "chat --effort" | "run --effort" | "batch --effort" | "mcp --effort" | "mcp serve --effort" | "serve --effort" | "worker --effort" | "acp --effort") action='words - none minimal low medium high xhigh max' ;;
    "chat --cache" | "run --cache" | "batch --cache" | "mcp --cache" | "mcp serve --cache" | "serve --cache" | "worker --cache" | "acp --cache") action='words - off 5m 1h' ;;
    "run --stdin") action='words - auto wait skip' ;;
    "run --output") action='words - text json stream-json' ;;
    "batch --format") action='words - jsonl swebench harbor' ;;
    "batch --keep") action='words - none failed all' ;;
    "sessions --only" | "sessions undo --only") action='words - conversation files' ;;
    "sessions --format" | "sessions export --format") action='words - json markdown html atif' ;;
    "stats --by") action='words - day model folder session' ;;
    "serve --role" | "serve keys --role" | "serve keys add --role") action='words - read answer full' ;;
    *) return 1 ;;
    esac
}

# How an argument is completed, by its position.
_engine_argument() {
    action=""
    case "$1 $2" in
    "run 0") action=file ;;
    "run"' '*) action=file ;;
    "batch 0") action=file ;;
    "batch merge"' '*) action=directory ;;
    "sessions search"' '*) action='' ;;
    "sessions show 0") action='words sessions last' ;;
    "sessions diff 0") action='words sessions last' ;;
    "sessions versions 0") action='words sessions last' ;;
    "sessions versions 1") action=file ;;
    "sessions context 0") action='words sessions last' ;;
    "sessions undo 0") action='words sessions last' ;;
    "sessions redo 0") action='words sessions last' ;;
    "sessions restore 0") action='words sessions last' ;;
    "sessions restore"' '*) action=file ;;
    "sessions compact 0") action='words sessions last' ;;
    "sessions uncompact 0") action='words sessions last' ;;
    "sessions rename 0") action='words sessions last' ;;
    "sessions rename"' '*) action='' ;;
    "sessions fork 0") action='words sessions last' ;;
    "sessions export 0") action='words sessions last' ;;
    "sessions import 0") action=file ;;
    "sessions share 0") action='words sessions last' ;;
    "sessions delete"' '*) action='words sessions last' ;;
    "sessions repair 0") action=file ;;
    "trace 0") action='words sessions last' ;;
    "models 0") action='words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack' ;;
    "tools 0") action='words - apply_patch bash bash_output bash_stop context edit glob grep list multi_edit plan_exit question read task todo_read todo_write web_fetch write' ;;
    "mcp add 0") action='' ;;
    "mcp add"' '*) action='' ;;
    "mcp test 0") action='' ;;
    "mcp approve 0") action='' ;;
    "mcp login 0") action='' ;;
    "mcp remove 0") action='' ;;
    "plugins add 0") action='' ;;
    "plugins update 0") action='' ;;
    "plugins update 1") action='' ;;
    "plugins remove 0") action='' ;;
    "plugins approve 0") action='' ;;
    "agents 0") action='words agents build plan general explore' ;;
    "permissions explain 0") action='' ;;
    "permissions explain 1") action=file ;;
    "permissions revoke 0") action='words grants' ;;
    "permissions trust 0") action=directory ;;
    "permissions distrust 0") action=directory ;;
    "auth add 0") action='words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack' ;;
    "auth test 0") action='words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack' ;;
    "auth remove 0") action='words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack' ;;
    "auth import"' '*) action='words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack' ;;
    "doctor 0") action='words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack' ;;
    "config explain 0") action='' ;;
    "config get 0") action='' ;;
    "config set 0") action='' ;;
    "config set 1") action='' ;;
    "config unset 0") action='' ;;
    "serve keys add 0") action='' ;;
    "serve keys revoke 0") action='' ;;
    "attach 0") action='words sessions last' ;;
    "fleet enqueue 0") action='' ;;
    "fleet cancel 0") action='' ;;
    "completion 0") action='words - bash zsh fish' ;;
    "schema 0") action='words - result events config' ;;
    esac
}

complete -o bashdefault -o default -F _engine engine
