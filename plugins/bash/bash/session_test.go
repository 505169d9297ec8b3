package bash

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/sdk/tool"
)

// This map contains pairs of commands. The first command of a pair ends its shell. The field "want" is the output of
// the second command. The test does not compare the outputs with real bash, because bash could not run the second
// command.
var kept = map[string]struct{ command, then, want string }{
	"exit":                      {`x=1; cd /; exit 3`, `echo $? $x $PWD`, "3 1 /\n"},
	"exit in function":          {`x=old; f() { local x=local IFS=, y=2; local -A m=([k]=v); local -a a=(1); x2=global; export E=1; g; }; g() { local x=inner E; exit 4; }; f`, `echo $? $x $x2 $E ${y-unset} ${m-unset} ${a-unset} "${IFS@Q}"`, "4 old global 1 unset unset unset $' \\t\\n'\n"},
	"exit below readonly local": {`f() { local -r r=1; exit; }; f`, `f() { local -r r=2; echo $r; }; f; echo ${r-unset}`, "2\nunset\n"},
	"exit below reference":      {`t=1; f() { local -n ref=$1; ref=2; exit; }; f t`, `echo $t ${ref-unset}; ref=3; echo $t`, "2 unset\n2\n"},
	"globals at exit":           {`declare -i n=5; declare -A m=([k]=v); a=([3]=x); readonly R=1; export E=e; f() { exit; }; f`, `n+=1; declare -p n m a R E`, "declare -i n=\"6\"\ndeclare -A m=([k]=\"v\" )\ndeclare -a a=([3]=\"x\")\ndeclare -r R=\"1\"\ndeclare -x E=\"e\"\n"},
	"errexit":                   {`set -e; x=1; cd /; false; x=2`, `echo $? $x $PWD`, "1 1 /\n"},
	"errexit in function":       {`set -euo pipefail; f() { local v=1; w=2; false; }; f`, `echo $? ${v-unset} $w; false | true; echo $?`, "1 unset 2\n0\n"},
	"nounset":                   {`set -u; x=1; echo $nosuch; x=2`, `echo $? $x`, "127 1\n"},
	"exec":                      {`x=1; exec true`, `echo $? ${x-unset}`, "0 unset\n"},
	"exec fails":                {`x=1; cd /; exec /nonexistent`, `echo $? ${x-unset}`, "127 unset\n"},
	"own EXIT trap":             {`trap 'echo bye' EXIT; x=1; cd /`, `echo $x $PWD`, "1 /\n"},
	"own EXIT trap and exit":    {`trap 'echo bye' EXIT; x=1; exit 5`, `echo $? ${x-unset}`, "5 unset\n"},
	"trap does not stay":        {`trap 'echo bye' EXIT; trap 'echo err' ERR; trap 'echo dbg' DEBUG`, `false; trap -p ERR DEBUG INT; echo $?`, "0\n"},
	"TERM":                      {`x=1; kill $$`, `echo $? $x`, "143 1\n"},
	"KILL":                      {`x=1; kill -9 $$`, `echo $? ${x-unset}`, "137 unset\n"},
	"syntax error":              {"x=1\nif", `echo $? $x`, "2 1\n"},
	"noexec":                    {"x=1\nset -n\nx=2", `echo ${x-unset}`, "unset\n"},
	"posix":                     {`set -o posix; x=1`, `echo $x; shopt -o posix; f-g() { echo f-g; }; f-g`, "1\nposix          \toff\nf-g\n"},
	"builtin is replaced":       {`x=1; builtin() { :; }`, `echo ${x-unset}; builtin echo real`, "unset\nreal\n"},
	"builtin is wrapped":        {`x=1; builtin() { command builtin "$@"; }`, `echo $x; builtin echo real`, "1\nreal\n"},
	"descriptor closed":         {`x=1; exec 202<&- 205>&-`, `echo ${x-unset}`, "unset\n"},
	"closed streams":            {`x=1; exec >&- 2>&- <&-`, `echo $x`, "1\n"},
	"file limit":                {`x=1; ulimit -f 0`, `echo $x; echo y > f; cat f`, "1\ny\n"},
	"extdebug":                  {`shopt -s extdebug; f() { :; }; x=1`, `echo $x; shopt -q extdebug; echo $?; declare -F f`, "1\n1\nf\n"},
	"background changes":        {`x=1; { x=2; cd /; exit 9; } & wait; (cd /; exit)`, `echo $x`, "1\n"},
	"alias used at once":        {"alias a='echo alias'\na x", `a y`, "alias y\n"},
	"DEBUG trap prints":         {`trap 'echo debug; echo debug >&2' DEBUG; x=1`, `echo $x`, "1\n"},
	"odd exit function":         {`exit() { :; }; return() { :; }; x=1`, `echo $x; exit; echo on`, "1\non\n"},
	"xtrace to a file":          {`exec 7>trace; BASH_XTRACEFD=7; set -x; x=1`, `echo $x ${BASH_XTRACEFD-unset}; head -1 trace`, "1 unset\n++ x=1\n"},
	"function with heredoc":     {"f() {\ncat <<EOF\nbody $1\n}\nf () \nEOF\necho end\n}\ng() { echo g; }", `f x; g`, "body x\n}\nf () \nend\ng\n"},
	"function named as command": {`ls() { command ls -d "$@"; }; cat() { command cat "$@"; echo appended; }`, `ls /; echo x | cat`, "/\nx\nappended\n"},
	"long function":             {`eval "f() { $(for i in {1..20000}; do echo "echo $i >/dev/null;"; done | head -c 300000 | grep ';$') }"`, `declare -f f | wc -c | awk '{print ($1 > 250000)}'`, "1\n"},
}

