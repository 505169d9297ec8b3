package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/term"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

// terminal is the person at the command line as a call's front: output as it comes,
// progress on a line of its own, asks at the keyboard.
type terminal struct {
	quiet  bool // nothing but the result is printed
	native bool // a native command: what it prints is the output

	mu       sync.Mutex
	streamed bool
	progress bool // a progress line stands on the screen
	in       *bufio.Reader
}

// run carries out a request for the person.
func (t *terminal) run(ctx context.Context, h *host.Host, req host.Request) *host.Result {
	p := h.Begin(req, t)
	t.native = p.Native()
	return p.Run(ctx)
}

func newTerminal(quiet bool) *terminal { return &terminal{quiet: quiet, in: bufio.NewReader(os.Stdin)} }

// Progress implements host.Front: shown only where it can be wiped away again.
func (t *terminal) Progress(title string, _ map[string]any) {
	if t.quiet || title == "" || !term.IsTerminal(int(os.Stderr.Fd())) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(os.Stderr, "\r\x1b[K%s", printable(title))
	t.progress = true
}

// Output implements host.Front. What a native command prints is shown as it comes, but
// only on a screen: the live view may skip what comes too fast, and a program that
// reads on wants what the result has. A tool's output is its result; what it says
// meanwhile is shown beside it.
func (t *terminal) Output(s tool.Stream, chunk []byte) {
	out := os.Stderr
	if t.native && s == tool.Stdout {
		out = os.Stdout
	}
	if t.quiet || !term.IsTerminal(int(os.Stdout.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	t.streamed = t.native
	_, _ = out.Write(chunk) // a closed pipe ends the program by signal
}

func (t *terminal) wipe() {
	if t.progress {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		t.progress = false
	}
}

// Ask implements host.Front. Without a terminal there is nobody to ask.
func (t *terminal) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: "standard input is no terminal, so there is nobody to ask"}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	if p := ask.Permission; p != nil {
		fmt.Fprintf(os.Stderr, "%s\n", printable(p.Title))
		for _, pattern := range p.Patterns {
			fmt.Fprintf(os.Stderr, "  %s\n", printable(pattern))
		}
		if reason, _ := p.Metadata["reason"].(string); reason != "" {
			fmt.Fprintf(os.Stderr, "  (%s)\n", printable(reason))
		}
		answer, err := t.line(ctx, "Allow? [y]es, once / for this [s]ession / [a]lways here / [N]o / ne[v]er: ")
		if err != nil {
			return tool.Answer{}, err
		}
		return permission(answer), nil
	}
	q := ask.Question
	fmt.Fprintf(os.Stderr, "%s\n", printable(q.Text))
	for i, o := range q.Options {
		fmt.Fprintf(os.Stderr, "  %d) %s\n", i+1, printable(o))
	}
	prompt := "> "
	if q.Multiple {
		prompt = "numbers, with commas between them> "
	}
	answer, err := t.line(ctx, prompt)
	if err != nil {
		return tool.Answer{}, err
	}
	if answer == "" {
		return tool.Answer{Outcome: tool.Declined, Message: "the user gave no answer"}, nil
	}
	return tool.Answer{Outcome: tool.Accepted, Values: chosen(q, answer)}, nil
}

// chosen gives the options whose numbers were typed; anything else is taken as it is.
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

// permission is what a person's answer to a permission means; anything that is no clear
// yes is a no.
func permission(answer string) tool.Answer {
	switch strings.ToLower(answer) {
	case "y", "yes", host.ScopeOnce:
		return tool.Answer{Outcome: tool.Accepted}
	case "s", host.ScopeSession:
		return tool.Answer{Outcome: tool.Accepted, Values: []string{host.ScopeSession}}
	case "a", host.ScopeAlways:
		return tool.Answer{Outcome: tool.Accepted, Values: []string{host.ScopeAlways}}
	case "v", host.ScopeNever:
		return tool.Answer{Outcome: tool.Declined, Values: []string{host.ScopeNever}, Message: "the user declined, for good"}
	}
	return tool.Answer{Outcome: tool.Declined, Message: "the user declined"}
}

// line reads one line from the keyboard, or gives up when ctx ends.
func (t *terminal) line(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(os.Stderr, prompt)
	type read struct {
		text string
		err  error
	}
	ch := make(chan read, 1)
	go func() {
		text, err := t.in.ReadString('\n')
		ch <- read{strings.TrimSpace(text), err}
	}()
	select {
	case r := <-ch:
		if r.err != nil && r.text == "" {
			return "", nil // the end of the input is no answer
		}
		return r.text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// finish prints what was not printed already.
func (t *terminal) finish(res *host.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	switch {
	case t.native && len(res.Data) > 0:
		t.finishNative(res)
	case res.Success():
		printText(os.Stdout, res.Output)
	default:
		printText(os.Stderr, res.Error.Message)
	}
}

// finishNative keeps a native command's two outputs apart, as the shell would.
func (t *terminal) finishNative(res *host.Result) {
	var data struct{ Stdout, Stderr string }
	if err := json.Unmarshal(res.Data, &data); err != nil {
		printText(os.Stderr, err.Error())
	}
	if !t.streamed {
		_, _ = io.WriteString(os.Stdout, data.Stdout) // a closed pipe ends the program by signal
		_, _ = io.WriteString(os.Stderr, data.Stderr)
	}
	if res.Error != nil && res.Error.Kind != tool.ExecutionFailed {
		printText(os.Stderr, firstLine(res.Error.Message))
	}
	if note, ok := res.Metadata["note"].(string); ok {
		printText(os.Stderr, note)
	}
}

func printText(w io.Writer, s string) {
	if s == "" {
		return
	}
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	_, _ = io.WriteString(w, s) // a closed pipe ends the program by signal
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// printable takes out what could change the screen: a plugin or a model wrote it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\uFFFD'
		}
		return r
	}, s)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
