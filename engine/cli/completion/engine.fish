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
        case ''
            printf '%s\t%s\n' 'chat' 'talk to the agent at the terminal' 'run' 'give the agent a task and watch it work' 'batch' 'run many tasks, a few at once, with a ledger' 'sessions' 'list, search, show, export, fork and delete sessions' 'stats' 'show tokens and money spent, by day, model and session' 'trace' 'draw what ran when in a session' 'models' 'list the models you can use here, and what others need' 'tools' 'list the tools that the model can call' 'mcp' 'add MCP servers, try them, approve their tools' 'plugins' 'list, add, update and remove plugins' 'agents' 'list agents and sub-agents' 'permissions' 'show, explain and check rules; revoke grants' 'auth' 'list, store, test and delete the keys of providers' 'doctor' 'check the installation, and say how to repair it' 'config' 'show, explain and change the configuration' 'serve' 'serve sessions over a WebSocket, HTTP or a Unix socket' 'attach' 'watch a session of a server, and talk to it' 'worker' 'run the tasks of a fleet\'s queue' 'fleet' 'add tasks for workers, and show how a fleet does' 'acp' 'serve an editor that starts it: Zed, JetBrains, Neovim' 'completion' 'print the completion script for bash, zsh or fish' 'schema' 'print the JSON Schema of records, events or configuration' 'demo' 'see it work: offline, without a key'
        case 'batch'
            printf '%s\t%s\n' 'merge' 'merge the ledgers of all shards into one'
        case 'sessions'
            printf '%s\t%s\n' 'list' 'list the sessions of this folder, newest first' 'search' 'find sessions by title or content' 'show' 'print a session\'s conversation' 'diff' 'show how a turn changed files' 'versions' 'list the contents that a file has had' 'context' 'show what fills the model\'s context window' 'undo' 'undo the newest turn: its messages and its file changes' 'redo' 'redo what was undone last' 'restore' 'restore files as they were before a turn' 'compact' 'summarise old messages, so that requests are smaller' 'uncompact' 'undo the newest summary' 'rename' 'change a session\'s title' 'fork' 'start a new session with another one\'s history' 'export' 'write a session as JSON, Markdown, HTML or ATIF' 'import' 'import an exported session, or Markdown' 'share' 'write a session as one self-contained web page' 'delete' 'delete sessions permanently' 'prune' 'delete sessions that have not been used for long' 'repair' 'copy what is readable in a damaged store to a new one'
        case 'mcp'
            printf '%s\t%s\n' 'add' 'add a server to your configuration' 'list' 'list the servers, and what is known of them' 'test' 'start a server, and show what it offers' 'approve' 'show a server\'s tools, and approve them' 'login' 'log in to a server behind a URL' 'remove' 'delete a server from your configuration' 'serve' 'serve other agents, as an MCP server'
        case 'plugins'
            printf '%s\t%s\n' 'list' 'list the plugins, and why others were not loaded' 'add' 'show what a plugin has, and add it' 'update' 'show what has changed in a plugin, and update it' 'remove' 'delete a plugin and its files' 'approve' 'show a tool file, and approve its content'
        case 'permissions'
            printf '%s\t%s\n' 'list' 'list rules and grants' 'explain' 'show which rule decides, and why the others don\'t' 'revoke' 'revoke a grant' 'unasked' 'list the programs that may run without a question' 'lint' 'find rules that have no effect, or allow too much' 'trust' 'trust a project: use its rules, agents and commands' 'distrust' 'stop trusting a project'
        case 'auth'
            printf '%s\t%s\n' 'add' 'store the key of a provider' 'list' 'list the keys that are used, and where they are' 'test' 'check that a provider accepts its key' 'remove' 'delete the stored key of a provider' 'import' 'list keys in your shell\'s files, and copy them'
        case 'config'
            printf '%s\t%s\n' 'list' 'list what differs from the defaults' 'explain' 'show what a key does, and where its value comes from' 'get' 'print the value of a key' 'set' 'set a key in your configuration file' 'unset' 'delete a key from your configuration file' 'edit' 'open the file in your editor, and check it' 'check' 'check all files that count' 'path' 'show which files are read, the strongest first' 'migrate' 'change your file to the newest format'
        case 'serve'
            printf '%s\t%s\n' 'keys' 'list, add and revoke the tokens of a server'
        case 'serve keys'
            printf '%s\t%s\n' 'list' 'list the names and roles of tokens' 'add' 'make a token, and print it' 'revoke' 'make a token useless'
        case 'fleet'
            printf '%s\t%s\n' 'status' 'show engines, sessions, leases and the queue' 'enqueue' 'add a task for a worker, and print its key' 'tasks' 'list the tasks that wait or run' 'cancel' 'cancel a task that waits'
    end
end

