package durable

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// durableRounds is the number of hosts that TestNothingAnsweredIsLost kills. durableSessions is the number of
// concurrent callers.
const durableRounds, durableSessions = 16, 5

// TestNothingAnsweredIsLost kills hosts at random times. Before each kill, several callers make calls in separate
// sessions. The next host must have every variable, directory and file state of the answered calls.
func TestNothingAnsweredIsLost(t *testing.T) {
	t.Parallel()
	work, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	for d := range 3 {
		hosttest.Must(t, os.Mkdir(filepath.Join(work, fmt.Sprint("d", d)), 0o755))
	}
	answered := make([]answers, durableSessions)
	for round := range durableRounds + 1 {
		h := startBatch(t, work)
		var wg sync.WaitGroup
		for s := range answered {
			wg.Go(func() {
				name, a := fmt.Sprint("s", s), &answered[s]
				if a.calls > 0 {
					h.checkKept(t, name, a)
				}
				if round < durableRounds {
					h.load(work, name, a)
				}
			})
		}
		if round < durableRounds {
			for h.answered() < 12*durableSessions && !t.Failed() {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Duration(rand.IntN(15_000)) * time.Microsecond)
			_ = h.cmd.Process.Kill()
		}
		wg.Wait()
		_ = h.in.Close()
		_ = h.cmd.Wait()
		if t.Failed() {
			t.Fatalf("after %d kills", round)
		}
	}
}

// answers describes the state of a session according to the answers that a caller received.
type answers struct {
	calls int
	value int    // value of the variable N; the directory is d(N mod 3)
	file  string // the last file that was read
}

// batchHost is a host that runs the command batch.
type batchHost struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex
	waiting map[string]chan map[string]any
	last    int
	total   int
}

func startBatch(t *testing.T, work string) *batchHost {
	t.Helper()
	h := &batchHost{cmd: hosttest.Toolhost(t, work, "batch"), waiting: make(map[string]chan map[string]any)}
	h.cmd.Stderr = nil // discard the messages of the host, because they are irrelevant after a kill
	in, err := h.cmd.StdinPipe()
	hosttest.Must(t, err)
	out, err := h.cmd.StdoutPipe()
	hosttest.Must(t, err)
	hosttest.Must(t, h.cmd.Start())
	h.in = in
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var res map[string]any
			if json.Unmarshal(lines.Bytes(), &res) != nil {
				continue // the last line of a killed host can be incomplete
			}
			h.mu.Lock()
			h.total++
			h.waiting[fmt.Sprint(res["id"])] <- res
			h.mu.Unlock()
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, c := range h.waiting {
			close(c)
		}
		h.waiting = nil
	}()
	return h
}

// call runs a command and returns the answer. It returns nil if the host was killed before the answer.
func (h *batchHost) call(session, command string) map[string]any {
	h.mu.Lock()
	if h.waiting == nil {
		h.mu.Unlock()
		return nil
	}
	h.last++
	id, answer := fmt.Sprint(h.last), make(chan map[string]any, 1)
	h.waiting[id] = answer
	b, _ := json.Marshal(map[string]any{"id": id, "session": session, "command": command})
	_, _ = h.in.Write(append(b, '\n'))
	h.mu.Unlock()
	return <-answer
}

func (h *batchHost) answered() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		return 1 << 30
	}
	return h.total
}

// load changes a session until the host is killed.
func (h *batchHost) load(work, session string, a *answers) {
	for n := a.value + 1; ; n++ {
		if h.call(session, fmt.Sprintf("N=%d; cd %s/d%d", n, work, n%3)) == nil {
			return
		}
		a.value, a.calls = n, a.calls+1
		file := filepath.Join(work, fmt.Sprintf("%s.%d", session, n))
		if os.WriteFile(file, []byte("old\n"), 0o600) != nil || h.call(session, "read "+file) == nil {
			return
		}
		a.file, a.calls = file, a.calls+1
	}
}

// checkKept compares a session with the answers before the kill.
func (h *batchHost) checkKept(t *testing.T, session string, a *answers) {
	res := h.call(session, `echo $N $PWD`)
	if res == nil { // the host was killed again
		return
	}
	n, dir := 0, ""
	if out, ok := res["output"].(string); ok {
		_, _ = fmt.Sscan(out, &n, &dir)
	}
	if n < a.value || n > a.value+1 || !strings.HasSuffix(dir, fmt.Sprint("/d", n%3)) {
		t.Errorf("%s: %v, but the last answered value is %d", session, res, a.value)
	}
	a.calls++
	if a.file != "" {
		if res := h.call(session, "edit "+a.file+" --old_string old --new_string new"); res != nil && res["success"] != true {
			t.Errorf("%s: %v", session, res)
		}
		a.file, a.calls = "", a.calls+1
	}
	a.value = max(a.value, n)
}

// TestSessionOfTwoProcesses checks a session that two processes use. The processes must not overwrite each other's
// changes. A read-only call must not wait. A call that gives up waiting must have no effects. A killed process must
// release the session.
func TestSessionOfTwoProcesses(t *testing.T) {
	t.Parallel()
	work, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(filepath.Join(work, "f"), []byte("text\n"), 0o600))
	const plugins = "plugin \"bash\" {}\nplugin \"read\" {}\n"
	hosttest.Must(t, os.WriteFile(filepath.Join(work, "toolhost.hcl"), []byte(plugins+`host { max_wait = "300ms" }`), 0o600))
	hosttest.Must(t, os.WriteFile(filepath.Join(work, "patient.hcl"), []byte(plugins), 0o600))
	run := func(command string) *exec.Cmd {
		c := hosttest.Toolhost(t, work, "--session", "q", "run", command)
		c.Stderr = nil
		return c
	}
	var wg sync.WaitGroup
	for i := range 4 { // four concurrent changes
		wg.Go(func() {
			c := hosttest.Toolhost(t, work, "--session", "q", "--config", "patient.hcl", "run", fmt.Sprintf("V%d=1; sleep .05", i))
			c.Stderr = nil
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v %s", err, out)
			}
		})
	}
	wg.Wait()
	if out, err := run("echo $V0$V1$V2$V3").CombinedOutput(); err != nil || string(out) != "1111\n" {
		t.Errorf("%s %v", out, err)
	}

	holder := run("touch started; sleep 60")
	hosttest.Must(t, holder.Start())
	hosttest.Wait(t, "the holder runs", func() bool {
		_, err := os.Stat(filepath.Join(work, "started"))
		return err == nil
	})
	if out, err := run("read " + filepath.Join(work, "f")).CombinedOutput(); err != nil || string(out) != "text\n" {
		t.Errorf("a read-only call: %s %v", out, err)
	}
	out, err := run("echo too late").CombinedOutput()
	if want := fmt.Sprintf("waits for process %d (bash: touch started; sleep 60)", holder.Process.Pid); err == nil || !strings.Contains(string(out), want) ||
		!strings.Contains(string(out), "did not start, because it waited longer than 300ms for process") {
		t.Errorf("%v: %s, wanted %q", err, out, want)
	}
	hosttest.Must(t, holder.Process.Kill())
	_ = holder.Wait()
	if out, err := run("echo free").CombinedOutput(); err != nil || string(out) != "free\n" {
		t.Errorf("after the kill: %s %v", out, err)
	}
	if left, err := os.ReadDir(filepath.Join(work+".state", "locks")); err != nil || len(left) > 0 {
		t.Errorf("these locks were not removed: %v (%v)", left, err)
	}
}
