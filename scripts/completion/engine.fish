# Completion of `engine` for fish. Written by scripts/command_files.py from the table of commands.
# Install it with:
#   mkdir -p ~/.config/fish/completions
#   engine completion fish > ~/.config/fish/completions/engine.fish

function __engine_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l path ""
    set -l action ""
    set -l position 0
    set -l ended 0
    set -l helping 0
    set -l pending ""
    for word in $words[2..-1]
        if test -n "$pending"
            set pending ""
        else if test $ended = 0 -a "$word" = --
            set ended 1
        else if test $ended = 0; and string match -q -- '-?*' $word
            if __engine_value "$path" "$word" >/dev/null
                set pending $word
            end
        else if test -z "$path" -a $helping = 0 -a "$word" = help
            set helping 1
        else if test $position = 0; and __engine_subcommands "$path" | string match -q -- "$word"\t'*'
            set path (string trim -- "$path $word")
        else
            set position (math $position + 1)
        end
    end
    if test -n "$pending"
        __engine_offer "$current" "" (__engine_value "$path" "$pending")
    else if test $ended = 0; and string match -q -- '--*=*' "$current"
        set -l parts (string split -m 1 = -- "$current")
        set action (__engine_value "$path" "$parts[1]"); and __engine_offer "$parts[2]" "$parts[1]=" $action
    else if test $ended = 0; and string match -q -- '-*' "$current"
        __engine_flags "$path"
    else if test $helping = 1 -o $position = 0; and __engine_subcommands "$path" | string length -q
        __engine_subcommands "$path"
        if test -z "$path" -a $helping = 0
            printf 'help\texplain a command\n'
        end
    else if test $helping = 0
        __engine_offer "$current" "" (__engine_argument "$path" $position)
    end
end

# Print what there is for an action: the beginning of the word, what is put in front, the action.
function __engine_offer
    set -l action (string split ' ' -- $argv[3])
    switch "$action[1]"
        case file
            __fish_complete_path "$argv[1]" | string replace -r -- '^' "$argv[2]"
        case directory
            __fish_complete_directories "$argv[1]" '' | string replace -r -- '^' "$argv[2]"
        case words
            set -l cache $HOME/.cache
            set -q XDG_CACHE_HOME; and test -n "$XDG_CACHE_HOME"; and set cache $XDG_CACHE_HOME
            for each in $action[3..-1]
                printf '%s\n' $argv[2]$each
            end
            if test -r $cache/engine/completion/$action[2]
                while read -l each
                    printf '%s\n' $argv[2]$each
                end <$cache/engine/completion/$action[2]
            end
    end
end

function __engine_subcommands
    switch "$argv[1]"
@SUBCOMMANDS@
    end
end

function __engine_flags
    switch "$argv[1]"
@FLAGS@
    end
end

# Print how the value of a flag is completed; fails if it takes none.
function __engine_value
    switch "$argv[1] $argv[2]"
@VALUES@
        case '*'
            return 1
    end
end

function __engine_argument
    switch "$argv[1] $argv[2]"
@ARGUMENTS@
    end
end

complete -c engine -f -a '(__engine_complete)'
