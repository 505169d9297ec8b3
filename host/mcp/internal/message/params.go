package message

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/rawjson"
)

// CallParams returns the params of "tools/call". It returns nil if the SDK must decode them: they are not valid, or
// they continue an earlier call or belong to a later revision of the protocol.
func CallParams(params json.RawMessage) *mcp.CallToolParamsRaw {
	out := new(mcp.CallToolParamsRaw)
	for key, v := range rawjson.Members(params) {
		switch key {
		case "name":
			if v[0] != '"' {
				return nil
			}
			out.Name = rawjson.Text(v)
		case "arguments":
			out.Arguments = v
		case "_meta":
			out.Meta = nil
			if json.Unmarshal(v, &out.Meta) != nil {
				return nil
			}
		case "requestState", "inputResponses", "task":
			return nil
		}
	}
	return out
}

// Canceled returns the id of the request that the params of "notifications/cancelled" name, or nil.
func Canceled(params json.RawMessage) json.RawMessage {
	var id json.RawMessage
	for key, v := range rawjson.Members(params) {
		if key == "requestId" {
			id = v
		}
	}
	if !isID(id) {
		return nil
	}
	return id
}
