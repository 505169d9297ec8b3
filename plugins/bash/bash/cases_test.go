//go:build !race

package bash

import (
	"strings"
	"testing"
)

// This list contains commands. The tool must run each command exactly as bash -c runs it.
var single = []string{
	`echo hello`,
	`echo out; echo err >&2; echo out2`,
	`printf 'no newline'`,
	`printf 'a\n\n\n'`,
	`true`, `false`, `(exit 3)`, `exit 0`, `exit 42`, `exit 300`, `exit -1`, `exit bad`,
	`return 3`,
	"echo one\necho two\nnosuchcommand\necho three",
	"echo one\n\n\ncd /nonexistent\necho $?",
	"echo one\nif",
	`echo "unclosed`,
	`echo )`,
	"cat <<EOF\nunclosed heredoc",
	"cat <<'EOF'\n$HOME `x` \\n\nEOF\necho after",
	"cat <<-EOF\n\ttabs $((1+1))\n\tEOF\n",
	"cat <<< 'here string'",
	"cat <<A; cat <<B\na\nA\nb\nB",
	`# only a comment`,
	`echo a # comment`,
	"echo a \\\n  b",
	`set -e; false; echo not reached`,
	`set -e; f() { false; echo no; }; f || echo yes; f; echo not reached`,
	`set -u; echo "$undefined_variable"; echo not reached`,
	`set -o pipefail; false | true`,
	`false | true; echo "${PIPESTATUS[@]}"`,
	`PS4=; set -x; echo traced`,
	`set -v; echo verbose`,
	`set -n; echo not run`,
	`set -euo pipefail; x=$(false); echo not reached`,
	`echo "$0|$#|$*|$BASH_SUBSHELL|${FUNCNAME-}|$BASH_EXECUTION_STRING"`,
	`set -- a b "c d"; echo $# "$2" "$3"; shift; echo $1`,
	`echo $LINENO; f() { echo $LINENO ${FUNCNAME[@]}; caller 0; }; f`,
	`local x=1; echo $?`,
	`exec echo replaced`, `exec nosuchcommand; echo not reached`, `exec 3>&1; echo three >&3`, `exec >&2; echo now on stderr`,
	`exec 1>&-; echo closed`,
	`exec 205>&- 203<&- 204<&-; echo ok`,
	`trap 'echo bye $?' EXIT; exit 5`,
	`trap 'echo bye $?' EXIT; false`,
	`trap 'echo "$PWD $HOSTNAME $OSTYPE $BASH_VERSION $BASH_SUBSHELL $OPTIND ${DIRSTACK[0]} ${SECONDS:+s} ${BASHPID:+p} ${RANDOM:+r} ${EPOCHSECONDS:+e} ${GROUPS[0]:+g} ${LINENO:+l} ${BASH:+b}"' EXIT; cd /tmp`,
	`cleanup() { echo "clean $PWD $?"; }; trap cleanup EXIT; cd /tmp; (exit 3)`,
	`trap 'echo err $?' ERR; false; echo go on`,
	`set -E; trap 'echo err $?' ERR; f() { false; }; f; echo go on`,
	`trap 'echo debug' DEBUG; :; echo x`,
	`trap 'echo term; exit 9' TERM; kill $$; echo not reached`,
	`trap '' TERM; kill $$; echo still here`,
	`trap 'echo one' EXIT; trap - EXIT; exit 3`,
	`(trap 'echo sub' EXIT; exit 4); echo $?`,
	`f() { trap 'echo ret' RETURN; }; f; echo done`,
	`kill -9 $$`, `kill -TERM $$`, `kill -SEGV $$`,
	`{ bash -c 'kill -9 $$'; } 2>/dev/null; echo $?`,
	`sh -c 'exit 7'`,
	`yes | head -3`, `set -o pipefail; yes | head -1`, `seq 100000 | head -1`,
	`sleep 0.02 & wait; echo done`,
	`(exit 6) & wait $!`,
	`echo background & wait`,
	`coproc cat; echo hi >&${COPROC[1]}; read -r l <&${COPROC[0]}; echo got $l; kill $COPROC_PID; wait 2>/dev/null; true`,
	`diff <(echo a) <(echo b)`,
	`echo hi > >(cat); sleep 0.05`,
	`cat`, `read x; echo "status $? x=$x"`, `[[ -t 0 ]] || echo no terminal; [[ -t 1 ]] || echo none`,
	`: < /dev/tty`,
	`ulimit -n 64; echo $(ulimit -n)`,
	`echo $((1/0)); echo after`,
	`a=(1 2 3); echo ${a[@]} ${#a[@]} ${a[-1]}`,
	`declare -A m=([k]=v); echo ${m[k]}`,
	`for i in {1..3}; do echo $i; done`,
	`case x in x) echo yes;& y) echo fall;; esac`,
	`select x in a; do :; done`,
	`[[ abc =~ b(.) ]]; echo ${BASH_REMATCH[1]}`,
	"shopt -s extglob\ncase ab in a?(b)) echo ext;; esac",
	"alias x='echo expanded'\nshopt -s expand_aliases\nx 2>/dev/null || :",
	`cd /; pwd; cd - >/dev/null; [[ $PWD == /tmp* || $PWD ]] && echo back`,
	`pushd / >/dev/null; dirs -p | wc -l; popd >/dev/null`,
	`printf '\xff\xfe ok\n' | od -An -tx1`,
	`printf 'a\0b' | od -An -c`,
	`echo $'tab\there' "caf\u00e9" ünïcödé`,
	`unset PATH; ls; echo $?`,
	`PATH=/nowhere; ls`,
	`readonly R=1; R=2; echo not reached?`,
	`f() { f; }; FUNCNEST=20 f 2>/dev/null; echo $?`,
	`printf() { echo mine; }; printf x; unset -f printf; printf 'y\n'`,
	`eval 'echo evaluated; (exit 2)'`,
	`. /dev/null; echo $?`,
	`TIMEFORMAT=; time true; echo timed`,
	`exec 9<&0; cat <&9`,
	`umask 077; umask`,
	`echo a | while read x; do y=$x; done; echo "y=${y-}"`,
	`wait -n; echo $?`,
	`jobs; bg; fg`,
	`history | wc -l`,
	`env -i /usr/bin/env | sort`,
	`echo ~ | grep -c /`,
	`printf 'a\rb\rc\n'; printf '10%%\r50%%\r100%%\n' >&2`,
	`printf '\e[31mred\e[0m\n\e]0;title\a'`,
	`{ printf '\xff\x00\xfe'; head -c 300 /dev/zero; } | od -An -c`,
	`setsid -w echo own session; true`, `(setsid sh -c 'sleep 0.02' &); echo gone`,
	`exec >&-; echo x; echo "status $?" >&2`, `exec 2>&-; nosuchcommand; echo $?`,
	`(sleep 0.02; echo late) & echo early; wait`,
	`trap 'echo pipe >&2' PIPE; echo x | true; (sleep 0.02; echo y) | true; echo $?`,
	`bash -c 'trap "" PIPE; yes 2>/dev/null | head -1'; echo ${PIPESTATUS[0]}`,
	`exec 10>f; echo ten >&10; exec {fd}>g; echo $fd; cat f`,
	`echo $SECONDS; SECONDS=100; echo $SECONDS`, `jobs -p; echo $!; [[ ! -e /proc/self/fd/203 && ! -e /proc/self/fd/206 && ! -e /proc/self/fd/207 && ! -e /proc/self/fd/208 ]]; echo $?`,
	`read -t 0 x; echo $?; read -n1 x; echo $?; mapfile a; echo ${#a[@]}`,
	`set -a; set -k; env | grep -cE '^(SECONDS|BASH_EXECUTION_STRING)='`,
	`exec() { echo mine; }; exec 3>&1; unset -f exec; exec 3>&1; echo real >&3`,
	`: "` + strings.Repeat("long ", 20_000) + `"; echo done`,
	`v=` + strings.Repeat("0123456789", 12_000) + `; echo ${#v}`,
	"f() {\n" + strings.Repeat("  echo line >/dev/null\n", 5_000) + "echo end\n}; f; declare -f f | wc -l",
	`compgen -v | grep -c __toolhost_status; true`,
	`declare -F; declare -f`,
	`alias`,
}

