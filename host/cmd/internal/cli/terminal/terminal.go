// Package terminal implements the interaction with a user at a terminal. [Terminal] shows one call and asks the user
// the questions of the call. [Prompt] reads commands and runs them.
package terminal

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

// Terminal is a [host.Client]. It prints output immediately, shows progress on a separate line, and reads answers to
// questions from the keyboard.
type Terminal struct {
	stdio  process.Stdio
	quiet  bool // whether only the result is printed
	native bool // whether the call is a native command, whose output is the result

	mu       sync.Mutex
	streamed bool
	progress bool   // whether the screen shows a progress line
	printed  bool   // whether output was printed; the elapsed time is then not shown any more
	title    string // the last progress of the call
	screens  map[io.Writer]*screen.Writer
	in       *bufio.Reader
	keys     *keyboard // keyboard of a prompt; nil for a single call
	shell    bool      // whether the call is a command of a shell; see ShellRequest
	early    map[tool.Stream]*early
}

// Run runs a request.
func (t *Terminal) Run(ctx context.Context, h *host.Host, req host.Request) *host.Result {
	p := h.Begin(req, t)
	t.native = p.Native() || t.shell
	if !t.quiet && screen.IsTerminal(t.stdio.Err) {
		defer t.showElapsed()()
	}
	return p.Run(ctx)
}

// showElapsed shows the elapsed time of a silent call, starting after one second. The caller must call stop at the end
// of the call.
func (t *Terminal) showElapsed() (stop func()) {
	began, ended := time.Now(), make(chan struct{})
	tick := time.NewTicker(time.Second)
	var shown sync.WaitGroup
	shown.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.elapsed(time.Since(began))
			case <-ended:
				return
			}
		}
	})
	return func() {
		close(ended)
		shown.Wait()
	}
}

// elapsed replaces the progress line by the last progress and the elapsed time. It does nothing after output began or
// while the user answers a question.
func (t *Terminal) elapsed(d time.Duration) {
	if !t.mu.TryLock() {
		return
	}
	defer t.mu.Unlock()
	if t.printed {
		return
	}
	title := t.title
	if title == "" {
		title = "running"
	}
	t.showProgress(fmt.Sprintf("%s, %d s", title, int(d.Seconds())))
}

// New returns a terminal for one call. If quiet is true, the terminal prints only the result.
func New(stdio process.Stdio, quiet bool) *Terminal {
	return &Terminal{stdio: stdio, quiet: quiet, in: bufio.NewReader(stdio.In)}
}

