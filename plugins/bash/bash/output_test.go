package bash

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

func TestText(t *testing.T) {
	s := newHost(t).session()
	for command, want := range map[string]string{
		"echo out":                              "out\n",
		"echo err >&2":                          "err\n",
		"echo out; echo err >&2":                "out\n[stderr]\nerr\n",
		"printf out; printf err >&2":            "out\n[stderr]\nerr",
		"true":                                  "",
		"false":                                 "exit status 1",
		"echo out; exit 3":                      "exit status 3\nout\n",
		"echo out; echo err >&2; exit 3":        "exit status 3\nout\n[stderr]\nerr\n",
		"sh -c 'kill -SEGV $$' 2>/dev/null":     "",
		"printf 'a\\xffb\\xe2\\x82'":            "a\uFFFDb\uFFFD\uFFFD",
		"printf '\\e[31mred\\e[0m 10%%\\r20%%'": "\x1b[31mred\x1b[0m 10%\r20%",
		"printf 'nul\\0nul'":                    "nul\x00nul",
	} {
		a := s.run(command)
		if strings.HasPrefix(command, "sh -c") {
			if !strings.HasPrefix(a.text(), "exit status 139 (SIGSEGV)") || a.Signal != "SIGSEGV" || a.Error.Code != 139 {
				t.Errorf("%q, signal %q", a.text(), a.Signal)
			}
			continue
		}
		if a.text() != want {
			t.Errorf("%s: %q, want %q", command, a.text(), want)
		}
		if a.Error != nil && (a.Error.Kind != tool.ExecutionFailed || a.Error.Code != a.ExitCode) {
			t.Errorf("%s: %+v, exit code %d", command, a.Error, a.ExitCode)
		}
	}
}

func TestDataHasEveryField(t *testing.T) {
	s := newHost(t).session()
	for _, in := range []args{{Command: "echo x"}, {Command: "exit 1"}, {Command: "sleep 1000", Timeout: 10}} {
		a := s.call(t.Context(), in)
		for _, field := range []string{"stdout", "stderr", "exit_code", "signal", "timed_out", "truncated", "cwd", "duration_ms", "job_id", "spill_path"} {
			if _, ok := a.raw[field]; !ok {
				t.Errorf("%s: no %s in %s", in.Command, field, a.Data)
			}
		}
		if a.Metadata["shell"] == "" || a.Metadata["user_shell"] == "" || a.Title == "" {
			t.Errorf("metadata %v, title %q", a.Metadata, a.Title)
		}
	}
}

func TestLongOutput(t *testing.T) {
	h := newHost(t)
	want := realBash(t, t.TempDir(), "seq 200000", nil).stdout
	for name, c := range map[string]struct {
		command     string
		out, stderr bool // true if the tool must shorten the stream
	}{
		"stdout":        {"seq 200000", true, false},
		"stderr":        {"seq 200000 >&2; echo out", false, true},
		"both":          {"seq 200000 >&2; seq 200000", true, true},
		"both together": {"seq 200000 | head -c 40000; seq 200000 | head -c 40000 >&2", true, true},
		"failure":       {"seq 200000; exit 3", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := h.session()
			s.t = t
			a := s.run(c.command)
			if n := utf8.RuneCountInString(a.text()); n > 50_000 || n < 45_000 {
				t.Errorf("the text has %d characters", n)
			}
			if !a.Truncated {
				t.Error("not truncated")
			}
			paths := []string{a.SpillPath, a.StderrSpillPath}
			for i, stream := range []struct {
				text string
				cut  bool
			}{{a.Stdout, c.out}, {a.Stderr, c.stderr}} {
				if !stream.cut {
					continue
				}
				path := paths[i]
				if path == "" || !c.out {
					path = a.SpillPath
				}
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				whole := want
				if name == "both together" {
					whole = want[:40000]
				}
				if string(b) != whole {
					t.Errorf("the file has %d bytes, not the %d of the output", len(b), len(whole))
				}
				if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 || !strings.HasPrefix(path, h.state+"/output/") {
					t.Errorf("%s has mode %v", path, info.Mode())
				}
				if !strings.Contains(stream.text, path) || !strings.Contains(a.text(), path) {
					t.Error("the text does not name the file")
				}
				head, rest, _ := strings.Cut(stream.text, "[…")
				_, tail, _ := strings.Cut(rest, "…]\n")
				if !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail) || len(head) < 8000 || len(tail) < 8000 {
					t.Errorf("head of %d and tail of %d bytes", len(head), len(tail))
				}
				if !strings.HasSuffix(head, "\n") || !strings.HasSuffix(strings.TrimSuffix(whole, tail), "\n") {
					t.Error("a line is cut")
				}
			}
		})
	}
}

