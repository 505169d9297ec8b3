package calls

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestALongBatchAnswersEachCallOnce runs ten thousand calls on one stream, and one call in a hundred fails. It checks
// that each call receives its own result exactly once.
func TestALongBatchAnswersEachCallOnce(t *testing.T) {
	t.Parallel()
	const calls, everyFails = 10_000, 100
	dir := t.TempDir()
	config := filepath.Join(dir, "toolhost.hcl")
	if err := os.WriteFile(config, fmt.Appendf(nil, "plugin \"testplugin\" {\n  path = %q\n}\n", filepath.Join(hosttest.Bin, "testplugin")), 0o600); err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	fails := func(i int) bool { return i%everyFails == 7 }
	for i := range calls {
		switch {
		case fails(i):
			fmt.Fprintf(&in, `{"id":%d,"name":"fail","arguments":{"kind":"conflict","code":%d}}`+"\n", i, i)
		case i%10 == 3: // no other calls run at the same time, so these calls separate groups of concurrent calls
			fmt.Fprintf(&in, `{"id":%d,"name":"count","arguments":{}}`+"\n", i)
		default:
			fmt.Fprintf(&in, `{"id":%d,"command":"echo text-%d"}`+"\n", i, i)
		}
	}
	c := exec.CommandContext(t.Context(), filepath.Join(hosttest.Bin, "trusting", "toolhost"), "--config", config, "--workspace", dir, "--state", hosttest.KeptState(t, dir+".state"), "batch")
	c.Stdin, c.Stderr = &in, os.Stderr
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR=")
	c.WaitDelay = time.Second
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[int]int, calls)
	counted := make(map[int]string) // results of the tool "count" by request id
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			ID      *int
			Success bool
			Output  *string
			Error   *struct {
				Kind string
				Code int
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.ID == nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		i := *r.ID
		seen[i]++
		switch {
		case fails(i):
			if r.Success || r.Error == nil || r.Error.Kind != "conflict" || r.Error.Code != i {
				t.Errorf("call %d should fail with its own code: %s", i, lines.Text())
			}
		case !r.Success:
			t.Errorf("call %d failed: %s", i, lines.Text())
		case i%10 == 3:
			counted[i] = *r.Output
		case *r.Output != fmt.Sprintf("text-%d", i):
			t.Errorf("call %d got the output of another call: %s", i, lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		if seen[i] != 1 {
			t.Errorf("call %d was answered %d times", i, seen[i])
		}
		if want := strconv.Itoa(i/10 + 1); i%10 == 3 && counted[i] != want {
			t.Errorf("call %d counted %s, not %s: it ran out of order", i, counted[i], want)
		}
	}
	if len(seen) != calls {
		t.Errorf("%d calls were answered, not %d", len(seen), calls)
	}
}