// Progress implements [host.Client]. It prints only to a terminal, because the progress line must be erased later. A
// wait for another process is always printed, because only that process can end the wait.
func (t *Terminal) Progress(title string, metadata map[string]any) {
	if t.quiet || title == "" {
		return
	}
	if !screen.IsTerminal(t.stdio.Err) {
		if _, waits := metadata["holder_pid"]; waits {
			fmt.Fprintln(t.stdio.Err, "toolhost:", screen.Printable(title))
		}
		return
	}
	if doing, ok := metadata["activity"].(string); ok { // skip the host's periodic message, because the line already shows the time
		if t.mu.TryLock() { // a locked mutex means that the user is answering a question
			t.title = doing
			t.mu.Unlock()
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.title = title
	t.showProgress(title)
}

// showProgress shows a text in the progress line. It cuts the text to the width of the terminal, because only one line
// can be erased later.
func (t *Terminal) showProgress(text string) {
	text = screen.Printable(text)
	if width := screen.Width(t.stdio.Err); width > 0 {
		for uniseg.StringWidth(text) >= width {
			_, size := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-size]
		}
	}
	fmt.Fprintf(t.stdio.Err, "\r\x1b[K%s", text)
	t.progress = true
}

// Output implements [host.Client]. The output of tools goes to standard error, if it is a terminal. The output of
// native commands keeps its stream. If that is not a terminal, only the beginning is printed at once, and the rest with
// the result, because the host can skip output that arrives too fast.
func (t *Terminal) Output(s tool.Stream, chunk []byte) {
	out := t.stdio.Err
	if t.native && s == tool.Stdout {
		out = t.stdio.Out
	}
	if t.quiet {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !screen.IsTerminal(t.stdio.Out) || !screen.IsTerminal(out) {
		if lines := t.beginning(s).add(chunk); t.native && len(lines) > 0 {
			t.wipe()
			t.printed = true
			_, _ = t.screen(out).Write(lines) // ignore the error: as below
		}
		return
	}
	t.wipe()
	t.streamed, t.printed = t.native, true
	_, _ = t.screen(out).Write(chunk) // ignore the error: a signal ends the program if the pipe is closed
}

// screen returns the writer for output of a running call.
func (t *Terminal) screen(f io.Writer) *screen.Writer {
	if t.screens == nil {
		t.screens = make(map[io.Writer]*screen.Writer)
	}
	if t.screens[f] == nil {
		t.screens[f] = screen.New(f)
	}
	return t.screens[f]
}

// flush writes the incomplete last characters of the output of a running call.
func (t *Terminal) flush() {
	for _, s := range t.screens {
		_ = s.Flush()
	}
}

// beginning returns the beginning of an output stream of the call.
func (t *Terminal) beginning(s tool.Stream) *early {
	if t.early == nil {
		t.early = make(map[tool.Stream]*early)
	}
	if t.early[s] == nil {
		t.early[s] = new(early)
	}
	return t.early[s]
}

func (t *Terminal) wipe() {
	if t.progress {
		fmt.Fprint(t.stdio.Err, "\r\x1b[K")
		t.progress = false
	}
}

// Decided returns true if standard input is not a terminal, because then no person can answer permission requests.
func (t *Terminal) Decided() bool { return !t.ReachesPerson() }

// ReachesPerson reports whether a person can answer at the terminal.
func (t *Terminal) ReachesPerson() bool { return screen.IsTerminal(t.stdio.In) }

// Ask implements [host.Client]. If standard input is not a terminal, the outcome is [tool.NobodyToAsk].
func (t *Terminal) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if !screen.IsTerminal(t.stdio.In) {
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: "standard input is no terminal, so there is nobody to ask"}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
	t.wipe()
	if p := ask.Permission; p != nil {
		fmt.Fprintf(t.stdio.Err, "%s\n", screen.Printable(p.Title))
		for _, pattern := range p.Patterns {
			fmt.Fprintf(t.stdio.Err, "  %s\n", screen.Printable(pattern))
		}
		if reason, _ := p.Metadata["reason"].(string); reason != "" {
			fmt.Fprintf(t.stdio.Err, "  (%s)\n", screen.Printable(reason))
		}
		if note, _ := p.Metadata["preview"].(string); note != "" {
			fmt.Fprintf(t.stdio.Err, "%s\n", screen.Clean(note))
		}
		if diff, ok := p.Metadata["diff"].(string); ok {
			fmt.Fprintf(t.stdio.Err, "%s\n",
				screen.Clean(cmp.Or(strings.TrimSuffix(diff, "\n"), "# no file is changed")))
		}
		return t.permission(ctx)
	}
	q := ask.Question
	fmt.Fprintf(t.stdio.Err, "%s\n", screen.Printable(q.Text))
	for i, o := range q.Options {
		fmt.Fprintf(t.stdio.Err, "  %d) %s\n", i+1, screen.Printable(o))
	}
	prompt := "> "
	if q.Multiple {
		prompt = "numbers, with commas between them> "
	}
	switch {
	case len(q.Defaults) > 0:
		prompt = fmt.Sprintf("(Enter: %s) ", screen.Printable(strings.Join(q.Defaults, ", "))) + prompt
	case q.Optional:
		prompt = "(Enter: no answer) " + prompt
	}
	answer, err := t.line(ctx, prompt)
	if err != nil && !errors.Is(err, io.EOF) {
		return tool.Answer{}, err
	}
	if answer == "" {
		return unanswered(q, err), nil
	}
	return tool.Answer{Outcome: tool.Accepted, Values: chosen(q, answer)}, nil
}

// unanswered returns the answer if the user typed nothing. The argument err is [io.EOF] after Ctrl-D, which declines
// the question.
func unanswered(q *tool.Question, err error) tool.Answer {
	if err == nil && (q.Optional || len(q.Defaults) > 0) {
		return tool.Answer{Outcome: tool.Accepted, Values: q.Defaults}
	}
	return tool.Answer{Outcome: tool.Declined, Message: "the user gave no answer"}
}

// chosen replaces numbers in the user's answer by the options of the question. Any other text is a free answer.
func chosen(q *tool.Question, typed string) []string {
	parts := []string{typed}
	if q.Multiple {
		parts = strings.Split(typed, ",")
	}
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
		if n, err := strconv.Atoi(parts[i]); err == nil && n >= 1 && n <= len(q.Options) {
			parts[i] = q.Options[n-1]
		}
	}
	return parts
}

