package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
)

// watched contains the resources to which the client subscribed.
var watched sync.Map

// hearResource handles the requests about the resource test://count.
func hearResource(m message) {
	var p struct{ URI string }
	_ = json.Unmarshal(m.Params, &p)
	if mode == "demanding" && strings.HasSuffix(m.Method, "/list") {
		listDemanding(m)
		return
	}
	switch m.Method {
	case "resources/list":
		reply(m.ID, `{"resources":[{"uri":"test://count","name":"count"}]}`)
	case "resources/templates/list":
		reply(m.ID, `{"resourceTemplates":[]}`)
	case "resources/read":
		if mode == "demanding" {
			reply(m.ID, fmt.Sprintf(`{"contents":[{"uri":%q,"text":%q}]}`, p.URI, strings.Repeat("x", 17<<20)))
			return
		}
		reply(m.ID, fmt.Sprintf(`{"contents":[{"uri":%q,"text":"process %d"}]}`, p.URI, os.Getpid()))
	case "resources/subscribe":
		watched.Store(p.URI, true)
		reply(m.ID, `{}`)
	case "resources/unsubscribe":
		watched.Delete(p.URI)
		reply(m.ID, `{}`)
	}
}

// killSelf kills this process as the kernel does when memory runs out.
func killSelf() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
}

// changeResource notifies the client if it subscribed to the resource. The result is "subscribed" or "not subscribed".
func changeResource(id json.RawMessage) {
	if _, ok := watched.Load("test://count"); !ok {
		text(id, "not subscribed")
		return
	}
	send(`"method":"notifications/resources/updated","params":{"uri":"test://count"}`)
	text(id, "subscribed")
}
