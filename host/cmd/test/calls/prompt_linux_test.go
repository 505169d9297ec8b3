package calls

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/cmd/test/hosttest"
)

// prompt is the real program at a prompt in a pseudo-terminal. The test acts as the person who types.
type prompt struct {
	t        *testing.T
	dir      string
	work     string
	terminal *os.File // the end of the terminal that the person uses
	program  *os.File // the end of the terminal that the program uses; it stays open so that the test can read its mode
	command  *exec.Cmd

	mu    sync.Mutex
	shown bytes.Buffer
	seen  int        // number of bytes that expect has read
	done  chan error // receives the result of waiting for the program
}

// startPrompt starts "toolhost repl" with a configuration in dir. The argument "environment" contains additional
// environment variables.
func startPrompt(t *testing.T, dir, config string, environment ...string) *prompt {
	t.Helper()
	p := &prompt{t: t, dir: dir, work: filepath.Join(dir, "work")}
	hosttest.Must(t, os.MkdirAll(p.work, 0o700))
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
	p.terminal, p.program = hosttest.TerminalPair(t)
	p.command = hosttest.Command("--config", filepath.Join(dir, "toolhost.hcl"), "--state", hosttest.KeptState(t, filepath.Join(dir, "state")), "repl")
	p.command.Dir = p.work
	p.command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") }), "TERM=xterm", "HOME="+dir)
	p.command.Env = append(p.command.Env, environment...)
	p.command.Stdin, p.command.Stdout, p.command.Stderr = p.program, p.program, p.program
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	hosttest.Must(t, p.command.Start())
	t.Cleanup(func() { _ = p.command.Process.Kill() })
	p.done = make(chan error, 1)
	go func() { p.done <- p.command.Wait() }()
	go p.watch()
	p.expect("Ctrl-D the prompt.") // the last words of the greeting
	p.expect("work> ")
	return p
}

// watch collects the output on the terminal.
func (p *prompt) watch() {
	part := make([]byte, 4096)
	for {
		n, err := p.terminal.Read(part)
		p.mu.Lock()
		p.shown.Write(part[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *prompt) typed(keys string) {
	p.t.Helper()
	_, err := p.terminal.WriteString(keys)
	hosttest.Must(p.t, err)
}

// expect waits until the terminal shows a text. It returns the output between the previously expected text and this
// text.
func (p *prompt) expect(text string) string {
	p.t.Helper()
	return p.expectOne(text)
}

// expectOne waits like expect, but until the terminal shows one of several texts.
func (p *prompt) expectOne(texts ...string) string {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		p.mu.Lock()
		rest := p.shown.String()[p.seen:]
		at := -1
		for _, text := range texts {
			if at = strings.Index(rest, text); at >= 0 {
				p.seen += at + len(text)
				break
			}
		}
		p.mu.Unlock()
		if at >= 0 {
			return rest[:at]
		}
		select {
		case err := <-p.done:
			p.t.Fatalf("the prompt ended with %v, and shows none of %q, but %q", err, texts, rest)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the terminal shows none of %q, but %q", texts, rest)
		}
	}
}

// wait waits for the end of the program. It checks that the terminal has its original mode again.
func (p *prompt) wait() {
	p.t.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Errorf("the prompt ended with %v", err)
		}
	case <-hosttest.Late(p.t):
		p.t.Fatal("the prompt does not end")
	}
	mode, err := unix.IoctlGetTermios(int(p.program.Fd()), unix.TCGETS)
	hosttest.Must(p.t, err)
	if all := uint32(unix.ICANON | unix.ECHO | unix.ISIG); mode.Lflag&all != all || mode.Cc[unix.VSUSP] == 0 {
		p.t.Errorf("the mode of the terminal was not restored: %#v", mode)
	}
}

// atPrompt runs a subtest with a new prompt.
func atPrompt(t *testing.T, name, config string, test func(t *testing.T, p *prompt)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t, startPrompt(t, t.TempDir(), config))
	})
}

// silent is a command without output. It runs until the test creates the file "go".
const silent = "until [ -e go ]; do sleep 0.05; done"

