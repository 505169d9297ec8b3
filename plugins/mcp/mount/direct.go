package mount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/rawjson"
)

const (
	methodCallTool = "tools/call"
	// firstDirect is less than the request ID of every call that bypasses the SDK. The IDs of the SDK count from 1.
	// Some servers store IDs in 32 bits.
	firstDirect = 1 << 30
)

// reply is the server's answer to a direct request.
type reply struct {
	result json.RawMessage
	err    error
}

// callTool calls a tool. Calls of a local server of the older protocol do not use the SDK, because the SDK decodes each
// answer several times.
func (c *conn) callTool(ctx context.Context, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	if c.server == nil || c.stateless() || params.InputResponses != nil || params.RequestState != "" {
		return unfolded(c.session.CallTool(ctx, params))
	}
	if args, ok := params.Arguments.(json.RawMessage); !ok || len(args) == 0 {
		params.Arguments = json.RawMessage(`{}`)
	}
	raw, err := c.server.wire.callTool(ctx, params)
	if err != nil {
		return nil, err
	}
	return toolResult(raw)
}

// callTool sends a request to call a tool and waits for the answer. If ctx ends earlier, callTool notifies the server.
func (w *wire) callTool(ctx context.Context, params any) (json.RawMessage, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	id, answer := w.await()
	line := append(make([]byte, 0, len(body)+100), `{"jsonrpc":"2.0","id":`...)
	line = strconv.AppendInt(line, id.Raw().(int64), 10) //nolint:forcetypeassert // await makes it from a number
	line = append(line, `,"method":"`+methodCallTool+`","params":`...)
	line = append(append(line, body...), '}', '\n')
	if err := w.send(ctx, line); err != nil {
		w.forget(id)
		if ctx.Err() == nil {
			return nil, err
		}
	} else {
		select {
		case r := <-answer:
			return r.result, r.err
		case <-w.failed:
			select {
			case r := <-answer: // the answer arrived before the connection failed
				return r.result, r.err
			default:
			}
			return nil, w.err
		case <-ctx.Done():
			w.forget(id)
		}
	}
	notice, err := json.Marshal(&mcp.CancelledParams{RequestID: id.Raw(), Reason: ctx.Err().Error()})
	if err != nil {
		return nil, err
	}
	// Write also calls the method "tell" of the call.
	_ = w.Write(context.WithoutCancel(ctx), &jsonrpc.Request{Method: "notifications/cancelled", Params: notice}) // an error also ends the connection
	return nil, ctx.Err()
}

// await makes the ID of a direct request. The channel receives the server's answer.
func (w *wire) await() (jsonrpc.ID, <-chan reply) {
	answer := make(chan reply, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastDirect++
	id := directID(firstDirect + w.lastDirect)
	w.direct[id] = answer
	w.pending[id] = methodCallTool
	return id, answer
}

func directID(n int64) jsonrpc.ID {
	id, _ := jsonrpc.MakeID(float64(n)) // a number is always an ID
	return id
}

// forget drops a direct request. A late answer is ignored.
func (w *wire) forget(id jsonrpc.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.direct, id)
	delete(w.pending, id)
}

// answer passes an answer to the direct request with its ID. It returns false if no direct request has the ID.
func (w *wire) answer(id jsonrpc.ID, r reply) bool {
	w.mu.Lock()
	answer, ok := w.direct[id]
	delete(w.direct, id)
	if ok {
		delete(w.pending, id)
		w.spoke = true
	}
	w.mu.Unlock()
	if ok {
		answer <- r
		return true
	}
	n, isNumber := id.Raw().(int64)
	return isNumber && n > firstDirect // a late answer
}

// result handles a line if it is the result of a direct request.
func (w *wire) result(line []byte) bool {
	if line[0] != '{' || !rawjson.Valid(line) {
		return false
	}
	var n int64
	var result json.RawMessage
	version := false
	for key, value := range rawjson.Members(line) {
		switch key {
		case "jsonrpc":
			version = string(value) == `"2.0"`
		case "id":
			var err error
			if n, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return false
			}
		case "result":
			result = value
		default:
			return false
		}
	}
	return version && n > firstDirect && result != nil && w.answer(directID(n), reply{result: result})
}

// toolResult decodes the result of a call. Structured data is not decoded.
func toolResult(raw json.RawMessage) (*mcp.CallToolResult, error) {
	if out := plainResult(raw); out != nil {
		return out, nil
	}
	out := new(mcp.CallToolResult)
	if err := json.Unmarshal(raw, out); err != nil {
		if out = readable(raw); out == nil {
			return nil, &jsonrpc.Error{
				Code: jsonrpc.CodeInternalError, Message: "The server's result cannot be read: " + err.Error(),
			}
		}
	}
	for key, value := range rawjson.Members(raw) {
		switch blocks := slices.Collect(rawjson.Elements(value)); {
		case key == "structuredContent" && string(value) != "null":
			out.StructuredContent = unescaped(value)
		case key == "content" && len(blocks) == len(out.Content):
			for i, c := range out.Content {
				if _, isNote := c.(*note); !isNote {
					out.Content[i] = &received{c, blocks[i]}
				}
			}
		}
	}
	return out, nil
}