function __engine_flags
    switch "$argv[1]"
        case ''
            printf '%s\t%s\n' '--help' 'list the commands' '--version' 'print the version'
        case 'chat'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--color' 'choose when to use colours' '--accessible' 'print each line once and redraw nothing' '--max-steps' 'stop after N requests to the model' '--max-tokens' 'stop after N tokens, input and output' '--max-cost' 'stop at this cost in dollars' '--timeout' 'stop after this time, such as 90, 10m or 2h' '--continue' 'continue the newest session of this folder' '--resume' 'continue this session, in its folder' '--fork' 'continue in a copy of the session' '--store' 'keep sessions in this file or database' '--ephemeral' 'keep the session in memory only' '--no-snapshots' 'take no snapshots of files' '--profile' 'choose what is allowed where no rule decides' '--yes' 'approve all that no rule denies or asks about' '--rule' 'add a rule, such as \'deny bash git push *\'' '--trust' 'trust the project: its rules, agents and commands' '--add-dir' 'work in this directory as well as in the project' '--unattended' 'choose what happens where no user can be asked' '--sandbox' 'choose what confines commands' '--network' 'let commands in the sandbox use the network' '--model' 'use this model: host/model, or local:FILE' '--fallback' 'switch to this model when the first one fails for good' '--agent' 'use this agent' '--effort' 'set the reasoning effort' '--temperature' 'set the sampling temperature, 0 to 2' '--max-output' 'limit one answer to N tokens' '--cache' 'set the lifetime of the prompt cache' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'run'
            printf '%s\t%s\n' '--attach' 'add a file to the task' '--stdin' 'choose how standard input joins the task' '--stdin-max' 'accept at most so many bytes of standard input' '--cwd' 'work in this directory' '--output' 'choose what standard output carries' '--json' 'print events as lines of JSON: --output stream-json' '--stream' 'write the answer as it comes, also into a pipe' '--output-file' 'write the answer, or the object, to FILE as well' '--color' 'choose when to use colours' '--quiet' 'print nothing but the answer and errors' '--verbose' 'print a line for each request to a model' '--very-verbose' 'write the debug log to standard error, too' '--debug-log' 'write the debug log to FILE, for you alone' '--schema' 'accept only an answer that fits a JSON Schema' '--no-input' 'ask nothing: deny what would be asked' '--deny-ok' 'exit with 0 if the task completed though calls were denied' '--max-steps' 'stop after N requests to the model' '--max-tokens' 'stop after N tokens, input and output' '--max-cost' 'stop at this cost in dollars' '--timeout' 'stop after this time, such as 90, 10m or 2h' '--max-wait' 'wait no longer than this for a provider' '--continue' 'continue the newest session of this folder' '--resume' 'continue this session, in its folder' '--fork' 'continue in a copy of the session' '--store' 'keep sessions in this file or database' '--ephemeral' 'keep the session in memory only' '--no-snapshots' 'take no snapshots of files' '--profile' 'choose what is allowed where no rule decides' '--yes' 'approve all that no rule denies or asks about' '--rule' 'add a rule, such as \'deny bash git push *\'' '--trust' 'trust the project: its rules, agents and commands' '--add-dir' 'work in this directory as well as in the project' '--unattended' 'choose what happens where no user can be asked' '--sandbox' 'choose what confines commands' '--network' 'let commands in the sandbox use the network' '--model' 'use this model: host/model, or local:FILE' '--fallback' 'switch to this model when the first one fails for good' '--agent' 'use this agent' '--effort' 'set the reasoning effort' '--temperature' 'set the sampling temperature, 0 to 2' '--max-output' 'limit one answer to N tokens' '--cache' 'set the lifetime of the prompt cache' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'batch'
            printf '%s\t%s\n' '--task' 'run this task instead of a file\'s' '--format' 'read tasks of this format' '--repos' 'use the clones in DIR for rows of SWE-bench' '--trust-tasks' 'let tasks run their commands: setup, check, env' '--scripted' 'use TEXT as every answer, to try this offline' '--jobs' 'run so many tasks at once' '--retry' 'run also tasks that ended like this before' '--retry-delay' 'wait so long before the first retry; it doubles' '--fresh' 'start each retry in a new session' '--allow-changed' 'run though tasks or the configuration have changed' '--on' 'run attempts on a Ray cluster (extra ray)' '--cpus' 'reserve so many CPUs of the cluster for each attempt' '--memory' 'reserve so much memory of the cluster for each attempt' '--shard' 'run only the part I of N, with a ledger of its own' '--results-dir' 'write the ledger, patches and logs here' '--predictions' 'write results to FILE, as SWE-bench evaluates them' '--name' 'show the batch as NAME in lists of sessions' '--keep' 'choose which tasks\' folders stay' '--min-free' 'start no task with less than this free on the disk' '--store' 'keep sessions in this file or database' '--json' 'print events, and how it ended, as lines of JSON' '--quiet' 'print nothing but how it ended, and errors' '--color' 'choose when to use colours' '--max-cost' 'start nothing more at this cost in dollars' '--max-tokens' 'start nothing more after N tokens, input and output' '--reserve' 'keep this share of a host\'s limits for other users' '--rpm' 'send at most N requests a minute to a model' '--tpm' 'use at most N tokens of a model a minute' '--max-steps' 'stop after N requests to the model' '--timeout' 'end a task\'s turn after this time, such as 90 or 10m' '--profile' 'choose what is allowed where no rule decides' '--yes' 'approve all that no rule denies or asks about' '--rule' 'add a rule, such as \'deny bash git push *\'' '--trust' 'trust the project: its rules, agents and commands' '--add-dir' 'work in this directory as well as in the project' '--unattended' 'choose what happens where no user can be asked' '--sandbox' 'choose what confines commands' '--network' 'let commands in the sandbox use the network' '--model' 'use this model: host/model, or local:FILE' '--fallback' 'switch to this model when the first one fails for good' '--agent' 'use this agent' '--effort' 'set the reasoning effort' '--temperature' 'set the sampling temperature, 0 to 2' '--max-output' 'limit one answer to N tokens' '--cache' 'set the lifetime of the prompt cache' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'batch merge'
            printf '%s\t%s\n' '--results-dir' 'write the merged ledger here' '--allow-changed' 'mix results of different configurations' '--help' 'show all about this command'
        case 'sessions'
            printf '%s\t%s\n' '--all' 'include sessions of all folders' '--limit' 'print at most N results; 0: no limit' '--json' 'print JSON instead of text' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions list'
            printf '%s\t%s\n' '--all' 'include sessions of all folders' '--limit' 'print at most N results; 0: no limit' '--json' 'print JSON instead of text' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions search'
            printf '%s\t%s\n' '--all' 'include sessions of all folders' '--limit' 'print at most N results; 0: no limit' '--json' 'print JSON instead of text' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions show'
            printf '%s\t%s\n' '--usage' 'show tokens and cost of each request and turn as well' '--results' 'show the results of tool calls as well' '--json' 'print JSON instead of text' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions diff'
            printf '%s\t%s\n' '--turn' 'select this turn' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions versions'
            printf '%s\t%s\n' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions context'
            printf '%s\t%s\n' '--model' 'use this model\'s window' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--json' 'print JSON instead of text' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions undo'
            printf '%s\t%s\n' '--to' 'undo all turns from this prompt on' '--only' 'undo only the messages, or only the file changes' '--list' 'list the prompts with their files, undo nothing' '--show' 'show how files would change, undo nothing' '--force' 'overwrite files that were changed since' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions redo'
            printf '%s\t%s\n' '--force' 'overwrite files that were changed since' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions restore'
            printf '%s\t%s\n' '--turn' 'select this turn' '--version' 'restore a single file as it was then' '--force' 'overwrite files that were changed since' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions compact'
            printf '%s\t%s\n' '--heed' 'add instructions for the summary' '--model' 'write the summary with this model' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions uncompact'
            printf '%s\t%s\n' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions rename'
            printf '%s\t%s\n' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions fork'
            printf '%s\t%s\n' '--at' 'copy messages up to this one' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions export'
            printf '%s\t%s\n' '--format' 'write this format' '--output' 'write to FILE; - is standard output' '--force' 'overwrite an existing file' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions import'
            printf '%s\t%s\n' '--cwd' 'give the session this folder from now on' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions share'
            printf '%s\t%s\n' '--output' 'write to FILE; - is standard output' '--force' 'overwrite an existing file' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions delete'
            printf '%s\t%s\n' '--yes' 'delete without asking for confirmation' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions prune'
            printf '%s\t%s\n' '--older-than' 'delete what was unused for this long, such as 30d' '--keep' 'keep the newest N sessions, however old' '--dry-run' 'list what would be deleted, and delete nothing' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'sessions repair'
            printf '%s\t%s\n' '--output' 'write the new store to NEW' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'stats'
            printf '%s\t%s\n' '--days' 'show the last N days, including today' '--all' 'show all time' '--by' 'show only this table, with all rows' '--json' 'print JSON instead of text' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'trace'
            printf '%s\t%s\n' '--html' 'write a page to FILE instead; - is standard output' '--force' 'overwrite an existing file' '--requests' 'print the bodies of the requests, as JSON lines' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'models'
            printf '%s\t%s\n' '--all' 'list all models, also unusable ones and not for agents' '--json' 'print JSON instead of text' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'tools'
            printf '%s\t%s\n' '--model' 'list only the tools for this model' '--json' 'print JSON instead of text' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'mcp'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--json' 'print JSON instead of text' '--help' 'show all about this command'
        case 'mcp add'
            printf '%s\t%s\n' '--url' 'connect to this URL instead of starting a program' '--env' 'pass this variable on to the program, or NAME=VALUE' '--header' 'send this header; ${VAR} stands for a variable' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'mcp list'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--json' 'print JSON instead of text' '--help' 'show all about this command'
        case 'mcp test'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'mcp approve'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--yes' 'approve without asking' '--help' 'show all about this command'
        case 'mcp login'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'mcp remove'
            printf '%s\t%s\n' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'mcp serve'
            printf '%s\t%s\n' '--http' 'serve the agents of this machine over HTTP instead' '--port' 'listen at this port' '--cwd' 'work in this directory' '--root' 'work only in this folder and below it' '--store' 'keep sessions in this file or database' '--question-timeout' 'deny what the user does not answer for so long' '--profile' 'choose what is allowed where no rule decides' '--yes' 'approve all that no rule denies or asks about' '--rule' 'add a rule, such as \'deny bash git push *\'' '--trust' 'trust the project: its rules, agents and commands' '--add-dir' 'work in this directory as well as in the project' '--unattended' 'choose what happens where no user can be asked' '--sandbox' 'choose what confines commands' '--network' 'let commands in the sandbox use the network' '--model' 'use this model: host/model, or local:FILE' '--fallback' 'switch to this model when the first one fails for good' '--agent' 'use this agent' '--effort' 'set the reasoning effort' '--temperature' 'set the sampling temperature, 0 to 2' '--max-output' 'limit one answer to N tokens' '--cache' 'set the lifetime of the prompt cache' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'plugins'
            printf '%s\t%s\n' '--json' 'print JSON instead of text' '--help' 'show all about this command'
        case 'plugins list'
            printf '%s\t%s\n' '--json' 'print JSON instead of text' '--help' 'show all about this command'
        case 'plugins add'
            printf '%s\t%s\n' '--folder' 'read this directory of the source' '--yes' 'approve without asking' '--help' 'show all about this command'
        case 'plugins update'
            printf '%s\t%s\n' '--yes' 'approve without asking' '--help' 'show all about this command'
        case 'plugins remove'
            printf '%s\t%s\n' '--help' 'show all about this command'
        case 'plugins approve'
            printf '%s\t%s\n' '--yes' 'approve without asking' '--help' 'show all about this command'
        case 'agents'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--trust' 'include the project\'s agents, as if it were trusted' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--json' 'print JSON instead of text' '--help' 'show all about this command'
        case 'permissions'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--profile' 'use this profile' '--json' 'print JSON instead of text' '--help' 'show all about this command'
        case 'permissions list'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--profile' 'use this profile' '--json' 'print JSON instead of text' '--help' 'show all about this command'
        case 'permissions explain'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--profile' 'use this profile' '--help' 'show all about this command'
        case 'permissions revoke'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--profile' 'use this profile' '--help' 'show all about this command'
        case 'permissions unasked'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--profile' 'use this profile' '--help' 'show all about this command'
        case 'permissions lint'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--profile' 'use this profile' '--help' 'show all about this command'
        case 'permissions trust'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--profile' 'use this profile' '--help' 'show all about this command'
        case 'permissions distrust'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--profile' 'use this profile' '--help' 'show all about this command'
        case 'auth'
            printf '%s\t%s\n' '--json' 'print JSON instead of text' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'auth add'
            printf '%s\t%s\n' '--keyring' 'store it in the system\'s keyring instead' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'auth list'
            printf '%s\t%s\n' '--json' 'print JSON instead of text' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'auth test'
            printf '%s\t%s\n' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'auth remove'
            printf '%s\t%s\n' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'auth import'
            printf '%s\t%s\n' '--copy' 'store the keys that were listed' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'doctor'
            printf '%s\t%s\n' '--bundle' 'write the report to a file, without secrets' '--online' 'ask the package index for a newer version' '--json' 'print JSON instead of text' '--cwd' 'work in this directory' '--store' 'keep sessions in this file or database' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'config'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--trust' 'read the project\'s files, as if it were trusted' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--json' 'print JSON instead of text' '--help' 'show all about this command'
        case 'config list'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--trust' 'read the project\'s files, as if it were trusted' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--json' 'print JSON instead of text' '--help' 'show all about this command'
        case 'config explain'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--trust' 'read the project\'s files, as if it were trusted' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'config get'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--trust' 'read the project\'s files, as if it were trusted' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--json' 'print JSON instead of text' '--help' 'show all about this command'
        case 'config set'
            printf '%s\t%s\n' '--project' 'change the project\'s .engine/config.toml instead' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'config unset'
            printf '%s\t%s\n' '--project' 'change the project\'s .engine/config.toml instead' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'config edit'
            printf '%s\t%s\n' '--project' 'change the project\'s .engine/config.toml instead' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'config check'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--trust' 'read the project\'s files, as if it were trusted' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'config path'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--trust' 'read the project\'s files, as if it were trusted' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'config migrate'
            printf '%s\t%s\n' '--project' 'change the project\'s .engine/config.toml instead' '--cwd' 'work in this directory' '--config' 'read this configuration file' '--help' 'show all about this command'
        case 'serve'
            printf '%s\t%s\n' '--port' 'listen at this port' '--listen' 'listen at this address' '--tls-cert' 'use this certificate, with its chain, in PEM' '--tls-key' 'use this key of the certificate' '--insecure-plain' 'listen at an address of the network without encryption' '--public-url' 'name the address at which a proxy passes requests on' '--stdio' 'serve only the program that starts it, over its pipes' '--drain' 'let turns continue for so long when the server ends' '--require-new' 'fail with 11 if a server of this store runs already' '--takeover' 'take the sockets of a server that runs, and let it drain' '--exit-idle' 'end after so long without a client and without a turn' '--max-memory' 'take no new work above this size, such as 2G' '--notify' 'run this when a question waits and no client is connected' '--opencode' 'serve clients that were made for opencode, too' '--open' 'open the page in a browser' '--audit' 'log who connects, answers, cancels and deletes' '--cwd' 'work in this directory' '--store' 'keep sessions in this file or database' '--profile' 'choose what is allowed where no rule decides' '--yes' 'approve all that no rule denies or asks about' '--rule' 'add a rule, such as \'deny bash git push *\'' '--trust' 'trust the project: its rules, agents and commands' '--add-dir' 'work in this directory as well as in the project' '--unattended' 'choose what happens where no user can be asked' '--sandbox' 'choose what confines commands' '--network' 'let commands in the sandbox use the network' '--model' 'use this model: host/model, or local:FILE' '--fallback' 'switch to this model when the first one fails for good' '--agent' 'use this agent' '--effort' 'set the reasoning effort' '--temperature' 'set the sampling temperature, 0 to 2' '--max-output' 'limit one answer to N tokens' '--cache' 'set the lifetime of the prompt cache' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'serve keys'
            printf '%s\t%s\n' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'serve keys list'
            printf '%s\t%s\n' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'serve keys add'
            printf '%s\t%s\n' '--role' 'give the token this role' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'serve keys revoke'
            printf '%s\t%s\n' '--store' 'keep sessions in this file or database' '--help' 'show all about this command'
        case 'attach'
            printf '%s\t%s\n' '--prompt' 'send a prompt, and watch its turn to the end' '--cancel' 'cancel the running turn, and wait for its end' '--resume' 'continue a turn that waits or was interrupted' '--url' 'connect to this server: https://…, or unix: with a path' '--store' 'connect to the server of this store' '--color' 'choose when to use colours' '--accessible' 'print each line once and redraw nothing' '--help' 'show all about this command'
        case 'worker'
            printf '%s\t%s\n' '--slots' 'run so many tasks at a time' '--drain' 'let tasks continue for so long when the worker ends' '--attempts' 'give a task up after so many attempts' '--cwd' 'work in this directory' '--store' 'keep sessions in this file or database' '--profile' 'choose what is allowed where no rule decides' '--yes' 'approve all that no rule denies or asks about' '--rule' 'add a rule, such as \'deny bash git push *\'' '--trust' 'trust the project: its rules, agents and commands' '--add-dir' 'work in this directory as well as in the project' '--unattended' 'choose what happens where no user can be asked' '--sandbox' 'choose what confines commands' '--network' 'let commands in the sandbox use the network' '--max-steps' 'stop after N requests to the model' '--max-tokens' 'stop after N tokens, input and output' '--max-cost' 'stop at this cost in dollars' '--timeout' 'stop after this time, such as 90, 10m or 2h' '--model' 'use this model: host/model, or local:FILE' '--fallback' 'switch to this model when the first one fails for good' '--agent' 'use this agent' '--effort' 'set the reasoning effort' '--temperature' 'set the sampling temperature, 0 to 2' '--max-output' 'limit one answer to N tokens' '--cache' 'set the lifetime of the prompt cache' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'fleet'
            printf '%s\t%s\n' '--json' 'print JSON instead of text' '--store' 'use the queue of this PostgreSQL database' '--help' 'show all about this command'
        case 'fleet status'
            printf '%s\t%s\n' '--json' 'print JSON instead of text' '--store' 'use the queue of this PostgreSQL database' '--help' 'show all about this command'
        case 'fleet enqueue'
            printf '%s\t%s\n' '--key' 'name the task: the same name again adds nothing' '--wait' 'wait for the end, and print the answer' '--json' 'print JSON instead of text' '--store' 'use the queue of this PostgreSQL database' '--cwd' 'work in this directory of the worker\'s machine' '--model' 'use this model' '--agent' 'use this agent' '--resume' 'continue this session' '--help' 'show all about this command'
        case 'fleet tasks'
            printf '%s\t%s\n' '--ended' 'list those that have ended, the newest first' '--limit' 'list at most so many' '--json' 'print JSON instead of text' '--store' 'use the queue of this PostgreSQL database' '--help' 'show all about this command'
        case 'fleet cancel'
            printf '%s\t%s\n' '--store' 'use the queue of this PostgreSQL database' '--help' 'show all about this command'
        case 'acp'
            printf '%s\t%s\n' '--cwd' 'work in this directory' '--store' 'keep sessions in this file or database' '--question-timeout' 'deny what the user does not answer for so long' '--profile' 'choose what is allowed where no rule decides' '--yes' 'approve all that no rule denies or asks about' '--rule' 'add a rule, such as \'deny bash git push *\'' '--trust' 'trust the project: its rules, agents and commands' '--add-dir' 'work in this directory as well as in the project' '--unattended' 'choose what happens where no user can be asked' '--sandbox' 'choose what confines commands' '--network' 'let commands in the sandbox use the network' '--model' 'use this model: host/model, or local:FILE' '--fallback' 'switch to this model when the first one fails for good' '--agent' 'use this agent' '--effort' 'set the reasoning effort' '--temperature' 'set the sampling temperature, 0 to 2' '--max-output' 'limit one answer to N tokens' '--cache' 'set the lifetime of the prompt cache' '--config' 'read this configuration file' '--profile-file' 'read profiles/NAME.toml in the configuration folder' '--set' 'set a key of the configuration for this run' '--help' 'show all about this command'
        case 'completion'
            printf '%s\t%s\n' '--help' 'show all about this command'
        case 'schema'
            printf '%s\t%s\n' '--help' 'show all about this command'
        case 'demo'
            printf '%s\t%s\n' '--serve' 'watch it on the engine\'s page, in a browser' '--html' 'write the page that shows what ran when here' '--help' 'show all about this command'
    end
