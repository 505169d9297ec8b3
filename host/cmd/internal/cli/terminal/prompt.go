package terminal

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// maxReplHistory is the maximum number of earlier commands that the arrow keys can recall.
const maxReplHistory = 500

// maxLine is the maximum length of a command from a pipe or a file, in bytes.
const maxLine = 64 << 20

// Prompt reads commands and runs them in one session.
type Prompt struct {
	// Stdio contains the streams of the prompt. Lines can be edited only at the terminal of this process.
	Stdio   process.Stdio
	Host    *host.Host
	Request host.Request
	// JSON selects JSON as the format of results.
	JSON bool
	// Shell makes each line a command of bash, even if its first word is the name of a tool.
	Shell bool
	// Status prints the status of the host.
	Status func(io.Writer, host.Status) error

	keys    *keyboard // nil without a terminal
	editor  *editor
	running atomic.Pointer[context.CancelFunc] // cancels the running command
	missed  atomic.Bool                        // whether a signal came when no command ran
}

// Run reads and runs commands from standard input until the input ends. At a terminal, the user can edit lines. There,
// only Ctrl-D, "exit", SIGTERM and SIGHUP end Run. Ctrl-C does not end Run, because the following keys would reach the
// user's shell.
func (r *Prompt) Run(ctx context.Context) error {
	if screen.IsTerminal(r.Stdio.In) { // if the input is a pipe, SIGINT ends the program
		r.Stdio.Signals.OnInterrupt(r.interrupt)
	}
	in, ok := r.Stdio.In.(*os.File)
	switch {
	case !ok || !screen.IsTerminal(in):
	case in == os.Stdin && r.Stdio.Out == io.Writer(os.Stdout) && screen.IsTerminal(os.Stdout): // the editor uses only these
		return r.interactive(ctx)
	default: // the output is redirected, so the prompt cannot edit lines
		keys, err := openKeyboard(in, r.Stdio.Out, false)
		if err != nil {
			return err
		}
		defer keys.restore()
		keys.asking()
	}
	return r.lines(ctx, r.Stdio.In)
}

// lines reads commands from a pipe or a file.
func (r *Prompt) lines(ctx context.Context, in io.Reader) error {
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, maxLine)
	next := func(string) (string, error) {
		var command string
		for sc.Scan() {
			command += sc.Text()
			if !incomplete(command) {
				return command, nil
			}
			command += "\n"
		}
		if err := sc.Err(); err != nil {
			return command, err
		}
		return command, io.EOF
	}
	return r.loop(ctx, next)
}

// interactive reads commands from the keyboard.
func (r *Prompt) interactive(ctx context.Context) error {
	var entries []host.HistoryEntry
	var err error
	if !r.isRemote() {
		entries, err = r.Host.History(r.Request, maxReplHistory)
	}
	if err != nil {
		return err
	}
	var history []string
	for _, e := range entries {
		if screen.Clean(e.Command) == e.Command { // skip commands with control characters
			history = append(history, e.Command)
		}
	}
	keys, err := openKeyboard(os.Stdin, r.Stdio.Out, colorful(r.Stdio, r.Stdio.Out))
	if err != nil {
		return err
	}
	defer keys.restore()
	r.keys = keys
	r.editor = newEditor(keys, history, r.complete, func() { r.missed.Store(false) })
	r.editor.highlight(r.isTool)
	fmt.Fprintln(r.Stdio.Out, "toolhost", host.Version, "— help lists the tools, Ctrl-C ends a command, Ctrl-D the prompt.")
	return r.loop(ctx, func(prompt string) (string, error) { return r.editor.read(ctx, prompt) })
}

// isTool reports whether a word names an agent tool or a namespace.
func (r *Prompt) isTool(word string) bool {
	return slices.ContainsFunc(r.names(), func(c candidate) bool { return c.text == word+" " })
}

// loop reads and runs commands until the input ends.
func (r *Prompt) loop(ctx context.Context, next func(prompt string) (string, error)) error {
	for ctx.Err() == nil {
		place, err := r.place()
		if err != nil {
			return err
		}
		command, err := next(screen.Printable(place) + "> ")
		if errors.Is(err, errInterrupted) {
			continue
		}
		switch strings.TrimSpace(command) {
		case "":
		case "exit", "quit":
			return nil
		case r.own("status"): // use this host's status, which includes its running plugins
			if err := r.Status(screen.New(r.Stdio.Out), r.Host.Status()); err != nil {
				return err
			}
		default:
			r.run(ctx, command)
		}
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil //nolint:nilerr // a signal and the end of the terminal are no failures
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// place returns where the commands run: the last part of the directory, or the workspace of a node.
func (r *Prompt) place() (string, error) {
	if r.isRemote() {
		return r.Request.Workspace, nil
	}
	cwd, err := r.Host.Cwd(r.Request)
	return filepath.Base(cwd), err
}

// isRemote reports whether a node of a fleet runs the commands. This host then does not know their directory and their
// history.
func (r *Prompt) isRemote() bool { return strings.Contains(r.Request.Workspace, "@") }

// own returns the word if it is a command of the prompt itself. In shell mode, it returns "", because every line is
// then passed to bash.
func (r *Prompt) own(word string) string {
	if r.Shell {
		return ""
	}
	return word
}

// ShellRequest turns a request into a call of the host's shell. The client then prints the output as a shell does.
func ShellRequest(client *Terminal, h *host.Host, req *host.Request, command string) {
	client.shell = true
	req.Command, req.Name = "", cmp.Or(h.RoleName(tool.RoleShell), string(tool.RoleShell))
	req.Arguments, _ = json.Marshal(map[string]string{"command": command}) // the error is ignored, because strings can always be encoded
}

// incomplete reports whether a command continues on the next line.
func incomplete(command string) bool {
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command+"\n"), "")
	var pe syntax.ParseError
	return syntax.IsIncomplete(err) || errors.As(err, &pe) && strings.Contains(pe.Text, "unclosed here-document")
}

// interrupt handles Ctrl-C while a command runs. It cancels the command.
func (r *Prompt) interrupt() {
	if cancel := r.running.Load(); cancel != nil {
		(*cancel)()
	} else {
		r.missed.Store(true)
	}
}

// run runs one command. Ctrl-C cancels the command and discards the keys that were typed ahead. That includes a Ctrl-C
// between Enter and the start of the command.
func (r *Prompt) run(ctx context.Context, command string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.running.Store(&cancel)
	defer r.running.Store(nil)
	typed := r.editor != nil && r.editor.interrupted(ctx)
	if typed || r.editor != nil && r.missed.Load() {
		cancel()
	}
	client := New(r.Stdio, r.JSON)
	client.keys = r.keys
	req := r.Request
	req.Command = command
	if r.Shell {
		ShellRequest(client, r.Host, &req, command)
	}
	res := client.Run(ctx, r.Host, req)
	if ctx.Err() != nil && r.editor != nil && !typed {
		r.editor.forget()
	}
	if r.JSON {
		_ = screen.PrintJSON(r.Stdio.Out, res) // ignore the error: standard output was closed
		return
	}
	client.Finish(res)
}
