"""Programs that read and write files, and those that print information about the system."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.names import words_of
from engine.permission.programs.tables.program_spec import Program, rows

_reading: Final = partial(Program, reading="free", operands="reads*")
_telling: Final = partial(Program, reading="free")
_writing: Final = partial(Program, operands="writes*")

_SUMS: Final = "b2sum cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum shasum sum md5 xxhsum b3sum"
_TELLING: Final = """
    : cal echo expr factor false free getconf groups id locale lscpu nproc numfmt pgrep printenv printf ps
    pwd seq sleep test [ true type uname uptime which whereis who whoami tty users w lsblk lsof lsusb lspci dirname
    pidof cpuid vmstat iostat mpstat sw_vers logname hostid tput uuidgen ncal jot tzselect
    figlet cowsay column rev tr cut paste nl fold fmt expand unexpand tac tsort
"""

_COPIED: Final = """
    -t|--target-directory=writes -T|--no-target-directory -S|--suffix= -abdfiHlLnPprRsuvxZ --backup? --preserve?
    --no-preserve= --parents --recursive --force --no-clobber --update? --verbose --archive --reflink? --sparse=
    --attributes-only --remove-destination --strip-trailing-slashes --symbolic-link --link --dereference --debug
    --no-dereference --interactive --one-file-system --context? --copy-contents --keep-directory-symlink -c
"""
_SEARCHED: Final = """
    -e|--regexp= -f|--file=reads -A|--after-context= -B|--before-context= -C|--context= -m|--max-count= --include=
    --exclude= --exclude-from=reads --exclude-dir= --color? --colour? --label= -D|--devices= -d|--directories=
    --binary-files= -EFGPivwxyznbHhoqsLlcrRaITUuZ --group-separator= --no-group-separator --include-dir=
    --line-number --ignore-case --recursive --files-with-matches --files-without-match --count --invert-match
    --word-regexp --line-regexp --quiet --silent --only-matching --with-filename --no-filename --null --text
    --extended-regexp --fixed-strings --basic-regexp --perl-regexp --no-messages --line-buffered --null-data
    --dereference-recursive --no-ignore-case --initial-tab --byte-offset -0123456789
"""
_GREP: Final = Program(
    names_with="-l -L --files-with-matches --files-without-match",
    filters="-v -i -E -F -P -G -w -x -e -m -a --invert-match --ignore-case --line-buffered",
    reading="free",
    options=_SEARCHED,
    operands="plain reads*",
    without_first="-e --regexp -f --file",
)

_READING: Final[Mapping[str, Program]] = {
    **{name: _reading() for name in _SUMS.split()},
    **{name: _telling() for name in _TELLING.split()},
    **{
        name: _reading()
        for name in words_of(
            """
    cat comm hexdump join stat readlink realpath nl od rev tac bat batcat zcat zless bzcat xzcat zgrep lzcat
    zstdcat gzcat pr nm objdump readelf size otool lsattr getfacl pathchk sum tokei wc vdir dir exa
    eza lsd ls du df diff3 sdiff cmp base64 basenc base32 strings
"""
        )
    },
    "basename": _telling(prints_names=True),
    "dirname": _telling(prints_names=True),
    "nproc": _telling(prints_names=True),
    "pwd": _telling(prints_names=True),
    "seq": _telling(),
    "uname": _telling(prints_names=True),
    "whoami": _telling(prints_names=True),
    "which": _telling(prints_names=True),
    "realpath": _reading(prints_names=True),
    "cd": Program(),
    **rows("tsort rev", _reading()),
    "cut": _reading(
        options="-b= -c= -d= -f= -nsz --bytes= --characters= --delimiter= --fields= --output-delimiter= --complement"
    ),
    "paste": _reading(options="-d= -sz --delimiters= --serial"),
    "fold": _reading(options="-w= -bs --width="),
    "fmt": _reading(options="-w= -p= -g= -cstu0123456789 --width= --prefix= --goal="),
    **rows("expand unexpand", _reading(options="-t= -ia --tabs= --initial --all")),
    "nl": _reading(options="-b= -d= -f= -h= -i= -l= -n= -s= -v= -w= -p"),
    "tac": _reading(options="-s= -br --separator="),
    **rows(
        "base32 base64 basenc",
        _reading(options="-w= --wrap= -d -D -i=reads -o=writes --output=writes --input=reads"),
    ),
    "bat": _reading(
        options="--pager=shell -l= --language= -r= --line-range= --theme= --style= --paging= -H= --map-syntax= --file-name= --wrap= --tabs= --color= -pAnufd"
    ),
    "cal": _telling(),
    "cat": _reading(
        filters="-u",
    ),
    "cmp": _reading(options="-i= -n= --ignore-initial= --bytes="),
    "date": Program(
        reader="date",
        reading="known",
        options="""-d= --date= -f=reads --file=reads -I? --iso-8601? -R --rfc-email --rfc-3339= -r=reads --reference=reads
            -s=changes --set=changes -u --utc --universal --debug --resolution --help --version -v= -j""",
        operands="plain",
    ),
    "df": _reading(options="-t= -x= -B= --type= --exclude-type= --block-size= --output?"),
    **rows(
        "diff colordiff",
        _reading(
            options="-l!changes --paginate!changes -I= -x= -X=reads -U= -C= -W= -F= -D= -S= --exclude= --exclude-from=reads --label= -L= --color? --unified? --context? --width= --horizon-lines= --to-file=reads --from-file=reads -rqNauwbBiyepcstTEdZnH"
        ),
    ),
    "du": _reading(
        options="-d= --max-depth= -t= --threshold= -B= --block-size= --exclude= -X=reads --exclude-from=reads --files0-from=reads --time? --time-style="
    ),
    "file": _reading(
        options="-C!changes --compile!changes -z!changes -Z!changes --uncompress!changes -m=reads --magic-file=reads -f=reads --files-from=reads -F= -e= -P="
    ),
    **rows("grep egrep fgrep ggrep rgrep", _GREP),
    "zgrep": _GREP,
    "head": _reading(
        filters="-n -q -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 --lines", options="-n= -c= --lines= --bytes= -qvz0123456789"
    ),
    "hostname": Program(
        reading="known", options="-adfiIsyA --fqdn --short --long --ip-address --all-ip-addresses", operands="changes*"
    ),
    "ls": _reading(
        prints_names=True,
        options="-I= -w= -T= --ignore= --hide= --sort= --time= --time-style= --color? --format= --block-size= --width= --indicator-style= --quoting-style=",
    ),
    "lsof": _telling(),
    "jq": Program(
        reading="free",
        operands="plain reads*",
        without_first="-f --from-file",
        options="""-f=reads --from-file=reads -L=reads --indent= --tab -i!changes --in-place!changes -nrjaceCMSsRgh
            --arg& --argjson& --slurpfile&reads --rawfile&reads --args --jsonargs --raw-output --compact-output --null-input --slurp --exit-status --sort-keys --raw-input --join-output
            --ascii-output --unbuffered --stream --seq --color-output --monochrome-output""",
    ),
    "rg": Program(
        names_with="-l --files --files-with-matches --files-without-match",
        filters="-v -i -F -P -w -x -e -m --invert-match",
        reading="free",
        operands="plain reads*",
        without_first="-e --regexp -f --file --files --type-list",
        options="""--pre=program --hostname-bin=program -z!changes --search-zip!changes -e|--regexp= -f|--file=reads
            -A|--after-context= -B|--before-context= -C|--context= -m|--max-count= -g|--glob= --iglob= -t|--type=
            -T|--type-not= --type-add= --type-clear= -r|--replace= -E|--encoding= -j|--threads= -M|--max-columns=
            -d|--max-depth= --maxdepth= --max-filesize= --color= --colors= --context-separator= --sort= --sortr=
            --engine= --ignore-file=reads --pre-glob= --path-separator= --field-match-separator= --hyperlink-format=
            --field-context-separator= --dfa-size-limit= --regex-size-limit= --generate= --stop-on-nonmatch
            -iSsnNlLcovwxFPUuHIhqpa0L.KbV -. --files --hidden --no-ignore --json --files-with-matches --type-list
            --files-without-match --count --count-matches --ignore-case --smart-case --line-number --fixed-strings
            --word-regexp --multiline --pcre2 --no-heading --heading --vimgrep --column --null --text --follow
            --only-matching --invert-match --no-filename --with-filename --quiet --stats --trim --passthru
            --no-messages --no-config --debug --trace --one-file-system --line-regexp --pretty --byte-offset
            --no-line-number --no-ignore-vcs --case-sensitive --unrestricted --crlf --binary --mmap --no-mmap
            --multiline-dotall --auto-hybrid-regex --no-unicode --block-buffered --line-buffered --no-ignore-parent
            --include-zero --glob-case-insensitive --max-columns-preview --no-require-git --no-ignore-dot --sort-files""",
    ),
    "ag": Program(
        reading="free",
        operands="plain reads*",
        options="--pager=shell -A= -B= -C= -G= -m= -p=reads --ignore= --ignore-dir= --depth= --workers=",
    ),
    "ack": Program(
        operands="plain reads*",
        options="--pager?shell --ackrc=code --type= -A= -B= -C= -m= --output= --ignore-dir= --ignore-file=",
    ),
    "sort": _reading(
        filters="-u -r -n -V -f -z -k -t -R --unique --reverse",
        options="""-o=writes --output=writes --compress-program=program -T=writes --temporary-directory=writes -k= --key= -t=
            --field-separator= -S= --buffer-size= --parallel= --batch-size= --random-source=reads --files0-from=lists
            --sort= -bdfgiMhnRrVcCmsuz --reverse --unique --numeric-sort --human-numeric-sort --version-sort
            --ignore-case --stable --zero-terminated --check? --merge --debug --month-sort --general-numeric-sort
            --random-sort --dictionary-order --ignore-leading-blanks --ignore-nonprinting""",
    ),
    "strings": _reading(options="-n= -t= -e= -T= --bytes= --radix= --encoding= --output-separator="),
    "stat": _reading(options="-c= -f? -t? --format= --printf= -x"),
    "tail": _reading(
        filters="-n -q -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 --lines",
        options="-n= -c= --lines= --bytes= --pid= -s= --sleep-interval= --max-unchanged-stats= -fFqvzr0123456789 --follow? --retry --quiet",
    ),
    "tree": _reading(
        options="-o=writes --output=writes -R!changes -L= -P= -I= -H= -T= --charset= --filelimit= --timefmt= --sort? --gitfile=reads --infofile=reads -adfhCDFnpsugitvrcUxlNqXJS"
    ),
    "uniq": Program(
        filters="-u -d -i",
        reading="free",
        operands="reads? writes?",
        options="-f= -s= -w= --skip-fields= --skip-chars= --check-chars= -cdDiuz --group? --all-repeated? --count",
    ),
    "wc": _reading(options="--files0-from=lists --total="),
    "xxd": Program(operands="reads? writes?", options="-c= -cols= -g= -l= -o= -s= -n= -R="),
    "yq": Program(operands="plain reads*", options="-i -o= -p= --from-file=reads -I= -s= -rncCMPejyYxSR"),
    "column": _reading(options="-t -s= -o= -c= -N= -H= -R= -W= -E= -T= -O="),
    "less": _telling(
        operands="reads*",
        options="-o=writes -O=writes -k=code --lesskey-file=code --lesskey-src=code --lesskey-content=code -p= -P= -t= -T= -x= -y= -z= -h= -j= -b= -D= -# +=code",
    ),
    "more": _reading(options="-n= +=code"),
    "most": _reading(),
    "printenv": _telling(),
    "tput": Program(),
    "shuf": _reading(
        filters="-n -r --head-count",
        options="-o=writes --output=writes -n= --head-count= -i= --input-range= -e -r -z --random-source=reads",
    ),
    "nm": _reading(options="--plugin=code"),
    **rows("diff3 sdiff", _reading(options="--diff-program=program -o=writes --output=writes")),
    **rows("objdump readelf size", _reading(options="--plugin=code")),
}

_WRITING: Final[Mapping[str, Program]] = {
    "tee": _writing(options="-a -i -p --append --ignore-interrupts --output-error?"),
    "touch": _writing(options="-d= -t= -r=reads --date= --reference=reads --time= -acmhfA"),
    "mkdir": _writing(options="-m= --mode= -pvZ --parents --verbose --context?"),
    "rmdir": _writing(options="-pv --parents --ignore-fail-on-non-empty"),
    "rm": _writing(
        options="-rRfidvIPWx --recursive --force --interactive? --verbose --one-file-system --preserve-root? --no-preserve-root --dir"
    ),
    "unlink": _writing(),
    "trash": _writing(),
    "shred": _writing(options="-n= -s= --iterations= --size= --random-source=reads -fuvxz --remove?"),
    "truncate": _writing(options="-s= --size= -r=reads --reference=reads -co --no-create --io-blocks"),
    "cp": Program(options=_COPIED, operands="reads* writes", without_last="-t --target-directory"),
    "gcp": Program(options=_COPIED, operands="reads* writes", without_last="-t --target-directory"),
    "mv": Program(options=_COPIED, operands="edits* writes", without_last="-t --target-directory"),
    "ln": Program(options=_COPIED, operands="reads* writes", without_last="-t --target-directory"),
    "link": Program(operands="reads writes"),
    "install": Program(
        options=_COPIED.replace("-abdfiHlLnPprRsuvxZ", "-bCdDpsvcZ")
        + "-m= --mode= -o= --owner= -g= --group= --strip-program=program --directory",
        operands="reads* writes",
        without_last="-t --target-directory",
    ),
    "dd": Program(reader="dd"),
    "chmod": Program(
        without_first="--reference",
        options="--reference=reads -cfvRHLP --recursive --silent --changes -rwxXst --verbose --preserve-root --no-preserve-root",
        operands="plain writes*",
    ),
    **rows(
        "chown chgrp",
        Program(
            without_first="--reference",
            options="--reference=reads --from= -cfvhRHLP --recursive --dereference --no-dereference --verbose",
            operands="plain writes*",
        ),
    ),
    **rows(
        "chattr setfattr setfacl xattr chflags chcon restorecon",
        Program(options="-m= -x= -M=reads -n= -v= -R -w -d -r", operands="writes*"),
    ),
    "split": Program(
        options="--filter=shell -a= -b= -C= -l= -n= -t= --suffix-length= --bytes= --lines= --number= --additional-suffix= --line-bytes= --separator= -dexuz --numeric-suffixes? --hex-suffixes? --verbose --elide-empty-files",
        operands="reads? writes?",
    ),
    "csplit": Program(
        options="-f=writes --prefix=writes -b= --suffix-format= -n= --digits= -kszq", operands="reads plain*"
    ),
    "patch": Program(
        options="""-i=reads --input=reads -o=writes --output=writes -d=folder --directory=folder -p= --strip= -r=writes
            --reject-file=writes -B= -Y= -z= -V= -F= --fuzz= -D= --ifdef= -g= --get= -x= --suffix= --prefix= --version-control=
            -bcefElnNRstTuvZ --dry-run --forward --reverse --force --batch --quiet --silent --binary --posix --merge? --backup""",
        operands="writes? reads?",
    ),
    "mktemp": Program(
        options="-p=writes --tmpdir?writes --suffix= -dqtuV --directory --dry-run --quiet",
        operands="writes?",
        prints_names=True,
    ),
    "mkfifo": _writing(options="-m= --mode="),
    "mknod": Program(operands="writes plain*"),
    "sponge": _writing(options="-a"),
    "rename": Program(options="-e=code -E=code -n -v -f", operands="plain writes*"),
    "dos2unix": _writing(options="-n -o -k -q"),
    "unix2dos": _writing(options="-n -o -k -q"),
    **rows(
        """gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lzma unlzma lz4 compress uncompress pigz pbzip2 brotli""",
        Program(
            options="-S= --suffix= -o=writes --output=writes -cdfkltvqrn0123456789zhLV -T= --threads= -D=reads --stdout --decompress --keep --force --best --fast --test --list",
            operands="edits*",
        ),
    ),
    "zip": Program(
        options="""-T -TT=shell --unzip-command=shell --test -r -q -9 -8 -1 -0 -j -m -u -f -d -g -y -v -x= -i= -b=folder -t= -tt=
            -o -D -X -l -ll -n= -P= -s= -sf -e -FS -A -J -F -FF --out=writes -O=writes -@ -z -c -w -k -L -h -h2 -h3 -recurse-paths""",
        dashes="single",
        operands="writes reads*",
    ),
    "unzip": Program(
        options="-d=writes -x -o -n -q -l -t -v -p -j -u -f -z -a -b -C -L -M -P= -K -X -O= -I=",
        operands="reads plain*",
    ),
    "cpio": Program(
        options="--rsh-command=code -F= -O=writes -I=reads -D=folder -H= -E=reads -R= -iotpdmuvcV0ab --to-stdout --extract --create --pass-through --file= --no-absolute-filenames --quiet",
        operands="plain*",
    ),
    "ar": Program(options="--plugin=code", operands="plain writes reads*"),
    **rows("ranlib objcopy strip", Program(options="--plugin=code", operands="edits*")),
    **rows("7z 7za 7zr", Program(operands="plain writes reads*")),
    "unrar": Program(operands="plain reads plain*"),
    "rsync": Program(
        hosts=True,
        options="""-e=command --rsh=command --rsync-path=shell -f= --filter= --exclude= --include= --exclude-from=reads
            --include-from=reads --files-from=reads -T=writes --temp-dir=writes --compare-dest= --copy-dest= --link-dest=
            --backup-dir=writes --suffix= --log-file=writes --log-file-format= --password-file=reads --partial-dir=writes
            --bwlimit= --port= --timeout= --contimeout= --max-size= --min-size= --max-delete= --chmod= --chown= --usermap=
            --groupmap= -B= --block-size= -M=code --remote-option=code --address= --sockopts= --out-format= --info= --debug=
            --compress-level= --compress-choice= --checksum-choice= --modify-window= -@= --iconv= --stop-at= --stop-after=
            --write-batch=writes --only-write-batch=writes --read-batch=reads --protocol= --config=code --early-input=reads
            --outbuf= --skip-compress= --checksum-seed= --dparam= --daemon!code --copy-as=
            -vqcarRbudlLkKHpEAXogDtOJUNSnWxCmzhP0sIiy46F --archive --delete --delete-after --delete-before
            --delete-excluded --delete-during --dry-run --verbose --progress --recursive --compress --human-readable
            --partial --stats --update --checksum --times --links --perms --owner --group --itemize-changes --relative
            --ignore-existing --existing --inplace --append --no-perms --no-owner --no-group --quiet --prune-empty-dirs
            --remove-source-files --size-only --ignore-times --mkpath --copy-links --safe-links --numeric-ids --sparse""",
        operands="reads* writes",
    ),
    "rclone": Program(options="--config=code"),
    "ctags": Program(options="--options=code -o=writes -f=writes -L=reads"),
    **rows("convert magick mogrify identify montage composite", Program(operands="reads*", options="-write=writes")),
    "xdg-open": Program(operands="reads*"),
    "open": Program(operands="reads*", options="-a= -b="),
    "cowsay": Program(),
}

FILES: Final[Mapping[str, Program]] = {**_READING, **_WRITING}
