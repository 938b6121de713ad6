"""Programs that use a network, and those that store data: transfers, mail, databases, keys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from engine.permission.programs.tables.names import words_of
from engine.permission.programs.tables.program_spec import Program, rows

_strict: Final = partial(Program, strict=True)

_CURL: Final = Program(
    options="""-K=code --config=code -o=writes --output=writes --output-dir=writes -O!changes --remote-name!changes -J
        --remote-name-all -D=writes --dump-header=writes -c=writes --cookie-jar=writes --trace=writes --trace-ascii=writes
        --stderr=writes --etag-save=writes --hsts= --alt-svc= --libcurl=writes --engine=code -T=reads --upload-file=reads
        -b= --cookie= -d= --data= --data-raw= --data-binary= --data-urlencode= --data-ascii= --json= -F= --form= --form-string=
        -H= --header= -A= --user-agent= -e= --referer= -u= --user= -U= --proxy-user= -x= --proxy= -X= --request= -w= --write-out=
        -m= --max-time= --connect-timeout= --retry= --retry-delay= --retry-max-time= -C= --continue-at= -r= --range= -y= -Y= -z=
        -E=reads --cert=reads --key=reads --cacert=reads --capath=reads --limit-rate= --max-redirs= --resolve= --interface=
        --url= --url-query= --variable= --netrc-file=reads --unix-socket= --abstract-unix-socket= --dns-servers= --ciphers= -t=
        -P= --ftp-port= -Q= --quote= --oauth2-bearer= --aws-sigv4= --proto= --proto-default= --create-file-mode= --keepalive-time=
        --max-filesize= --noproxy= --parallel-max= --socks5= --socks5-hostname= --rate= --etag-compare=reads --expect100-timeout=
        -sSfLkvIiG46aBgjlnNpqRVZ012#3h --silent --show-error --fail --location --insecure --verbose --head --include --get
        --compressed --create-dirs --parallel --globoff --fail-with-body --http2 --http1.1 --tlsv1.2 --tlsv1.3 --ssl-reqd
        --no-progress-meter --progress-bar --retry-connrefused --retry-all-errors --no-buffer --netrc --anyauth --basic
        --digest --negotiate --ntlm --remote-time --path-as-is --raw --tcp-nodelay --trace-time --fail-early --no-clobber"""
)
_WGET: Final = Program(
    options="""-e=code --execute=code --use-askpass=program --config=code -O=writes --output-document=writes -o=writes
        --output-file=writes -a=writes --append-output=writes -P=writes --directory-prefix=writes -i=reads --input-file=reads
        --save-cookies=writes --load-cookies=reads --warc-file=writes --rejected-log=writes --hsts-file=writes -t= --tries= -T= --timeout=
        -U= --user-agent= --header= --post-data= --post-file=reads --body-data= --body-file=reads --method= --user= --password=
        -w= --wait= -Q= -A= -R= -D= -I= -X= -l= --level= -B= --base= --limit-rate= --cut-dirs= --referer= --waitretry=
        --random-wait --ca-certificate=reads --certificate=reads --private-key=reads --bind-address= --dns-timeout= --connect-timeout=
        --read-timeout= --restrict-file-names= --default-page= --accept= --reject= --domains= --exclude-domains= --accept-regex=
        --reject-regex= --progress= --max-redirect= --quota= --start-pos= --secure-protocol= --ciphers=
        -qvdcNSbrkmpEHKLnxFhV46 --quiet --verbose --continue --no-check-certificate --spider --recursive --mirror --no-verbose
        --show-progress --timestamping --no-clobber --convert-links --page-requisites --no-parent --content-disposition
        --server-response --no-host-directories --no-directories --https-only"""
)
_SSH: Final = """-46AaCfGgKkMNnqsTtVvXxYy -B= -b= -c= -D= -E=writes -e= -F=code -I=code -i=reads -J= -L= -l= -m= -O= -o= -P= -p= -Q=
    -R= -S= -W= -w="""
_COPY: Final = "-346ABCpqrTvORs -c= -D=code -F=code -i=reads -J= -l= -o= -P= -S=program -X="

NETWORK: Final[Mapping[str, Program]] = {
    "curl": _CURL,
    "wget": _WGET,
    "wget2": _WGET,
    "aria2c": Program(
        options="--conf-path=code --on-download-complete=code --on-download-start=code --on-download-stop=code --on-download-error=code --on-download-pause=code --on-bt-download-complete=code -d=writes --dir=writes -o=writes --out=writes -i=reads"
    ),
    "ssh": Program(strict=True, permutes=False, reader="ssh", remote=True, options=_SSH),
    "slogin": Program(strict=True, permutes=False, reader="ssh", remote=True, options=_SSH),
    "autossh": Program(
        strict=True,
        permutes=False,
        reader="ssh",
        remote=True,
        options=_SSH.replace("-46AaCfGgKkMN", "-46AaCfGgKkN") + " -M=",
    ),
    "mosh": Program(
        options="--ssh=code --server=code --client=code",
        permutes=False,
        operands="plain",
        tail="command",
        remote=True,
        strict=True,
    ),
    "sshpass": Program(strict=True, permutes=False, options="-p= -f=reads -d= -e -P= -v", tail="command"),
    "ssh-copy-id": Program(options="-i=reads -o=code -F=code -p= -f -n -s -t= -x"),
    "ssh-keygen": Program(
        options="-D=code -w=code -f=edits -t= -b= -C= -N= -P= -R= -F= -I= -n= -V= -z= -s=reads -O= -Y= -m= -E= -lqyceBvpiHAKkLQ",
        dashes="double",
    ),
    "ssh-add": Program(options="-s=code -e=code -S=code -t= -T=reads -H=reads -h= -lLdDkKqvxXcC", operands="reads*"),
    "ssh-agent": Program(options="-c -s -d -D -k -a= -E= -P=code -t= -O=", strict=True, permutes=False, tail="command"),
    "ssh-keyscan": Program(options="-f=reads -p= -t= -T= -HDcv46"),
    "scp": Program(options=_COPY, strict=True, hosts=True, operands="reads* writes", reader="ssh_options"),
    "sftp": Program(
        options=_COPY.replace("-346ABCpqrTvORs", "-46AaCfNpqrv") + " -s=code -b=code -B= -R=",
        strict=True,
        hosts=True,
        operands="reads?",
        reader="ssh_options",
        permutes=False,
    ),
    **rows(
        "rsh rlogin remsh",
        Program(
            strict=True, permutes=False, options="-l= -n -K -d -x -8 -e=", operands="plain", tail="shell", remote=True
        ),
    ),
    **rows(
        "nc netcat ncat",
        Program(
            options="-e=program --exec=program -c=shell --sh-exec=shell --lua-exec=code -i= -I= -o=writes -O= -p= -P= -q= -s= -T= -V= -w= -W= -x= -X= -m= -M= -g= -G= -b -lkunvzhCdDFNrtSUZ46 --output=writes --hex-dump=writes"
        ),
    ),
    "socat": Program(opaque="its addresses may execute commands"),
    "telnet": Program(options="-n=writes"),
    "ftp": Program(opaque="its commands may execute others"),
    "lftp": Program(opaque="its commands may execute others"),
    **rows(
        "ping ping6 dig host nslookup getent whois traceroute mtr arp netstat ss ifconfig route iwconfig",
        Program(),
    ),
    **rows(
        "tcpdump",
        Program(
            options="-z=program -w=writes -r=reads -F=reads -V=reads -i= -c= -C= -G= -s= -W= -y= -D -Z= -B= -E= -j= -M= -m= -T= -Q= -AbdefhHIJKlLnNOpqStuUvxX#",
            strict=True,
        ),
    ),
    **rows(
        "tshark wireshark dumpcap",
        Program(options="-X=code -w=writes -r=reads -i= -f= -Y= -T= -e= -E= -c= -b= -a= -C=code -o=code -d= -z="),
    ),
    "nmap": Program(
        options="--script=code --script-args= --datadir=code -iL=reads -oN=writes -oX=writes -oG=writes -oA=writes -oS=writes --resume=code -sC!code -A!code -p= -sV -sS -sn -Pn -T4 --servicedb=code --versiondb=code",
        dashes="single",
    ),
    "openssl": Program(
        dashes="single",
        permutes=False,
        options="-help -version",
        commands={
            name: Program(
                dashes="single",
                options="-engine=code -provider=code -provider-path=code -config=code -in=reads -out=writes -key=reads -keyout=writes -CAfile=reads -CApath=reads -cert=reads -pass= -passin= -passout= -subj= -days= -newkey= -connect= -servername= -sess_out=writes -writerand=writes -rand=reads -signature=reads -sign=reads -verify=reads -prverify=reads -extfile=reads -CA=reads -CAkey=reads -CAserial=edits -inkey=reads -keyform= -inform= -outform= -nodes -x509 -noout -text -new -hex -base64",
                operands="reads*" if name in {"dgst", "x509", "rsa"} else "",
            )
            for name in words_of(
                """
    asn1parse ca ciphers cms crl crl2pkcs7 dgst dhparam dsa dsaparam ec ecparam enc errstr fipsinstall gendsa
    genpkey genrsa info kdf list mac nseq ocsp passwd pkcs12 pkcs7 pkcs8 pkey pkeyparam pkeyutl prime rand
    rehash req rsa rsautl s_client s_server s_time sess_id smime speed spkac srp storeutl ts verify version x509
    sha1 sha256 sha384 sha512 md5 base64 aes-256-cbc
