package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/host"
)

// maxReplHistory is how many earlier commands the arrow keys reach.
const maxReplHistory = 500

func newRepl(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "repl",
		Short: "Run commands from a prompt",
		Long: `Run commands from a prompt, in one session, with the plugins kept warm. The arrow keys
reach the session's history, also of earlier runs; the tab key completes tools, parameters
and paths. An open quote or heredoc goes on in the next line. Ctrl-C ends the running
command, Ctrl-D the prompt. The line "status" shows the plugins as they run now.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if s.onAsk == "" {
				s.onAsk = "prompt"
			}
			h, err := s.openLive(c, host.Options{})
			if err != nil {
				return err
			}
			r := &repl{host: h, req: s.request(), json: s.json}
			if term.IsTerminal(int(os.Stdin.Fd())) {
				err = r.interactive(c.Context())
			} else {
				err = r.lines(c.Context(), os.Stdin)
			}
			return errors.Join(err, h.Close())
		},
	}
}

// maxLine bounds a command that is read from a pipe or a file, in bytes.
const maxLine = 64 << 20

type repl struct {
	host *host.Host
	req  host.Request
	json bool
}

// lines reads commands from a pipe or a file.
func (r *repl) lines(ctx context.Context, in io.Reader) error {
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, maxLine)
	next := func() (string, error) {
		if sc.Scan() {
			return sc.Text(), nil
		}
		if err := sc.Err(); err != nil {
			return "", err
		}
		return "", io.EOF
	}
	return r.loop(ctx, next, func(string) {})
}

// interactive reads commands from the keyboard.
func (r *repl) interactive(ctx context.Context) error {
	fd := int(os.Stdin.Fd())
	cooked, err := term.GetState(fd)
	if err != nil {
		return err
	}
	defer term.Restore(fd, cooked)                         //nolint:errcheck // nothing to do about it
	screen, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0) // standard output may go elsewhere
	if err != nil {
		return fmt.Errorf("there is no terminal to write to: %w", err)
	}
	defer screen.Close() //nolint:errcheck // only the terminal
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{os.Stdin, screen}, "")
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return r.complete(line, pos)
	}
	entries, err := r.host.History(r.req, maxReplHistory)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.Contains(e.Command, "\n") {
			t.History.Add(e.Command)
		}
	}
	fmt.Fprintln(screen, "toolhost", host.Version, "— help lists the tools, Ctrl-D ends.")
	next := func() (string, error) {
		if w, h, err := term.GetSize(fd); err == nil && w > 0 {
			_ = t.SetSize(w, h) // only the look depends on it
		}
		if _, err := term.MakeRaw(fd); err != nil {
			return "", err
		}
		line, err := t.ReadLine()
		return line, errors.Join(err, term.Restore(fd, cooked))
	}
	return r.loop(ctx, next, t.SetPrompt)
}

// loop runs commands until the input ends.
func (r *repl) loop(ctx context.Context, next func() (string, error), prompt func(string)) error {
	for ctx.Err() == nil {
		cwd, err := r.host.Cwd(r.req)
		if err != nil {
			return err
		}
		prompt(filepath.Base(cwd) + "> ")
		command, err := next()
		for err == nil && incomplete(command) {
			prompt("… ")
			var more string
			more, err = next()
			command += "\n" + more
		}
		if strings.TrimSpace(command) != "" {
			switch strings.TrimSpace(command) {
			case "exit", "quit":
				return nil
			case "status": // of this host, with its plugins running
				if err := statusText(os.Stdout, status{Status: r.host.Status()}); err != nil {
					return err
				}
			default:
				r.run(ctx, command)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// incomplete reports whether a command goes on in the next line.
func incomplete(command string) bool {
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command+"\n"), "")
	var pe syntax.ParseError
	return syntax.IsIncomplete(err) || errors.As(err, &pe) && strings.Contains(pe.Text, "unclosed here-document")
}

// run carries out one command; Ctrl-C ends it, not the prompt.
func (r *repl) run(ctx context.Context, command string) {
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt)
	defer stop()
	front := newTerminal(r.json)
	req := r.req
	req.Command = command
	res := front.run(ctx, r.host, req)
	if r.json {
		_ = printJSON(os.Stdout, res) // standard output is the person's screen
		return
	}
	front.finish(res)
}

// complete completes the word before the cursor.
func (r *repl) complete(line string, pos int) (string, int, bool) {
	start := strings.LastIndexAny(line[:pos], " \t") + 1
	word, first := line[start:pos], strings.TrimSpace(line[:start]) == ""
	var candidates []string
	switch {
	case first:
		for _, t := range r.host.Tools() {
			if t.Enabled && t.Namespace == "" {
				candidates = append(candidates, t.Name+" ")
			} else if t.Enabled {
				candidates = append(candidates, "field:"+t.Namespace+" "+t.Name+" ")
			}
		}
		candidates = append(candidates, "help ", "status", "exit")
	case strings.HasPrefix(word, "--"):
		for _, name := range r.parameters(line[:start]) {
			candidates = append(candidates, "--"+name+" ")
		}
	default:
		candidates = r.paths(word)
	}
	candidates = slices.DeleteFunc(candidates, func(c string) bool { return !strings.HasPrefix(c, word) })
	done := commonPrefix(candidates)
	if len(done) <= len(word) {
		return "", 0, false
	}
	return line[:start] + done + line[pos:], start + len(done), true
}

func (r *repl) parameters(before string) []string {
	words := strings.Fields(before)
	for _, t := range r.host.Tools() {
		if len(words) > 0 && t.FullName == words[0] || len(words) > 1 && "field:"+t.Namespace == words[0] && t.Name == words[1] {
			return t.Parameters()
		}
	}
	return nil
}

// paths gives the directory entries that a word may be the beginning of.
func (r *repl) paths(word string) []string {
	cwd, err := r.host.Cwd(r.req)
	if err != nil {
		return nil
	}
	dir, _ := filepath.Split(word)
	at := dir
	if !filepath.IsAbs(at) {
		at = filepath.Join(cwd, dir)
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		name := dir + e.Name()
		if strings.ContainsAny(name, " '\"\\$`") {
			continue // would need quoting
		}
		if e.IsDir() {
			name += "/"
		} else {
			name += " "
		}
		out = append(out, name)
	}
	return out
}

func commonPrefix(words []string) string {
	if len(words) == 0 {
		return ""
	}
	prefix := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}
