package calls

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/test/hosttest"
)

// histories is the number of random histories for the library. The environment variable TOOLHOST_ORDER overrides it.
// Each frontend of the program gets a tenth of this number.
const histories = 50

func orderHistories(t *testing.T) int {
	t.Helper()
	s := os.Getenv("TOOLHOST_ORDER")
	if s == "" {
		return histories
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const orderConfig = `
plugin "read" {}
plugin "edit" {}
plugin "bash" {
  config {
    login_environment = false
  }
}
sandbox {
  enforce = "off"
}
permissions {
  deny "there" {
    tool = ["write", "edit"]
    path = ["**/c/*"]
  }
}
`

// orderDir creates a workspace and a configuration for histories.
func orderDir(t *testing.T) (dir, config string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(dir, "toolhost.hcl")
	if err := os.WriteFile(config, []byte(orderConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, config
}

// sender runs the calls of a history in one session. It sends all calls without waiting for results. Result i belongs
// to call i.
type sender func(ctx context.Context, session string, steps []step) []outcome

// runHistories runs n random histories, some of them concurrently, and compares the results with the model.
func runHistories(t *testing.T, dir string, n int, can abilities, send sender) {
	t.Helper()
	var wg sync.WaitGroup
	var calls, bad, unclear atomic.Int64
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				var problems []string
				var impatient bool
				for try := range 5 {
					session := fmt.Sprintf("%s-%d-%d", filepath.Base(t.Name()), i, try)
					root := filepath.Join(dir, session)
					m := newSequence(t, root)
					steps := history(rand.New(rand.NewPCG(uint64(i), 7)), root, can)
					calls.Add(int64(len(steps)))
					results := send(t.Context(), session, steps)
					problems = compare(t, m, steps, results)
					_ = os.RemoveAll(root)
					impatient = slices.ContainsFunc(results, outcome.Impatient)
					if len(problems) == 0 || !impatient {
						break
					}
				}
				if len(problems) > 0 && impatient {
					unclear.Add(1)
				} else if len(problems) > 0 && bad.Add(1) < 5 {
					t.Errorf("history %d:\n%s", i, strings.Join(problems, "\n"))
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	t.Logf("%d histories with %d calls: %d differ from sequential execution, and %d are unclear, because calls did not wait", n, calls.Load(), bad.Load(), unclear.Load())
	if int(unclear.Load()) > n/4 {
		t.Errorf("in %d of %d histories, calls did not wait for earlier calls in any try, so this machine is too busy for the test", unclear.Load(), n)
	}
}

// TestOrderOfCalls compares random concurrent calls of several callers with a sequential execution.
func TestOrderOfCalls(t *testing.T) {
	t.Parallel()
	dir, config := orderDir(t)
	h, err := host.New(t.Context(), host.Options{Config: config, BundledDir: filepath.Join(hosttest.Bin, "plugins"), Workspace: dir, StateDir: hosttest.KeptState(t, filepath.Join(t.TempDir(), "state"))})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	runHistories(t, dir, orderHistories(t), abilities{routed: true, jobs: true, cancels: canceledWithAnswer}, func(ctx context.Context, session string, steps []step) []outcome {
		out := make([]outcome, len(steps))
		var wg sync.WaitGroup
		var order sync.Mutex // the lock makes the callers begin their calls in the order of the history
		next := 0
		for range 3 {
			wg.Go(func() {
				for {
					order.Lock()
					i := next
					next++
					if i >= len(steps) {
						order.Unlock()
						return
					}
					s := steps[i]
					time.Sleep(s.Pause)
					args, _ := json.Marshal(s.Args)
					p := h.Begin(host.Request{Session: session, Name: s.Name, Arguments: args, Command: s.Command}, nil)
					order.Unlock()
					wg.Go(func() {
						ctx, cancel := ctx, context.CancelFunc(func() {})
						if s.Cancel > 0 {
							ctx, cancel = context.WithCancel(ctx)
							time.AfterFunc(s.Cancel, cancel)
						}
						out[i] = outcomeOf(p.Run(ctx))
						cancel()
					})
				}
			})
		}
		wg.Wait()
		return out
	})
}

func outcomeOf(res *host.Result) outcome {
	o := outcome{Ok: res.Success(), Output: res.Output}
	if res.Error != nil {
		o.Kind, o.Output = string(res.Error.Kind), res.Error.Message
	}
	return o
}

// lineResult is one result line of "toolhost batch" or of the HTTP API /v1.
type lineResult struct {
	ID      int
	Success bool
	Output  *string
	Error   *struct{ Kind, Message string }
}

func (r *lineResult) outcome() outcome {
	o := outcome{Ok: r.Success}
	if r.Output != nil {
		o.Output = *r.Output
	}
	if r.Error != nil {
		o.Kind, o.Output = r.Error.Kind, r.Error.Message
	}
	return o
}

// requestLines returns the calls of a history as input lines for "toolhost batch".
func requestLines(session string, steps []step) []byte {
	var b bytes.Buffer
	for i, s := range steps {
		r := map[string]any{"id": i, "session": session}
		if s.Name == "" {
			r["command"] = s.Command
		} else {
			r["name"], r["arguments"] = s.Name, s.Args
		}
		line, _ := json.Marshal(r)
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

func outcomesIn(t *testing.T, body io.Reader, n int) []outcome {
	out := make([]outcome, n)
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for i := 0; lines.Scan(); i++ {
		var r lineResult
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.ID != i || i >= n {
			t.Errorf("line %d: %v: %s", i, err, lines.Text())
			return out
		}
		out[i] = r.outcome()
	}
	return out
}

// TestOrderInBatch is like TestOrderOfCalls, but sends all calls of a history at once, to "batch --ordered" and to
// /v1/batch.
func TestOrderInBatch(t *testing.T) {
	t.Parallel()
	n := orderHistories(t) / 10
	dir, config := orderDir(t)
	t.Run("batch", func(t *testing.T) {
		runHistories(t, dir, n/5+1, abilities{routed: true}, func(ctx context.Context, session string, steps []step) []outcome {
			c := hosttest.Toolhost(t, dir, "--config", config, "--workspace", dir, "batch", "--ordered")
			c.Stdin = bytes.NewReader(requestLines(session, steps))
			text, err := c.Output()
			if err != nil {
				t.Error(err)
			}
			return outcomesIn(t, bytes.NewReader(text), len(steps))
		})
	})
	t.Run("v1", func(t *testing.T) {
		base, token := hosttest.Serve(t, dir, "--config", config, "--workspace", dir)
		c := hosttest.NewClient(t, base, token)
		runHistories(t, dir, n, abilities{routed: true, jobs: true}, func(ctx context.Context, session string, steps []step) []outcome {
			code, text := c.Do("POST", "/v1/batch?ordered=1", string(requestLines(session, steps)))
			if code != 200 {
				t.Errorf("%d %s", code, text)
			}
			return outcomesIn(t, strings.NewReader(text), len(steps))
		})
	})
}

// TestOrderOverMCP is like TestOrderOfCalls, but sends the calls over standard input and output, without waiting for
// answers.
func TestOrderOverMCP(t *testing.T) {
	t.Parallel()
	dir, config := orderDir(t)
	runHistories(t, dir, orderHistories(t)/50+1, abilities{cancels: canceledWithoutAnswer}, func(ctx context.Context, session string, steps []step) []outcome {
		s := hosttest.LineSession(t, dir, "--config", config, "--workspace", dir, "--session", session)
		for i, call := range steps {
			time.Sleep(call.Pause)
			line, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": map[string]any{"name": call.Name, "arguments": call.Args}})
			s.Say(string(line))
			if call.Cancel > 0 {
				time.AfterFunc(call.Cancel, func() {
					s.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
				})
			}
		}
		defer s.End()
		return answers(t, s, steps)
	})
}

// arrived waits until the server has received n calls of a session. The calls can wait, run or be
// answered. HTTP requests have no order. Therefore a test sends each call only after the previous call arrived.
func arrived(c *hosttest.Client, session string, n int, answered func() int) {
	c.T.Helper()
	for range 10_000 {
		done := answered()
		_, text := c.Do("GET", "/v1/status", "")
		var st host.Status
		if err := json.Unmarshal([]byte(text), &st); err != nil {
			c.T.Errorf("%v: %.300s", err, text)
			return
		}
		for _, call := range st.Calls {
			if strings.HasSuffix(call.Session, session) {
				done++
			}
		}
		if done >= n {
			return
		}
	}
	c.T.Errorf("call %d of %s does not arrive", n, session)
}

// pipelined sends the calls of a history in order, without waiting for answers.
func pipelined(c *hosttest.Client, session string, steps []step, call func(i int) outcome) []outcome {
	out := make([]outcome, len(steps))
	var wg sync.WaitGroup
	var answered atomic.Int64
	for i := range steps {
		time.Sleep(steps[i].Pause)
		wg.Go(func() {
			out[i] = call(i)
			answered.Add(1)
		})
		arrived(c, session, i+1, func() int { return int(answered.Load()) })
	}
	wg.Wait()
	return out
}

// TestOrderOverHTTP is like TestOrderOfCalls, but sends each call over a separate connection, to /v1/run and to /mcp.
func TestOrderOverHTTP(t *testing.T) {
	t.Parallel()
	n := orderHistories(t)/50 + 1
	dir, config := orderDir(t)
	base, token := hosttest.Serve(t, dir, "--config", config, "--workspace", dir)
	t.Run("run", func(t *testing.T) {
		c := hosttest.NewClient(t, base, token)
		runHistories(t, dir, n, abilities{routed: true, jobs: true}, func(_ context.Context, session string, steps []step) []outcome {
			lines := bytes.Split(requestLines(session, steps), []byte("\n"))
			return pipelined(c, session, steps, func(i int) outcome {
				code, text := c.Do("POST", "/v1/run", string(lines[i]))
				var r lineResult
				if err := json.Unmarshal([]byte(text), &r); code != 200 || err != nil {
					t.Errorf("%d %v %s", code, err, text)
				}
				return r.outcome()
			})
		})
	})
	t.Run("mcp", func(t *testing.T) {
		c := hosttest.NewClient(t, base, token)
		runHistories(t, dir, n, abilities{jobs: true}, func(ctx context.Context, _ string, steps []step) []outcome {
			s := hosttest.Connect(t, "2025-06-18", &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(token)}}, nil, nil)
			defer s.Close()
			return pipelined(c, s.ID(), steps, func(i int) outcome {
				res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: steps[i].Name, Arguments: steps[i].Args})
				if err != nil {
					t.Error(err)
					return outcome{}
				}
				o := outcome{Ok: !res.IsError}
				if e, ok := res.Meta["toolhost.dev/error"].(map[string]any); ok {
					o.Kind, _ = e["kind"].(string)
				}
				for _, part := range res.Content {
					if text, ok := part.(*mcp.TextContent); ok {
						o.Output += text.Text
					}
				}
				return o
			})
		})
	})
}
