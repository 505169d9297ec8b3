package mount

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asked returns a function that reads the next request to a server. The function returns the ID, the method and the
// parameters of the request.
func asked(t *testing.T, out io.Reader) func() (id int64, method, params string) {
	t.Helper()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return func() (int64, string, string) {
		if !lines.Scan() {
			return 0, "", ""
		}
		var m struct {
			ID     int64
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Errorf("%q: %v", lines.Text(), err)
		}
		return m.ID, m.Method, string(m.Params)
	}
}

// TestDirectRequests makes concurrent requests that are answered in reverse order. Each request must get its own
// answer. An answer with an ID of the SDK must reach the SDK.
func TestDirectRequests(t *testing.T) {
	w, in, out := testWire(t)
	const n = 50
	next := asked(t, out)
	go func() {
		var ids []int64
		for range n {
			id, _, params := next()
			ids = append(ids, id)
			if !strings.Contains(params, `"n":`) {
				t.Error(params)
			}
		}
		_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n")
		slices.Reverse(ids)
		for _, id := range ids {
			_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"result":{"id":%d}}`+"\n", id, id)
		}
	}()
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[string]bool)
	for i := range n {
		all.Go(func() {
			res, err := w.callTool(t.Context(), map[string]int{"n": i})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[string(res)] || !strings.HasPrefix(string(res), `{"id":`) {
				t.Errorf("%s, %v", res, err)
			}
			seen[string(res)] = true
		})
	}
	m, err := w.Read(t.Context())
	if r, ok := m.(*jsonrpc.Response); err != nil || !ok || r.ID.Raw() != int64(1) {
		t.Errorf("%v, %v", m, err)
	}
	all.Wait()
	if len(w.direct)+len(w.pending) > 0 {
		t.Errorf("%d requests are kept", len(w.direct)+len(w.pending))
	}
}

// TestDirectFailures checks the error of a request if the server returns an error, if the answer is too large, and if
// the connection ends.
func TestDirectFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		check  func(error) bool
	}{
		"error": {`{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,"message":"no","data":{"a":1}}}`, func(err error) bool {
			e := new(jsonrpc.Error)
			return errors.As(err, &e) && e.Code == -32602 && e.Message == "no" && string(e.Data) == `{"a":1}`
		}},
		"not valid, then an error": {`{"jsonrpc":"2.0","id":%d,"result":{"a":}}` + "\n" + `{"jsonrpc":"2.0","id":%[1]d,"error":{"code":-1,"message":"later"}}`, func(err error) bool {
			return strings.Contains(err.Error(), "later")
		}},
		"too large": {`{"jsonrpc":"2.0","id":%d,"result":"` + strings.Repeat("x", maxFrame) + `"}`, func(err error) bool {
			return strings.Contains(err.Error(), "16 MiB")
		}},
		"end": {"", func(err error) bool { return errors.Is(err, io.EOF) }},
	} {
		t.Run(name, func(t *testing.T) {
			w, in, out := testWire(t)
			next := asked(t, out)
			go func() {
				id, _, _ := next()
				if tc.answer == "" {
					_ = in.Close()
					return
				}
				_, _ = fmt.Fprintf(in, tc.answer+"\n", id)
			}()
			if res, err := w.callTool(t.Context(), struct{}{}); err == nil || !tc.check(err) {
				t.Errorf("%.100s, %v", res, err)
			}
		})
	}
}

// TestLateAnswer checks that the answer to a canceled request is dropped, and that the server is notified of the
// cancellation before the request returns.
func TestLateAnswer(t *testing.T) {
	w, in, out := testWire(t)
	next := asked(t, out)
	ctx, cancel := context.WithCancel(t.Context())
	ids := make(chan int64, 1)
	go func() {
		id, _, _ := next()
		ids <- id
		cancel()
	}()
	if _, err := w.callTool(ctx, struct{}{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	id := <-ids
	if _, method, params := next(); method != "notifications/cancelled" || !strings.Contains(params, fmt.Sprint(id)) {
		t.Errorf("%s %s", method, params)
	}
	go func() {
		_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"result":{}}`+"\n"+`{"jsonrpc":"2.0","id":%[1]d,"error":{"code":1,"message":"canceled"}}`+"\n"+`{"jsonrpc":"2.0","method":"after"}`+"\n", id)
	}()
	m, err := w.Read(t.Context())
	if r, ok := m.(*jsonrpc.Request); err != nil || !ok || r.Method != "after" {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestFullPipe checks that a request to a server that does not read can be canceled, and that later lines are whole.
func TestFullPipe(t *testing.T) {
	w, _, out := testWire(t)
	ctx, cancel := context.WithCancel(t.Context())
	large := strings.Repeat("x", 500_000) // more than a pipe has room for
	ended := make(chan error, 1)
	go func() {
		_, err := w.callTool(ctx, large)
		ended <- err
	}()
	lines := bufio.NewReader(out)
	if _, err := lines.Peek(1); err != nil { // the request is being written
		t.Error(err)
	}
	cancel()
	next := asked(t, lines)
	if _, _, params := next(); params != `"`+large+`"` {
		t.Errorf("the line has %d bytes", len(params))
	}
	if _, method, _ := next(); method != "notifications/cancelled" {
		t.Error(method)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestToolResult compares the decoding of results with that of the SDK.
func TestToolResult(t *testing.T) {
	for _, raw := range []string{
		`{"content":[{"type":"text","text":"a \"b\"\n\té"}]}`, `{"content":[]}`, `{"content":[{"type":"text","text":"a"},{"text":"b","type":"text"}],"isError":true}`,
		`{"content":[{"type":"text","text":"\u00e9\ud83d\ude00"}],"structuredContent":{"a":[1,2],"b":"x"},"isError":false}`,
		`{"content":[{"type":"text","text":"a","_meta":{"k":1},"annotations":{"priority":0.5}}],"_meta":{"m":2}}`,
		`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"resource_link","uri":"file:///a","name":"a"}]}`,
		`{"content":[{"type":"text","text":"a"}],"structuredContent":null}`, `{"content":[],"structuredContent":{"a":"\u0061\/"}}`, `{"structuredContent":{"a":1}}`,
		`{ "isError" : false , "content" : [ { "type" : "text" , "text" : "a" } ] }`,
	} {
		want := new(mcp.CallToolResult)
		if err := json.Unmarshal([]byte(raw), want); err != nil {
			t.Fatal(raw, err)
		}
		got, err := toolResult(json.RawMessage(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		a, aErr := result(got)
		if want, err = unfolded(want, nil); err != nil {
			t.Fatal(err)
		}
		b, bErr := result(want)
		if fmt.Sprint(aErr) != fmt.Sprint(bErr) {
			t.Errorf("%s: %v, want %v", raw, aErr, bErr)
		}
		if x, y := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); x != y {
			t.Errorf("%s:\n%s, want\n%s", raw, x, y)
		}
	}
	// Large numbers stay exact. The SDK rounds them.
	got, err := toolResult(json.RawMessage(`{"content":[],"structuredContent":{"id":12345678901234567891}}`))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := result(got); err != nil || string(r.Data) != `{"id":12345678901234567891}` {
		t.Errorf("%s, %v", r.Data, err)
	}
	// A block that cannot be decoded is replaced by a note, and the rest of the result stays.
	for _, bad := range []string{`{"type":"hologram","x":1}`, `{"type":"image","data":"%%%","mimeType":"image/png"}`, `"no object"`, `{"type":"text","text":5}`} {
		got, err := toolResult(json.RawMessage(`{"content":[{"type":"text","text":"before"},` + bad + `,{"type":"text","text":"after"}],"structuredContent":{"id":12345678901234567891}}`))
		if err != nil {
			t.Errorf("%s: %v", bad, err)
			continue
		}
		if r, err := result(got); err != nil || !strings.HasPrefix(r.Output, "before\n[A part of the result cannot be read: ") || !strings.HasSuffix(r.Output, "]\nafter") || strings.Contains(r.Output, "Go ") || string(r.Data) != `{"id":12345678901234567891}` {
			t.Errorf("%s: %+v, %v", bad, r, err)
		}
		raw := `{"resultType":"complete","content":[{"type":"text","text":"before"},` + bad + `,{"type":"text","text":"after"}],"structuredContent":{"id":12345678901234567891}}`
		decoded := new(mcp.CallToolResult)
		if json.Unmarshal([]byte(raw), decoded) == nil {
			t.Errorf("the SDK decodes %s itself", bad)
		}
		fixed := folded(json.RawMessage(raw)) // for calls through the SDK, as those of servers of the newer protocol
		if err := json.Unmarshal(fixed, decoded); err != nil || !strings.Contains(string(fixed), `"resultType":"complete"`) {
			t.Errorf("%s: %s: %v", bad, fixed, err)
		} else if res, err := unfolded(decoded, nil); err != nil {
			t.Errorf("%s: %v", bad, err)
		} else if r, err := result(res); err != nil || !strings.HasPrefix(r.Output, "before\n[A part of the result cannot be read: ") || !strings.HasSuffix(r.Output, "]\nafter") || strings.Contains(r.Output, "Go ") || string(r.Data) != `{"id":12345678901234567891}` {
			t.Errorf("%s: %+v, %v", bad, r, err)
		}
	}
	if _, err := toolResult(json.RawMessage(`{"content":"no list"}`)); err == nil {
		t.Error("a result without a list is taken")
	}
}
