package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// shapes lists schemas of parameters as public servers write them. Many have a default.
var shapes = []string{
	`{"type":"string","default":""}`, `{"type":"string","default":"x","enum":["x","y"]}`, `{"type":"integer","default":20,"minimum":1}`, `{"type":"number","default":1e3}`,
	`{"type":"boolean","default":false}`, `{"type":["string","null"],"default":null}`, `{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null}`,
	`{"$ref":"#/$defs/count"}`, `{"$ref":"#/$defs/count","default":7}`, `{"allOf":[{"$ref":"#/$defs/item"}],"description":"One."}`,
	`{"anyOf":[{"$ref":"#/$defs/item"},{"type":"null"}],"default":null}`, `{"type":"array","items":{"$ref":"#/$defs/item"},"default":[]}`,
	`{"type":"object","properties":{"z":{"type":"integer","default":5},"a":{"type":"string","default":"b"}},"default":{}}`,
	`{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"array","items":{"type":"array","items":{"type":"number"}}}`,
	`{"default":{"any":[1,null]}}`, `{"type":"string","format":"date-time"}`, `{"oneOf":[{"type":"string"},{"type":"object","required":["k"],"properties":{"k":{"type":"integer","default":1}}}]}`,
	`{"$ref":"#/$defs/tree"}`, `{"type":"integer","const":3,"default":3}`,
}

// mirrorTools returns 200 tools with every pair of neighboring shapes. Their parameters are a and b.
func mirrorTools() string {
	const defs = `{"count":{"type":"integer","default":3},"item":{"type":"object","properties":{"id":{"type":"integer","default":1},"tag":{"type":["string","null"],"default":null}}},` +
		`"tree":{"type":"object","properties":{"name":{"type":"string","default":"root"},"children":{"type":"array","items":{"$ref":"#/$defs/tree"},"default":[]}}}}`
	var tools []string
	for i := range 200 {
		a, b := shapes[i%len(shapes)], shapes[(i+1+i/len(shapes))%len(shapes)]
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","description":"Repeats its arguments.","inputSchema":{"type":"object","$defs":%s,"properties":{"a":%s,"b":%s}}}`, i, defs, a, b))
	}
	return `{"tools":[` + strings.Join(tools, ",") + `]}`
}

// mirror answers with the arguments as the server received them.
func mirror(m message) {
	var p struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		panic(err)
	}
	text(m.ID, string(p.Arguments))
}