// TestPromptKeysH4 checks that only Ctrl-D in an empty line ends the prompt (requirements H4, U2). If another key could
// end the prompt, the following keys would reach the person's shell.
func TestPromptKeysH4(t *testing.T) {
	t.Parallel()
	alive := func(p *prompt) {
		p.typed("echo alive-$((40+2))\r")
		p.expect("alive-42\r\n")
	}
	atPrompt(t, "Ctrl-C ends the running command", "", func(_ *testing.T, p *prompt) {
		p.typed(silent + "; echo not reached > reached\r")
		p.expect("running, 1 s")
		p.typed("\x03")
		p.expect("canceled")
		p.expect("work> ")
		alive(p)
		p.typed("\x04")
		p.wait()
		if _, err := os.Stat(filepath.Join(p.work, "reached")); err == nil {
			p.t.Error("the command continued")
		}
	})
	for name, command := range map[string]string{
		"a permission with a preview": "rm notes; echo reached > reached", "a permission": "true; git push; echo reached > reached",
		"a permission of a running command": `r=$(tr x x <<< rm); "$r" notes; echo reached > reached`, "a question of a tool": "ask_user --question 'Allow?'; echo reached > reached",
	} {
		atPrompt(t, "Ctrl-C at "+name, "permissions { policy = \"careful\" }\n", func(_ *testing.T, p *prompt) {
			hosttest.NeedsNamespaces(t)
			hosttest.Must(p.t, os.WriteFile(filepath.Join(p.work, "notes"), nil, 0o600))
			p.typed(command + "\r")
			asked := "Allow?"
			if strings.Contains(command, asked) { // it is also shown while it is typed
				asked += "\r\n> "
			}
			p.expect(asked)
			p.typed("\x03")
			p.expect("work> ")
			alive(p)
			p.typed("\x04")
			p.wait()
			for file, kept := range map[string]bool{"notes": true, "reached": false} {
				if _, err := os.Stat(filepath.Join(p.work, file)); (err == nil) != kept {
					p.t.Errorf("%s: %v", file, err)
				}
			}
		})
	}
	atPrompt(t, "Ctrl-C clears the typed text", "", func(_ *testing.T, p *prompt) {
		p.typed("touch typed-file\x03\r") // the library on its own would ignore a Ctrl-C if other keys follow at once
		alive(p)
		p.typed("touch typed-file")
		p.expect("typed-file")
		p.typed("\x03")
		p.expect("work> ")
		p.typed("\r")
		alive(p)
		p.typed("exit\r")
		p.wait()
		if _, err := os.Stat(filepath.Join(p.work, "typed-file")); err == nil {
			p.t.Error("the cleared text ran")
		}
	})
	atPrompt(t, "Ctrl-C clears a continuation", "", func(_ *testing.T, p *prompt) {
		p.typed("cat <<'X'\rtext\r")
		p.expect("text")
		p.typed("\x04") // Ctrl-D in a command does not end the prompt
		p.typed("\x03")
		p.expect("work> ")
		alive(p)
		p.typed("\x04")
		p.wait()
	})
	atPrompt(t, "SIGINT", "", func(_ *testing.T, p *prompt) {
		hosttest.Must(p.t, p.command.Process.Signal(os.Interrupt))
		p.typed("echo first-$((1+1))\r") // the signal can arrive before this command, or cancel it
		p.expectOne("first-2\r\n", "Nothing was run.", "canceled")
		alive(p)
		p.typed(silent + "\r")
		p.expect("running, 1 s")
		hosttest.Must(p.t, p.command.Process.Signal(os.Interrupt))
		p.expect("canceled")
		alive(p)
		p.typed("\x04")
		p.wait()
	})
	atPrompt(t, "other keys of signals", "", func(_ *testing.T, p *prompt) {
		p.typed("\x1a\x1c") // Ctrl-Z and Ctrl-\
		alive(p)
		p.typed(silent + "\r")
		p.expect("running, 1 s")
		p.typed("\x1a\x1c")
		p.expect("running, 3 s")
		hosttest.Must(p.t, os.WriteFile(filepath.Join(p.work, "go"), nil, 0o600))
		p.expect("work> ")
		p.typed("\x03")
		alive(p)
		p.typed("\x04")
		p.wait()
	})
	atPrompt(t, "SIGTERM", "", func(_ *testing.T, p *prompt) {
		p.typed("half a comm")
		p.expect("comm")
		hosttest.Must(p.t, p.command.Process.Signal(syscall.SIGTERM))
		p.wait()
	})
}