// permission reads the answer to a permission request. An empty answer and Ctrl-D mean no. After an unknown answer, the
// question is repeated, because a wrong key must neither permit a call nor end it.
func (t *Terminal) permission(ctx context.Context) (tool.Answer, error) {
	declined := tool.Answer{Outcome: tool.Declined, Message: "the user declined"}
	for {
		answer, err := t.line(ctx, "Allow? [y]es, once / for this [s]ession / [a]lways here / [N]o / ne[v]er: ")
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(t.stdio.Err)
			return declined, nil
		}
		if err != nil {
			return tool.Answer{}, err
		}
		switch strings.ToLower(answer) {
		case "y", "yes", host.ScopeOnce:
			return tool.Answer{Outcome: tool.Accepted}, nil
		case "s", host.ScopeSession:
			return tool.Answer{Outcome: tool.Accepted, Values: []string{host.ScopeSession}}, nil
		case "a", host.ScopeAlways:
			return tool.Answer{Outcome: tool.Accepted, Values: []string{host.ScopeAlways}}, nil
		case "v", host.ScopeNever:
			return tool.Answer{Outcome: tool.Declined, Values: []string{host.ScopeNever},
				Message: "the user declined, for good"}, nil
		case "", "n", "no":
			return declined, nil
		}
		fmt.Fprintf(t.stdio.Err, "Unknown answer %q. Type y, s, a, n or v.\n", screen.Printable(answer))
	}
}

// line shows a prompt and reads one line from the keyboard. It returns early if ctx is canceled. After Ctrl-D, it
// returns an empty text and the error io.EOF.
func (t *Terminal) line(ctx context.Context, prompt string) (string, error) {
	if t.keys != nil {
		return t.keys.line(ctx, func() { fmt.Fprint(t.stdio.Err, prompt) })
	}
	fmt.Fprint(t.stdio.Err, prompt)
	type read struct {
		text string
		err  error
	}
	ch := make(chan read, 1)
	go func() {
		text, err := t.in.ReadString('\n')
		if text != "" {
			err = nil
		}
		ch <- read{strings.TrimSpace(text), err}
	}()
	select {
	case r := <-ch:
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Finish prints the parts of the result that were not printed before.
func (t *Terminal) Finish(res *host.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
	t.wipe()
	switch {
	case t.native && len(res.Data) > 0:
		t.finishNative(res)
	case res.Success():
		screen.PrintText(t.stdio.Out, res.Output)
	default:
		screen.PrintText(t.stdio.Err, t.red(res.Error.Message))
	}
}

// red colors the first line of an error message red, but only at a prompt.
func (t *Terminal) red(message string) string {
	if t.keys == nil || !colorful(t.stdio, t.stdio.Err) {
		return message
	}
	first, rest, more := strings.Cut(message, "\n")
	if more {
		rest = "\n" + rest
	}
	return t.keys.colored(colorError, screen.Printable(first)) + rest
}

// notes returns the host's notes on a result. The text of the result also contains the notes, but the output of a
// native command does not contain them.
func notes(res *host.Result) []string {
	var out []string
	denied, _ := res.Metadata["denied"].([]string)
	for _, text := range denied {
		out = append(out, "["+text+".]")
	}
	quarantined, _ := res.Metadata["quarantined"].([]string)
	for _, text := range quarantined {
		out = append(out, "["+text+".]")
	}
	previewed, _ := res.Metadata["previewed"].([]string)
	for _, text := range previewed {
		out = append(out, "["+text+".]")
	}
	if hint, ok := res.Metadata["hint"].(string); ok {
		out = append(out, "["+hint+".]")
	}
	if note, ok := res.Metadata["note"].(string); ok {
		out = append(out, note)
	}
	if warning, ok := res.Metadata["warning"].(string); ok {
		out = append(out, "["+warning+".]")
	}
	return out
}

// finishNative prints the standard output and standard error of a native command to the corresponding streams, as a
// shell does.
func (t *Terminal) finishNative(res *host.Result) {
	var data struct{ Stdout, Stderr string }
	if err := json.Unmarshal(res.Data, &data); err != nil {
		screen.PrintText(t.stdio.Err, err.Error())
	}
	if !t.streamed {
		screen.WriteText(t.stdio.Out, t.beginning(tool.Stdout).rest(data.Stdout))
		screen.WriteText(t.stdio.Err, t.beginning(tool.Stderr).rest(data.Stderr))
	}
	if res.Error != nil && res.Error.Kind != tool.ExecutionFailed {
		screen.PrintText(t.stdio.Err, screen.FirstLine(res.Error.Message))
	}
	for _, note := range notes(res) {
		screen.PrintText(t.stdio.Err, note)
	}
}

// closable returns a reader with a method Close. If the reader has none, Close does nothing.
func closable(r io.Reader) io.ReadCloser {
	if c, ok := r.(io.ReadCloser); ok {
		return c
	}
	return io.NopCloser(r)
}