func TestLongOutputOfATimeout(t *testing.T) {
	s := newHost(t).session()
	a := s.call(t.Context(), args{Command: "seq 50000; sleep 1000", Timeout: 500})
	if n := utf8.RuneCountInString(a.text()); n > 51_000 || !a.Truncated || !strings.Contains(a.text(), "\n50000\n") {
		t.Errorf("%d characters, truncated %v", n, a.Truncated)
	}
}

func TestOutputWithoutLines(t *testing.T) {
	s := newHost(t).session()
	a := s.run(`printf 'é%.0s' {1..60000}`) // two bytes per character, without a line end
	if strings.ContainsRune(a.Stdout, utf8.RuneError) || !utf8.ValidString(a.Output) || !a.Truncated {
		t.Error("a rune was cut")
	}
}

func TestNoPlaceToSpill(t *testing.T) {
	h := newHost(t)
	if err := os.WriteFile(filepath.Join(h.state, "output"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := h.session().run("seq 200000")
	if a.Error != nil || !a.Truncated || a.SpillPath != "" || !strings.Contains(a.Output, "could not be kept in a file") || !strings.HasSuffix(a.Stdout, "\n200000\n") {
		t.Errorf("%+v %q", a.Error, a.SpillPath)
	}
}

// deafPeer discards all output that it receives.
type deafPeer struct{ peer }

func (*deafPeer) Output(tool.Stream, []byte) {}

func TestGigabyte(t *testing.T) {
	h := newHost(t)
	s := h.session()
	s.ok("true")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	a := s.callPeer(t.Context(), args{Command: "head -c 1073741824 /dev/zero; echo end"}, &deafPeer{})
	runtime.ReadMemStats(&after)
	if a.Error != nil || !strings.HasSuffix(a.Stdout, "end\n") || !strings.Contains(a.Stdout, "the first 67108864 bytes of 1073741828") {
		t.Fatalf("%.200q", a.text())
	}
	if info, err := os.Stat(a.SpillPath); err != nil || info.Size() != 64<<20 {
		t.Error(info, err)
	}
	// TotalAlloc also includes memory that was already freed.
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d MB were allocated", grown>>20)
	}
}

func TestStreaming(t *testing.T) {
	s := newHost(t).session()
	fifo := filepath.Join(s.cwd, "fifo")
	s.ok("mkfifo fifo")
	p := &peer{seen: make(chan struct{}, 100)}
	go func() {
		<-p.seen // the command waits for the test after its first chunk, so the test must receive the chunk first
		if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
			t.Error(err)
		}
	}()
	a := s.callPeer(t.Context(), args{Command: "echo first; read x < fifo; echo $x; echo err >&2"}, p)
	if a.Error != nil {
		t.Fatal(a.text())
	}
	if out, errs := p.all(tool.Stdout), p.all(tool.Stderr); out != "first\ngo\n" || errs != "err\n" {
		t.Errorf("streamed %q and %q", out, errs)
	}
}

// slowPeer blocks on output until it is released.
type slowPeer struct {
	peer
	open chan struct{}
}

func (p *slowPeer) Output(s tool.Stream, chunk []byte) {
	<-p.open
	p.peer.Output(s, chunk)
}

func TestSlowHostDoesNotHoldTheCommandUp(t *testing.T) {
	s := newHost(t).session()
	p := &slowPeer{open: make(chan struct{})}
	done := filepath.Join(s.cwd, "done")
	s.ok("mkfifo done")
	go func() {
		if _, err := os.ReadFile(done); err != nil { // the file exists when the command reaches its last statement
			t.Error(err)
		}
		close(p.open)
	}()
	a := s.callPeer(t.Context(), args{Command: "seq 200000; echo > done"}, p)
	if a.Error != nil || !strings.HasSuffix(a.Stdout, "\n200000\n") {
		t.Error(a.text())
	}
	if got := p.all(tool.Stdout); !strings.Contains(got, "skipped in the live view") || !strings.HasSuffix(got, "\n200000\n") {
		t.Errorf("%.200q", got)
	}
}

