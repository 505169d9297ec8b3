package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// sampling is a request that uses the client's model.
const sampling = `"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":9}`

// demand sends a request to the client. The result of the call is the answer of the client, or its error.
func demand(id json.RawMessage, what string) {
	if what == "sampling again" {
		for range 3 {
			send(`"id":"q1",` + sampling)
			if answer := <-answers; answer != nil {
				text(id, string(answer))
				return
			}
		}
		text(id, "three errors")
		return
	}
	form := func(schema string) string {
		return `"method":"elicitation/create","params":{"mode":"form","message":"Please.","requestedSchema":` + schema + `}`
	}
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprintf(`"f%d":{"type":"string"}`, i))
	}
	send(`"id":"q1",` + map[string]string{
		"sampling": sampling,
		"plain":    form(`{"type":"object","properties":{"age":{"type":"integer","minimum":1}},"required":["age"]}`),
		"nested":   form(`{"type":"object","properties":{"x":{"type":"object","properties":{"y":{"type":"string"}}}}}`),
		"remote":   form(`{"type":"object","properties":{"x":{"type":"string","$ref":"https://example.com/schema"}}}`),
		"many":     form(`{"type":"object","properties":{` + strings.Join(many, ",") + `}}`),
		"large":    form(`{"type":"object","properties":{"x":{"type":"string","enum":["` + strings.Repeat("y", 65<<10) + `"]}}}`),
	}[what])
	if answer := <-answers; answer != nil {
		text(id, string(answer))
		return
	}
	text(id, "an error")
}

// listDemanding lists resources or templates without end, in pages of 10 resources or 100 templates.
func listDemanding(m message) {
	var p struct {
		Cursor int `json:",string"`
	}
	_ = json.Unmarshal(m.Params, &p)
	list, key, size := "resources", "uri", 10
	if m.Method == "resources/templates/list" {
		list, key, size = "resourceTemplates", "uriTemplate", 100
	}
	var page []string
	for i := range size {
		page = append(page, fmt.Sprintf(`{%q:"test://%d","name":"n%d"}`, key, p.Cursor+i, p.Cursor+i))
	}
	reply(m.ID, fmt.Sprintf(`{%q:[%s],"nextCursor":"%d"}`, list, strings.Join(page, ","), p.Cursor+size))
}