func TestOracleAsBashDoes(t *testing.T) { eachWay(t, asBashDoes) }

func asBashDoes(t *testing.T, h *host) {
	for _, command := range single {
		t.Run(command[:min(len(command), 100)], func(t *testing.T) {
			s := h.session()
			s.t = t
			got := s.run(command)
			want := realBash(t, s.cwd, command, nil)
			compare(t, command, got, want, s.roots[0].Path)
			if failed := want.exit != 0; failed != (got.Error != nil) {
				t.Errorf("error is %v for exit status %d", got.Error, want.exit)
			}
		})
	}
}

func compare(t *testing.T, command string, got *answer, want seen, dir string) {
	t.Helper()
	if out, w := common(got.Stdout, dir), common(want.stdout, dir); out != w {
		t.Errorf("%s\nstdout: %q\n  bash: %q", command, out, w)
	}
	if out, w := common(got.Stderr, dir), common(want.stderr, dir); out != w {
		t.Errorf("%s\nstderr: %q\n  bash: %q", command, out, w)
	}
	if got.ExitCode != want.exit {
		t.Errorf("%s\nexit status %d, bash's %d", command, got.ExitCode, want.exit)
	}
}

// sessions contains sequences of commands, one command per line. The tool runs each command in a fresh shell. The
// results must be the same as if one bash process ran all commands.
var sessions = map[string]string{
	"cd":                    "mkdir -p a/b; cd a/b\npwd\ncd ..; pwd\ncd -\npwd; echo $OLDPWD\ncd; cd - >/dev/null; pwd",
	"cd fails":              "cd nowhere\npwd",
	"cd through symlink":    "mkdir real; ln -s real link; cd link\npwd; pwd -P\ncd ..; pwd",
	"cd -P":                 "set -P; mkdir real; ln -s real link\ncd link; pwd\nset +P; cd ../link; pwd",
	"cd odd names":          "mkdir $'new\\nline' ' sp  ace ' '-dash' \"quo'te\"; cd $'new\\nline'\npwd\ncd ../' sp  ace '; pwd\npwd\ncd ../-dash || cd -- -dash\ncd \"../quo'te\"\npwd",
	"subshell cd":           "(cd /); pwd\npwd",
	"pushd":                 "mkdir x y; pushd x\npushd ../y\ndirs -v\npopd\ndirs; pwd\npopd\npopd",
	"pushd rotate":          "mkdir x y; pushd x >/dev/null; pushd ../y >/dev/null\npushd +1\ndirs\ndirs -c\ndirs",
	"variables":             "x=1 y='two words'\necho $x \"$y\"\nx=$((x+1))\necho $x\nunset x\necho ${x-unset}",
	"export":                "export E=1; F=2\nenv | grep -c '^[EF]='; export F\nenv | grep '^[EF]=' | sort\nexport -n E\nenv | grep -c '^E='; echo $E",
	"export later":          "export LATER\nLATER=now\nenv | grep LATER",
	"unset environment":     "unset HOME LANG\necho ${HOME-none} ${LANG-none}\nenv | grep -c '^HOME='",
	"unset path":            "OLD=$PATH; unset PATH\nls\necho ${PATH-unset}; PATH=$OLD\nls >/dev/null && echo found",
	"unset IFS":             "unset IFS\necho ${IFS-unset}; x='a  b'; set -- $x; echo $#",
	"IFS":                   "IFS=,\nx=a,b,c; set -- $x; echo $#\nIFS=$' \\t\\n'\nset -- $x; echo $#",
	"odd IFS":               "IFS=$'e\\\\0d '\ndirs >/dev/null; echo \"$IFS\" | od -An -c\necho done",
	"odd values":            "v=$'line\\nline2\\n'; w=\"quote ' dquote \\\" dollar \\$ back \\\\ tick \\`\"; z=$'\\001\\x7f\\t'; u=é\nprintf '%s|' \"$v\" \"$w\" \"$z\" \"$u\" | od -An -c",
	"looks like code":       "v=$'x\\ndeclare -- evil=\"1\"\\ny'\necho \"$v\"; echo ${evil-safe}",
	"not utf8":              "v=$'\\xff\\xfe'\nprintf %s \"$v\" | od -An -tx1",
	"arrays":                "a=(1 'two words' $'three\\nlines'); a[7]=seven; unset 'a[0]'\ndeclare -p a\na+=(more)\necho ${#a[@]} ${!a[@]}",
	"maps":                  "declare -A m=([k]=v ['odd key']='odd value' [']']=bracket)\nfor k in \"${!m[@]}\"; do echo \"$k=${m[$k]}\"; done | sort\nm[new]=1; unset 'm[k]'\necho ${#m[@]}",
	"integers":              "declare -i n=1\nn=n+5\necho $n",
	"case":                  "declare -l low; declare -u UP\nlow=ABC UP=abc\necho $low $UP",
	"readonly":              "readonly R=1\necho $R\nR=2\necho $R\nunset R\necho $R",
	"readonly array":        "declare -ra A=(1 2)\necho ${A[@]}\nA[0]=9\necho ${A[@]}",
	"references":            "target=1; declare -n ref=target\nref=2\necho $target ${!ref}\nunset -n ref\necho $target",
	"functions":             "f() { echo f \"$@\"; return 3; }\nf a b\ndeclare -f f\ng() { f from g; }\ng\nunset -f f\ng",
	"exported function":     "f() { echo exported; }; export -f f\nbash -c f\nexport -nf f\nbash -c f",
	"readonly function":     "f() { :; }; readonly -f f\nf() { echo other; }\nf; echo $?",
	"traced function":       "f() { :; }; declare -ft f\ndeclare -F | grep -v oracle",
	"odd functions":         "a.b() { echo dot; }; c-d() { echo dash; }; e:f() { echo colon; }\na.b; c-d; e:f",
	"function with heredoc": "f() { cat <<'EOF'; echo end; }\n",
	"redefine cd":           "cd() { builtin cd \"$@\" && echo \"now in $PWD\"; }\nmkdir d; cd d\npwd\ncd ..",
	"redefine builtins":     "printf() { echo my printf; }; declare() { echo my declare; }; unset() { echo my unset; }; eval() { echo my eval; }; trap() { echo my trap; }; shopt() { echo my shopt; }; set() { echo my set; }; pwd() { echo my pwd; }; alias() { echo my alias; }; umask() { :; }; exit() { echo my exit; }; read() { echo my read; }; exec() { echo my exec; }; return() { echo my return; }\nprintf x; declare; alias; pwd; exit; read; exec; set\nx=5\necho $x; printf",
	"redefine test":         "test() { echo my test; }; true() { echo my true; return 1; }; :() { echo my colon; }\ntrue; test; :\necho $?",
	"aliases":               "alias ll='echo long list' q=\"echo it's\" sp='echo '\nll\nq\nalias\nunalias ll\nll",
	"alias odd":             "alias builtin='echo alias of builtin' printf='echo alias of printf' declare='echo alias of declare'\nx=1; printf\necho $x\nunalias -a\nprintf '%s\\n' back",
	"alias in function":     "f() { ls_ x; }; ls_() { echo ls_ \"$@\"; }; alias ls_='ls_ -l'\nf\nls_ y\ndeclare -f f",
	"alias off":             "alias x='echo x'; shopt -u expand_aliases\nx\nshopt -q expand_aliases; echo $?",
	"shopt":                 "shopt -s nullglob dotglob extglob globstar; shopt -u sourcepath\nshopt | grep -E 'nullglob|dotglob|extglob|globstar|sourcepath'\necho *.none | wc -c\ncase ab in a?(b)) echo ext;; esac",
	"extglob function":      "shopt -s extglob\nf() { case $1 in a?(b|c)) echo yes;; *) echo no;; esac; }\nf ac; f ad; shopt -u extglob\nf ac",
	"failglob":              "shopt -s failglob\necho *.none\necho ok",
	"noglob":                "set -f\necho *\nset +f\ntouch here; echo *",
	"noclobber":             "set -C; echo 1 > f\necho 2 > f\nset +C; echo 3 > f; cat f",
	"status in a subshell":  "false\n(echo $?)\nfalse\necho $(echo $?)\n(exit 3)\n(true; echo $?)",
	"builtin redefined":     "builtin() { command builtin \"$@\"; }\nls /nosuch 2>/dev/null; echo $?\nls -d /; (exit 3)\necho $?",
	"allexport":             "set -a\nEXP=1\nset +a; env | grep ^EXP; NOT=1\nenv | grep ^NOT",
	"strict is dropped":     "set -euo pipefail; echo strict\nfalse\necho ${undefined-} $undefined; false | true; echo $?",
	"xtrace is dropped":     "set -x; : traced\necho quiet",
	"errexit in eval":       "set -e; true\nfalse; echo still here",
	"umask":                 "umask 027\numask; touch f; stat -c %a f\numask 777; umask\numask",
	"status":                "false\necho $?\n(exit 77)\necho $?; true\necho $?\nnosuchcommand\necho $?\nif\necho $?",
	"status of pipe":        "false | true\necho $? ${PIPESTATUS[0]}\nset -o pipefail; false | true\necho $?",
	"positional":            "set -- a b\nx=1\necho $x",
	"last argument":         "getopts ab opt -a -b; echo $opt\necho $x",
	"locale":                "LC_ALL=C; x=é\necho ${#x}\nLC_ALL=C.UTF-8\necho ${#x}",
	"TMOUT":                 "TMOUT=1\necho $TMOUT\ntrue",
	"PS4":                   "PS4='+my '\nset -x; :",
	"POSIXLY_CORRECT":       "shopt -s nocasematch\n[[ A == a ]]; echo $?",
	"lastpipe":              "shopt -s lastpipe\necho v | read piped; echo $piped\necho $piped",
	"TMOUT and IFS":         "readonly IFS=x TMOUT=1\necho $TMOUT; sleep 1.2\necho still",
	"allexport and keyword": "set -ak; x=1\nenv | grep -cE '^(SECONDS|BASH_EXECUTION_STRING|__toolhost.*)='\necho $x",
	"seconds":               "SECONDS=500\n[[ $SECONDS -lt 400 ]]; echo\ntrue",
	"redefine exec":         "exec() { echo my exec; }\nexec 5>&1\ncat; echo x | cat",
	"random":                "RANDOM=5; x=$RANDOM\nRANDOM=5; [[ $RANDOM == $x ]]; echo $?",
	"big variable":          "big=$(printf '%0100000d' 7)\necho ${#big}\nbig=\necho ${#big}",
	"many variables":        "for i in {1..500}; do declare var_$i=$i; done\necho $var_1 $var_250 $var_500",
	"brace expansion":       "set +B\necho {a,b}\nset -B; echo {a,b}",
	"keyword":               "set -k\nsh -c 'echo $V' V=5\nset +k; echo V=5",
	"compat":                "BASH_COMPAT=4.2\necho $BASH_COMPAT\nunset BASH_COMPAT\necho ${BASH_COMPAT-none}",
	"cdpath":                "mkdir -p p/q; CDPATH=$PWD/p\ncd q\npwd",
	"hash":                  "hash ls\ntrue; unset -f ls; type -t ls",
	"prompt variables":      "PROMPT_COMMAND='echo prompt'; PS1='$ '\necho \"$PS1$PROMPT_COMMAND\"",
	"source":                "echo 'sourced=1; sf() { echo sf; }' > lib.sh; . ./lib.sh\necho $sourced; sf",
	"nounset names":         "set -u; x=1\necho $x $y.",
	"debug trap":            "trap 'dbg=1' DEBUG; x=1\necho $x $dbg",
	"exit in subshell":      "x=1; (x=2; exit 3)\necho $? $x",
	"no change between":     "x=1; f() { echo f$x; }; cd /; alias a='x=2'\nls >/dev/null\ntrue; echo \"$x\"; f\n(x=3; cd /tmp; pwd)\nnosuch\necho $?\nfalse\ntrue && pwd\na; echo $x\ntrue\necho $x",
	"no change at first":    "true\nfalse\necho $?\nls / | head -1; nosuch\necho $?\nx=1\ntrue\necho $x $?",
	"failing after none":    "false\nfalse\necho $?\ntrue\necho $?",
	"quoting":               `echo "it's" 'a "q"' \$x $'\'' ` + "\necho done",
}

func TestOracleSessionAsBashDoes(t *testing.T) { eachWay(t, sessionAsBashDoes) }

func sessionAsBashDoes(t *testing.T, h *host) {
	for name, script := range sessions {
		t.Run(name, func(t *testing.T) {
			s, real := h.session(), h.session()
			s.t = t
			commands := strings.Split(script, "\n")
			want := oracle(t, real.cwd, commands)
			dir := s.cwd
			for i, command := range commands {
				if strings.TrimSpace(command) == "" {
					continue
				}
				got := s.run(command)
				compare(t, command, got, seen{strings.ReplaceAll(want[i].stdout, real.roots[0].Path, dir), strings.ReplaceAll(want[i].stderr, real.roots[0].Path, dir), want[i].exit}, dir)
				if strings.Contains(got.text(), "The session") {
					t.Errorf("%s\nthe state was lost: %s", command, got.text())
				}
			}
		})
	}
}
