package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/term"
	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

// maxReplHistory is the number of earlier commands that the arrow keys can recall.
const maxReplHistory = 500

// maxLine is the maximum length in bytes of a command from a pipe or a file.
const maxLine = 64 << 20

// Prompt reads commands and runs them in one session.
type Prompt struct {
	Host    *host.Host
	Request host.Request
	// JSON selects JSON as the format of results.
	JSON bool
	// Status prints the status of the host.
	Status func(io.Writer, host.Status) error
}

// Run reads and runs commands from standard input until the input ends. It supports line editing at a terminal.
// Otherwise it reads one command per line.
func (r *Prompt) Run(ctx context.Context) error {
	if IsTerminal() {
		return r.interactive(ctx)
	}
	return r.lines(ctx, os.Stdin)
}

// IsTerminal reports whether standard input is a terminal.
func IsTerminal() bool { return term.IsTerminal(int(os.Stdin.Fd())) }

// lines reads commands from a pipe or a file.
func (r *Prompt) lines(ctx context.Context, in io.Reader) error {
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
func (r *Prompt) interactive(ctx context.Context) error {
	fd := int(os.Stdin.Fd())
	cooked, err := term.GetState(fd)
	if err != nil {
		return err
	}
	defer term.Restore(fd, cooked)                         //nolint:errcheck // nothing to do about it
	screen, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0) // not standard output, because it can be redirected
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
	entries, err := r.Host.History(r.Request, maxReplHistory)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if cli.Printable(e.Command) == e.Command { // skip commands with control characters or several lines
			t.History.Add(e.Command)
		}
	}
	fmt.Fprintln(screen, "toolhost", host.Version, "— help lists the tools, Ctrl-D ends.")
	next := func() (string, error) {
		if w, h, err := term.GetSize(fd); err == nil && w > 0 {
			_ = t.SetSize(w, h) // the error is ignored, because the size affects only the appearance
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
func (r *Prompt) loop(ctx context.Context, next func() (string, error), prompt func(string)) error {
	for ctx.Err() == nil {
		cwd, err := r.Host.Cwd(r.Request)
		if err != nil {
			return err
		}
		prompt(cli.Printable(filepath.Base(cwd)) + "> ")
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
			case "status": // shows the status of this host with its running plugins
				if err := r.Status(cli.Screen(os.Stdout), r.Host.Status()); err != nil {
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

// incomplete reports whether a command continues on the next line.
func incomplete(command string) bool {
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command+"\n"), "")
	var pe syntax.ParseError
	return syntax.IsIncomplete(err) || errors.As(err, &pe) && strings.Contains(pe.Text, "unclosed here-document")
}

// run runs one command. Ctrl-C cancels the command, but does not end the prompt.
func (r *Prompt) run(ctx context.Context, command string) {
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt)
	defer stop()
	client := New(r.JSON)
	req := r.Request
	req.Command = command
	res := client.Run(ctx, r.Host, req)
	if r.JSON {
		_ = cli.PrintJSON(os.Stdout, res) // the error is ignored, because it means that standard output was closed
		return
	}
	client.Finish(res)
}
