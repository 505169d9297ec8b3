package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestOutputIsStreamed checks that a pipe gets the lines of a running command, and in the end exactly the text of the
// result. With --json it gets only the result.
func TestOutputIsStreamed(t *testing.T) {
	t.Parallel()
	for stream, redirect := range map[string]string{"stdout": "", "stderr": " >&2"} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := hosttest.Toolhost(t, dir, "run", "{ echo first; until [ -e go ]; do sleep 0.05; done; echo second; printf last; }"+redirect)
			var other bytes.Buffer
			c.Stderr = &other
			open := c.StdoutPipe
			if stream == "stderr" {
				c.Stdout, c.Stderr, open = &other, nil, c.StderrPipe
			}
			pipe, err := open()
			hosttest.Must(t, err)
			hosttest.Must(t, c.Start())
			in := bufio.NewReader(pipe)
			first, err := in.ReadString('\n')
			hosttest.Must(t, err)
			hosttest.Must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600)) // only now the command goes on
			rest, err := io.ReadAll(in)
			hosttest.Must(t, err)
			hosttest.Must(t, c.Wait())
			if first != "first\n" || string(rest) != "second\nlast" && string(rest) != "second\nlast\n" || other.Len() > 0 {
				t.Errorf("%q, then %q, and %q in the other stream", first, rest, other.String())
			}
		})
	}
	dir := t.TempDir()
	long, err := hosttest.Toolhost(t, dir, "run", "seq 100000").Output()
	hosttest.Must(t, err)
	cut, err := hosttest.Toolhost(t, dir, "run", "--json", "seq 100000").Output()
	hosttest.Must(t, err)
	if len(long) > 60_000 || !bytes.HasPrefix(long, []byte("1\n2\n3\n")) || bytes.Count(long, []byte("\n2\n")) != 1 || !bytes.HasSuffix(long, []byte("99999\n100000\n")) || !bytes.Contains(long, []byte("[…")) {
		t.Errorf("%d bytes are printed of a long output: %.100q … %q", len(long), long, long[max(0, len(long)-100):])
	}
	if !bytes.HasPrefix(cut, []byte(`{"success":true`)) || bytes.Count(cut, []byte("\n")) != 1 {
		t.Errorf("with --json: %.200q", cut)
	}
}
