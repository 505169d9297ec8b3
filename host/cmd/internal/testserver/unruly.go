package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// unrulyTools is the list of the server "unruly", which breaks the rules of the protocol in ways that concern more than
// one call.
const unrulyTools = `{"tools":[{"name":"misbehave","description":"Break a rule.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},` +
	`{"name":"echo","description":"Say it again.","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"count":{"type":"integer","default":1}}}},` +
	`{"name":"shuffle","description":"Say it again, later.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},` +
	`{"name":"pid","description":"The process.","inputSchema":{"type":"object"}}]}`

// misbehave breaks a rule and then answers, except for the rule "never". The answer names the rule.
func misbehave(m message, what string, token json.RawMessage) {
	switch what {
	case "never":
		return
	case "flood": // notifications without end
		for i := range 3000 {
			send(fmt.Sprintf(`"method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":"flood"}`, token, i))
			send(`"method":"notifications/message","params":{"level":"error","data":"flood"}`)
			send(`"method":"notifications/tools/list_changed"`)
			send(`"method":"notifications/resources/updated","params":{"uri":"test://unknown"}`)
		}
	case "endless": // a line of 256 MiB, more than a message may have
		sending.Lock()
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 256 {
			_, _ = os.Stdout.Write(chunk)
		}
		fmt.Println()
		sending.Unlock()
	case "stderr":
		chunk := bytes.Repeat([]byte(strings.Repeat("e", 1023)+"\n"), 1<<10)
		for range 48 {
			_, _ = os.Stderr.Write(chunk)
		}
	case "garbage":
		lines := []byte(strings.Repeat("garbage\n{\n[\n]\n{}\n[{}]\n{\"jsonrpc\":\"2.0\"}\n{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}\n\x00\xff\n", 2000))
		batch := []byte("[" + strings.Repeat("1,", 200_000) + "1]\n" + strings.Repeat("[", 1<<20) + "\n")
		sending.Lock()
		_, _ = os.Stdout.Write(append(lines, batch...))
		sending.Unlock()
	case "ids": // answers to requests that nobody sent
		answerNobody()
	case "large text":
		text(m.ID, strings.Repeat("x", 12<<20))
		return
	case "large data":
		reply(m.ID, `{"content":[{"type":"text","text":"see the data"}],"structuredContent":{"text":"`+strings.Repeat("x", 12<<20)+`"}}`)
		return
	case "large image":
		reply(m.ID, `{"content":[{"type":"text","text":"see the image"},{"type":"image","mimeType":"image/png","data":"`+strings.Repeat("AAEC", 3<<20)+`"}]}`)
		return
	case "twice":
		text(m.ID, "done: twice")
		text(m.ID, "the second answer")
		fail(m.ID, -32000, "the third answer")
		return
	case "requests": // sends requests that the client does not know
		for i := range 3000 {
			send(fmt.Sprintf(`"id":"r%d","method":"test/unknown","params":{}`, i))
		}
	}
	text(m.ID, "done: "+what)
}

// answerNobody sends answers and errors to requests that nobody sent.
func answerNobody() {
	for _, id := range []string{"0", "-1", "1e308", "1e400", "1.5", "18446744073709551616", "1073741824",
		"9007199254740993", `""`, `"1"`, "null", "true", "{}", "[[]]", `"` + strings.Repeat("9", 1<<20) + `"`,
		strings.Repeat("9", 1<<20)} {
		reply(json.RawMessage(id), `{"content":[{"type":"text","text":"to nobody"}]}`)
		fail(json.RawMessage(id), -32000, "to nobody")
	}
	for i := range 2000 {
		reply(json.RawMessage(fmt.Sprint(1<<30+100_000+i)), `{"content":[{"type":"text","text":"to nobody"}]}`)
	}
}

// shuffled contains the answers that shuffle has not sent yet.
var shuffled = make(chan func())

// shuffle answers several calls at once, in the reverse order of the calls. Each call first gets a notification with
// its text.
func shuffle(m message, say string, token json.RawMessage) {
	shuffled <- func() {
		b, _ := json.Marshal(say)
		send(fmt.Sprintf(`"method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%s}`, token, b))
		text(m.ID, say)
	}
}

func sendShuffled() {
	for first := range shuffled {
		waiting := []func(){first}
		for more := true; more && len(waiting) < 8; {
			select {
			case next := <-shuffled:
				waiting = append(waiting, next)
			case <-time.After(5 * time.Millisecond):
				more = false
			}
		}
		for i := range waiting {
			waiting[len(waiting)-1-i]()
		}
	}
}

// kept is the text of the last call of the tool "keep".
var kept string

// serveClient handles the calls of the server "private", which remembers what its client told it.
func serveClient(m message, name, say string) {
	switch name {
	case "keep":
		text(m.ID, fmt.Sprintf("%d had %q", os.Getpid(), kept))
		kept = say
	case "block": // sends no answer, and leaves a file
		if err := os.WriteFile(fmt.Sprintf("blocked-%d", os.Getpid()), nil, 0o600); err != nil {
			panic(err)
		}
	case "sample": // asks, and is killed before the answer if the client makes a file
		send(`"id":"q1","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":9}`)
		for {
			select {
			case answer := <-answers:
				text(m.ID, string(answer))
				return
			case <-time.After(10 * time.Millisecond):
				if os.Remove("kill") == nil {
					killSelf()
				}
			}
		}
	}
}