end

# Print how the value of a flag is completed; fails if it takes none.
function __engine_value
    switch "$argv[1] $argv[2]"
        case 'chat --cwd' 'chat --add-dir' 'run --cwd' 'run --add-dir' 'batch --repos' 'batch --results-dir' 'batch --add-dir' 'batch merge --results-dir' 'sessions --cwd' 'sessions import --cwd' 'mcp --cwd' 'mcp --root' 'mcp --add-dir' 'mcp list --cwd' 'mcp test --cwd' 'mcp approve --cwd' 'mcp login --cwd' 'mcp serve --cwd' 'mcp serve --root' 'mcp serve --add-dir' 'agents --cwd' 'permissions --cwd' 'permissions list --cwd' 'permissions explain --cwd' 'permissions revoke --cwd' 'permissions unasked --cwd' 'permissions lint --cwd' 'permissions trust --cwd' 'permissions distrust --cwd' 'doctor --cwd' 'config --cwd' 'config list --cwd' 'config explain --cwd' 'config get --cwd' 'config set --cwd' 'config unset --cwd' 'config edit --cwd' 'config check --cwd' 'config path --cwd' 'config migrate --cwd' 'serve --cwd' 'serve --add-dir' 'worker --cwd' 'worker --add-dir' 'fleet --cwd' 'fleet enqueue --cwd' 'acp --cwd' 'acp --add-dir'
            echo directory
        case 'chat --color' 'run --color' 'batch --color' 'attach --color'
            echo 'words - always never auto'
        case 'chat --max-steps' 'chat --max-tokens' 'chat --max-cost' 'chat --max-seconds' 'chat --timeout' 'chat --rule' 'chat --temperature' 'chat --max-output' 'chat --profile-file' 'chat --set' 'run --stdin-max' 'run --max-steps' 'run --max-tokens' 'run --max-cost' 'run --max-seconds' 'run --timeout' 'run --max-wait' 'run --rule' 'run --temperature' 'run --max-output' 'run --profile-file' 'run --set' 'batch --task' 'batch --scripted' 'batch -j' 'batch --jobs' 'batch --retry' 'batch --retry-delay' 'batch --on' 'batch --cpus' 'batch --memory' 'batch --shard' 'batch --name' 'batch --min-free' 'batch --max-cost' 'batch --max-tokens' 'batch --reserve' 'batch --rpm' 'batch --tpm' 'batch --max-steps' 'batch --timeout' 'batch --rule' 'batch --temperature' 'batch --max-output' 'batch --profile-file' 'batch --set' 'sessions --limit' 'sessions --turn' 'sessions --profile-file' 'sessions -c' 'sessions --set' 'sessions --to' 'sessions --version' 'sessions --heed' 'sessions --at' 'sessions --older-than' 'sessions --keep' 'sessions list --limit' 'sessions search --limit' 'sessions diff --turn' 'sessions context --profile-file' 'sessions context -c' 'sessions context --set' 'sessions undo --to' 'sessions restore --turn' 'sessions restore --version' 'sessions compact --heed' 'sessions compact --profile-file' 'sessions compact -c' 'sessions compact --set' 'sessions fork --at' 'sessions prune --older-than' 'sessions prune --keep' 'stats --days' 'trace --profile-file' 'trace -c' 'trace --set' 'models --profile-file' 'models -c' 'models --set' 'mcp --url' 'mcp --env' 'mcp --header' 'mcp --profile-file' 'mcp -c' 'mcp --set' 'mcp --port' 'mcp --question-timeout' 'mcp --rule' 'mcp --temperature' 'mcp --max-output' 'mcp add --url' 'mcp add --env' 'mcp add --header' 'mcp list --profile-file' 'mcp list -c' 'mcp list --set' 'mcp test --profile-file' 'mcp test -c' 'mcp test --set' 'mcp approve --profile-file' 'mcp approve -c' 'mcp approve --set' 'mcp login --profile-file' 'mcp login -c' 'mcp login --set' 'mcp serve --port' 'mcp serve --question-timeout' 'mcp serve --rule' 'mcp serve --temperature' 'mcp serve --max-output' 'mcp serve --profile-file' 'mcp serve --set' 'plugins --folder' 'plugins add --folder' 'agents --profile-file' 'agents -c' 'agents --set' 'permissions --profile-file' 'permissions -c' 'permissions --set' 'permissions list --profile-file' 'permissions list -c' 'permissions list --set' 'permissions explain --profile-file' 'permissions explain -c' 'permissions explain --set' 'permissions revoke --profile-file' 'permissions revoke -c' 'permissions revoke --set' 'permissions unasked --profile-file' 'permissions unasked -c' 'permissions unasked --set' 'permissions lint --profile-file' 'permissions lint -c' 'permissions lint --set' 'permissions trust --profile-file' 'permissions trust -c' 'permissions trust --set' 'permissions distrust --profile-file' 'permissions distrust -c' 'permissions distrust --set' 'doctor --profile-file' 'doctor -c' 'doctor --set' 'config --profile-file' 'config -c' 'config --set' 'config list --profile-file' 'config list -c' 'config list --set' 'config explain --profile-file' 'config explain -c' 'config explain --set' 'config get --profile-file' 'config get -c' 'config get --set' 'config check --profile-file' 'config check -c' 'config check --set' 'config path --profile-file' 'config path -c' 'config path --set' 'serve --port' 'serve --listen' 'serve --public-url' 'serve --drain' 'serve --exit-idle' 'serve --max-memory' 'serve --notify' 'serve --rule' 'serve --temperature' 'serve --max-output' 'serve --profile-file' 'serve --set' 'attach -p' 'attach --prompt' 'attach --url' 'worker --slots' 'worker --drain' 'worker --attempts' 'worker --rule' 'worker --max-steps' 'worker --max-tokens' 'worker --max-cost' 'worker --max-seconds' 'worker --timeout' 'worker --temperature' 'worker --max-output' 'worker --profile-file' 'worker --set' 'fleet --store' 'fleet --key' 'fleet --limit' 'fleet status --store' 'fleet enqueue --key' 'fleet enqueue --store' 'fleet tasks --limit' 'fleet tasks --store' 'fleet cancel --store' 'acp --question-timeout' 'acp --rule' 'acp --temperature' 'acp --max-output' 'acp --profile-file' 'acp --set'
            echo ''
        case 'chat --resume' 'run --resume' 'fleet --resume' 'fleet enqueue --resume'
            echo 'words sessions last'
        case 'chat --store' 'chat --config' 'run --attach' 'run -o' 'run --output-file' 'run --debug-log' 'run --schema' 'run --store' 'run --config' 'batch --predictions' 'batch --store' 'batch --config' 'sessions --store' 'sessions --config' 'sessions -o' 'sessions --output' 'sessions list --store' 'sessions search --store' 'sessions show --store' 'sessions diff --store' 'sessions versions --store' 'sessions context --config' 'sessions context --store' 'sessions undo --store' 'sessions redo --store' 'sessions restore --store' 'sessions compact --config' 'sessions compact --store' 'sessions uncompact --store' 'sessions rename --store' 'sessions fork --store' 'sessions export -o' 'sessions export --output' 'sessions export --store' 'sessions import --store' 'sessions share -o' 'sessions share --output' 'sessions share --store' 'sessions delete --store' 'sessions prune --store' 'sessions repair -o' 'sessions repair --output' 'sessions repair --store' 'stats --store' 'trace --html' 'trace --config' 'trace --store' 'models --config' 'tools --config' 'mcp --config' 'mcp --store' 'mcp add --config' 'mcp list --config' 'mcp test --config' 'mcp approve --config' 'mcp login --config' 'mcp remove --config' 'mcp serve --store' 'mcp serve --config' 'agents --config' 'permissions --config' 'permissions list --config' 'permissions explain --config' 'permissions revoke --config' 'permissions unasked --config' 'permissions lint --config' 'permissions trust --config' 'permissions distrust --config' 'auth --config' 'auth add --config' 'auth list --config' 'auth test --config' 'auth remove --config' 'auth import --config' 'doctor --store' 'doctor --config' 'config --config' 'config list --config' 'config explain --config' 'config get --config' 'config set --config' 'config unset --config' 'config edit --config' 'config check --config' 'config path --config' 'config migrate --config' 'serve --tls-cert' 'serve --tls-key' 'serve --audit' 'serve --store' 'serve --config' 'serve keys --store' 'serve keys list --store' 'serve keys add --store' 'serve keys revoke --store' 'attach --store' 'worker --store' 'worker --config' 'acp --store' 'acp --config' 'demo --html'
            echo file
        case 'chat --profile' 'run --profile' 'batch --profile' 'mcp --profile' 'mcp serve --profile' 'permissions --profile' 'permissions list --profile' 'permissions explain --profile' 'permissions revoke --profile' 'permissions unasked --profile' 'permissions lint --profile' 'permissions trust --profile' 'permissions distrust --profile' 'serve --profile' 'worker --profile' 'acp --profile'
            echo 'words - ask auto-edit read-only full'
        case 'chat --unattended' 'run --unattended' 'batch --unattended' 'mcp --unattended' 'mcp serve --unattended' 'serve --unattended' 'worker --unattended' 'acp --unattended'
            echo 'words - deny rules'
        case 'chat --sandbox' 'run --sandbox' 'batch --sandbox' 'mcp --sandbox' 'mcp serve --sandbox' 'serve --sandbox' 'worker --sandbox' 'acp --sandbox'
            echo 'words - auto landlock bwrap off'
        case 'chat -m' 'chat --model' 'chat --fallback' 'run -m' 'run --model' 'run --fallback' 'batch -m' 'batch --model' 'batch --fallback' 'sessions --model' 'sessions context --model' 'sessions compact --model' 'tools --model' 'mcp -m' 'mcp --model' 'mcp --fallback' 'mcp serve -m' 'mcp serve --model' 'mcp serve --fallback' 'serve -m' 'serve --model' 'serve --fallback' 'worker -m' 'worker --model' 'worker --fallback' 'fleet --model' 'fleet enqueue --model' 'acp -m' 'acp --model' 'acp --fallback'
            echo 'words models'
        case 'chat --agent' 'run --agent' 'batch --agent' 'mcp --agent' 'mcp serve --agent' 'serve --agent' 'worker --agent' 'fleet --agent' 'fleet enqueue --agent' 'acp --agent'
            echo 'words agents build plan general explore'
        case 'chat --effort' 'run --effort' 'batch --effort' 'mcp --effort' 'mcp serve --effort' 'serve --effort' 'worker --effort' 'acp --effort'
            echo 'words - none minimal low medium high xhigh max'
        case 'chat --cache' 'run --cache' 'batch --cache' 'mcp --cache' 'mcp serve --cache' 'serve --cache' 'worker --cache' 'acp --cache'
            echo 'words - off 5m 1h'
        case 'run --stdin'
            echo 'words - auto wait skip'
        case 'run --output'
            echo 'words - text json stream-json'
        case 'batch --format'
            echo 'words - jsonl swebench harbor'
        case 'batch --keep'
            echo 'words - none failed all'
        case 'sessions --only' 'sessions undo --only'
            echo 'words - conversation files'
        case 'sessions --format' 'sessions export --format'
            echo 'words - json markdown html atif'
        case 'stats --by'
            echo 'words - day model folder session'
        case 'serve --role' 'serve keys --role' 'serve keys add --role'
            echo 'words - read answer full'
        case '*'
            return 1
    end
