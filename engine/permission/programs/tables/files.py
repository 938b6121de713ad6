"""Programs that create, change, copy and remove files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_writing: Final = partial(Program, operands="writes*")

_COPIED: Final = "-t|--target-directory=writes -S|--suffix="
_copying: Final = partial(Program, options=_COPIED, without_last="-t --target-directory")

FILES: Final[Mapping[str, Program]] = {
    "tee": _writing(),
    "touch": _writing(options="-d= -t= -r=reads --date= --reference=reads --time="),
    "mkdir": _writing(options="-m= --mode="),
    **rows("rm rmdir unlink", _writing()),
    "truncate": _writing(options="-s= --size= -r=reads --reference=reads"),
    **rows("cp ln", _copying(operands="reads* writes")),
    "mv": _copying(operands="edits* writes"),
    "install": _copying(
        options=_COPIED + " -m= --mode= -o= --owner= -g= --group= --strip-program=program", operands="reads* writes"
    ),
    "dd": Program(reader="dd"),
    **rows(
        "chmod chown chgrp",
        Program(without_first="--reference", options="--reference=reads --from=", operands="plain writes*"),
    ),
    "split": Program(
        options="""--filter=shell -a= -b= -C= -l= -n= -t= --suffix-length= --bytes= --lines= --number= --additional-suffix=
            --line-bytes= --separator=""",
        operands="reads? writes?",
    ),
    "patch": Program(
        options="""-i=reads --input=reads -o=writes --output=writes -d=folder --directory=folder -p= --strip= -r=writes
            --reject-file=writes -B= -Y= -z= -V= -F= --fuzz= -D= --ifdef= -g= --get= -x= --suffix= --prefix=""",
        operands="writes? reads?",
    ),
    "mktemp": Program(options="-p=writes --tmpdir?writes --suffix=", operands="writes?", prints_names=True),
    **rows(
        "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd",
        Program(
            reading="asked",
            shows_contents=False,
            options="""-S= --suffix= -o=writes --output=writes -T= --threads= -D=reads -l!reading --list!reading -t!reading
                --test!reading --files?lists --files0?lists --filelist=lists""",
            operands="edits*",
        ),
    ),
    "zip": Program(
        options="-TT=shell --unzip-command=shell -x= -i= -b=folder -t= -tt= -n= -P= -s= --out=writes -O=writes",
        dashes="single",
        operands="writes reads*",
    ),
    "rsync": Program(
        hosts=True,
        options="""-e=command --rsh=command --rsync-path=shell -f= --filter= --exclude= --include= --exclude-from=reads
            --include-from=reads --files-from=reads -T=writes --temp-dir=writes --compare-dest= --copy-dest= --link-dest=
            --backup-dir=writes --suffix= --log-file=writes --log-file-format= --password-file=reads --partial-dir=writes
            --bwlimit= --port= --timeout= --contimeout= --max-size= --min-size= --max-delete= --chmod= --chown= --usermap=
            --groupmap= -B= --block-size= -M=code --remote-option=code --address= --sockopts= --out-format= --info= --debug=
            --compress-level= --compress-choice= --modify-window= --write-batch=writes --only-write-batch=writes
            --read-batch=reads --protocol= --config=code --early-input=reads --outbuf= --daemon!code --copy-as=""",
        operands="reads* writes",
    ),
}
