"""Programs with a language of their own in their arguments: sed, awk, tar, find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_AWK: Final = Program(
    reader="awk",
    strict=True,
    permutes=False,
    options="""
        -F|--field-separator= -v|--assign= -f|--file=code -e|--source= -E|--exec=code -i|--include=code -l|--load=code
        -W=code -b|--characters-as-bytes -c|--traditional -C|--copyright -d?writes --dump-variables?writes -D?code
        --debug?code -g|--gen-pot -h|--help -k|--csv -L? --lint? -M|--bignum -n|--non-decimal-data -N|--use-lc-numeric
        -o?writes --pretty-print?writes -O|--optimize -p?writes --profile?writes -P|--posix -r|--re-interval
        -s|--no-optimize -S|--sandbox -t|--lint-old -V|--version -I|--trace
    """,
)

_TAR: Final = Program(
    reader="tar",
    strict=True,
    options="""
        -AcdrtuxGnSkUWOmpsMBiajJzZhPlRvwo --catenate --concatenate --create --delete --diff --compare --append
        --test-label --list --update --extract --get --check-device -g|--listed-incremental=edits --incremental
        --hole-detection= --ignore-failed-read --level= --no-check-device --no-seek --seek --occurrence?
        --sparse-version= --sparse --add-file=reads -C|--directory=folder --cd=folder --exclude= --exclude-backups
        --exclude-caches --exclude-caches-all --exclude-caches-under --exclude-ignore= --exclude-ignore-recursive=
        --exclude-tag= --exclude-tag-all= --exclude-tag-under= --exclude-vcs --exclude-vcs-ignores --no-null
        --no-recursion --no-unquote --no-verbatim-files-from --null --recursion -T|--files-from= --unquote
        --verbatim-files-from -X|--exclude-from=reads --anchored --ignore-case --no-anchored --no-ignore-case
        --no-wildcards --no-wildcards-match-slash --wildcards --wildcards-match-slash --keep-directory-symlink
        --keep-newer-files --keep-old-files --no-overwrite-dir --one-top-level? --overwrite --overwrite-dir
        --recursive-unlink --remove-files --skip-old-files --unlink-first --verify --ignore-command-error
        --no-ignore-command-error --to-stdout --to-command=shell --atime-preserve? --clamp-mtime
        --delay-directory-restore --group= --group-map=reads --mode= --mtime= --touch --no-delay-directory-restore
        --no-same-owner --no-same-permissions --numeric-owner --owner= --owner-map=reads --preserve-permissions
        --same-permissions --same-owner --sort= --preserve-order --same-order --acls --no-acls --no-selinux
        --no-xattrs --selinux --xattrs --xattrs-exclude= --xattrs-include= --force-local -f|--file=
        -F|--info-script=shell --new-volume-script=shell -L|--tape-length= --multi-volume --rmt-command=code
        --rsh-command=code --volno-file=edits -b|--blocking-factor= --read-full-records --ignore-zeros --record-size=
        -H|--format= --old-archive --portability --pax-option= --posix -V|--label= --auto-compress
        -I|--use-compress-program=shell --bzip2 --xz --lzip --lzma --lzop --no-auto-compress --zstd --gzip --gunzip
        --ungzip --compress --uncompress --backup? --hard-dereference --dereference -K|--starting-file=
        --newer-mtime= -N|--newer= --after-date= --one-file-system --absolute-names --suffix= --strip-components=
        --transform= --xform= --checkpoint? --checkpoint-action= --full-time --index-file=writes --check-links
        --no-quote-chars= --quote-chars= --quoting-style= --block-number --show-defaults --show-omitted-dirs
        --show-snapshot-field-ranges --show-transformed-names --show-stored-names --totals? --utc --verbose
        --warning= --interactive --confirmation --help --restrict --usage --version --no-mac-metadata --no-fflags
        --disable-copyfile --lz4 --lrzip
    """,
)

_SED: Final = Program(
    reader="sed",
    strict=True,
    options="""
        -n|--quiet --silent -e|--expression= -f|--file=code -E|--regexp-extended -r -s|--separate -u|--unbuffered
        -z|--null-data --zero-terminated -i? -I? --in-place? -l|--line-length= --posix --debug --sandbox
        --follow-symlinks --binary -b -a --help --version
    """,
)

TEXT: Final[Mapping[str, Program]] = {
    **rows("sed gsed ssed", _SED),
    **rows("awk gawk mawk nawk original-awk goawk", _AWK),
    **rows("tar gtar bsdtar", _TAR),
}
