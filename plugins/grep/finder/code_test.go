package finder

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

// code calls the tool code_query and expects success. The result "text" excludes the notes, which are returned
// separately.
func (h *host) code(a args) (text, notes string, d codeData) {
	h.t.Helper()
	res := h.call("code_query", a)
	if res.Error != nil {
		h.t.Fatalf("code_query %v: %v", a, res.Error)
	}
	must(h.t, json.Unmarshal(res.Data, &d))
	text, notes = split(res.Output)
	return text, notes, d
}

var codeTree = []string{
	"server/server.go=package server\n\n// Server is no ServerText.\ntype Server struct {\n\tname string\n}\n\nfunc (s *Server) Close() error {\n\treturn nil\n}\n\nfunc NewServer() *Server { return &Server{} }\n\nvar server = NewServer()\n",
	"server/other.go=package server\n\ntype Client struct{ Server *Server }\n\nfunc (c Client) Close() error { return nil }\n",
	"web/app.ts=export class ServerPool {\n  close(): void {}\n}\nexport const makeServer = () => new ServerPool();\n",
	"web/app.py=class Handler:\n    def close(self):\n        # def commented(): pass\n        return 'class Server: pass'\n",
	"lib/thing.rb=class Server\n  def close\n  end\nend\n",
	"lib/point.rs=impl Server { fn close(&self) {} }\n",
	"lib/a.java=class Server { void close() {} }\n",
	"lib/a.c=int server_close(void) { return 0; }\n",
	"lib/a.cpp=namespace net { class Server { void close(); }; }\nvoid net::Server::close() {}\n",
	"README.md=func Server() {}\n",
	"ignored/x.go=package x\n\ntype Server int\n",
	".gitignore=ignored\n", ".git/HEAD=x\n",
}

func TestCodeQuery(t *testing.T) {
	h := newHost(t, codeTree...)
	for way, o := range h.inWays() {
		for _, c := range []struct {
			a    args
			want string
		}{
			{args{"query": "Server", "type": "class"}, `# exact (4)
lib/a.cpp:1:23 class net.Server: namespace net { class Server { void close(); }; }
lib/a.java:1:7 class Server: class Server { void close() {} }
lib/thing.rb:1:7 class Server [pattern]: class Server
server/server.go:4:6 struct Server: type Server struct {
# begins with the name (1)
web/app.ts:1:14 class ServerPool: export class ServerPool {`},
			{args{"query": "server", "match": "exact", "language": "go"}, `# exact (2)
server/server.go:14:5 variable server: var server = NewServer()
server/server.go file
# exact except for case (2)
server/server.go:4:6 struct Server: type Server struct {
server/other.go:3:21 field Client.Server: type Client struct{ Server *Server }`},
			{args{"query": "Server.Close", "type": "method"}, `# exact (1)
server/server.go:8:18 method Server.Close: func (s *Server) Close() error {
# exact except for case (4)
lib/a.cpp:1:37 method net.Server.close: namespace net { class Server { void close(); }; }
lib/a.cpp:2:19 method net.Server.close: void net::Server::close() {}
lib/a.java:1:21 method Server.close: class Server { void close() {} }
lib/point.rs:1:18 method Server.close: impl Server { fn close(&self) {} }`},
			{args{"query": "/^New[A-Z]/"}, "server/server.go:12:6 function NewServer: func NewServer() *Server { return &Server{} }"},
			{args{"query": "make*", "type": "function"}, "web/app.ts:4:14 function makeServer: export const makeServer = () => new ServerPool();"},
			{args{"query": "*", "path": "web/app.py"}, "web/app.py:1:7 class Handler: class Handler:\nweb/app.py:2:9 method Handler.close: def close(self):"},
			{args{"query": "app", "type": "file"}, "web/app.py file\nweb/app.ts file"},
			{args{"query": "web/app.ts", "type": "file"}, "web/app.ts file"},
			{args{"query": "commented"}, ""},
			{args{"query": "ServerText"}, ""},
			{args{"query": "Close", "language": "go", "context": 1, "head_limit": 1}, "server/other.go:5:17 method Client.Close\n     4| \n     5| func (c Client) Close() error { return nil }"},
			{args{"query": "Server", "path": "ignored", "type": "class"}, "ignored/x.go:3:6 type Server: type Server int"},
		} {
			text, _, d := o.code(c.a)
			if text != c.want {
				t.Errorf("%s: %v gives\n%s\nwant\n%s", way, c.a, text, c.want)
			}
			for _, m := range d.Matches {
				if m.File == "" || m.Line < 1 || m.Column < 1 || m.EndLine < m.Line || m.Parser != "" && m.Code == "" {
					t.Errorf("%s: %v: %+v", way, c.a, m)
				}
			}
		}
		if _, notes, d := o.code(args{"query": "close", "head_limit": 2, "offset": 1}); len(d.Matches) != 2 || !d.Truncated || !strings.Contains(notes, "2-3 of") {
			t.Errorf("%s: a page: %d matches, %s", way, len(d.Matches), notes)
		}
		if _, notes, d := o.code(args{"query": "nosuch"}); d.Total != 0 || !strings.Contains(notes, "use grep") && !strings.Contains(notes, "Use grep") {
			t.Errorf("%s: nothing: %s", way, notes)
		}
		o.refuses("code_query", args{"query": "  "}, tool.InvalidArguments, "empty")
		o.refuses("code_query", args{"query": "func Server"}, tool.InvalidArguments, "space", `"Server"`)
		o.refuses("code_query", args{"query": "/a(b/"}, tool.InvalidArguments)
		o.refuses("code_query", args{"query": "[ab"}, tool.InvalidArguments, "bracket")
		o.refuses("code_query", args{"query": "x", "language": "pyton"}, tool.InvalidArguments, "python")
		o.refuses("code_query", args{"query": "x", "path": "webb"}, tool.NotFound, "web")
		o.refuses("code_query", args{"query": "x", "path": "/etc"}, tool.Security, "outside")
	}
}

