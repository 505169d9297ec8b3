package mount

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// TestServerHearsOfCancel checks that a canceled call returns only after the server has been notified. Otherwise the
// plugin's process could end before the notification.
func TestServerHearsOfCancel(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // on one processor, background goroutines run late
	for i := range 40 {
		w, in, out := testWire(t)
		called, heard := make(chan struct{}), make(chan string, 1)
		go func() {
			var last string
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				_ = json.Unmarshal(lines.Bytes(), &m)
				switch last = m.Method; m.Method {
				case "server/discover":
					_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", m.ID)
				case "initialize":
					_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{}}}}`+"\n", m.ID)
				case "tools/call":
					close(called)
				}
			}
			heard <- last
		}()
		m := &mount{limits: Limits{Call: time.Minute}, news: newNews()}
		m.shared = newConn(m, "")
		var err error
		if m.shared.session, err = mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), w, nil); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 { // with this field, the calls of the connection bypass the SDK
			m.shared.server = &server{wire: w}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-called
			cancel()
		}()
		if _, err := m.call(ctx, &sdk.Call{Call: &tool.Call{}}, "waits", json.RawMessage("{}")); !errors.Is(err, context.Canceled) && tool.AsError(err).Kind != tool.Canceled {
			t.Fatal(err)
		}
		w.closeInput()
		if last := <-heard; !strings.HasSuffix(last, "/cancelled") {
			t.Fatalf("the last that the server hears is %q", last)
		}
	}
}