func TestSessionAfterAnEnding(t *testing.T) { eachWay(t, sessionAfterAnEnding) }

func sessionAfterAnEnding(t *testing.T, h *host) {
	for name, c := range kept {
		t.Run(name, func(t *testing.T) {
			s := h.session()
			s.t = t
			s.run(c.command)
			if got := s.run(c.then); got.Stdout != c.want {
				t.Errorf("%s\nthen %s\nprints %q, want %q\n%s", c.command, c.then, got.Stdout, c.want, got.Stderr)
			}
		})
	}
}

func TestLostStateIsTold(t *testing.T) {
	h := newHost(t)
	for command, told := range map[string]bool{
		`x=1; exec true`: true, `trap : EXIT; exit 0`: true, `kill -9 $$`: true,
		`exit 3`: false, `trap : EXIT`: false, `set -e; false`: false, `true`: false,
	} {
		s := h.session()
		s.ok("y=0")
		if got := strings.Contains(s.run(command).text(), "The session is unchanged"); got != told {
			t.Errorf("%s: told %v, want %v", command, got, told)
		}
	}
}

func TestStateDoesNotDrift(t *testing.T) {
	s := newHost(t).session()
	s.ok(`declare -A m=([a]=1); f() { :; }; alias a=b; shopt -s nullglob; umask 027; mkdir d; pushd d; export E=1 X; x=$'a\nb'`)
	s.ok("true")
	first := bytes.Clone(s.state)
	for range 3 {
		s.ok("true")
	}
	if !bytes.Equal(first, s.state) {
		t.Errorf("the state changed by doing nothing:\n%q\n%q", first, s.state)
	}
}

