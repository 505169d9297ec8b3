package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

const oddTools = `{"tools":[{"name":"odd","description":"Answer with an odd result.","inputSchema":{"type":"object","properties":{"kind":{"type":"string"}}}}]}`

// oddResults maps kinds to results that few servers send.
var oddResults = map[string]string{
	"hologram":  `{"content":[{"type":"text","text":"before"},{"type":"hologram","data":"x"},{"type":"text","text":"after"}],"structuredContent":{"id":12345678901234567891}}`,
	"image":     `{"content":[{"type":"text","text":"before"},{"type":"image","data":"%%%","mimeType":"image/png"},{"type":"text","text":"after"}]}`,
	"text":      `{"content":["before",{"type":"text","text":"after"}],"isError":true}`,
	"data":      `{"content":[{"type":"text","text":"t"}],"structuredContent":{"z":12345678901234567891,"a":[1.0,1e2,null,{}],"t":"<&>\u00e9\u0061\/\"\\"}}`,
	"list":      `{"content":[{"type":"text","text":"t"}],"structuredContent":[1,{"id":9007199254740993}]}`,
	"named":     `{"content":[{"type":"text","text":"t\u0061","name":"STDOUT","n":12345678901234567891},{"type":"image","data":"AAEC","mimeType":"image/png","x":{"y":"\u0061"}},{"type":"resource_link","uri":"file:///a","name":"a","size":12345678901234567,"x":1}]}`,
	"empty":     `{"content":[]}`,
	"annotated": `{"content":[{"type":"text","text":"t","annotations":{"audience":["user"],"priority":0.5},"_meta":{"k":1}},{"type":"audio","data":"AAEC","mimeType":"application/ogg"}],"structuredContent":{"id":9007199254740993},"_meta":{"example.com/a":{"b":[1,"x"]}}}`,
}

// oddResult returns the result that a call asks for.
func oddResult(m message) string {
	var p struct {
		Arguments struct{ Kind string } `json:"arguments"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		panic(err)
	}
	return oddResults[p.Arguments.Kind]
}

// serveOdd runs a server with odd results over HTTP, once for each revision of the protocol and form of a response. It
// also writes a configuration that mounts all of them, and writes a byte order mark before each response.
func serveOdd(config string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var text strings.Builder
	for _, name := range []string{"json", "events", "newjson", "newevents"} {
		fmt.Fprintf(&text, "field %q {\n  mcp {\n    url = \"http://%s/%s\"\n  }\n}\n", name, l.Addr(), name)
	}
	if err := os.WriteFile(config+".new", []byte(text.String()), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(config+".new", config); err != nil {
		panic(err)
	}
	panic(http.Serve(l, http.HandlerFunc(answerOdd))) //nolint:gosec // for tests
}

func answerOdd(w http.ResponseWriter, r *http.Request) {
	var m message
	if json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	newest := strings.HasPrefix(r.URL.Path, "/new")
	answer := `"error":{"code":-32601,"message":"Method not found"}`
	switch {
	case m.Method == "server/discover" && newest:
		answer = `"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"test","version":"1"}}`
	case m.Method == "initialize" && !newest:
		answer = `"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"test","version":"1"},"capabilities":{"tools":{}}}`
	case m.Method == "tools/list":
		answer = `"result":` + oddTools
	case m.Method == "tools/call":
		answer = `"result":` + oddResult(m)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
	if !strings.HasSuffix(r.URL.Path, "events") {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = fmt.Fprint(w, "\ufeff"+strings.Replace(body, ",", ",\n  ", 1)) // some servers print JSON in several lines
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = fmt.Fprintf(w, "\ufeffevent: message\r\ndata: %s\r\n\r\n", body)
}