func TestStdin(t *testing.T) {
	s := newHost(t).session()
	big := strings.Repeat("line of text\n", 500_000)
	for _, in := range []string{"", "text", "nul\x00nul", "ünï\n", big} {
		a := s.call(t.Context(), args{Command: "cat > got; read x; echo $?", Stdin: &in})
		if got, _ := os.ReadFile(filepath.Join(s.cwd, "got")); string(got) != in || a.Stdout != "1\n" {
			t.Errorf("%.50q arrived as %.50q", in, got)
		}
	}
	if got := s.ok("cat; readlink /proc/self/fd/0"); got != "/dev/null\n" {
		t.Errorf("%q", got)
	}
}

func TestLongCommands(t *testing.T) { eachWay(t, longCommands) }

func longCommands(t *testing.T, h *host) {
	s := h.session()
	for _, n := range []int{100_000, 200_000, 5_000_000} {
		long := "x='" + strings.Repeat("a", n) + "'\necho ${#x}; x=\nnosuch"
		a := s.run(long)
		if a.ExitCode != 127 || !strings.Contains(a.Stdout, "00000\n") || a.Stderr != "bash: line 3: nosuch: command not found\n" {
			t.Errorf("%d bytes: %.300s", n, a.text())
		}
	}
}

func TestBadArguments(t *testing.T) {
	s := newHost(t).session()
	for want, in := range map[string]args{
		"NUL byte at offset 6":    {Command: "touch \x00x"},
		"The command is empty":    {Command: " \n\t"},
		"from 1 to 600000":        {Command: "touch ran", Timeout: 600_001},
		"to 600000, or start a l": {Command: "touch ran", Timeout: -1},
	} {
		a := s.call(t.Context(), in)
		if a.Error == nil || a.Error.Kind != tool.InvalidArguments || !strings.Contains(a.Error.Message, want) {
			t.Errorf("%+v: %s", in, a.text())
		}
	}
	if entries, _ := os.ReadDir(s.cwd); len(entries) > 0 {
		t.Error("something ran")
	}
}

func TestNoBash(t *testing.T) {
	s := newHost(t).session()
	t.Setenv("PATH", t.TempDir())
	a := s.run("echo hi")
	if !errors.Is(a.Error, &tool.Error{Kind: tool.NotFound}) || !strings.Contains(a.Error.Message, "bash was not found on PATH") {
		t.Errorf("%s", a.text())
	}
}

func TestNothingPrompts(t *testing.T) {
	s := newHost(t).session()
	got := s.ok(`echo $PAGER $GIT_TERMINAL_PROMPT $TERM $CI $COLUMNS; git --version >/dev/null 2>&1 && git -c core.editor= var GIT_EDITOR; env | grep -cE '^(PLUGIN_|TOOLHOST_PLUGIN|TOOLHOST_LIFELINE)'; true`)
	if !strings.HasPrefix(got, "cat 0 dumb 1 200\n") || !strings.HasSuffix(got, "0\n") {
		t.Errorf("%q", got)
	}
	// Programs that need a terminal must fail immediately. They must not wait for input.
	for _, command := range []string{"read -p prompt x", "su nobody -c true < /dev/tty", "less /etc/passwd | tail -0", "python3 -c 'input()'", "ssh -o ConnectTimeout=1 nosuchhost.invalid true"} {
		if a := s.call(context.WithoutCancel(t.Context()), args{Command: command, Timeout: 20_000}); a.TimedOut {
			t.Errorf("%s waits", command)
		}
	}
}

func TestDefinition(t *testing.T) {
	p, err := sdk.New(Plugin())
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.Describe(t.Context())
	if err != nil || len(d.Tools) != 2 {
		t.Fatal(d, err)
	}
	def := d.Tools[0]
	if def.Name != "bash" || def.Traits != (tool.Traits{Dangerous: true}) || def.DefaultTimeout >= 0 || def.Category != tool.CategoryBuiltin {
		t.Errorf("%+v", def)
	}
	schema, err := tool.ParseSchema(def.Input)
	if err != nil {
		t.Fatal(err)
	}
	if c := schema.Param("cwd"); c == nil || c.Path != "read" {
		t.Errorf("cwd is %+v", c)
	}
	if c := schema.Param("timeout"); c == nil || string(c.Default) != "120000" {
		t.Errorf("timeout is %+v", c)
	}
	if c := schema.Param("command"); c == nil || !c.Required {
		t.Errorf("command is %+v", c)
	}
}
