"""The grammar of the random scripts, as data.

A rule has a name and, under it, one choice a line with its weight; choices behind a `~` are for wild scripts only.
`§name` stands for what a rule makes (or, where there is no such rule, a method of the grammar), `¶` for a new line, `␣` for a
blank where one would be lost.
"""

from __future__ import annotations

from typing import Final

# Choices of the same weight, parted by blanks.
LISTS: Final = {
    "name": "x y name dir FILE count OUT",
    "plain": "README.md src/main.py tests docs src a.txt b.txt list.txt build . -v -n -q --all --force -1 -3 main HEAD~1 "
    "v1.2.3 origin 10 --name=x k=v user@host:dir app.log ./src http://localhost:8080/p a-b_c.d,e +x % @ x:y:z /tmp/old.txt",
    "path": "README.md src/main.py tests docs src a.txt b.txt list.txt build . app.log ./src /tmp/old.txt src/util/deep.py",
    "glob": "*.txt src/*.py ?.txt [ab].txt * src/** *.none {a,b}.txt {1..3} file{,.bak}",
    "pattern": "*.txt % a* /* x .md ? [a-z]* src/",
    "target": "/dev/null out.txt build/out.log ../up.txt /tmp/x.log src/../new.txt ~/home.txt $HOME/y.txt a.txt link.txt "
    "/home/dev/z.txt my\\␣file.txt 'out'.txt \"o.txt\" ../../u.txt /out/n.txt",
    "source": "a.txt list.txt README.md",
    "special": "$1 $@ $* $? $# $$ ${1} $HOME $PWD",
    "tilde": "~ ~/x ~/other/notes.txt $HOME/x ~/y",
    "operator": "+ - * % < && |",
    "ansi": r"$'a\tb' $'\x72m' $'it\'s' $'\u0041' $'a\nb' $'\'' $'\\' $'\101' $'' $'\cA' $'a\'b' $'\e[0m' $'\x7' $'\u{41}'",
    "fname": "f g build run_tests log",
    "odd_fname": "ls git p94 a-b cd echo f.x ::",
    "keyword": "in do then if case function time coproc select esac fi done else while until { } ! [[ ]]",
    "clutter": "' \" ` $( ) { } ;; esac done fi <<E \\ # && (( )) [[ ]] <( $(( ; | & ${ $' = > <<< then do in x) ( $ \\\\ : "
    "!¶ -3¶ ¶ ¶\\ \\¶ &¶ ;¶ |¶ \"' '\" <<'E' function case >&",
}

# What is inside of quotes, and in lines of here-documents.
TEXTS: Final = (
    "fix the bug", "it's done", 'say "hi"', "a;b", "rm -rf /", "a && b", "x | y", "* not a glob *", "$HOME is home",
    "", " ", "tab\there", "two\nlines", "done", "fi", "}", "#no comment", "a # b", "(", "\\", "end\\", "`tick`", "$(p99 no)",
    "<in >out", "!bang", "~/x", "{a,b}", "[ab]", "50%", "ünï", "-", "--", "EOF", "&", "esac", "${x}", "a\\\nb", "'", '"', "\\$x",
)  # fmt: skip
ODD_CLUTTER: Final = ("\r", "\x01", "\t", " ", "! ", "time ", "coproc ", "case x in ", " #", "\v", "\\ ", "\u00a0", "\f", "function f ",
                      "\u202e", "{ ", "; }", " -- ", "\\\r\n", "\x7f", "\x1b[A", "\ufeff", "\u2028", "\\\t")  # fmt: skip