// TestCodeFresh makes random edits and compares each answer from the index with the answer from the disk.
func TestCodeFresh(t *testing.T) {
	h := newHost(t, codeTree...)
	hosts := h.inWays()
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"alpha", "beta", "gamma", "delta"}
	write := map[string]func(string) string{
		"a.go": func(n string) string { return "package a\n\nfunc " + n + "() {}\n" },
		"b.py": func(n string) string { return "class " + n + ":\n    pass\n" },
		"c.ts": func(n string) string { return "export const " + n + " = 1;\n" },
		"d.rs": func(n string) string { return "fn " + n + "() {}\n" },
		"e.rb": func(n string) string { return "def " + n + "\nend\n" },
	}
	var files []string
	for f := range write {
		files = append(files, f)
	}
	slices.Sort(files)
	for step := range 150 {
		file := files[r.IntN(len(files))]
		path := fmt.Sprintf("dir%d/%s", r.IntN(3), file)
		switch r.IntN(6) {
		case 0:
			_ = os.Remove(h.path(path))
		case 1:
			other := fmt.Sprintf("dir%d/%s", r.IntN(3), file)
			_ = os.Rename(h.path(path), h.path(other))
		case 2:
			_ = os.RemoveAll(h.path(fmt.Sprintf("dir%d", r.IntN(3))))
		default:
			h.add(path + "=" + strings.Repeat("\n", r.IntN(3)) + write[file](names[r.IntN(len(names))]))
		}
		a := args{"query": names[r.IntN(len(names))], "head_limit": 0}
		want, _, wantData := hosts["disk"].code(a)
		for way, o := range hosts {
			if text, _, d := o.code(a); text != want || d.Total != wantData.Total {
				t.Fatalf("step %d, %s: %v gives\n%s\nwant\n%s", step, way, a, text, want)
			}
		}
	}
}

// TestCodeTimeLimit checks that a call at its time limit returns the matches found so far. Later calls must find the
// other matches.
func TestCodeTimeLimit(t *testing.T) {
	h := newHost(t, "a.go=package p\n\nfunc Wanted() {}\n")
	for i := range 150 {
		h.add(fmt.Sprintf("m%03d.py=# %d\n%s", i, i, strings.Repeat("def Wanted(a, b=[1, 2, {'x': 3}]): return {k: v for k, v in a if (b and k) or not v}\n", 10)))
	}
	for way, o := range h.inWays("disk", "events") {
		o.finder.timeLimit = 50 * time.Millisecond // compiling the grammar takes longer than this limit
		total, stopped := 0, 0
		for range 1000 {
			_, notes, d := o.code(args{"query": "Wanted", "head_limit": 1})
			if d.Total < total && way == "events" {
				t.Fatalf("%s: %d found, and %d before", way, d.Total, total)
			}
			total = d.Total
			if d.NotParsed == 0 {
				break
			}
			if stopped++; !d.Truncated || !strings.Contains(notes, "stopped after 50ms") {
				t.Fatalf("%s: %s", way, notes)
			}
		}
		if total != 150*10+1 || stopped == 0 {
			t.Errorf("%s: %d found at last, stopped %d times", way, total, stopped)
		}
	}
}

// TestNearNames checks which declared names are suggested for a name that nothing declares.
func TestNearNames(t *testing.T) {
	h := newHost(t, codeTree...)
	for way, o := range h.inWays() {
		for _, c := range []struct {
			a    args
			want string
		}{
			{args{"query": "Sevrer", "language": "go"}, `"Server"`},
			{args{"query": "NewSrever()", "language": "go", "type": "function"}, `"NewServer"`},
			{args{"query": "new_servr", "language": "go"}, `"NewServer"`},
			{args{"query": "Clent.Close", "language": "go"}, `"Client.Close"`},
			{args{"query": "Client.Clsoe", "language": "go"}, `"Client.Close"`},
			{args{"query": "Sevrer", "path": "server/server.go"}, `"Server"`},
			{args{"query": "sever.go", "type": "file"}, `"server.go"`},
			{args{"query": "NewServr", "language": "go", "type": "class"}, ""}, // another kind
			{args{"query": "Unrelated", "language": "go"}, ""},
			{args{"query": "Srv", "language": "go"}, ""},      // too short
			{args{"query": "/Sevrer/", "language": "go"}, ""}, // no name
			{args{"query": "Sevrer", "path": "server/other.go", "type": "class"}, ""},
		} {
			text, notes, _ := o.code(c.a)
			_, hint, _ := strings.Cut(notes, "Did you mean ")
			if hint, _, _ = strings.Cut(hint, "?"); text != "" || !strings.Contains(notes, "No ") || (c.want == "") != (hint == "") || !strings.HasPrefix(hint, c.want) {
				t.Errorf("%s: %v: %q, want %q", way, c.a, notes, c.want)
			}
		}
	}
}
