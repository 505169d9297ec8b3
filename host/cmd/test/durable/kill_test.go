package durable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// killedFiles is the number of files that the test writes. Every second file has two hard links, so the edit plugin
// writes this file in place. killedWrites is the number of writes by each host.
const killedFiles, killedWrites = 10, 500

// TestKilledWhileWriting kills the host or the edit plugin during 500 writes, while another host also writes. Each file
// must then contain either its old or its new text. After the next host writes a file, no temporary files must remain.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	work := filepath.Join(dir, "work")
	hosttest.Must(t, os.Mkdir(work, 0o755))
	for i := range killedFiles {
		hosttest.Must(t, os.WriteFile(killedFile(work, i), killedText(i), 0o644))
		if i%2 == 1 {
			hosttest.Must(t, os.Link(killedFile(work, i), killedFile(work, i)+".twin"))
		}
	}
	runtime, err := os.MkdirTemp("", "th") // a short directory name, because the length of socket paths is limited
	hosttest.Must(t, err)
	defer os.RemoveAll(runtime)
	hosttest.KeptState(t, filepath.Join(dir, "state", "toolhost"))
	env := append(os.Environ(), "XDG_RUNTIME_DIR="+runtime, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	rounds := 3
	if hosttest.Long() {
		rounds = 32
	}
	for round := range rounds {
		a, b := startWriting(t, work, env, fmt.Sprint("a", round), 0), startWriting(t, work, env, fmt.Sprint("b", round), killedFiles/2)
		for a.answers()+b.answers() < 20+round*10 && !a.ended() {
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		victim := a.cmd.Process.Pid
		if round%2 == 1 {
			victim = childNamed(t, victim, "edit")
		}
		hosttest.Must(t, syscall.Kill(victim, syscall.SIGKILL))
		n := a.answers()
		if n >= killedWrites {
			t.Logf("round %d: all writes were complete before the kill", round)
		}
		a.stop()
		b.stop()
		after := hosttest.Command("--workspace", work, "--session", fmt.Sprint("after", round), "run", fmt.Sprintf("write --file_path after%d.txt --content x", round))
		after.Env = env
		if out, err := after.CombinedOutput(); err != nil {
			t.Fatalf("the next host: %v\n%s", err, out)
		}
		whole(t, work)
	}
}

func killedFile(work string, i int) string { return filepath.Join(work, fmt.Sprintf("f%d.txt", i)) }

// killedText returns a text that differs for each n. The test can recognize whether a part of the text is missing or
// mixed with another version.
func killedText(n int) []byte {
	return append(bytes.Repeat(fmt.Appendf(nil, "version %d\n", n), 2000+n), "end\n"...)
}

// writing is a running host that writes files.
type writing struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{}

	mu    sync.Mutex
	lines int
}

// startWriting starts a host that first reads and then writes files, one call at a time.
func startWriting(t *testing.T, work string, env []string, session string, first int) *writing {
	t.Helper()
	cmd := hosttest.Command("--workspace", work, "--session", session, "batch")
	cmd.Env, cmd.Stderr = env, t.Output()
	in, err := cmd.StdinPipe()
	hosttest.Must(t, err)
	w := &writing{cmd: cmd, in: in, done: make(chan struct{})}
	cmd.Stdout = w
	hosttest.Must(t, cmd.Start())
	go func() {
		enc := json.NewEncoder(in)
		half := killedFiles / 2 // each of the two hosts writes half of the files
		for i := range half + killedWrites {
			file := killedFile(work, first+i%half)
			call := map[string]any{"id": i, "name": "read", "arguments": map[string]any{"file_path": file}}
			if i >= half {
				call["name"], call["arguments"] = "write", map[string]any{"file_path": file, "content": string(killedText(i))}
			}
			if enc.Encode(call) != nil {
				break
			}
		}
		_ = in.Close()
	}()
	go func() {
		_ = cmd.Wait()
		close(w.done)
	}()
	return w
}

// Write counts the result lines from the host.
func (w *writing) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines += bytes.Count(p, []byte{'\n'})
	return len(p), nil
}

func (w *writing) answers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines
}

func (w *writing) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *writing) stop() {
	_ = w.cmd.Process.Signal(syscall.SIGINT)
	<-w.done
}

// childNamed returns the id of the child process with the given binary name.
func childNamed(t *testing.T, parent int, name string) int {
	t.Helper()
	all := hosttest.ChildrenNamed(parent, name)
	if len(all) == 0 {
		t.Fatalf("process %d has no child %s", parent, name)
	}
	return all[0]
}

func whole(t *testing.T, work string) {
	t.Helper()
	entries, err := os.ReadDir(work)
	hosttest.Must(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(work, e.Name()))
		hosttest.Must(t, err)
		var n int
		switch _, err := fmt.Sscanf(string(b), "version %d\n", &n); {
		case strings.HasPrefix(e.Name(), "after"):
		case strings.HasPrefix(e.Name(), "."):
			t.Errorf("the temporary file %s remains", e.Name())
		case err != nil || !bytes.Equal(b, killedText(n)):
			t.Errorf("%s is not whole: %d bytes, %.40q", e.Name(), len(b), b)
		}
	}
}
