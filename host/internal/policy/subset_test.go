package policy_test

import (
	"testing"

	"toolhost.dev/host/internal/policy"
)

// TestSubset checks that scripts with a construct that can run unlisted programs are refused. The harmless form of the
// construct must be accepted.
func TestSubset(t *testing.T) {
	p := rules(t, policy.Rules{AllowList: true, Rules: []policy.Rule{rule(policy.Allow, "ls *", "cat *", "git status *", "sort *", "rg *", "tar *", "find *", "wc *")}})
	for construct, scripts := range map[string][2][]string{ // a refused and an accepted script for each construct
		"arithmetic":        {{`x=$(cat f); echo $((x))`, `echo $((y+1))`, `((x=y))`, `a[x]=1`, `echo ${a[x]}`, `echo ${x:y}`, `for ((i=y;i<3;i++)); do ls; done`, `[[ $x -eq 1 ]]`, `x=${a[$y]}`, `read y; echo $((y))`}, {`i=0; i=$((i+1)); ls`, `echo $((1+2))`}},
		"test -v":           {{`[[ -v x ]]`, `[[ -R x ]]`, `test -v x`, `[ -v x ]`, `[ "$o" x ]`, `test -R x`}, {`[ -n "$x" ]`, `[[ -f x ]]`, `test -d x`}},
		"printf -v":         {{`printf -v x a`, `printf -vx a`, `printf "$f" a`}, {`printf '%s\n' a`}},
		"let":               {{`let x=1`, `let 'a[$(touch y)]=1'`}, nil},
		"declare":           {{`declare -n x=y`, `declare -i x=y`, `local -n x=y`, `typeset -i x`, `declare -a x=(1)`, `export -n x`, `readonly x=1`}, {`declare x=1; ls`, `export X=1; ls`}},
		"transformation":    {{`echo ${x@P}`, `echo ${x@E}`, `echo ${x@A}`, `echo "${x@Q}${y@P}"`}, {`echo ${x%a}`, `echo ${x:-a}`}},
		"indirection":       {{`echo ${!x}`, `echo ${!x@}`, `echo ${!a[@]}`}, {`echo $!`}},
		"${x:=y}":           {{`: ${PATH:=.}`, `: ${x:=y}`, `: ${x=y}`}, nil},
		"PATH":              {{`PATH=.; ls`, `PATH=. ls`, `read PATH`, `for PATH in .; do ls; done`, `export PATH=.`, `printf -v PATH .`, `env PATH=. ls`, `PATH+=:.`, `declare PATH=.`, `unset PATH`, `getopts a PATH`, `mapfile PATH`, `read -a PATH`, `select PATH in a; do ls; done`}, {`x=1; ls`}},
		"other variables":   {{`PS4=x; ls`, `PS1=x`, `ENV=x`, `BASH_ENV=x bash -c ls`, `BASH_CMDS[ls]=x`, `IFS=x; ls`, `LD_PRELOAD=x ls`, `GIT_PAGER=x git status`, `PROMPT_COMMAND=x`, `HOME=x; ls ~`, `env LD_PRELOAD=x ls`, `env GIT_DIR=x git status`, `CDPATH=x`, `SHELLOPTS=x`, `FUNCNEST=1`, `GLOBIGNORE=x`, `RANDOM=x`}, {`FOO=1 ls`, `env FOO=1 ls`}},
		"builtins":          {{`eval ls`, `. ./x`, `source x`, `trap ls EXIT`, `alias ls=touch`, `hash -p ./x ls`, `enable -f ./x ls`, `mapfile -C touch x`, `readarray x`, `compgen -C touch`, `complete -C touch x`, `coproc ls`, `exec ls`, `shopt -s expand_aliases`, `bind -x x`, `fc -s`, `history -p x`, `command eval ls`, `builtin eval ls`, `\eval ls`, `"eval" ls`, `set -x`, `set -a`, `set -o allexport`, `set -k`}, {`set -e; ls`, `set -euo pipefail; ls`, `type ls`, `command ls`}},
		"functions":         {{`ls() { cat f; }; ls`, `cd() { ls; }; cd`, `function echo { ls; }; echo`, `git() { ls; }; git status`, `command_not_found_handle() { ls; }; x`}, {`helper() { ls; }; helper`}},
		"options of find":   {{`find . -exec touch x \;`, `find . -execdir touch x \;`, `find . -ok touch x \;`, `find . -okdir touch x \;`, `find . -fprint x`, `find . -fprintf x y`, `find . -fls x`, `find . $o touch x \;`}, {`find . -name x`}},
		"options of others": {{`ls | xargs touch`, `rg --pre touch x`, `rg --pre=touch x`, `sort --compress-program touch x`, `sort --comp=touch x`, `git -c core.pager=x status`, `git --exec-path=. status`, `tar --to-command=touch -xf x`, `tar -I touch -xf x`, `tar --checkpoint-action=exec=touch -cf x y`, `env -S 'touch x'`, `env -i sh`, `tar $o`}, {`sort x | wc -l`, `rg x`, `tar -tf x`}},
		"other programs":    {{`./ls`, `bin/ls`, `sh -c ls | sh`, `bash x`, `bash -i`, `bash --rcfile x -c ls`, `zsh -c ls`, `busybox ls`, `sudo ls`, `setarch x ls`, `$x`, `$(cat f)`, "`ls`", `ls <(touch x)`, `echo $"x"`, `/lib64/ld-linux-x86-64.so.2 ./x`}, {`bash -c 'ls'`, `/bin/ls`, `timeout 5 ls`, `nice ls`, `nohup ls`, `x=$(ls); ls "$x"`}},
	} {
		for _, s := range scripts[0] {
			if d := p.Judge(command(t, "/work/space", s)); d.Effect != policy.Deny {
				t.Errorf("%s: %s: %s", construct, s, d.Effect)
			}
		}
		for _, s := range scripts[1] {
			if d := p.Judge(command(t, "/work/space", s)); d.Effect != policy.Allow {
				t.Errorf("%s: %s: %s (%s)", construct, s, d.Effect, d.Reason)
			}
		}
	}
}