func TestBrokenStates(t *testing.T) {
	h := newHost(t)
	good := h.session()
	good.ok("x=1")
	broken := func(change func(*session.Snapshot)) []byte {
		st, err := session.Decode(good.state)
		if err != nil {
			t.Fatal(err)
		}
		change(st.Snapshot)
		return st.Encode()
	}
	for name, state := range map[string][]byte{
		"garbage": []byte("no such thing"), "cut": good.state[:len(good.state)/2], "NULs": make([]byte, 100),
		"more": append(bytes.Clone(good.state), 0, 'x'), "other version": bytes.ReplaceAll(good.state, []byte("session-2"), []byte("session-9")),
		"changed": bytes.Replace(good.state, []byte(`x="1"`), []byte(`x="2"`), 1),
		"syntax":  broken(func(s *session.Snapshot) { s.Functions = "f () {\n" }),
		"exits":   broken(func(s *session.Snapshot) { s.Variables += "exit 0\n" }),
	} {
		t.Run(name, func(t *testing.T) {
			s := h.session()
			s.t, s.state = t, state
			a := s.run("echo ran >> count; echo ${x-unset}")
			if a.Stdout != "unset\n" || !strings.Contains(a.Output, "ran in a new session") {
				t.Errorf("%s", a.text())
			}
			if got := s.ok("cat count; echo ${x-unset}"); got != "ran\nunset\n" {
				t.Errorf("then %q", got)
			}
		})
	}
}

func TestTooMuchState(t *testing.T) {
	s := newHost(t).session()
	s.ok("x=small; y=1")
	a := s.run("x=$(head -c 1100000 /dev/zero | tr '\\0' x); y=2; cd /")
	if a.Error != nil || !strings.Contains(a.Output, "the limit is 1048576") {
		t.Errorf("%.300s", a.text())
	}
	if len(a.SessionState) > 1<<20 {
		t.Errorf("the state has %d bytes", len(a.SessionState))
	}
	if got := s.ok("echo $x $y; pwd"); got != "small 1\n/\n" {
		t.Errorf("%q", got)
	}
	// This state is larger than the limit.
	a = s.run("x=$(head -c 9000000 /dev/zero | tr '\\0' x); y=3; cd /usr")
	if a.Error != nil || !strings.Contains(a.Output, "keeps the earlier values") {
		t.Errorf("%.300s", a.text())
	}
	if got := s.ok("echo $x $y; pwd"); got != "small 1\n/usr\n" {
		t.Errorf("%q", got)
	}
}

func TestParallelSessions(t *testing.T) {
	h := newHost(t)
	var all sync.WaitGroup
	for i := range 20 {
		s := h.session()
		all.Go(func() {
			for j := range 5 {
				in := fmt.Sprintf("in %d.%d", i, j)
				a := s.call(t.Context(), args{
					Command: fmt.Sprintf(`mkdir -p d%[1]d; [[ ${id-%[1]d} == %[1]d ]] || echo mixed; id=%[1]d; f() { echo f%[1]d; }; cd . ; echo %[1]d.%[2]d $id $(f) "$(cat)"; echo e%[1]d >&2; setsid sleep 0.01 &`, i, j),
					Stdin:   &in,
				})
				if want := fmt.Sprintf("%d.%d %d f%d %s\n", i, j, i, i, in); a.Stdout != want || a.Stderr != fmt.Sprintf("e%d\n", i) {
					t.Errorf("stdout %q, want %q; stderr %q", a.Stdout, want, a.Stderr)
				}
			}
			if entries, _ := os.ReadDir(s.cwd); len(entries) != 1 {
				t.Errorf("session %d has %v", i, entries)
			}
		})
	}
	all.Wait()
}

