package durable

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

const hungConfig = `plugin "test" {
  path = %q
}
plugin "bash" {}
tool "echo" {
  timeout = "5s"
}
`

func hungHost(t *testing.T) *batchHost {
	t.Helper()
	work, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(filepath.Join(work, "toolhost.hcl"), fmt.Appendf(nil, hungConfig, filepath.Join(hosttest.Bin, "testplugin")), 0o600))
	h := startBatch(t, work)
	t.Cleanup(func() {
		_ = h.in.Close()
		_ = h.cmd.Wait()
	})
	return h
}

func (h *batchHost) want(t *testing.T, session, command string, want ...string) {
	t.Helper()
	res := fmt.Sprint(h.call(session, command))
	for _, w := range want {
		if !strings.Contains(res, w) {
			t.Errorf("%s: %s, wanted %s", command, res, w)
		}
	}
}

// onlyChild waits until the host has exactly one process of a plugin, and returns the id of this process. A process
// that only described the plugin can still be ending.
func (h *batchHost) onlyChild(t *testing.T, name string) int {
	t.Helper()
	var all []int
	hosttest.Wait(t, "the host has one process of "+name, func() bool {
		all = hosttest.ChildrenNamed(h.cmd.Process.Pid, name)
		return len(all) == 1
	})
	return all[0]
}

// freeze stops a process, and waits until all its threads have stopped. On a busy machine, the threads continue to run
// until one of them receives the signal.
func freeze(t *testing.T, pid int) {
	t.Helper()
	hosttest.Must(t, syscall.Kill(pid, syscall.SIGSTOP))
	hosttest.Wait(t, "the process has stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		hosttest.Must(t, err)
		for _, path := range threads {
			b, err := os.ReadFile(path)
			if err != nil {
				return false // the thread ended meanwhile
			}
			if _, state, _ := strings.Cut(string(b), ") "); !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return len(threads) > 0
	})
}

// TestHungPluginIsReplaced stops the process of a plugin. A call that exceeds its timeout shows the host that the
// plugin hangs. The other running calls must end, and the host must repeat calls of read-only tools. The next call must
// use a new process.
func TestHungPluginIsReplaced(t *testing.T) {
	t.Parallel()
	h := hungHost(t)
	h.want(t, "a", "tool:echo hi", "output:hi", "success:true")
	freeze(t, h.onlyChild(t, "testplugin"))
	var wg sync.WaitGroup
	wg.Go(func() {
		h.want(t, "b", "count", "kind:unavailable", "did not answer two health checks and was killed", "It is unknown whether this call took effect")
	})
	wg.Go(func() { h.want(t, "c", "where", "success:true", "attempts:2") })
	h.want(t, "a", "tool:echo hung", "kind:timeout", "source:host")
	wg.Wait()
	h.want(t, "a", "tool:echo again", "output:again")

	// Stop the process during a call with a long timeout.
	wg.Go(func() {
		h.want(t, "b", "count --ms 100000", "kind:unavailable", "did not answer two health checks and was killed")
	})
	plugin := h.onlyChild(t, "testplugin")
	hosttest.Wait(t, "the call runs", func() bool { return strings.Contains(fmt.Sprint(h.call("c", "count")), "output:") })
	freeze(t, plugin)
	wg.Wait()

	// SIGTERM ends each process and cancels the calls of the process.
	wg.Go(func() { h.want(t, "c", "nap --ms 60000 --marker napping", "success:true", "attempts:2") })
	wg.Go(func() {
		h.want(t, "b", "echo printed; touch began; sleep 60", "kind:unavailable", "Plugin bash ended during the call of bash (exit status 0). The plugin is started again. It is unknown whether this call took effect. The tool still reported: ", "was killed with everything it had started", "printed")
	})
	hosttest.Wait(t, "the calls run", func() bool {
		_, shell := os.Stat(filepath.Join(h.cmd.Dir, "began"))
		_, nap := os.Stat(filepath.Join(h.cmd.Dir, "napping"))
		return shell == nil && nap == nil
	})
	for _, name := range []string{"testplugin", "bash"} {
		for _, pid := range hosttest.ChildrenNamed(h.cmd.Process.Pid, name) {
			hosttest.Must(t, syscall.Kill(pid, syscall.SIGTERM))
		}
	}
	wg.Wait()
	h.want(t, "b", "echo again", "output:again")
}

// TestPoisonedCall checks a call that always crashes its plugin. After two crashes, the host must refuse this call in
// this session. It must not refuse other sessions and other calls. The messages must not contain the dump of the
// process.
func TestPoisonedCall(t *testing.T) {
	t.Parallel()
	h := hungHost(t)
	var wg sync.WaitGroup
	for i := range 4 { // these calls run concurrently with a call that crashes the plugin
		wg.Go(func() { h.want(t, fmt.Sprint("nap", i), fmt.Sprint("nap --ms ", 400+i), "success:true") })
	}
	time.Sleep(100 * time.Millisecond)
	h.want(t, "p", "poison x", "kind:unavailable", "ended during the call of poison (exit status 7)", "attempts:2")
	for range 6 { // more failures than are needed to suspend a plugin
		h.want(t, "p", "poison x", "poison was not run, because this call ended plugin test 2 times (exit status 7). Make another call, or change its arguments.", "attempts:1")
	}
	h.want(t, "other", "poison x", "ended during the call of poison (exit status 7)", "attempts:2") // crashes count only for the session that caused them
	h.want(t, "q", "tool:echo fine", "output:fine")
	wg.Wait()
	h.want(t, "p", "poison abort", "ended during the call of poison (exit status 2; its output ends with:\n  SIGABRT: abort). ")
	h.want(t, "p", "poison abort", "2 times (exit status 2: SIGABRT: abort). Make another call")
	for i := range 6 {
		h.want(t, "p", fmt.Sprint("poison y", i), "ended during the call of poison")
	}
	h.want(t, "q", "tool:echo fine", "output:fine")
}