end

function __engine_argument
    switch "$argv[1] $argv[2]"
        case 'run 0'
            echo file
        case 'run *'
            echo file
        case 'batch 0'
            echo file
        case 'batch merge *'
            echo directory
        case 'sessions search *'
            echo ''
        case 'sessions show 0'
            echo 'words sessions last'
        case 'sessions diff 0'
            echo 'words sessions last'
        case 'sessions versions 0'
            echo 'words sessions last'
        case 'sessions versions 1'
            echo file
        case 'sessions context 0'
            echo 'words sessions last'
        case 'sessions undo 0'
            echo 'words sessions last'
        case 'sessions redo 0'
            echo 'words sessions last'
        case 'sessions restore 0'
            echo 'words sessions last'
        case 'sessions restore *'
            echo file
        case 'sessions compact 0'
            echo 'words sessions last'
        case 'sessions uncompact 0'
            echo 'words sessions last'
        case 'sessions rename 0'
            echo 'words sessions last'
        case 'sessions rename *'
            echo ''
        case 'sessions fork 0'
            echo 'words sessions last'
        case 'sessions export 0'
            echo 'words sessions last'
        case 'sessions import 0'
            echo file
        case 'sessions share 0'
            echo 'words sessions last'
        case 'sessions delete *'
            echo 'words sessions last'
        case 'sessions repair 0'
            echo file
        case 'trace 0'
            echo 'words sessions last'
        case 'models 0'
            echo 'words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack'
        case 'tools 0'
            echo 'words - apply_patch bash bash_output bash_stop context edit glob grep list multi_edit plan_exit question read task todo_read todo_write web_fetch write'
        case 'mcp add 0'
            echo ''
        case 'mcp add *'
            echo ''
        case 'mcp test 0'
            echo ''
        case 'mcp approve 0'
            echo ''
        case 'mcp login 0'
            echo ''
        case 'mcp remove 0'
            echo ''
        case 'plugins add 0'
            echo ''
        case 'plugins update 0'
            echo ''
        case 'plugins update 1'
            echo ''
        case 'plugins remove 0'
            echo ''
        case 'plugins approve 0'
            echo ''
        case 'agents 0'
            echo 'words agents build plan general explore'
        case 'permissions explain 0'
            echo ''
        case 'permissions explain 1'
            echo file
        case 'permissions revoke 0'
            echo 'words grants'
        case 'permissions trust 0'
            echo directory
        case 'permissions distrust 0'
            echo directory
        case 'auth add 0'
            echo 'words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack'
        case 'auth test 0'
            echo 'words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack'
        case 'auth remove 0'
            echo 'words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack'
        case 'auth import *'
            echo 'words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack'
        case 'doctor 0'
            echo 'words - anthropic openai openai-chat google cohere mistral deepseek xai xai-chat perplexity moonshot zai minimax alibaba azure azure-chat vertex vertex-express vertex-anthropic bedrock bedrock-mantle bedrock-mantle-oss groq openrouter together fireworks cerebras nvidia huggingface github vercel deepinfra ollama-cloud avian crusoe heroku snowflake ollama lmstudio llamacpp vllm litellm gpustack'
        case 'config explain 0'
            echo ''
        case 'config get 0'
            echo ''
        case 'config set 0'
            echo ''
        case 'config set 1'
            echo ''
        case 'config unset 0'
            echo ''
        case 'serve keys add 0'
            echo ''
        case 'serve keys revoke 0'
            echo ''
        case 'attach 0'
            echo 'words sessions last'
        case 'fleet enqueue 0'
            echo ''
        case 'fleet cancel 0'
            echo ''
        case 'completion 0'
            echo 'words - bash zsh fish'
        case 'schema 0'
            echo 'words - result events config'
    end
end

complete -c engine -f -a '(__engine_complete)'
