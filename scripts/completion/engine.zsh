#compdef engine
# Completion of `engine` for zsh. Written by scripts/command_files.py from the table of commands.
# Install it with:
#   mkdir -p ~/.zsh/completions
#   engine completion zsh > ~/.zsh/completions/_engine
# and, in ~/.zshrc before compinit:
#   fpath=(~/.zsh/completions $fpath)
# or load it in ~/.zshrc, after compinit:
#   eval "$(engine completion zsh)"

_engine() {
    local -a subcommands flags
    local engine_path="" action="" current="" word="" ended="" helping="" i
    local -i position=0
    current=${words[CURRENT]}
    for ((i = 2; i < CURRENT; i++)); do
        word=${words[i]}
        if [[ -z $ended && $word == -- ]]; then
            ended=1
        elif [[ -z $ended && $word == -?* ]]; then
            if _engine_value "$engine_path" "$word"; then ((i++)); fi
        elif [[ -z $engine_path && -z $helping && $word == help ]]; then
            helping=1
        elif ((position == 0)) && _engine_is_subcommand "$engine_path" "$word"; then
            engine_path=${engine_path:+$engine_path }$word
        else
            ((position++))
        fi
    done
    _engine_command "$engine_path"
    if ((i > CURRENT)); then # the flag in front of the cursor takes this word
        _engine_value "$engine_path" "$word"
    elif [[ -z $ended && $current == --*=* ]]; then
        _engine_value "$engine_path" "${current%%=*}" || return 1
        compset -P '*='
    elif [[ -z $ended && $current == -* ]]; then
        _describe -o flag flags
        return
    elif [[ -n $helping || $position == 0 ]] && (($#subcommands)); then
        [[ -z $engine_path && -z $helping ]] && subcommands+=('help:explain a command')
        _describe command subcommands
        return
    elif [[ -z $helping ]]; then
        _engine_argument "$engine_path" "$position"
    fi
    _engine_offer
}

_engine_is_subcommand() {
    local -a subcommands flags
    _engine_command "$1"
    (($subcommands[(I)$2:*]))
}

_engine_offer() {
    local -a parts found
    local line file
    case $action in
    (file) _files ;;
    (directory) _files -/ ;;
    (words*)
        parts=(${=action})
        found=(${parts[3,-1]})
        file=${XDG_CACHE_HOME:-$HOME/.cache}/engine/completion/$parts[2]
        if [[ -r $file ]]; then
            while IFS= read -r line; do
                # A colon separates a name from its description.
                found+=("${${line%%$'\t'*}//:/\\:}${${line#*$'\t'}:+:${line#*$'\t'}}")
            done <$file
        fi
        _describe name found
        ;;
    (*) return 1 ;;
    esac
}

# The subcommands and the flags of a command, each with what it does.
_engine_command() {
    subcommands=() flags=()
    case $1 in
@COMMANDS@
    esac
}

# How the value of a flag is completed; fails if it takes none.
_engine_value() {
    case "$1 $2" in
@VALUES@
    (*) return 1 ;;
    esac
}

# How an argument is completed, by its position.
_engine_argument() {
    action=""
    case "$1 $2" in
@ARGUMENTS@
    esac
}

if [[ $funcstack[1] == _engine ]]; then
    _engine "$@"
else
    compdef _engine engine
fi
