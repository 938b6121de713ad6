"""The programs that may run without a question, with git's commands in `tables.git`; confined, as they might do more.

They only read, except with the options and operands that a row marks as writing or changing something. All of them are
listed in `docs/reference/unasked-commands.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_reading: Final = partial(Program, reading="free", operands="reads*")
_measuring: Final = partial(_reading, shows_contents=False)
# It prints something about the system, or its own words.
_printing: Final = partial(Program, reading="free")

_LINE_FILTERS: Final = "-n -q -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 --lines"
_GREP: Final = Program(
    names_with="-l -L --files-with-matches --files-without-match",
    filters="-v -i -E -F -P -G -w -x -e -m -a --invert-match --ignore-case --line-buffered",
    reading="free",
    options="""
        -e|--regexp= -f|--file=reads -A|--after-context= -B|--before-context= -C|--context= -m|--max-count= --include=
        --exclude= --exclude-from=reads --exclude-dir= --color? --colour? --label= -D|--devices= -d|--directories=
        --binary-files= -EFGPivwxyznbHhoqsLlcrRaITUuZ --group-separator= --line-number --ignore-case --recursive
        --files-with-matches --files-without-match --count --invert-match --line-buffered --dereference-recursive
        -0123456789
    """,
    operands="plain reads*",
    without_first="-e --regexp -f --file",
)

_OPENSSL: Final = Program(
    dashes="single",
    options="""-in=reads -out=writes -key=reads -keyout=writes -CAfile=reads -CApath=reads -cert=reads -inkey=reads -pass=
        -subj= -days= -newkey= -connect= -servername= -writerand=writes -rand=reads -signature=reads -sign=reads
        -verify=reads -extfile=reads""",
)

# A file with further arguments.
_LIST_OF_WORDS: Final = "@.+"

READING: Final[Mapping[str, Program]] = {
    **rows(
        """: [ cal echo expr factor false free getconf groups id locale lscpu nproc numfmt pgrep pidof printenv
           printf ps pwd seq sleep test true tty type uname uptime vmstat w whereis which whoami lsblk lsof""",
        _printing(),
    ),
    **rows("basename dirname nproc pwd uname whoami which", _printing(prints_names=True)),
    **rows(
        """bc comm hexdump join rev tsort zcat bzcat gzcat zgrep zipinfo who users""",
        _reading(),
    ),
    **rows(
        """b2sum cksum md5sum sha1sum sha256sum sha512sum shasum sum readlink lsattr getfacl tokei vdir dir exa eza""",
        _measuring(),
    ),
    **rows("nm readelf size", _reading(options="--plugin=code", code_words=_LIST_OF_WORDS)),
    "xzcat": _reading(options="--files?lists --files0?lists"),
    # It can show the sources, which are files that the program names.
    "objdump": _reading(
        code_words=_LIST_OF_WORDS,
        options="--plugin=code -adDfghHlprstTVwxz -S!code --source!code --source-comment?code -b= -m= -j= -M= -W? --dwarf?",
    ),
    **rows("base32 base64", _reading(options="-w= --wrap= -d -D -i=reads -o=writes --output=writes --input=reads")),
    **rows(
        "bat batcat",
        _reading(options="--pager=shell -l= --language= -r= --line-range= --theme= --style= --paging= -H= --color="),
    ),
    "cat": _reading(filters="-u"),
    "cmp": _reading(options="-i= -n= --ignore-initial= --bytes="),
    "column": _reading(options="-t -s= -o= -c= -N= -H= -R= -W= -E= -T= -O="),
    "cut": _reading(
        options="-b= -c= -d= -f= -nsz --bytes= --characters= --delimiter= --fields= --output-delimiter= --complement"
    ),
    "date": Program(
        reader="date",
        reading="known",
        options="""-d= --date= -f=reads --file=reads -I? --iso-8601? -R --rfc-email --rfc-3339= -r=reads --reference=reads
            -s=changes --set=changes -u --utc --universal --debug --resolution --help --version -v= -j""",
        operands="plain",
    ),
    "df": _measuring(options="-t= -x= -B= --type= --exclude-type= --block-size= --output?"),
    "diff": _reading(
        options="""-l!changes --paginate!changes -I= -x= -X=reads -U= -C= -W= -F= -D= -S= --exclude= --exclude-from=reads
            --label= -L= --color? --unified? --context? --width= --horizon-lines= --to-file=reads --from-file=reads"""
    ),
    "du": _measuring(
        options="""-d= --max-depth= -t= --threshold= -B= --block-size= --exclude= -X=reads --exclude-from=reads
            --files0-from=lists --time? --time-style="""
    ),
    **rows("expand unexpand", _reading(options="-t= -ia --tabs= --initial --all")),
    "file": _measuring(
        options="""-C!changes --compile!changes -z!changes -Z!changes --uncompress!changes -m=reads --magic-file=reads
            -f=lists --files-from=lists -F= -e= -P="""
    ),
    "fmt": _reading(options="-w= -p= -g= --width= --prefix= --goal="),
    "fold": _reading(options="-w= -bs --width="),
    "gofmt": Program(reading="free", dashes="single", operands="reads*", options="-w!changes -r= -cpuprofile=writes"),
    **rows("grep egrep fgrep ggrep rgrep zgrep", _GREP),
    "head": _reading(filters=_LINE_FILTERS, options="-n= -c= --lines= --bytes= -qvz0123456789"),
    "hostname": Program(
        reading="known", options="-adfiIsyA --fqdn --short --long --ip-address --all-ip-addresses", operands="changes*"
    ),
    "jq": Program(
        reading="free",
        operands="plain reads*",
        without_first="-f --from-file",
        options="""-f=reads --from-file=reads -L=reads --indent= --tab -i!changes --in-place!changes --arg& --argjson&
            --slurpfile&reads --rawfile&reads -nrjaceCMSsRgh""",
    ),
    "less": _printing(
        operands="reads*",
        options="""-o=writes -O=writes -k=code --lesskey-file=code --lesskey-src=code --lesskey-content=code -p= -P= -t=
            -T= -x= -y= -z= -h= -j= -b= -D= -# +=code""",
    ),
    "ls": _measuring(
        prints_names=True,
        options="""-1aABcdfFprStuUX --all --almost-all --reverse --directory --group-directories-first -I= -w= -T= --ignore= --hide= --sort= --time= --time-style= --color? --format= --block-size= --width=
            --indicator-style= --quoting-style=""",
    ),
    "mount": Program(reading="known", options="-l -t=", operands="changes*"),
    "man": _printing(
        strict=True,
        # A page that is a file may include any other one (`.so`).
        code_words="[^-].*/.*|/.*",
        options="-P=shell --pager=shell -H?shell --html?shell -S= -s= --sections= -L= --locale= -akfwW --all --apropos --whatis",
    ),
    "more": _reading(options="-n= +=code"),
    "nl": _reading(options="-b= -d= -f= -h= -i= -l= -n= -s= -v= -w= -p"),
    "od": _reading(options="-A= -j= -N= -S= -t= -w? --address-radix= --format= --read-bytes= --skip-bytes="),
    "openssl": Program(
        dashes="single",
        permutes=False,
        code_words=r"--?(engine|provider|provider-path|config)(=.*)?",
        commands={
            **rows("dgst enc genrsa pkcs12 pkey rand req rsa s_client verify", _OPENSSL),
            "version": _printing(dashes="single"),
            "x509": Program(
                dashes="single",
                reading="known",
                options="-in=reads -inform= -noout -text -subject -issuer -dates -enddate -serial -fingerprint -sha256",
            ),
        },
    ),
    "paste": _reading(options="-d= -sz --delimiters= --serial"),
    "realpath": _measuring(prints_names=True),
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
            --field-context-separator= --dfa-size-limit= --regex-size-limit= --generate=
            -iSsnNlLcovwxFPUuHIhqpa0L.KbV --files --files-with-matches --type-list --files-without-match --invert-match""",
    ),
    "shuf": _reading(
        filters="-n -r --head-count",
        options="""-o=writes --output=writes -n= --head-count= -i= --input-range= -e -r -z --random-source=reads""",
    ),
    "sort": _reading(
        filters="-u -r -n -V -f -z -k -t -R --unique --reverse",
        options="""-o=writes --output=writes --compress-program=program -T=writes --temporary-directory=writes -k= --key= -t=
            --field-separator= -S= --buffer-size= --parallel= --batch-size= --random-source=reads --files0-from=lists
            --sort= -bdfgiMhnRrVcCmsuz --reverse --unique""",
    ),
    "stat": _measuring(options="-c= -f? -t? --format= --printf= -x"),
    "strings": _reading(
        code_words=_LIST_OF_WORDS,
        options="-n= -t= -e= -T= --bytes= --radix= --encoding= --output-separator=",
    ),
    "tac": _reading(options="-s= -br --separator="),
    "tail": _reading(
        filters=_LINE_FILTERS,
        options="""-n= -c= --lines= --bytes= --pid= -s= --sleep-interval= --max-unchanged-stats= -fFqvzr0123456789
            --follow?""",
    ),
    "tr": _printing(),
    "tree": _measuring(
        options="""-o=writes --output=writes -R!changes -L= -P= -I= -H= -T= --charset= --filelimit= --timefmt= --sort?
            --gitfile=reads --infofile=reads"""
    ),
    "uniq": Program(
        filters="-u -d -i",
        reading="free",
        operands="reads? writes?",
        options="-f= -s= -w= --skip-fields= --skip-chars= --check-chars= -cdDiuz --group? --all-repeated?",
    ),
    "unzip": Program(
        reading="asked",
        options="-l!reading -v!reading -Z!reading -d=writes -x= -P= -O= -I= -onqtpjufzabCLMKX",
        operands="reads plain*",
    ),
    "yq": Program(
        reader="yq",
        reading="free",
        operands="plain reads*",
        options="-i!changes --inplace!changes --in-place!changes -s!changes --split-exp!changes -o= -p= -I= -f=code --from-file=code",
    ),
    "wc": _measuring(options="--files0-from=lists --total="),
    "xxd": Program(reading="free", operands="reads? writes?", options="-c= -cols= -g= -l= -o= -s= -n= -R="),
    **rows(
        "fd fdfind",
        Program(
            reader="fd",
            reading="free",
            options="""-d|--max-depth= --min-depth= -t|--type= -e|--extension= -S|--size= --changed-within= --changed-before=
            -o|--owner= --e!changes -E|--exclude= -c|--color= -j|--threads= --max-results= --base-directory=folder
            --search-path=reads -C= --format= --and= --exact-depth= --ignore-file=reads --batch-size=
            -HIusigFalLp0q1Vh --strip-cwd-prefix?""",
        ),
    ),
    **rows("find gfind", Program(reader="find")),
}
