package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/child"
	"toolhost.dev/sdk/tool"
)

// The following constants limit the answer and the error message of a function, in bytes.
const (
	maxAnswer  = 8 << 20
	maxMessage = 4 << 10
)

// endWait is the time for which the plugin waits for output after a program has ended. Child processes of the program
// can keep its output open.
const endWait = 500 * time.Millisecond

// program is a backend that runs a command for each call.
type program struct {
	command []string
	env     []string
	cwd     string
}

func newProgram(b *Block, fail func(what, summary, detail string) error) (backend, error) {
	p := &program{command: b.Command, cwd: b.Cwd}
	for _, e := range os.Environ() { // skip the variables with which the host configures the plugin
		if !strings.HasPrefix(e, "PLUGIN_") && !strings.HasPrefix(e, "TOOLHOST_") {
			p.env = append(p.env, e)
		}
	}
	for k, v := range b.Env {
		p.env = append(p.env, k+"="+v)
	}
	path, err := exec.LookPath(b.Command[0])
	if err != nil {
		return nil, fail("command", fmt.Sprintf("Cannot find the program %q", b.Command[0]),
			"Install the program, correct the name or path, or make the program executable (chmod +x). If it is outside of the PATH and the roots, name its directory in the sandbox block of the field: sandbox { read = [\"…\"] }.")
	}
	p.command[0] = path
	if st, err := os.Stat(p.cwd); p.cwd != "" && (err != nil || !st.IsDir()) {
		return nil, fail("cwd", fmt.Sprintf("The directory %s of the program does not exist", p.cwd), "Create the directory or correct the path. If the directory is outside of the roots, name it in the sandbox block of the field.")
	}
	return p, nil
}

func (p *program) fits(*definition) error { return nil }

func (p *program) call(ctx context.Context, call *sdk.Call, d *definition) (*sdk.Result, error) {
	var out, said bounded
	cmd := exec.Command(p.command[0], p.command[1:]...) //nolint:gosec // running what the operator configured is the purpose
	cmd.Env = slices.Concat(p.env, []string{"TOOLHOST_FUNCTION=" + d.original, "TOOLHOST_SESSION=" + call.SessionID})
	cmd.Dir, cmd.WaitDelay = p.cwd, endWait
	if cmd.Dir == "" {
		cmd.Dir = call.Cwd
	}
	cmd.Stdin = bytes.NewReader(append(bytes.Clone(call.Arguments), '\n'))
	cmd.Stdout = &out
	cmd.Stderr = writer(func(b []byte) {
		_, _ = said.Write(b)
		call.Output(tool.Stderr, b)
	})
	running, err := child.Start(cmd)
	if err != nil {
		return nil, sdk.Errorf(tool.ExecutionFailed, "The function's program cannot be run: %w", err)
	}
	select {
	case <-running.Exited():
	case <-ctx.Done():
		running.Kill()
		<-running.Exited()
		return nil, context.Cause(ctx)
	}
	if err := running.Err(); err != nil && !errors.Is(err, exec.ErrWaitDelay) && !errors.Is(err, syscall.EPIPE) {
		return failed(err, &out, &said)
	}
	return result(out.kept, out.over), nil
}

// failed returns an error that contains the exit status of a program and the end of its output.
func failed(err error, out, said *bounded) (*sdk.Result, error) {
	status := -1
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status = exit.ExitCode(); status < 0 {
			if ws, ok := exit.Sys().(syscall.WaitStatus); ok {
				status = 128 + int(ws.Signal())
			}
		}
	}
	text := strings.TrimSpace(string(said.kept))
	if text == "" {
		text = strings.TrimSpace(string(out.kept))
	}
	if text == "" {
		text = "(nothing on standard error)"
	}
	return nil, sdk.Errorf(tool.ExecutionFailed, "The function's program failed (%v): %s", err,
		lastOf(text)).WithCode(status)
}

// result converts the answer of a function to a result. If the answer is JSON, the result also contains it as
// structured data.
func result(answer []byte, over int) *sdk.Result {
	res := &sdk.Result{Output: strings.ToValidUTF8(strings.TrimRight(string(answer), "\n"), "\uFFFD")}
	if over > 0 {
		res.Output += fmt.Sprintf("\n\n[note: the answer was cut; %d more bytes were dropped]", over)
	} else if json.Valid(answer) {
		res.Data = bytes.TrimSpace(answer)
	}
	return res
}

// lastOf returns the end of a text that is too long for an error message.
func lastOf(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxMessage {
		return text
	}
	text = text[len(text)-maxMessage:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return "…" + text
}

// bounded is a writer that keeps the first maxAnswer bytes.
type bounded struct {
	kept []byte
	over int // number of dropped bytes
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), maxAnswer-len(b.kept))
	b.kept = append(b.kept, p[:n]...)
	b.over += len(p) - n
	return len(p), nil
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
