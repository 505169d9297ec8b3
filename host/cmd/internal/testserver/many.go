package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// listMany lists 500 tools with realistic definitions.
func listMany(id json.RawMessage) {
	var tools []string
	for _, thing := range strings.Fields("invoice customer order product parcel ticket contract shipment supplier warehouse employee department vehicle booking room event recipe article picture album track playlist lecture student exam") {
		for _, action := range strings.Fields("create get list update delete archive restore export import share copy move rename lock unlock comment rate tag print sign") {
			tools = append(tools, fmt.Sprintf(`{"name":"%s_%s","description":"%s the %s with the given number. The answer has all of its fields, and who changed it last.","inputSchema":{"type":"object","properties":{"number":{"type":"integer","description":"Number of the %s"},"reason":{"type":"string","description":"Why, for the log"},"fields":{"type":"object","additionalProperties":{"type":"string"}}},"required":["number"]}}`,
				action, thing, strings.ToUpper(action[:1])+action[1:], thing, thing))
		}
	}
	reply(id, `{"tools":[`+strings.Join(tools, ",")+`]}`)
}
