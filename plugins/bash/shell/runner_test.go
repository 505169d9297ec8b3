package shell

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"toolhost.dev/plugins/bash/session"
)

// TestHurry checks a caller that sends commands without pauses. If a command cannot change the session, the next
// shell must be ready. A command that needs another state must not get that shell.
func TestHurry(t *testing.T) {
	bash, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		command, last string
		ready, used   bool
		next          func(*Command)
	}{
		{"cat <>fifo", "s", true, true, func(*Command) {}},
		{"cat <>fifo", "s", true, false, func(c *Command) { c.Dir = "/" }},
		{"cat <>fifo", "s", true, false, func(c *Command) { c.Env = append(c.Env, "X=1") }},
		{"cat <>fifo", "s", true, false, func(c *Command) { c.State.Snapshot = &session.Snapshot{Umask: "0022"} }},
		{"read <>fifo", "s", false, false, nil}, // this command changes $REPLY
		{"cat <>fifo", "another", false, false, nil},
	} {
		r := NewRunner(MaxIdle)
		t.Cleanup(r.Close)
		r.last.session, r.last.ended = tc.last, time.Now().Add(time.Hour) // use a future time, because the test must also succeed on a slow machine
		run := func(c Command) string {
			t.Helper()
			var out bytes.Buffer
			c.Stdout = &out
			if o, err := r.Start("s", c).Outcome(); err != nil || o.Exit != 0 {
				t.Fatalf("%s: %s %v", c.Text, out.String(), err)
			}
			return out.String()
		}
		c := Command{Seed: Seed{Bash: bash, Dir: t.TempDir(), Env: Environment(os.Environ())}, Text: "mkfifo fifo", Stdout: io.Discard, Stderr: io.Discard}
		run(c)
		c.Text = tc.command
		p := r.Start("s", c)
		idle := r.Idle()
		if (len(idle) == 1) != tc.ready {
			t.Errorf("%s after one of the session %s: the shells %v are ready", tc.command, tc.last, idle)
		}
		p.Kill()
		if len(idle) == 0 {
			continue
		}
		c.Text = "echo $$"
		tc.next(&c)
		if got := run(c); (got == strconv.Itoa(idle[0])+"\n") != tc.used {
			t.Errorf("the command ran in %q, the shell %d was ready", got, idle[0])
		}
	}
}