// received is a block together with the text that the server sent. The SDK drops members that it does not know.
type received struct {
	mcp.Content
	raw json.RawMessage
}

// note is a text in the place of a block that cannot be decoded.
type note struct{ *mcp.TextContent }

// readable decodes a result that has blocks which cannot be decoded, such as blocks of an unknown type. It puts a note
// in the place of each such block. If the result has other errors, it returns nil.
func readable(raw json.RawMessage) *mcp.CallToolResult {
	var parts struct {
		Content []json.RawMessage `json:"content"`
		IsError bool              `json:"isError"`
		Meta    mcp.Meta          `json:"_meta"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return nil
	}
	out := &mcp.CallToolResult{Content: []mcp.Content{}, IsError: parts.IsError, Meta: parts.Meta}
	for _, block := range parts.Content {
		one := new(mcp.CallToolResult)
		if err := json.Unmarshal(slices.Concat([]byte(`{"content":[`), block, []byte(`]}`)), one); err != nil {
			one.Content = []mcp.Content{
				&note{&mcp.TextContent{Text: fmt.Sprintf("[A part of the result cannot be read: %s]", clean(unreadable(block, err), maxNameShown*2))}},
			}
		}
		out.Content = append(out.Content, one.Content...)
	}
	return out
}

// unreadable describes why a block cannot be decoded. The decoder's errors about types have names of Go.
func unreadable(block json.RawMessage, err error) string {
	switch {
	case block[0] != '{':
		return "it is not an object"
	case errors.As(err, new(*json.UnmarshalTypeError)):
		return "a member has the wrong type"
	}
	return err.Error()
}

// foldedKey is the key in the metadata of a folded result that has the result as a text.
const foldedKey = "toolhost.dev/folded"

// folded stores the whole result of a call as a text in the result's metadata, so that the SDK decodes it without a
// loss. Otherwise the SDK would round large numbers, and one block of an unknown type would make it refuse the whole
// result. folded keeps the members that the SDK itself uses. It returns results of other requests unchanged.
func folded(raw json.RawMessage) json.RawMessage {
	out, err := parseObject(raw)
	if err != nil || out.get("content") == nil && out.get("structuredContent") == nil {
		return raw
	}
	meta, err := parseObject(out.get("_meta"))
	if err != nil {
		meta = object{}
	}
	meta.set(foldedKey, encoded(string(raw)))
	out.set("_meta", meta.json())
	out.set("content", json.RawMessage("[]"))
	out.remove("structuredContent")
	out.remove("isError")
	return out.json()
}

// unfolded decodes the result that [folded] folded.
func unfolded(res *mcp.CallToolResult, err error) (*mcp.CallToolResult, error) {
	if err != nil {
		return nil, err
	}
	text, ok := res.Meta[foldedKey].(string)
	raw := json.RawMessage(text)
	if !ok { // another result, or a part of a message that is not folded
		if raw, err = json.Marshal(res); err != nil {
			return nil, err
		}
	}
	out, err := toolResult(raw)
	if err == nil {
		out.InputRequests, out.RequestState = res.InputRequests, res.RequestState
	}
	return out, err
}

// plainResult decodes a result that contains only texts and structured data. For any other result, it returns nil.
func plainResult(raw json.RawMessage) *mcp.CallToolResult {
	out := &mcp.CallToolResult{Content: []mcp.Content{}}
	for key, value := range rawjson.Members(raw) {
		switch key {
		case "content":
			for block := range rawjson.Elements(value) {
				text := plainText(block)
				if text == nil {
					return nil
				}
				out.Content = append(out.Content, text)
			}
			if value[0] != '[' {
				return nil
			}
		case "structuredContent":
			if string(value) != "null" {
				out.StructuredContent = unescaped(value)
			}
		case "isError":
			if out.IsError = string(value) == "true"; !out.IsError && string(value) != "false" {
				return nil
			}
		default:
			return nil
		}
	}
	return out
}

// plainText decodes a block that contains only a text. For any other block, it returns nil.
func plainText(block json.RawMessage) *mcp.TextContent {
	out := new(mcp.TextContent)
	var isText, hasText bool
	for key, value := range rawjson.Members(block) {
		switch key {
		case "type":
			isText = string(value) == `"text"`
		case "text":
			hasText = value[0] == '"'
			out.Text = rawjson.Text(value)
		default:
			return nil
		}
	}
	if !isText || !hasText {
		return nil
	}
	return out
}
