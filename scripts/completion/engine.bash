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
@COMMANDS@
    esac
}

# How the value of a flag is completed; fails if it takes none.
_engine_value() {
    case "$1 $2" in
@VALUES@
    *) return 1 ;;
    esac
}

# How an argument is completed, by its position.
_engine_argument() {
    action=""
    case "$1 $2" in
@ARGUMENTS@
    esac
}

complete -o bashdefault -o default -F _engine engine
