"""The commands of git."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_reading: Final = partial(Program, reading="free")
_PLAIN: Final = Program()

# Options with a value, so that the value is not mistaken for an option or a command.
_SHOWN: Final = """
    --output=writes -O=reads -S= -G= -L= -n= --max-count= --skip= --since= --after= --until= --before= --author=
    --committer= --grep= --format= --pretty? --date= --diff-filter= --word-diff? --color? --stat? -U= --unified=
    --ext-diff!changes --textconv! --show-signature!changes --src-prefix= --dst-prefix= --decorate? --branches? --tags?
    --remotes? --glob= --exclude= -M? -C? -B? -l= --follow --name-only --name-status --oneline --graph --all --no-index
    -p --patch -s -q --quiet --cached --staged --merge-base --reverse --numstat --shortstat --summary
    --ignore-all-space -w -b --check --binary --no-color --no-ext-diff --raw -z -0123456789
"""
_SHOWING: Final = _reading(options=_SHOWN)
_FETCHED: Final = " --upload-pack=shell --depth= --shallow-since= --shallow-exclude= --negotiation-tip= -j= --jobs= -o= --server-option= --refmap= --filter= "
_COMMITTED: Final = """
    -m= --message= -F=reads --file=reads -t=reads --template=reads -C= --reuse-message= -c= --reedit-message= --author=
    --date= --cleanup= --fixup= --squash= --trailer= -S? --gpg-sign? -u? --untracked-files? --pathspec-from-file=reads
"""
_MERGED: Final = (
    " -s= --strategy= -X= --strategy-option= -m= -F=reads --file=reads -S? --gpg-sign? --log? --cleanup= --into-name= "
)

_REMOTE: Final = Program(
    reading="known",
    options="-v|--verbose",
    commands={
        "add": Program(options="-t= -m= -f --tags --no-tags --mirror?"),
        **rows("rename remove rm set-head set-branches set-url prune update", _PLAIN),
        "get-url": _reading(),
        "show": Program(),
    },
)
_STASH: Final = Program(
    commands={
        **rows("list show", _SHOWING),
        **rows("pop apply drop clear create store branch", _PLAIN),
        **rows("push save", Program(options="-m= --message= --pathspec-from-file=reads")),
    },
)
_SUBMODULE: Final = Program(
    options="-q --quiet --cached",
    commands={
        "foreach": Program(options="--recursive -q --quiet", strict=True, permutes=False, tail="shell"),
        **rows("status summary", _reading()),
        "add": Program(options="-b= --branch= --name= --reference= --depth= -f --force"),
        **rows(
            "init deinit update set-branch set-url sync absorbgitdirs",
            Program(options="--reference= --depth= -j= --jobs= --filter="),
        ),
    },
)
_BISECT: Final = Program(
    commands={
        "run": Program(permutes=False, tail="command"),
        "log": _reading(),
        **rows(
            "start bad new good old skip next reset terms replay view visualize help",
            _PLAIN,
        ),
    },
)
_WORKTREE: Final = Program(
    commands={
        "list": _reading(),
        "add": Program(
            options="-b= -B= --reason= -f --force --detach --checkout --no-checkout --lock --orphan", operands="writes"
        ),
        **rows("remove lock unlock move prune repair", _PLAIN),
    },
)
_FILTERS: Final = Program(
    strict=True,
    options="""--setup=shell --subdirectory-filter= --env-filter=shell --tree-filter=shell --index-filter=shell
        --parent-filter=shell --msg-filter=shell --commit-filter=shell --tag-name-filter=shell --prune-empty --original=
        -d=writes -f --force --state-branch=""",
)

_BY_KIND: Final[Mapping[str, Program]] = {
    **rows(
        """check-attr check-ignore check-mailmap check-ref-format cherry count-objects for-each-ref
