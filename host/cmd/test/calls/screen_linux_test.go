package calls

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"toolhost.dev/host/cmd/test/hosttest"
)

// hostile is a text with control sequences, in the format of an argument of printf. Commands in the tests print this
// text.
const hostile = `\033]52;c;aGk=\007 \033]0;owned\007 \033]2;owned\033\\ \033[2J\033[6n \033P$qm\033\\ \033_Gx\033\\ \x9b6n \x9d0;t\x9c \xc2\x9b6n \xc2\x9d0;t\x07 \xe2\x80\xae \033[32mgreen\033[0m end\n`

// atTerminal runs a program with all streams at a terminal and returns the bytes that the terminal receives.
func atTerminal(t *testing.T, typed string, c *exec.Cmd) string {
	t.Helper()
	person, program := hosttest.TerminalPair(t)
	c.Stdin, c.Stdout, c.Stderr = program, program, program
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close()
	if _, err := person.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := io.Copy(&got, person); err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, fs.ErrClosed) {
		t.Fatal(err)
	}
	_ = c.Wait()
	return got.String()
}

// TestTerminalGetsNoControlSequences checks every command that can print text of a tool. A terminal must receive no
// control sequences. A pipe must receive the text unchanged.
func TestTerminalGetsNoControlSequences(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"ws", "runtime"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ask.hcl", "plugin \"bash\" {}\npermissions {\n  ask \"all\" { command = \"printf *\" }\n}\n")
	raw, err := exec.CommandContext(t.Context(), "bash", "-c", "printf '"+hostile+"'").Output()
	if err != nil {
		t.Fatal(err)
	}
	write("ws/file", string(raw))
	write("ws/text", strings.ToValidUTF8(string(raw), ""))
	toolhost := func(args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		c := hosttest.CommandContext(ctx, append([]string{"--state", hosttest.KeptState(t, filepath.Join(dir, "state"))}, args...)...)
		c.Dir = filepath.Join(dir, "ws")
		c.Env = append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(dir, "none"), "TERM=xterm")
		return c
	}
	_ = toolhost("run", "tool:read 'a\u202eb'").Run() // ignore the error: the call fails, but its log entry contains the character
	slowly := `printf 'begin\033]'; sleep 0.1; printf '52;c;eA\007\033'; sleep 0.1; printf '[2J\xc2'; sleep 0.1; printf '\x9b6n end\n'`
	for name, tc := range map[string]struct {
		typed string
		args  []string
		want  string
	}{
		"output":    {"", []string{"run", "printf '" + hostile + "'"}, "␛]52;c;aGk=␇ ␛]0;owned␇"},
		"colors":    {"", []string{"run", "printf '" + hostile + "'"}, "\x1b[32mgreen\x1b[0m end"},
		"C1":        {"", []string{"run", "printf '" + hostile + "'"}, `\u009b6n \u009d0;t␇ \u202e`},
		"error":     {"", []string{"run", "printf '" + hostile + "' >&2; exit 3"}, "␛[2J␛[6n"},
		"chunks":    {"", []string{"run", slowly}, `begin␛]52;c;eA␇␛[2J\u009b6n end`},
		"tool":      {"", []string{"run", "read text"}, "␛]52;c;aGk=␇"},
		"tool fail": {"", []string{"run", "tool:read $'x\\e[2Jy'"}, ""},
		"JSON":      {"", []string{"--json", "run", "cat file"}, `\u009b6n`},
		"log":       {"", []string{"log"}, "read"},
		"history":   {"", []string{"log", "--json"}, `\u202e`},
		"repl":      {"cat file\rexit\r", []string{"repl"}, "␛]52;c;aGk=␇"},
		"ask":       {"n\n", []string{"--config", "../ask.hcl", "--on-ask", "prompt", "run", "printf '\x1b]52;c;x\x07 \u202e\u009b2J \x1b[8mhidden'"}, `␛]52;c;x␇ \u202e\u009b2J ␛[8mhidden`},
	} {
		t.Run(name, func(t *testing.T) {
			got := atTerminal(t, tc.typed, toolhost(tc.args...))
			shown := strings.ReplaceAll(got, "\r\n", "\n")
			if !strings.Contains(shown, tc.want) {
				t.Errorf("%q, wanted %q", got, tc.want)
			}
			for _, bad := range []string{"\x1b]", "\x1b[2J", "\x1b[6n", "\x1bP", "\x1b_", "\u009b", "\u009d", "\u202e", "\a"} {
				if strings.Contains(shown, bad) || !utf8.ValidString(shown) {
					t.Errorf("the terminal gets %q: %q", bad, got)
				}
			}
		})
	}
	for _, command := range []string{"cat file", "printf '" + hostile + "'"} {
		out, err := toolhost("run", command).Output()
		want := strings.ToValidUTF8(string(raw), "\uFFFD") // a result contains only valid UTF-8
		if err != nil || string(out) != want {
			t.Errorf("%s: a pipe gets %q (%v), wanted %q", command, out, err, want)
		}
	}
}

// TestTheElapsedTimeOfASilentCommand checks that a terminal shows the elapsed time of a silent command. The elapsed
// time must be erased before output begins. A pipe must not receive it.
func TestTheElapsedTimeOfASilentCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	hosttest.Must(t, os.Mkdir(ws, 0o700))
	command := func() *exec.Cmd {
		c := hosttest.CommandContext(t.Context(), "--state", hosttest.KeptState(t, filepath.Join(dir, "state")), "run", "until [ -e go ]; do sleep 0.05; done; echo out; sleep 2")
		c.Dir, c.Env = ws, append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(dir, "none"), "TERM=xterm")
		return c
	}
	person, program := hosttest.TerminalPair(t)
	c := command()
	c.Stdin, c.Stdout, c.Stderr = program, program, program
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	hosttest.Must(t, c.Start())
	_ = program.Close()
	var got bytes.Buffer
	part := make([]byte, 1024)
	for begun := false; ; {
		n, err := person.Read(part)
		got.Write(part[:n])
		if !begun && strings.Contains(got.String(), "\r\x1b[Krunning, 2 s") {
			begun = true
			hosttest.Must(t, os.WriteFile(filepath.Join(ws, "go"), nil, 0o600))
		}
		if err != nil {
			break
		}
	}
	hosttest.Must(t, c.Wait())
	before, after, ok := strings.Cut(got.String(), "out")
	if !ok || !strings.HasSuffix(before, "\r\x1b[K") || strings.Contains(after, "running") {
		t.Errorf("%q", got.String())
	}
	both, err := command().CombinedOutput()
	if string(both) != "out\n" || err != nil {
		t.Errorf("%q %v", both, err)
	}
}