"""
            )
        },
    ),
    **rows(
        "gpg gpg2",
        Program(
            options="""--agent-program=program --dirmngr-program=program --keyboxd-program=program --photo-viewer=shell --exec-path=code
                --options=code --homedir=code --load-extension=code --pinentry-mode= -o=writes --output=writes -r= --recipient= -u= --local-user=
                --keyserver= --recv-keys --passphrase= --passphrase-file=reads --passphrase-fd= --status-fd= --logger-file=writes --default-key=
                --trust-model= --batch --yes --armor --detach-sign --verify --import --export --list-keys -abcdeksvqtn --edit-key --dearmor""",
        ),
    ),
    "gpg-agent": Program(
        options="--daemon --pinentry-program=program --scdaemon-program=program --options=code --homedir=code",
        permutes=False,
        tail="command",
    ),
    "age": Program(options="-o=writes -r= -R=reads -i=reads -d -e -p -a -j=code", operands="reads*"),
    "pass": Program(),
    # ---- databases ----
    "psql": Program(
        reader="database",
        options="""-c= --command= -f=code --file=code -o=code --output=code -L=writes --log-file=writes -v= --set= --variable= -P= --pset=
            -d= --dbname= -h= --host= -p= --port= -U= --username= -F= -R= -T= -lVXqtAxHsSwWnEeb10z? --list --no-psqlrc --quiet --tuples-only --no-align
            --expanded --single-transaction --csv --field-separator= --record-separator= --no-password --password --echo-all --echo-errors""",
    ),
    **rows(
        "mysql mariadb",
        Program(
            reader="database",
            options="""-e= --execute= --pager?code --tee=writes --init-command= --defaults-file=code --defaults-extra-file=code --plugin-dir=code
                -h= --host= -P= --port= -u= --user= -p? --password? -D= --database= -S= --socket= --protocol= --default-character-set= --delimiter= --prompt=
                -ABbfGHNnoqrsTtvVwXECci --batch --silent --skip-column-names --table --raw --verbose --force --ssl-mode= --ssl-ca=reads""",
        ),
    ),
    **rows(
        "sqlite sqlite3",
        Program(
            reader="sqlite",
            dashes="single",
            options="-cmd= -init=code -csv -json -header -noheader -line -list -column -html -box -markdown -table -tabs -batch -bail -readonly -echo -separator= -newline= -nullvalue= -vfs= -version -help -safe -interactive -stats -mmap= -ascii -quote -cmd= -A -append -deserialize -maxsize= -memtrace -nofollow -unsafe-testing -heap= -lookaside= -pagecache= -zip -escape=",
        ),
    ),
    "redis-cli": Program(options="--eval=reads -h= -p= -n= -a= -u= -x"),
    **rows("mongo mongosh", Program(options="--eval=code -f=code --file=code --shell")),
    **rows("duckdb", Program(opaque="its commands may execute others")),
    **rows(
        "pg_dump pg_dumpall mysqldump mongodump",
        Program(
            options="-f=writes --file=writes -r=writes --result-file=writes -o=writes --out=writes --defaults-file=code --plugin-dir=code"
        ),
    ),
    **rows("pg_restore createdb dropdb mongorestore mysqladmin pg_isready", Program()),
    # ---- mail ----
    **rows("mail mailx Mail s-nail mutt", Program(opaque="what it reads may execute commands")),
    **rows(
        "sendmail exim exim4 postfix",
        Program(options="-C=code -be!code -X=writes -t -i -f= -F= -o=code -D=code"),
    ),
    "procmail": Program(opaque="its rules execute commands"),
    # ---- other keepers of versions and copies ----
    "svn": Program(
        options="--diff-cmd=program --diff3-cmd=program --editor-cmd=program --config-dir=code --config-option=code -x= -m= -F=reads -r= --username= --password=",
        operands="plain plain*",
    ),
    **rows(
        "hg chg",
        Program(
            options="--config=code -R=folder --repository=folder --cwd=folder --debugger!code -e=code --ssh=code --remotecmd=code"
        ),
    ),
    **rows("cvs bzr brz darcs fossil", Program(opaque="its options and addresses may execute commands")),
    "borg": Program(options="--rsh=command --remote-path=code"),
    "restic": Program(options="--password-command=shell -o=code --option=code"),
    **rows("smbclient unison duplicity", Program(opaque="its options and commands may execute others")),
}