// TestPromptEditsH4 checks completion, multi-line commands, pasted text and changes of the window size (requirements
// H4, U16).
func TestPromptEditsH4(t *testing.T) {
	t.Parallel()
	atPrompt(t, "Tab", `
field "tickets" {
  mcp {
    command = ["`+filepath.Join(hosttest.Bin, "testserver")+`", "plain"]
  }
}
`, func(_ *testing.T, p *prompt) {
		hosttest.Must(p.t, os.WriteFile(filepath.Join(p.work, "alpha.txt"), []byte("the first\n"), 0o600))
		hosttest.Must(p.t, os.WriteFile(filepath.Join(p.work, "alps and more.txt"), []byte("the second\n"), 0o600))
		for _, tc := range []struct {
			typed string
			want  []string
		}{
			{"sni\t", []string{"snippet_list", "snippet_load", "snippet_save"}},
			{"field:\t", []string{"field:tickets"}},
			{"field:tickets e\t", []string{"echo"}},
			{"read --\t", []string{"--file_path", "--limit"}},
			{"help sn\t", []string{"snippet_list", "snippet_save"}},
			{"read al\t", []string{"alpha.txt", `alps\ and\ more.txt`}},
		} {
			p.typed(tc.typed)
			for _, want := range tc.want {
				p.expect(want)
			}
			p.typed("\x03")
			p.expect("work> ")
		}
		p.typed("read alph\t\r")
		p.expect("the first")
		p.typed("read alps\t\r")
		p.expect("the second")
		p.typed("\x04")
		p.wait()
	})
	atPrompt(t, "several lines", "", func(_ *testing.T, p *prompt) {
		p.typed("write --file_path poem.txt <<'X'\rone's\rtwo\rX\r")
		p.expect("Created poem.txt: 10 bytes, 2 lines.")
		p.typed("echo 'ïn\rtwo — 日本'\r")
		p.expect("ïn\r\ntwo — 日本\r\n")
		p.typed("\x1b[200~echo pasted-$((1+1))\necho \tpasted-$((2+2)) ä\n\x1b[201~")
		p.expect("pasted-$((2+2))") // pasted text is shown, but runs only after Enter
		if before := p.expect("ä"); strings.Contains(before, "pasted-2") {
			p.t.Errorf("pasted text runs before Enter: %q", before)
		}
		p.typed("\r")
		p.expect("pasted-2\r\npasted-4 ä\r\n")
		p.typed("\x04")
		p.wait()
	})
	atPrompt(t, "window size", "", func(_ *testing.T, p *prompt) {
		hosttest.Must(p.t, unix.IoctlSetWinsize(int(p.terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 8}))
		p.typed("printf %s-%s a-long-text-that-needs-several-rows of-the-small-window; " + silent + "\r")
		p.expect("a-long-text-that-needs-several-rows-of-the-small-window")
		p.typed("\x03")
		p.expect("canceled")
		p.typed(silent + "\r")
		p.expect("\r\x1b[Krunning") // the text must be cut, because only one line can be erased
		if after := p.expect("\r\x1b[K"); strings.Contains(after, ",") {
			p.t.Errorf("the progress is wider than the window: %q", after)
		}
		p.typed("\x03")
		p.expect("canceled")
		p.typed("\x04")
		p.wait()
	})
}

// TestPromptColorsH4 checks that the prompt uses colors unless NO_COLOR is set (requirements H4, U16).
func TestPromptColorsH4(t *testing.T) {
	t.Parallel()
	color := regexp.MustCompile(`\x1b\[([0-9]+;)*(3[0-7]|4[0-7]|9[0-7])m`)
	for _, environment := range []string{"NO_COLOR=", "NO_COLOR=1"} {
		p := startPrompt(t, t.TempDir(), "", environment)
		p.typed("read nosuch.txt\r")
		p.expect("File does not exist: nosuch.txt")
		p.expect("work> ")
		p.typed("cat <<X\rtodo\rX\rtodo\t\t\x03\x04")
		p.wait()
		p.mu.Lock()
		shown := p.shown.String()
		p.mu.Unlock()
		for _, want := range []string{"\x1b[36mwork> ", "\x1b[32mread\x1b[0m", "\x1b[31mFile does not exist: nosuch.txt"} {
			if (environment == "NO_COLOR=") != strings.Contains(shown, want) {
				t.Errorf("%s and %q: %q", environment, want, shown)
			}
		}
		if environment == "NO_COLOR=1" && color.MatchString(shown) {
			t.Errorf("with NO_COLOR, the terminal gets %q in %q", color.FindString(shown), shown)
		}
	}
}

// TestPromptHistoryH4 checks that commands of earlier prompts can be recalled, including multi-line commands
// (requirements H4, U16).
func TestPromptHistoryH4(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startPrompt(t, dir, "")
	p.typed("echo older-$((1+1))\recho 'newer\rof two lines'\r")
	p.expect("newer\r\nof two lines\r\n")
	p.typed("\x04")
	p.wait()
	p = startPrompt(t, dir, "")
	p.typed("\x1b[A\r")
	p.expect("newer\r\nof two lines\r\n")
	p.typed("\x10\x10\x10\r") // Ctrl-P three times, then Enter
	p.expect("older-2\r\n")
	p.typed("\x04")
	p.wait()
}

