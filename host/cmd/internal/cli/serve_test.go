package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// TestBrokenConnectionsAreLogged checks that the web server reports a broken connection in the format of the log.
func TestBrokenConnectionsAreLogged(t *testing.T) {
	read, write := io.Pipe()
	server := newWeb(t.Context(), slog.New(slog.NewJSONHandler(write, nil)), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a mistake") }))
	if server.ErrorLog == nil {
		t.Fatal("the server has no log")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	defer server.Close()
	defer read.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	line, err := bufio.NewReader(read).ReadBytes('\n')
	var entry struct{ Level, Msg string }
	if json.Unmarshal(line, &entry) != nil || entry.Level != "WARN" {
		t.Errorf("the log is %q, %v", line, err)
	}
}