get-tar-commit-id ls-tree merge-base name-rev patch-id rev-list show-branch show-index show-ref status
stripspace var verify-commit verify-tag verify-pack version whatchanged help""",
        # Several of these also have the options of `diff`.
        _reading(options="--output=writes --ext-diff!changes --show-signature!changes"),
    ),
    # Nothing they print begins with a dash, except text from their own arguments.
    **rows(
        "annotate blame",
        _reading(
            options="""--output=writes --ext-diff!changes --show-signature!changes -L= -S=reads --contents=reads --date=
                --ignore-rev= --ignore-revs-file=reads -M? -C? --since= --until= --abbrev="""
        ),
    ),
    **rows("rev-parse describe merge-base", _reading(prints_names=True)),
    "ls-files": _reading(
        options="-X=reads --exclude-from=reads -x= --exclude= --exclude-per-directory= --format= --abbrev? --with-tree= -zc --cached",
        prints_names=True,
    ),
    **rows("diff diff-files diff-index diff-tree", _reading(options=_SHOWN, names_with="--name-only")),
    **rows(
        "log range-diff shortlog show whatchanged",
        _SHOWING,
    ),
    **rows(
        """add am apply checkout cherry-pick clean commit-graph commit-tree fast-export format-patch fsck gc
hash-object init-db maintenance merge-file merge-tree mktag mktree multi-pack-index mv notes pack-objects
pack-redundant pack-refs prune prune-packed read-tree repack replace request-pull reset restore rerere
revert rm sparse-checkout switch symbolic-ref tag unpack-file unpack-objects update-index update-ref
update-server-info write-tree bundle fast-import index-pack interpret-trailers mailinfo mailsplit
credential bugreport diagnose citool gui gitk lfs flow subtree absorb annex crypt filter-repo town
machete branchless open secret column fmt-merge-msg merge-one-file merge-octopus merge-ours
merge-recursive merge-resolve merge-subtree prune-packed backfill refs replay last-modified scalar""",
        _PLAIN,
    ),
}

COMMANDS: Final[Mapping[str, Program]] = {
    **_BY_KIND,
    "archive": Program(
        options="--exec=shell --remote= -o=writes --output=writes --format= --prefix= --add-file=reads -l -v"
    ),
    "bisect": _BISECT,
    "branch": Program(
        reading="known",
        options="""-avr --all --remotes -l!reading --list!reading --verbose --show-current --no-color --no-column --color?
            --sort= --format= --contains?reading --no-contains?reading --merged?reading --no-merged?reading
            --points-at=reading --abbrev? --ignore-case -u!changes --set-upstream-to=changes
            -mMdDcCft!changes --delete!changes --move!changes --copy!changes --force!changes --edit-description!changes
            --track?changes --unset-upstream!changes --column?""",
        prints_names=True,
    ),
    "cat-file": _reading(options="--textconv!changes --filters!changes --batch?lists --batch-command?lists"),
    "cherry-pick": Program(options=_MERGED.replace("-F=reads", "").replace("-m=", "-m=")),
    "clone": Program(
        options=_FETCHED
        + """-u=shell -c= --config= --template=code -b= --branch= --reference= --reference-if-able= --origin=
            --separate-git-dir=writes --bundle-uri= -l -s -q -v -n --recursive --recurse-submodules? --bare --mirror
            --single-branch --no-checkout --no-tags --sparse --progress --local --no-local --dissociate --quiet --verbose""",
        operands="plain writes?",
    ),
    "commit": Program(options=_COMMITTED),
    "config": Program(
        reader="",
        options="""-l|--list --get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool --global --system --local
            --worktree -f=reads --file=reads --blob= --add --replace-all --unset --unset-all --remove-section
            --rename-section -e --edit --bool --int --bool-or-int --path --expiry-date --type= -t= -z --null --name-only
            --show-origin --show-scope --includes --no-includes --default= --fixed-value --all --append --value=
            --regexp --url= --comment=""",
    ),
    "difftool": Program(options="-x=shell --extcmd=shell -t= --tool= -d -y --no-prompt -g --gui --cached --staged"),
    "mergetool": Program(options="-t= --tool= -y --no-prompt -g --gui -O=reads"),
    "fetch": Program(options=_FETCHED + "-k -q -v -p -f -t -a -n -u -4 -6 --recurse-submodules? --upload-pack=shell"),
    "fetch-pack": Program(options="--exec=shell --upload-pack=shell --depth= --shallow-since= --shallow-exclude="),
    "filter-branch": _FILTERS,
    "for-each-repo": Program(opaque="runs git commands in other repositories"),
    "grep": _reading(
        options="""-O?code --open-files-in-pager?code -f=reads -e= -A= -B= -C= -m= --max-count= --max-depth= --threads=
            --color? -nilLcwvhHqzIoFEGPpWraz --and --or --not --untracked --cached --no-index --name-only --count
            --line-number --ignore-case --files-with-matches --heading --break --show-function --function-context
            --context= --after-context= --before-context= --word-regexp --extended-regexp --perl-regexp --fixed-strings"""
    ),
    "hook": Program(opaque="runs hooks"),
    "init": Program(
        options="--template=code --separate-git-dir=writes -b= --initial-branch= --object-format= --shared?",
        operands="writes?",
    ),
    "instaweb": Program(opaque="starts a server and a browser"),
    "daemon": Program(options="--access-hook=code"),
    "ls-remote": Program(
        options="--upload-pack=shell --exec=shell --sort= -o= -h -t -q --heads --tags --refs --branches"
    ),
    "merge": Program(options=_MERGED),
    "merge-index": Program(options="-o -q", permutes=False, strict=True, operands="program"),
    "p4": Program(opaque="is a program of its own"),
    "pull": Program(
        options=_FETCHED
        + _MERGED.replace("-m= -F=reads --file=reads", "")
        + "-q -v -r? --rebase? --no-rebase --ff-only -p"
    ),
    "push": Program(
        options="""--receive-pack=shell --exec=shell --repo= -o= --push-option= --recurse-submodules= --force-with-lease?
            -ufqvndf46 --signed? --all --tags --mirror --delete --force --set-upstream --no-verify --follow-tags --prune
            --atomic --dry-run --porcelain --progress --quiet --verbose --thin --force-if-includes"""
    ),
    "rebase": Program(
        options=_MERGED.replace("-m=", "-m").replace("-F=reads --file=reads", "")
        + """-x=shell --exec=shell --onto= -C= --whitespace= --empty= -i -f -q -v -n -r --rebase-merges? --root --autosquash
            --no-autosquash --keep-base --continue --abort --skip --quit --edit-todo --show-current-patch --interactive"""
    ),
    # Without a sub-command it is `log`, with its options.
    "reflog": Program(
        options=_SHOWN,
        reading="free",
        commands={
            "show": _SHOWING,
            "exists": _reading(),
            **rows("expire delete drop write", _PLAIN),
        },
    ),
    "remote": _REMOTE,
    **{f"remote-{kind}": Program(opaque="reaches a repository by another program") for kind in ("ext", "fd")},
    "revert": Program(options=_MERGED.replace("-F=reads --file=reads", "")),
    "send-email": Program(
        options="""--sendmail-cmd=shell --smtp-server=code --to-cmd=shell --cc-cmd=shell --header-cmd=shell --to= --cc= --bcc=
            --from= --subject= --in-reply-to= --reply-to= --confirm= --identity=code --envelope-sender= --smtp-user=
            --smtp-pass= --smtp-server-port= --smtp-encryption= --batch-size= --chain-reply-to --compose -v?"""
    ),
    "send-pack": Program(options="--receive-pack=shell --exec=shell"),
    "shell": Program(options="-c=shell"),
    **rows("upload-pack receive-pack upload-archive http-backend cvsserver", _PLAIN),
    "stash": _STASH,
    "submodule": _SUBMODULE,
    "svn": _PLAIN,
    "tag": Program(
        reading="known",
        options="""-l!reading --list!reading -n? --sort= --format= --contains?reading --no-contains?reading --color?
            --points-at=reading --merged?reading --no-merged?reading
            -m=changes --message=changes -F=changes --file=changes -u=changes --local-user=changes -adsfv!changes
            --annotate!changes --delete!changes --sign!changes --force!changes --verify!changes --cleanup= --column? -i""",
    ),
    "web--browse": Program(opaque="starts a browser"),
    "worktree": _WORKTREE,
}

GIT: Final = Program(
    reader="git",
    strict=True,
    permutes=False,
    commands=COMMANDS,
    options="""
        -C=folder -c= --config-env=code --exec-path?code -p|--paginate --no-pager -P --git-dir=reads --work-tree=folder
        --namespace= --bare --no-replace-objects --literal-pathspecs --glob-pathspecs --noglob-pathspecs
        --icase-pathspecs --no-optional-locks --no-lazy-fetch --no-advice --super-prefix= --attr-source= --html-path
        --man-path --info-path -v|--version -h|--help --list-cmds=
    """,
)
# `git-grep`, as git calls its own parts.
GIT_DASHED: Final = Program(opaque="is a part of git, called by its own name")
