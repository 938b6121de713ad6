"""Programs that use a network, and databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.permission.programs.tables.program_spec import Program, rows

_SSH: Final = """
    -46AaCfGgKkMNnqsTtVvXxYy -B= -b= -c= -D= -E=writes -e= -F=code -I=code -i=reads -J= -L= -l= -m= -O= -o= -P= -p= -Q=
    -R= -S= -W= -w=
"""

NETWORK: Final[Mapping[str, Program]] = {
    "curl": Program(
        options="""-K=code --config=code -o=writes --output=writes --output-dir=writes -O!changes --remote-name!changes
            -D=writes --dump-header=writes -c=writes --cookie-jar=writes --trace=writes --trace-ascii=writes
            --stderr=writes --etag-save=writes --hsts= --alt-svc= --libcurl=writes --engine=code -T=reads
            --upload-file=reads -b= --cookie= -d= --data= --data-raw= --data-binary= --data-urlencode= --data-ascii=
            --json= -F= --form= --form-string= -H= --header= -A= --user-agent= -e= --referer= -u= --user= -U=
            --proxy-user= -x= --proxy= -X= --request= -w= --write-out= -m= --max-time= --connect-timeout= --retry=
            --retry-delay= --retry-max-time= -C= --continue-at= -r= --range= -y= -Y= -z= -E=reads --cert=reads
            --key=reads --cacert=reads --capath=reads --limit-rate= --max-redirs= --resolve= --interface= --url=
            --netrc-file=reads --unix-socket= --dns-servers= --ciphers= -t= -P= -Q= --oauth2-bearer= --noproxy=
            --etag-compare=reads"""
    ),
    "wget": Program(
        options="""-e=code --execute=code --use-askpass=program --config=code -O=writes --output-document=writes -o=writes
            --output-file=writes -a=writes --append-output=writes -P=writes --directory-prefix=writes -i=reads
            --input-file=reads --save-cookies=writes --load-cookies=reads --warc-file=writes --rejected-log=writes
            --hsts-file=writes -t= --tries= -T= --timeout= -U= --user-agent= --header= --post-data= --post-file=reads
            --body-data= --body-file=reads --method= --user= --password= -w= --wait= -Q= -A= -R= -D= -I= -X= -l= -B=
            --limit-rate= --ca-certificate=reads --certificate=reads --private-key=reads"""
    ),
    "ip": Program(
        permutes=False,
        strict=True,
        dashes="single",
        options="-4 -6 -s -d -h -o -a -r -j -p -c -br -brief -json -color",
        commands=rows("netns vrf", Program(opaque="may start a command")),
    ),
    "ssh": Program(strict=True, permutes=False, reader="ssh", remote=True, options=_SSH),
    "scp": Program(
        reader="scp",
        strict=True,
        hosts=True,
        options="-346ABCpqrTvORs -c= -D=code -F=code -i=reads -J= -l= -o= -P= -S=program -X=",
        operands="reads* writes",
    ),
    "ssh-keygen": Program(
        options="-D=code -w=code -f=edits -t= -b= -C= -N= -P= -R= -F= -I= -n= -V= -z= -s=reads -O= -Y= -m= -E="
    ),
    **rows(
        "nc netcat ncat",
        Program(
            options="-e=code --exec=code -c=code --sh-exec=code --lua-exec=code -i= -I= -o=writes -O= -p= -q= -s= -w="
        ),
    ),
    **rows(
        "gpg gpg2",
        Program(
            options="""--agent-program=code --dirmngr-program=code --keyboxd-program=code --photo-viewer=code --exec-path=code
                --options=code --homedir=code --load-extension=code -o=writes --output=writes -r= -u= --logger-file=writes""",
        ),
    ),
    "psql": Program(
        reader="database",
        options="""-c= --command= -f=code --file=code -o=code --output=code -L=writes --log-file=writes -v= --set= --variable=
            -P= --pset= -d= --dbname= -h= --host= -p= --port= -U= --username= -F= -R= -T= -l --list""",
    ),
    **rows("pg_dump mysqldump", Program(options="-f=writes --file=writes -r=writes --result-file=writes")),
    **rows(
        "mysql mariadb",
        Program(
            reader="database",
            options="""-e= --execute= --pager?code --tee=writes --init-command= --defaults-file=code
                --defaults-extra-file=code --plugin-dir=code -h= --host= -P= --port= -u= --user= -p? --password? -D=
                --database= -S= --socket= --protocol=""",
        ),
    ),
    **rows(
        "sqlite3 sqlite",
        Program(
            reader="database",
            dashes="single",
            options="-cmd= -init=code -separator= -newline= -nullvalue= -vfs= -A!code -interactive!code",
            operands="edits",
        ),
    ),
}
