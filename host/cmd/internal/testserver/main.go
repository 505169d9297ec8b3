// Command testserver is an MCP server for tests of mounted servers. It produces faults on request. It implements the
// protocol itself, because no SDK can produce such faults.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

var (
	mode    string
	sending sync.Mutex
	answers = make(chan json.RawMessage)
	more    bool // whether the list contains additional tools
)

func main() {
	mode = os.Args[1]
	switch mode {
	case "http":
		serveHTTP(os.Args[2])
		return
	case "newest":
		serveNewest(os.Args[2])
		return
	case "record":
		record(os.Args[2], os.Args[3:])
		return
	case "oddhttp":
		serveOdd(os.Args[2])
		return
	case "asks":
		serveAsking()
		return
	case "endpoint":
		serveEndpoint(os.Args[2])
		return
	case "crash":
		fmt.Fprintln(os.Stderr, "\x1b[31mno database at /var/db\x1b[0m")
		os.Exit(3)
	case "noise":
		fmt.Println("Server running on stdio\n{\"level\":\"info\",\"msg\":\"json, but no message\"}\n\n\x00\xff")
	case "deaf":
		time.Sleep(time.Hour)
	}
	go sendShuffled()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			panic(err)
		}
		hear(m)
	}
}

func hear(m message) {
	switch m.Method {
	case "server/discover":
		switch mode {
		case "exits":
			os.Exit(1)
		case "silent", "mute":
			return
		case "newodd":
			reply(m.ID, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"test","version":"1"}}`)
			return
		}
		fail(m.ID, -32601, "Method not found")
	case "initialize":
		switch mode {
		case "demanding":
			reply(m.ID, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"test","version":"1"},"capabilities":{"tools":{},"resources":{},"logging":{}}}`)
		case "watched":
			reply(m.ID, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"test","version":"1"},"capabilities":{"tools":{},"resources":{"subscribe":true,"listChanged":false},"tasks":{"list":{},"cancel":{}},"experimental":{"x\u001b[31my":{}}}}`)
		case "mute":
		default:
			reply(m.ID, `{"protocolVersion":"2025-11-25","serverInfo":{"name":"test","version":"1"},"capabilities":{"tools":{"listChanged":true}}}`)
		}
	case "tools/list":
		list(m)
	case "tools/call":
		go call(m)
	case "logging/setLevel":
		reply(m.ID, `{}`)
	case "resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe":
		hearResource(m)
	case "ping":
		if mode != "hung" {
			reply(m.ID, `{}`)
		}
	case "notifications/cancelled":
		if err := os.WriteFile("canceled", []byte("yes"), 0o600); err != nil {
			panic(err)
		}
	case "":
		if mode != "unruly" { // nobody waits for the answers to its requests
			answers <- m.Result
		}
	}
}

func list(m message) {
	switch mode {
	case "many":
		listMany(m.ID)
		return
	case "unruly":
		reply(m.ID, unrulyTools)
		return
	case "private":
		reply(m.ID, `{"tools":[{"name":"keep","description":"Remember a text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},{"name":"sample","description":"Ask the model.","inputSchema":{"type":"object"}},{"name":"block","description":"Never answer.","inputSchema":{"type":"object"}}]}`)
		return
	case "demanding":
		reply(m.ID, `{"tools":[{"name":"demand","description":"Ask for too much.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},{"name":"flood","description":"Log too much.","inputSchema":{"type":"object"}}]}`)
		return
	case "watched":
		reply(m.ID, `{"tools":[{"name":"kill","description":"Kill the server.","inputSchema":{"type":"object"}},{"name":"change","description":"Change the resource.","inputSchema":{"type":"object"}}]}`)
		return
	case "mirror":
		reply(m.ID, mirrorTools())
		return
	case "claims": // has the tools in its second argument
		reply(m.ID, os.Args[2])
		return
	case "odd", "newodd":
		reply(m.ID, oddTools)
		return
	case "endless":
		reply(m.ID, fmt.Sprintf(`{"nextCursor":"%d","tools":[{"name":"t%d","description":"One of many.","inputSchema":{"type":"object"}}]}`, time.Now().UnixNano(), time.Now().UnixNano()))
		return
	case "circle":
		reply(m.ID, `{"nextCursor":"again","tools":[{"name":"round","description":"About.","inputSchema":{"type":"object"}},{"name":"Round","description":"Another.","inputSchema":{"type":"object"}}]}`)
		return
	}
	tools := []string{
		`{"name":"echo","description":"Say it again.","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"text":{"type":"string"},"count":{"type":"integer","default":1},"also":{"type":"string"}},"required":["text"]}}`,
		`{"name":"read","description":"Has the name of a tool of the host.","inputSchema":{"type":"object"}}`,
		`{"name":"getEnv","description":"A variable.","inputSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`,
		`{"name":"2nd tool","inputSchema":{"type":"object"}}`,
		`{"name":"bad","description":"Its schema is none.","inputSchema":{"type":"string"}}`,
		`{"name":"header","description":"Its header is not valid.","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A B"}}}}`,
		`{"name":"loose","title":"A loose tool","description":"Its schema is not valid.","inputSchema":{"type":"object","properties":{"author":{"type":"string","default":null},"n":{"type":"number","minimum":0,"exclusiveMinimum":true}}}}`,
		"{\"name\":\"hidden\",\"description\":\"\\u001b[31mRed\\u001b[0m \\u202eplain\\u202c\\udb40\\udc41\\udb40\\udc42.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"examples\":{\"type\":\"string\",\"description\":\"x\\udb40\\udc41y\"}}}}",
		`{"name":"long","description":"` + strings.Repeat("word ", 2000) + `","inputSchema":{"type":"object"}}`,
	}
	for _, name := range []string{"pid", "where", "fails", "refuses", "content", "structured", "steps", "waits", "ask",
		"die", "huge", "spawn", "spawn-and-wait", "grow"} {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"description":"A tool of the tests.","inputSchema":{"type":"object"}}`, name))
	}
	tools = append(tools, `{"name":"once","description":"Dies the first time.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	tools = append(tools, tools[len(tools)-1]) // a page with a duplicate
	if _, err := os.Stat("reworded"); err == nil {
		tools[0] = strings.Replace(tools[0], "Say it again.", "Say it again, louder.", 1)
	}
	if _, err := os.Stat("more"); err == nil || more {
		tools = append(tools, `{"name":"added","description":"New.","inputSchema":{"type":"object"}}`)
	}
	reply(m.ID, `{"tools":[`+strings.Join(tools, ",")+`]}`)
}

func call(m message) {
	var p struct {
		Name      string `json:"name"`
		Arguments struct {
			Text, Name string
			Count      *int
		} `json:"arguments"`
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		panic(err)
	}
	if mode == "noise" {
		fmt.Println("handling " + p.Name)
	}
	switch mode {
	case "mirror":
		mirror(m)
		return
	case "odd", "newodd":
		reply(m.ID, oddResult(m))
		return
	case "many", "claims":
		text(m.ID, "called "+p.Name)
		return
	}
	switch p.Name {
	case "echo":
		count := 1
		if p.Arguments.Count != nil {
			count = *p.Arguments.Count
		}
		text(m.ID, strings.TrimSpace(strings.Repeat(p.Arguments.Text+" ", count)))
	case "read", "2nd tool", "added":
		text(m.ID, "called "+p.Name)
	case "getEnv":
		text(m.ID, fmt.Sprintf("%q", os.Getenv(p.Arguments.Name)))
	case "kill":
		text(m.ID, "killed")
		killSelf()
	case "misbehave":
		misbehave(m, p.Arguments.Text, p.Meta.Token)
	case "shuffle":
		shuffle(m, p.Arguments.Text, p.Meta.Token)
	case "keep", "sample", "block":
		serveClient(m, p.Name, p.Arguments.Text)
	case "demand":
		demand(m.ID, p.Arguments.Text)
	case "flood":
		for i := range 200 {
			send(fmt.Sprintf(`"method":"notifications/message","params":{"level":"info","data":"line %d"}`, i))
		}
		text(m.ID, "flooded")
	case "change":
		changeResource(m.ID)
	case "pid":
		text(m.ID, fmt.Sprint(os.Getpid()))
	case "where":
		dir, _ := os.Getwd()
		text(m.ID, dir)
	case "fails":
		reply(m.ID, `{"isError":true,"content":[{"type":"text","text":"The city is not known. Give a larger one."}]}`)
	case "refuses":
		fail(m.ID, -32602, "the month is missing")
	case "content":
		reply(m.ID, `{"content":[{"type":"text","text":"first"},{"type":"image","mimeType":"image/png","data":"AAEC"},{"type":"audio","mimeType":"audio/wav","data":"AAEC"},{"type":"resource","resource":{"uri":"file:///notes.txt","mimeType":"text/plain","text":"of the resource"}},{"type":"resource_link","uri":"file:///more.txt","name":"more"},{"type":"text","text":"last"}]}`)
	case "structured":
		reply(m.ID, `{"content":[],"structuredContent":{"degrees":21}}`)
	case "steps":
		for i := range 6 {
			send(fmt.Sprintf(`"method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":6,"message":"step %d"}`, p.Meta.Token, i+1, i+1))
			time.Sleep(600 * time.Millisecond)
		}
		text(m.ID, "six steps")
	case "waits":
		// Send no answer.
	case "ask":
		send(`"id":"q1","method":"elicitation/create","params":{"message":"Which city?","requestedSchema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}`)
		text(m.ID, string(<-answers))
	case "die":
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(4)
	case "once":
		if _, err := os.Stat("died"); err != nil {
			_ = os.WriteFile("died", nil, 0o600)
			os.Exit(5)
		}
		text(m.ID, "alive")
	case "huge":
		text(m.ID, strings.Repeat("x", 17<<20))
	case "spawn", "spawn-and-wait":
		c := exec.Command("sleep", "1000")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr // the child process keeps the pipes open
		if err := c.Start(); err != nil {
			panic(err)
		}
		if p.Name == "spawn" {
			text(m.ID, "started")
		}
	case "grow":
		if _, err := os.Stat("later"); err == nil { // long after the call
			text(m.ID, "grows later")
			time.Sleep(500 * time.Millisecond)
		}
		more = true
		send(`"method":"notifications/tools/list_changed"`)
		text(m.ID, "grown") // a second answer is ignored
	}
}

func text(id json.RawMessage, s string) {
	b, _ := json.Marshal(s)
	reply(id, `{"content":[{"type":"text","text":`+string(b)+`}]}`)
}

func reply(id json.RawMessage, result string) { send(`"id":` + string(id) + `,"result":` + result) }

func fail(id json.RawMessage, code int, message string) {
	send(fmt.Sprintf(`"id":%s,"error":{"code":%d,"message":%q}`, id, code, message))
}

func send(body string) {
	sending.Lock()
	_, err := fmt.Println(`{"jsonrpc":"2.0",` + body + `}`)
	sending.Unlock()
	if err != nil {
		os.Exit(1)
	}
}
