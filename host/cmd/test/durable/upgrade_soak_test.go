package durable

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// mcpCaller calls tools of a host over its standard input and output. Many calls can run at a time.
type mcpCaller struct {
	mu      sync.Mutex
	in      io.Writer
	next    int
	waiting map[int]chan json.RawMessage
}

// read passes answers to their callers until the host closes its output. Calls that still wait at this time get no
// answer.
func (c *mcpCaller) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var message struct {
			ID *int `json:"id"`
		}
		if json.Unmarshal(lines.Bytes(), &message) != nil || message.ID == nil {
			continue
		}
		c.mu.Lock()
		if answer := c.waiting[*message.ID]; answer != nil {
			answer <- json.RawMessage(strings.Clone(lines.Text()))
			delete(c.waiting, *message.ID)
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, answer := range c.waiting {
		close(answer)
	}
	c.waiting = nil
}

// request sends a request and returns the whole answer, or nil if the host ended.
func (c *mcpCaller) request(method, params string) json.RawMessage {
	answer := make(chan json.RawMessage, 1)
	c.mu.Lock()
	if c.waiting == nil {
		c.mu.Unlock()
		return nil
	}
	c.next++
	c.waiting[c.next] = answer
	_, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.next, method, params)
	c.mu.Unlock()
	if err != nil {
		return nil
	}
	return <-answer
}

// TestUpgradeUnderLoad upgrades a plugin while callers use it. No call may be lost, and a version that the host
// refuses must leave the previous version in place. TOOLHOST_UPGRADES is the number of upgrades in the
// long form, which has 64 callers.
func TestUpgradeUnderLoad(t *testing.T) {
	callers := 16
	upgrades := 3
	if text := os.Getenv("TOOLHOST_UPGRADES"); text != "" {
		n, err := strconv.Atoi(text)
		hosttest.Must(t, err)
		upgrades, callers = n, 64
	}
	mirror := filepath.Join(t.TempDir(), "mirror")
	const src = "registry.invalid/acme/weather"
	o := hosttest.NewOperator(t, "bundled = false\nplugin \"weather\" { source = \""+src+"\" }\nmirror \"registry.invalid/*\" { to = \"file://"+mirror+"\" }\n")
	o.Run(0, "toolhost plugin key acme")
	program, err := os.ReadFile(filepath.Join(hosttest.Bin, "testplugin"))
	hosttest.Must(t, err)
	path := filepath.Join(o.Dir, "build", "weather")
	hosttest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	publish := func(version, more string) {
		t.Helper()
		hosttest.Must(t, os.WriteFile(path, fmt.Appendf(program[:len(program):len(program)], "\n!variant name=weather version=%s %s\n", version, more), 0o755))
		o.Run(0, fmt.Sprintf("toolhost plugin publish --key acme.key --to file://%s --platform %s/%s=%s %s:%s", mirror, runtime.GOOS, runtime.GOARCH, path, src, version))
	}
	publish("1.0.0", "")
	o.Run(0, "toolhost plugin install")

	host := o.Command("exec toolhost mcp")
	stdin, err := host.StdinPipe()
	hosttest.Must(t, err)
	stdout, err := host.StdoutPipe()
	hosttest.Must(t, err)
	hosttest.Must(t, host.Start())
	c := &mcpCaller{in: stdin, waiting: make(map[int]chan json.RawMessage)}
	var reader sync.WaitGroup
	reader.Go(func() { c.read(stdout) })
	c.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"load","version":"1"}}`)

	var answered, lost atomic.Int64
	var load sync.WaitGroup
	stop := make(chan struct{})
	for caller := range callers {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprintf("caller %d call %d.", caller, n)
				answer := string(c.request("tools/call", fmt.Sprintf(`{"name":"echo","arguments":{"text":%q}}`, text)))
				if !strings.Contains(answer, text) || strings.Contains(answer, `"isError":true`) {
					lost.Add(1)
					t.Errorf("%s was lost: %.300s", text, answer)
					return
				}
				answered.Add(1)
				// Agents also pause; without pauses, the upgrades would wait for the processor.
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	swapped, refused := 0, 0
	for i := 1; i <= upgrades && lost.Load() == 0; i++ {
		publish(fmt.Sprintf("1.%d.0", i), "")
		o.Run(0, "toolhost plugin upgrade weather", fmt.Sprintf("→ 1.%d.0", i))
		before, served := o.Lock(), o.Served()
		swapped++
		if i%4 != 0 {
			continue
		}
		publish(fmt.Sprintf("1.%d.1", i), "unhealthy=yes")
		o.Run(1, "toolhost plugin upgrade weather", fmt.Sprintf("a host refuses version 1.%d.1, so version 1.%d.0 stays", i, i))
		if o.Lock() != before || o.Served() != served {
			t.Errorf("the refused version 1.%d.1 changed the lock file or the host", i)
		}
		refused++
	}
	close(stop)
	load.Wait()
	hosttest.Must(t, stdin.Close())
	reader.Wait()
	hosttest.Must(t, host.Wait())
	t.Logf("%d callers, %d swaps, %d refused versions, %d calls answered, %d lost", callers, swapped, refused, answered.Load(), lost.Load())
	if answered.Load() < int64(callers) {
		t.Errorf("only %d calls were answered", answered.Load())
	}
	o.Run(0, "toolhost plugin gc", "removed")
}
