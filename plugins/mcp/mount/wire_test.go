package mount

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

type rawJSON = json.RawMessage

// testWire returns a wire together with the server's ends of the two pipes.
func testWire(t *testing.T) (w *wire, in *io.PipeWriter, out *os.File) {
	r, in := io.Pipe()
	out, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w = newWire(r, outW, new(schemas), func() {}, nil)
	t.Cleanup(func() {
		_ = w.Close()
		_ = in.Close()
		w.closeInput()
		_ = out.Close()
	})
	return w, in, out
}

func request(t *testing.T, w *wire, id float64, method string) jsonrpc.ID {
	t.Helper()
	i, err := jsonrpc.MakeID(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), &jsonrpc.Request{ID: i, Method: method}); err != nil {
		t.Fatal(err)
	}
	return i
}

// TestWireNoise checks that lines without a message are dropped, that batches are split, and that the last line
// needs no line ending.
func TestWireNoise(t *testing.T) {
	w, in, _ := testWire(t)
	go func() {
		_, _ = io.WriteString(in, "hello\n\n[]\n[1]\n{}\n{\"level\":\"info\"}\n\xff\n"+strings.Repeat("x", 100_000)+"\n"+
			`{"jsonrpc":"2.0","method":"one"}`+"\r\n"+`[{"jsonrpc":"2.0","method":"two"},5,{"jsonrpc":"2.0","method":"three"}]`+"\n"+`{"jsonrpc":"2.0","method":"four"}`)
		_ = in.Close()
	}()
	for _, want := range []string{"one", "two", "three", "four"} {
		m, err := w.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := m.(*jsonrpc.Request); !ok || r.Method != want {
			t.Fatalf("got %+v, want %s", m, want)
		}
	}
	if m, err := w.Read(t.Context()); err != io.EOF || !w.ended() { //nolint:errorlint // the SDK compares
		t.Errorf("got %v, %v", m, err)
	}
}

// TestWireByteOrderMark checks that a byte order mark before a message is skipped, and that other text is described.
func TestWireByteOrderMark(t *testing.T) {
	for text, noise := range map[string]string{
		"":                           "",
		"Server 1.0\nready\n":        "it printed 2 lines to its standard output that are not protocol messages, which begin with:\nServer 1.0",
		"\xff\xfe{\x00}\x00\n\x00":   "which begin with:\n\uFFFD{} (with NUL bytes, as in UTF-16; messages are in UTF-8)",
		"\ufeffbanner\n\ufeff\n\r\n": "it printed 1 lines to its standard output that are not protocol messages, which begin with:\nbanner",
	} {
		w, in, _ := testWire(t)
		go func() {
			_, _ = io.WriteString(in, text+"\n\ufeff"+`{"jsonrpc":"2.0","method":"one"}`+"\r\n")
		}()
		m, err := w.Read(t.Context())
		if r, ok := m.(*jsonrpc.Request); err != nil || !ok || r.Method != "one" {
			t.Fatalf("%q: %+v, %v", text, m, err)
		}
		if got := w.noiseText(); noise == "" && got != "" || !strings.Contains(got, noise) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestWireTooLarge checks oversized messages. The call whose ID is at the beginning or end of the message must fail.
// If the message has no ID, all calls must fail. The wire must then read later messages.
func TestWireTooLarge(t *testing.T) {
	big := strings.Repeat("x", maxFrame)
	for name, tc := range map[string]struct {
		frame  string
		failed []float64
	}{
		"id first":   {`{"jsonrpc":"2.0","id":7,"result":"` + big + `"}`, []float64{7}},
		"id last":    {`{"result":"` + big + `","jsonrpc":"2.0","id": 8}`, []float64{8}},
		"unknown id": {`{"result":"` + big + `","id":99}`, []float64{7, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			w, in, out := testWire(t)
			go func() { _, _ = io.Copy(io.Discard, out) }()
			request(t, w, 7, "tools/call")
			request(t, w, 8, "tools/call")
			go func() {
				_, _ = io.WriteString(in, tc.frame+"\n"+`{"jsonrpc":"2.0","method":"after"}`+"\n")
			}()
			failed := make(map[any]bool)
			for {
				m, err := w.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				r, ok := m.(*jsonrpc.Response)
				if !ok {
					break
				}
				failed[r.ID.Raw()] = r.Error != nil && strings.Contains(r.Error.Error(), "16 MiB")
			}
			if len(failed) != len(tc.failed) {
				t.Errorf("failed: %v", failed)
			}
			for _, id := range tc.failed {
				if !failed[int64(id)] {
					t.Errorf("%v did not fail", id)
				}
			}
		})
	}
}

// TestSchemasInOrder checks that the properties of a schema keep their received order.
func TestSchemasInOrder(t *testing.T) {
	w, in, out := testWire(t)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	request(t, w, 1, methodListTools)
	go func() {
		_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"z":{},"a":{}}}}]}}`+"\n")
	}()
	if _, err := w.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := w.schemas.schemaOf("t", map[string]any{"type": "object"})
	if err != nil || string(got) != `{"type":"object","properties":{"z":{},"a":{}}}` {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := w.schemas.schemaOf("other", map[string]any{"type": "object"}); err != nil || string(got) != `{"type":"object"}` {
		t.Errorf("got %s, %v", got, err)
	}
}