func TestNewEnvironmentOfTheHost(t *testing.T) {
	s := newHost(t).session()
	t.Setenv("GIVEN", "one")
	t.Setenv("CHANGED", "one")
	t.Setenv("GONE", "one")
	t.Setenv("KEPT", "one")
	s.ok("CHANGED=mine; KEPT=mine; unset CI; own=1")
	t.Setenv("GIVEN", "it's $two")
	t.Setenv("CHANGED", "two")
	t.Setenv("ADDED", "two")
	for _, name := range []string{"GONE", "KEPT"} {
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	want := "it's $two|mine|two|unset|mine|unset|1\n"
	for range 2 {
		if got := s.ok(`echo "$GIVEN|$CHANGED|$ADDED|${GONE-unset}|$KEPT|${CI-unset}|$own"`); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := s.ok("env | grep -cE '^(GIVEN|CHANGED|ADDED)='"); got != "3\n" {
		t.Errorf("%q of 3 are exported", got)
	}
}

func TestCwd(t *testing.T) {
	h := newHost(t)
	s := h.session()
	root := s.cwd
	for _, dir := range []string{"sub/deep", "other"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	steps := []struct{ cwd, command, stdout, session string }{
		{"", "pwd", root, root},
		{"sub", "pwd", root + "/sub", root},
		{"sub/../other/", "pwd", root + "/other", root},
		{root + "/sub", "pwd; x=1", root + "/sub", root},
		{"sub", "cd deep; pwd", root + "/sub/deep", root + "/sub/deep"},
		{"..", "pwd; (cd /)", root + "/sub", root + "/sub/deep"},
		{"", "pwd; cd /; cd - >/dev/null", root + "/sub/deep", root + "/sub/deep"},
		{"/", "cd " + root, "", root},
		{"other", "cd ..; cd other; echo $x", "1", root},
		{"~", "pwd; [[ $PWD == ~ ]]", os.Getenv("HOME"), root},
	}
	for _, step := range steps {
		a := s.call(t.Context(), args{Command: step.command, Cwd: step.cwd})
		if got := strings.TrimSuffix(a.Stdout, "\n"); got != step.stdout || a.data.Cwd != step.session || s.cwd != step.session {
			t.Errorf("cwd %q, %s: stdout %q, want %q; session in %q and %q, want %q; %s", step.cwd, step.command, got, step.stdout, a.data.Cwd, s.cwd, step.session, a.text())
		}
	}
	for cwd, kind := range map[string]tool.Kind{"nowhere": tool.NotFound, "file": tool.InvalidArguments, "file/x": tool.InvalidArguments, "a\x00b": tool.InvalidArguments} {
		a := s.call(t.Context(), args{Command: "touch ran", Cwd: cwd})
		if a.Error == nil || a.Error.Kind != kind {
			t.Errorf("cwd %q: %s", cwd, a.text())
		}
	}
	if _, err := os.Stat(filepath.Join(root, "ran")); err == nil {
		t.Error("a command ran in spite of a bad cwd")
	}
}

func TestCwdVanishes(t *testing.T) {
	s := newHost(t).session()
	root := s.cwd
	s.roots = []tool.Root{{Path: "/"}, {Path: root + "/none"}, {Path: root, Writable: true}, {Path: "/usr"}}
	s.ok("mkdir -p a/b; cd a/b; x=1")
	a := s.run("rmdir ../b; cd ../../a; cd - || rmdir ../a")
	if a.data.Cwd != root+"/a" {
		t.Errorf("session in %q", a.data.Cwd)
	}
	a = s.run("pwd; echo $x")
	if a.Stdout != root+"\n1\n" || !strings.Contains(a.Output, root+"/a no longer exists; the session is now in "+root) {
		t.Errorf("%s", a.text())
	}
	if a = s.run("pwd"); a.Output != root+"\n" {
		t.Errorf("%s", a.text())
	}
	s.cwd, s.roots = "/nonexistent/dir", []tool.Root{{Path: "/nonexistent"}}
	if a = s.run("echo ran"); a.Error == nil || a.Error.Kind != tool.NotFound {
		t.Errorf("%s", a.text())
	}
}

func TestStateIsReadable(t *testing.T) {
	s := newHost(t).session()
	s.ok("x=1; (exit 0)")
	st, err := session.Decode(s.state)
	if err != nil || st.Snapshot == nil || !strings.Contains(st.Snapshot.Variables, `declare -- x="1"`) {
		t.Errorf("%v %+v", err, st)
	}
	for _, private := range []string{"TOOLHOST_TREE", "TOOLHOST_CALL", "TOOLHOST_COMMANDS", "__toolhost_dump", "BASH_EXECUTION_STRING"} {
		if strings.Contains(st.Snapshot.Variables, private) {
			t.Errorf("the state has %s", private)
		}
	}
}
