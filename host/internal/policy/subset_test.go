package policy_test

import (
	"strings"
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

// TestOptionsThatRun checks listed programs: an option, a wrapper or a variable with which they run another program is
// refused, and the program without it runs.
func TestOptionsThatRun(t *testing.T) {
	for refused, accepted := range map[string]string{
		`aria2c --on-download-complete=/bin/sh http://h/x`: `aria2c http://h/x`, `borg extract @:/::: --rsh "sh -c x"`: `borg list r`, `bpftrace --unsafe -e x`: `bpftrace -l`,
		`busctl --address=unixexec:path=/bin/sh`: `busctl list`, `certbot certonly --pre-hook x`: `certbot certificates`, `curl --engine ./x.so h`: `curl -fsSL h`, `dhclient -sf ./x`: `dhclient -v`,
		`dmsetup ls --exec x`: `dmsetup ls`, `dnsmasq --conf-script=x`: `dnsmasq --test`, `enscript f -I x`: `enscript f`, `fzf --bind 'enter:execute(x)'`: `fzf -q x`, `gem open -e x debug`: `gem list`,
		`pdflatex --shell-escape f`: `pdflatex f`, `latexmk -pdflatex='x #' f`: `latexmk f`, `lftp -c '!x'`: `lftp h`, `logrotate -m x -f c`: `logrotate -d c`, `mysql --default-auth ../x`: `mysql db`, `nc -l -p 1 -e x`: `nc -z h 1`,
		`openvpn --dev null --up x`: `openvpn --version`, `pip config --editor x edit`: `pip list`, `restic --password-command=x backup`: `restic snapshots`, `rpm --eval '%(x)'`: `rpm -qa`, `rpmquery --pipe x`: `rpmquery -a`,
		`scrot -e x`: `scrot f.png`, `sshfs -o ssh_command=x h: d`: `sshfs h: d`, `ssh-keygen -D ./x.so`: `ssh-keygen -lf k`, `yt-dlp h --exec 'x #'`: `yt-dlp h`, `zic -d . -y x f`: `zic -d . f`,
		`cpulimit -l 9 -- ls`: `ls`, `sshpass -p x ls`: `ls`, `ssh-agent ls`: `ls`, `torify ls`: `ls`, `msgfilter ls`: `ls`, `tcsh -c ls`: `ls`, `sash`: `ls`, `RESTIC_PASSWORD_COMMAND=x restic snapshots`: `X=1 restic snapshots`, `SYSTEMD_EDITOR=x systemctl edit u`: `systemctl status u`,
		`CRASHPAGER=x crash`: `crash -s`, `BUNDLE_GEMFILE=x bundle list`: `bundle list`,
	} {
		var listed []string
		for _, word := range strings.Fields(accepted + " " + refused) {
			if !strings.ContainsAny(word, "=%'\"/") {
				listed = append(listed, word+" *")
			}
		}
		p := rules(t, policy.Rules{AllowList: true, Rules: []policy.Rule{rule(policy.Allow, listed...)}})
		if d := p.Judge(command(t, "/work/space", refused)); d.Effect != policy.Deny {
			t.Errorf("%s: %s", refused, d.Effect)
		}
		if d := p.Judge(command(t, "/work/space", accepted)); d.Effect != policy.Allow {
			t.Errorf("%s: %s (%s)", accepted, d.Effect, d.Reason)
		}
	}
}

// TestWrappersAreSeenThrough checks that the rules judge the command that a wrapper runs, and the wrapper itself.
func TestWrappersAreSeenThrough(t *testing.T) {
	p := rules(t, policy.Rules{Rules: []policy.Rule{rule(policy.Deny, "touch *", "torify *")}})
	for _, wrapper := range []string{
		"aa-exec -p x", "aoss", "choom -n 9 --", "cpulimit -l 9 -f --", "distcc", "dumb-init", "eatmydata", "envdir d", "faketime -f x", "firejail --quiet", "gosu u", "grc -c f", "i386", "logsave f", "multitime -n 3",
		"openvt -c 8 --", "prlimit --nofile=9", "setlock f", "setuidgid u", "ssh-agent -t 9", "sshpass -p x", "su-exec u", "systemd-inhibit --what x", "tini --", "torsocks -p 1", "tsocks", "valgrind -q",
	} {
		for inner, want := range map[string]policy.Effect{"touch x": policy.Deny, "ls x": policy.Allow} {
			if d := p.Judge(command(t, "/work/space", wrapper+" "+inner)); d.Effect != want {
				t.Errorf("%s %s: %s, wanted %s", wrapper, inner, d.Effect, want)
			}
		}
	}
	if d := p.Judge(command(t, "/work/space", "torify ls")); d.Effect != policy.Deny {
		t.Errorf("torify ls: %s", d.Effect)
	}
}