// TestPromptAsksH4 checks that keys that are typed before a question never answer the question, but stay in the input
// (requirements H4, U16). After an unknown answer, the question must be repeated.
func TestPromptAsksH4(t *testing.T) {
	t.Parallel()
	const rules = `
permissions {
  ask "touch" { command = "touch *" }
}
`
	atPrompt(t, "typed together", rules, func(_ *testing.T, p *prompt) {
		p.typed("touch made\ry\recho alive-$((40+2))\r")
		p.expect("Allow?")
		p.typed("x\r")
		p.expect(`Unknown answer "x". Type y, s, a, n or v.`)
		p.expect("Allow?")
		if _, err := os.Stat(filepath.Join(p.work, "made")); err == nil {
			p.t.Error("keys that were typed before the ask answer it")
		}
		p.typed("y\r")
		p.expect("alive-42\r\n")
		if _, err := os.Stat(filepath.Join(p.work, "made")); err != nil {
			p.t.Error(err)
		}
		p.typed("\x04")
		p.wait()
	})
	atPrompt(t, "while a command runs", "", func(_ *testing.T, p *prompt) {
		p.typed(silent + "; tool:ask_user --question 'Which color?'\r")
		p.expect("running, 1 s")
		p.typed("echo ahead-ä-$((40+2))\r")
		p.expect("running, 2 s")
		hosttest.Must(p.t, os.WriteFile(filepath.Join(p.work, "go"), nil, 0o600))
		p.expect("Which color?")
		p.expect("> ")
		p.typed("green\r")
		p.expect("green") // the echo of the input
		p.expect("green\r\n")
		p.expect("ahead-ä-42\r\n")
		p.typed("\x04")
		p.wait()
	})
	atPrompt(t, "Ctrl-C before the question", rules, func(_ *testing.T, p *prompt) {
		for _, keys := range [][]string{{"touch made\r\x03"}, {"touch made\r", "\x03"}, {"touch made\r", "echo ahead-ä-$((40+1))\r\x03"}, {"echo first; touch made\rtouch made\ry\r\x03echo ü-$((40+3))\r"}} {
			for _, k := range keys {
				p.typed(k)
			}
			if shown := p.expectOne("canceled", "Nothing was run."); strings.Contains(shown, "ahead-ä-41") || strings.Contains(shown, "first\r\n") {
				p.t.Errorf("after %q, the terminal shows %q", keys, shown)
			}
			if strings.HasSuffix(keys[0], "echo ü-$((40+3))\r") { // keys after Ctrl-C are for the next command
				p.expect("ü-43\r\n")
			}
			p.expect("work> ")
		}
		p.typed("echo alive-$((40+2))\r")
		p.expect("alive-42\r\n")
		p.typed("\x04")
		p.wait()
		if _, err := os.Stat(filepath.Join(p.work, "made")); err == nil {
			p.t.Error("the command ran")
		}
	})
	atPrompt(t, "Ctrl-C and Ctrl-D", rules, func(_ *testing.T, p *prompt) {
		p.typed("touch made\r")
		p.expect("Allow?")
		p.typed("\x04")
		p.expect("the user declined")
		p.typed("touch made\r")
		p.expect("Allow?")
		p.typed("\x03")
		p.expect("work> ")
		p.typed("echo alive-$((40+2))\r")
		p.expect("alive-42\r\n")
		p.typed("\x04")
		p.wait()
		if _, err := os.Stat(filepath.Join(p.work, "made")); err == nil {
			p.t.Error("the command ran")
		}
	})
}

// TestPromptHangupH4 checks that no process continues after the terminal is closed (requirement H4). This includes the
// program, its plugins, commands and background jobs.
func TestPromptHangupH4(t *testing.T) {
	t.Parallel()
	p := startPrompt(t, t.TempDir(), "")
	p.typed("sleep 86123 & sleep 86124\r")
	p.expect("running, 1 s")
	running := func() []hosttest.Process {
		return slices.DeleteFunc(hosttest.Descendants(), func(q hosttest.Process) bool {
			return !strings.HasPrefix(q.Command(), "sleep 8612") && !q.HasEnv(func(e string) bool { return strings.Contains(e, p.dir) }) && !strings.Contains(q.Command(), p.dir)
		})
	}
	hosttest.Wait(t, "the host, a plugin and two commands run", func() bool { return len(running()) >= 4 })
	hosttest.Must(t, p.program.Close())
	hosttest.Must(t, p.terminal.Close())
	<-p.done
	hosttest.Wait(t, "all of them have ended", func() bool { return len(running()) == 0 })
}