RULES: Final = r"""
list
  50 §pipeline
  18 §pipeline && §pipeline
  8  §pipeline || §pipeline
  16 §pipeline; §pipeline
  4  §pipeline && §pipeline || §pipeline
  3  §pipeline & §pipeline
  1  §pipeline &
  2  §pipeline;
~ 6  §pipeline &&¶§pipeline
~ 3  §pipeline ||¶  §pipeline
~ 3  §pipeline&&§pipeline;§pipeline&§pipeline
~ 3  §pipeline && \¶  §pipeline
~ 2  §pipeline |¶ # a comment¶ §pipeline
~ 2  §pipeline\¶&& §pipeline

pipeline
  70 §command
  20 §command | §command
  6  §command | §command | §command
  3  ! §command
  1  time §command
~ 3  §command |& §command
~ 2  §command|§command
~ 2  time -p §command
~ 2  ! ! §command | §command
~ 1  time ! §command
~ 1  ! time -- §command
~ 2  §command \¶  | §command
~ 2  §command |¶§command

command
  70 §simple
  7  §quiet§redirections
  7  §wrapped§redirections
  4  §assigning
  9  §compound
~ 14 §builtin
~ 6  §wrapped§redirections
~ 5  §odd_command

simple
  92 §words§redirections
  2  FOO=1 §words§redirections
  2  CI=true §words§redirections
  2  DEBUG=§word §words§redirections
~ 3  §redirection §words
~ 2  §words §redirection §word
~ 1  X=§word Y=1 §redirection §words

words
  52 §usual
  22 §program
  5  §program §word
  10 §program §word §word
  5  §program §word §word §word
  6  §called
~ 14 §disguised §word
~ 6  §disguised

quiet
  4  echo §file
  2  printf '%s\n' §word
  1  true
  1  pwd
  1  :
  2  [ -f §file ]
  1  test -n §word
  2  cd src
  1  cd ..
  1  export FOO=§word
  1  echo

assigning
  6  §new=§plain
  6  §new=1
  4  §new="a b"
  4  §new=§target
  6  §new=$(§inner)
  6  §new="$(§inner)"
  3  §new=§double
~ 4  §new=§word
~ 2  §new+=§word
~ 2  arr=(§word §word)
~ 2  arr[§arithmetic]=§word
~ 2  §new=§word y=§word
~ 2  arr+=([1]=§word $(§inner))
~ 1  arr=(¶§word # it's¶§word¶)
~ 2  §new=§joined
~ 1  §new=~/x:~/y
~ 1  §new=<(§inner)
~ 1  declare -A arr=([§word]=§word)

redirections
  84 §nothing
  10 ␣§redirection
  6  ␣§redirection §redirection

redirection
  5  > §target
  5  >§target
  5  >> §target
  3  >>§target
  3  2> §target
  3  &> §target
  3  2>&1
  2  >&2
  3  2>/dev/null
  3  >/dev/null 2>&1
  4  < §source
  1  <<< §word
~ 1  >| §target
~ 1  <> §target
~ 1  &>>§target
~ 1  >&§target
~ 1  >& §target
~ 1  3>§target
~ 1  {fd}>§target
~ 1  1<>§target
~ 1  10>§target
~ 1  2>>§target
~ 1  < <(§inner)
~ 1  > >(§inner)
~ 1  3>&-
~ 1  <&-
~ 1  3<a.txt <&3
~ 1  {v}>&1
~ 1  <&0-
~ 1  > §odd_target
~ 1  >>§odd_target
~ 1  >\¶§target
~ 1  <<<§joined
~ 1  >&§odd_target

odd_target
  2  §parameter
  2  §double
  1  x*.txt
  1  *.tx?
  1  {a,b}.t
  1  $x
  1  "$x"
  1  &1
  1  1
  1  '$x'
  1  q\ q
  1  §joined
  1  "$(§inner)"
  1  $'a\x2ftxt'
  1  ${none}n.txt
  1  "~/t.txt"
  1  ~+/t.txt
  1  ~dev/t.txt
  1  build//./../t.txt
  1  -
  1  §word

word
  60 §plain
  14 §single
  14 §double
  4  "§parameter"
  4  §parameter
  3  §glob
  2  "§substitution"
  1  §substitution
  2  §tilde
~ 10 §odd
~ 5  §joined
~ 6  §substitution
~ 3  §process
~ 4  §escaped
~ 3  §ansi
~ 2  §arithmetic_word

file
  70 §path
  4  "§path"
  4  '§path'
  3  'my file.txt'
  8  "§parameter"
  3  §parameter
  5  §glob
  3  §tilde
~ 50 §word

number
  3  1
  3  2
  2  10
  1  0x1f
  2  ${#§var}
  1  $#
~ 5  count
~ 2  $count
~ 2  x+1

joined
  2  §word§word
  1  §word§word§word

parameter
  30 $§var
  20 ${§var}
  6  §special
  2  ${§var:-main}
  1  ${§var:-a.txt}
  1  ${§var%§pattern}
  1  ${§var##§pattern}
  1  ${§var/§pattern/b}
  1  ${§var//§pattern}
  2  ${#§var}
  1  ${§var:0:2}
  1  ${§var^^}
~ 12 §odd_parameter

odd_parameter
  2  ${§name:-§word}
  2  ${§name-§word}
  2  ${§name:=§word}
  2  ${§name:+§word}
  1  ${§name:?§word}
  1  ${§name%§word}
  1  ${§name//§word/§word}
  1  ${§name/#§word}
  1  ${§name:§arithmetic:§arithmetic}
  1  ${arr[§arithmetic]}
  1  ${arr[$i]}
  1  ${arr[@]}
  1  ${arr[*]:1:2}
  1  ${!§name}
  1  ${!x@}
  1  ${!arr[@]}
  1  ${#arr[@]}
  1  ${arr[@]/#/-}
  1  $_
  1  $0
  1  $!
  1  $-
  1  ${@:2}
  1  ${10}
  1  ${§name@Q}
  1  ${§name@P}
  1  ${§name@A}
  1  ${§name-'a b'}
  1  ${§name:-"q}}q"}
  1  ${§name+\}}
  1  ${§name:-$'a}'}
  1  ${§name:- §word §word }
  1  ${§name:-`§flat`}
  1  ${§name:-"$(§inner)"}
  1  ${§name,,[§word]}
  1  ${-}
  1  ${#}
  1  ${##}
  1  ${$}
  1  ${ §name}

substitution
  10 $(§inner)
  2  `§flat`
~ 2  $(§inner¶)
~ 1  $( # it's a comment )¶§inner)
~ 1  $(¶§inner )
~ 1  $(<a.txt)
~ 1  $(< §target)
~ 2  `§ticked`
~ 1  $( (§inner) )
~ 1  $((§inner) )
~ 1  $(case x in x) §inner ;; esac)
~ 1  $(cat <<'E'¶it's¶E¶)
~ 1  $(cat <<E¶$(§flat)¶E¶)

process
  2  <(§inner)
  1  >(§inner)

arithmetic_word
  4  $((§arithmetic))
  1  $(( §arithmetic ))
~ 1  $[§arithmetic]

arithmetic
  8  §number
  4  §number §operator 2
~ 1  $(§inner)
~ 1  §parameter
~ 1  arr[0]
~ 1  arr[$(§inner)]
~ 1  (x=1)
~ 1  x++
~ 1  x+=2
~ 1  `§flat`
~ 1  x ? y : 2
~ 1  x, y
~ 1  x<<2
~ 1  "3"
~ 1  2#101
~ 1  §number §operator §arithmetic
~ 1  $x$y
~ 1  '1'
~ 1  (1)+(2)
~ 1  §word

odd
  1  a\¶b
  1  \¶
  1  "a\¶b"
  1  'a\¶b'
  1  a#b
  1  \#
  1  #
  2  §keyword
  1  a=b
  1  a[0]=b
  1  {a,b}{c,d}
  1  {a,'b c'}
  1  {$x,y}
  1  {§word,§word}
  1  a{1..2}b
  1  {a..c..2}
  1  @(a|b)
  1  !(a)
  1  *(a|$(p97 ext))
  1  "$x"'y'
  1  $
  1  $%
  1  a$
  1  "$"
  1  ''
  1  ""
  1  =
  1  --
  1  a'b'"c"\d
  1  a\ b
  1  \"
  1  \'
  1  \$x
  1  \`
  1  {}
  1  {,}
  1  {a}
  1  1>a.txt
  1  a>b.txt
  1  2>&1
  1  $"hi $x"
  1  [!a]*
  1  [[:alpha:]]*
  1  a[$(§inner)]
  1  ~x
  1  a~
  1  :~
  1  %1
  1  -c
  1  -exec

test
  6  §simple
  3  [ -f §file ]
  2  [ -n "§parameter" ]
  2  [ "§parameter" = main ]
  1  [ "§parameter" -eq 1 ]
  3  [[ -f §parameter ]]
  3  [[ §parameter == *.txt ]]
  2  [[ "§parameter" != §single ]]
  1  ! §simple
  1  command -v git >/dev/null
~ 1  [[ §word =~ ^(a b|x)$ ]]
~ 1  [[ §word =~ §joined ]]
~ 2  [[ §word -lt §word && ! ( -v x || §word ) ]]
~ 1  [[ §word < §word ]]
~ 1  [[ §word -ef §word¶&& §word ]]
~ 1  [[ -v §word ]]
~ 1  [[ -v arr[§arithmetic] ]]
~ 1  [[ §word -eq §arithmetic ]]
~ 1  test §word -o §word
~ 1  [ §word -eq §word ]
~ 1  (( §arithmetic ))

compound
  6  if §test; then §body fi
  2  if §test; then §body else §body fi
  1  if §test; then §body elif §test; then §body else §body fi
  1  if §test¶then¶  §body¶fi
  6  for §new in §word §word; do §body done
  2  for §new in §word; do¶  §body done
  2  while §test; do §body break; done
  2  while read -r §new; do §body done < list.txt
  1  until §test; do §body break; done
  2  case "$x" in a) §arm ;; *) §arm ;; esac
  1  case $1 in¶  -v | --verbose) §arm ;;¶  *.txt) §arm ;;¶esac
  3  ( §inner )
  4  { §body }
  3  §define() { §body }
  1  function §define { §body }
  1  §define () {¶  §body¶}¶§called x
  2  (( §arithmetic ))
~ 1  for ((i=0; i<2; i++)); do §body done
~ 1  for ((§arithmetic; i<§arithmetic; i++)) { §body }
~ 1  select §name in §word; do §body break; done
~ 1  coproc { §body }
~ 1  coproc CO { §body }
~ 1  coproc §simple
~ 1  for §name; do §body done
~ 1  for §new in §word§redirection; { §body }
~ 1  for §name¶in §word¶do §body done
~ 1  ! { §body }
~ 1  time { §body }
~ 1  ((§inner) ; (§inner))
~ 1  ( ( §inner ) )
~ 1  ((§inner))
~ 2  case §word in (a) §arm ;& b|c) §arm ;;& *) §arm esac
~ 1  case §word in §word) §arm ;; "§parameter") §arm ;; esac
~ 1  case §word in esac
~ 1  case x in¶x) # it's¶§arm¶;;¶esac
~ 1  §define() ( §inner )
~ 1  §define() if §test; then §body fi
~ 1  function §define() { §body } §redirection; §called
~ 1  §define() { §body }; §called §word; unset -f f
~ 1  §odd_fname() { §body }; §usual
~ 1  if §test; then §body fi | { §body }
~ 1  while §test; do §body break; done §redirection §redirection
~ 1  { §body } 2>&1 | §simple
~ 1  {¶§body¶} >§target
~ 1  { §body };{ §body }
~ 1  (§inner)§redirection | §simple

wrapped
  3  env FOO=1 §words
  3  timeout 5 §words
  1  timeout -k 3 1m §words
  1  nohup §words
  1  nice §words
  1  nice -n 5 §words
  1  command §words
  1  stdbuf -oL §words
  2  sudo §words
  1  sudo -u dev §words
  1  setsid §words
  4  bash -c §quoted_inner
  2  sh -c §quoted_inner
  2  find . -name '*.py' -exec §started {} \;
  1  find . -name a.txt -exec §started {} +
  1  ls | xargs §started
  1  cat list.txt | xargs -n 1 §started
  1  git ls-files | xargs -I{} §started {}
~ 2  exec §words
~ 1  builtin echo §word
~ 1  builtin cd §word
~ 1  builtin eval §words
~ 1  bash -c §doubled_inner §word
~ 1  sh -ec §doubled_inner
~ 1  bash -x -c §quoted_inner a §word
~ 1  bash --norc -O extglob -c §quoted_inner
~ 1  bash <<< §quoted_flat
~ 1  sh -s a <<< §quoted_inner
~ 1  echo §quoted_flat | bash
~ 1  echo §quoted_flat | sh -s
~ 1  echo §quoted_flat | xargs
~ 1  printf %s §quoted_flat | xargs -I% sh -c %
~ 1  echo §quoted_flat | xargs env
~ 1  cat <<'E' | sh¶§inner¶E
~ 1  bash <<'E'¶§inner¶E
~ 1  bash <(echo §quoted_flat)
~ 2  eval §quoted_inner
~ 1  eval §words
~ 1  eval §doubled_inner §word
~ 1  env -i §words
~ 1  env -u X -- §words
~ 1  env -C src §words
~ 1  env -S §quoted_flat
~ 1  env - A=§word §words
~ 1  nice env §words
~ 1  sudo -E -u dev env A=1 timeout 3 §words
~ 1  command -p §words
~ 1  exec -a z §words
~ 1  exec -cl §words
~ 1  nohup nice -5 §words
~ 1  find . -execdir §started {} {} \; -o -exec §started {} +
~ 1  find . -type f -ok §started \;
~ 1  find . -name a.txt -exec sh -c §quoted_inner _ {} \;
~ 1  xargs -a list.txt -n1 §started X
~ 1  xargs -a list.txt -d, -I X §started aXb
~ 1  xargs -P2 -n 1 -- §started < list.txt
~ 1  ls | xargs sh -c §quoted_inner
~ 1  ssh host §words
~ 1  ssh -p 22 host §quoted_inner
~ 1  flock a.txt §words
~ 1  flock a.txt -c §quoted_inner
~ 1  setarch x86_64 §words
~ 1  ionice -c 3 §words
~ 1  chrt -b 0 §words
~ 1  bash -lc §quoted_inner
~ 1  bash -c §quoted_inner -c §quoted_flat
~ 1  bash -- -c §quoted_flat
~ 1  bash -o pipefail -c §quoted_inner
~ 1  dash -c §quoted_inner
~ 1  sudo §words §redirection
~ 1  sudo sh -c §quoted_inner

started
  1  rm
  1  grep -n x
  1  ls -l
  1  wc -l
  1  cat
  3  §program

builtin
  3  cd §word
  2  cd /tmp && §simple
  2  cd src || exit; §simple
  1  cd ..; §simple
  1  cd - && §simple
  1  cd $x && §simple
  1  (cd docs && §simple); §simple
  1  pushd src; §simple; popd; §simple
  1  cd "§parameter"; §words > q.txt
  1  cd docs/../src; echo > r.txt
  1  cd ~; §simple
  1  CDPATH=/tmp; cd §word; echo > cdp.txt
  1  export §name=§word
  1  printf -v §name %s §word
  1  printf -v arr[§arithmetic] %s 1
  1  read §name <<< §word
  1  read -r §name y < list.txt; §simple
  1  read -a arr <<< §word; echo $((arr))
  1  unset §name
  1  unset 'arr[§word]'
  2  trap §quoted_flat EXIT
  1  trap §quoted_flat DEBUG
  1  trap §doubled_inner 0 ERR
  1  trap - INT
  1  set -- §word §word
  1  set -euo pipefail
  1  set -x
  1  set -f; §simple
  1  set -n; §simple
  1  set -k; §words A=1
  1  set §word
  1  shopt -s nullglob globstar dotglob
  1  shopt -s extglob¶§simple
  1  shopt -s lastpipe; §simple | read x; echo $((x))
  1  declare §name=§word
  1  declare -i §name=§word
  1  declare -a arr=(§word)
  1  declare -r RO=1
  1  declare -n ref=§word; ref=2
  1  declare "§name=§parameter"
  1  local §name=1
  1  readonly OTHER=§word
  1  typeset -f; §simple
  1  echo §quoted_flat > gen.sh; source gen.sh
  1  echo §quoted_flat > gen.sh && . ./gen.sh
  1  echo §quoted_flat > gen.sh; bash gen.sh
  1  source env.sh
  1  . ~/.bashrc
  1  . /dev/stdin <<< §quoted_flat
  1  source <(echo §quoted_flat)
  2  shopt -s expand_aliases¶alias zz=§quoted_flat¶zz k
  1  alias ls='p93 k'; ls
  1  shopt -s expand_aliases; alias ls='p93 k '¶ls
  1  unalias -a
  1  let §name=§word
  1  let '§name = 1 + 2' §arithmetic
  1  mapfile -t arr < list.txt
  1  mapfile -C §quoted_flat -c 1 arr < list.txt
  1  readarray arr < <(§inner)
  1  hash -r
  1  hash -p /bin/p92 ls; ls
  1  type §word
  1  type -P git
  1  wait
  1  wait $!
  1  jobs
  1  jobs -x §words
  1  return 1
  1  exit
  1  exit 1; §simple
  1  shift
  1  getopts ab: §name
  1  test -v §word
  1  test -v arr[§word]
  1  [ §word -eq §word ]
  1  PATH=/tmp §words
  1  PATH=; §words
  1  export PATH=$PATH:/opt; §words
  1  IFS=,; §simple
  1  IFS=p; §name=apb; $§name
  1  exec 3> out3.txt
  1  exec > all.log; echo
  1  exec < a.txt; cat
  1  command -v §words
  1  command -pv ls
  1  command
  1  command -- §words
  1  arr=(§program §word); "${arr[@]}"
  1  §name=§program; $§name k
  1  §name='§program k'; $§name
  1  set -- §program k; "$@"
  1  enable -n echo; echo k
  1  enable -n test [; test -f a; [ a ]
  1  ulimit -n 100; §simple
  1  umask 022; §simple
  1  kill -0 $$
  1  times
  1  compgen -C §quoted_flat
  1  compgen -F f -W §quoted_flat
  1  complete -C §quoted_flat x
  1  bind -x '"a":§program'
  1  history -a h.txt
  1  fc -s
  1  help cd
  1  caller
  1  dirs -v; §simple
  1  BASH_ENV=env.sh bash -c :
  1  ENV=env.sh sh -ic :
  1  PS4='$(§flat)'; set -x; :
  1  PROMPT_COMMAND=§quoted_flat; §simple
  1  LD_PRELOAD=x.so §words
  1  GIT_PAGER=§program git log
  1  f() { §flat; }; export -f f; bash -c f
  1  command_not_found_handle() { §flat; }; nosuch k
  1  \cd /tmp; §words > q.txt
  1  builtin cd /tmp; echo > q.txt
  1  command cd /tmp; echo > q.txt
  1  { cd /tmp; }; echo > q.txt
  1  cd /tmp | cat; echo > q.txt
  1  if cd /tmp; then :; fi; echo > q.txt
  1  cd /tmp & echo > q.txt
  1  cd nosuch || cd /tmp; echo > q.txt
  1  f() { cd /tmp; }; f; echo > q.txt
  1  for d in /tmp src; do cd $d; echo > q.txt; done
  1  echo $(cd /tmp; echo > q.txt) > r.txt
  1  cd /tmp/../out; echo > q.txt
  1  OLDPWD=/tmp; cd -; echo > q.txt
  1  HOME=/tmp; cd; echo > ~/q.txt
  1  PWD=/tmp; echo > $PWD/q.txt
  1  pushd /tmp; pushd; echo > q.txt
  1  popd; echo > q.txt
  1  echo > ~-/q.txt
  1  x=../u; echo > $x/q.txt
  1  x=/tmp y=$x/q.txt; echo > $y
  1  for f in /tmp/x.log b.txt; do echo > "$f"; done
  1  echo > "${none:-/tmp/q.txt}"
  1  echo > $(echo /tmp/q.txt)
  1  set -C; echo > a.txt; echo >| a.txt
  1  echo > a.txt > b.txt >> /tmp/q.txt
  1  exec 3<> /tmp/q.txt; echo >&3

odd_command
  2  §word
  2  §joined
  2  §parameter §word
  2  §substitution §word
  1  \¶§simple
  1  §simple \¶  §word
  1  §redirection §words
  1  <a.txt §words
  1  2>/dev/null §words >w.txt
  1  a=1 b=$(§inner) >e.txt
  1  §words -3¶§simple
  1  if :; then §simple¶fi | §simple
  1  [[ a ]]
  1  [[ x ]] && §simple
  1  §simple #§word
  1  #§simple
  1  echo {a,§word}
  1  function k { §simple; }; k
  1  §keyword
  1  §keyword §simple
  1  §words; }
  1  §words )
  1  <<E cat; §words¶$(§flat)¶E
  1  cat <<E; §words¶§text¶E¶§words
  1  cat <<'E' <<-F¶a $(p96 no)¶E¶	`p95 yes`¶	F¶§words
  1  cat <<"E"x¶$(p96 no)¶Ex¶§words
  1  cat <<\E¶`p96 no`¶E¶§words
  1  cat <<E¶\$(p96 no) \\$(p95 yes)¶E
  1  cat <<E¶a\¶E¶§words¶E
  1  cat <<E¶${x:-$(p95 yes)} `p94 yes`¶E
  1  cat <<E || §words¶it's¶E¶
  1  cat <<'a b'¶$(p96 no)¶a b¶§words
  1  cat <<$x¶a¶$x¶§words
  1  $(cat <<E¶§flat¶E¶)
  1  `echo \`§flat\``
  1  "`echo "§plain"; §flat`"
  1  echo "`echo \"$(§flat)\"`"
  1  echo "$(echo "§plain'"; §flat)"
  1  x=§word§word §words
  1  x[1]=2 §words
  1  x=(a b) §words
  1  =x §words
  1  §words &> /dev/null &
  1  §words & wait
  1  §words | tee a.txt | §words
  1  ;§words
  1  §words ;; §words
  1  §words¶¶¶§words
  1  §words	§word
  1  §words  §word
"""
