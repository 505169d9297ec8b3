// Package message reads the JSON-RPC messages of MCP clients. [Read] returns what a line is: a request, a notification,
// a response, a batch of them, or an error with its cause. A line can be anything, because clients have defects. [IDs]
// keeps the ids of requests exactly, and [Batch] collects the answers to a batch.
package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/sdk/rawjson"
)

// Kind is the kind of a message.
type Kind int

// Kinds of messages. A message that has no answer and no meaning is Ignored, and its problem is for the log. Invalid
// messages are answered with an error.
const (
	Ignored Kind = iota
	Request
	Notification
	Response
	Array
	Invalid
)

// maxDepth is the maximum nesting of a request. The SDK does not decode more than 1000 levels.
const maxDepth = 500

// Message is one line from a client, or one element of a batch. Its fields alias the memory of the line.
type Message struct {
	Kind Kind
	// ID is the id as the client wrote it: a string or a number. It is nil if the message has none, or if it cannot be
	// read.
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	// Result and Error are fields of a response. One of them is set.
	Result json.RawMessage
	Error  json.RawMessage
	// Elements are the messages of a batch.
	Elements []json.RawMessage
	// Code and Problem are the error of an invalid message.
	Code    int
	Problem string
}

// NewInvalid returns an invalid message with a problem.
func NewInvalid(format string, a ...any) *Message {
	return new(Message).invalid(jsonrpc.CodeInvalidRequest, format, a...)
}

// ForHTTP returns the message, or the error for a request that the SDK cannot decode or whose id it would change.
func (m *Message) ForHTTP() *Message {
	if m.Kind == Request && !kept(m.ID) {
		return m.invalid(jsonrpc.CodeInvalidRequest, "The id %.100s is neither a string nor an integer from -2^53 to 2^53 without fraction and exponent.", m.ID)
	}
	return m.CheckDepth()
}

func (m *Message) invalid(code int, format string, a ...any) *Message {
	m.Kind, m.Code, m.Problem = Invalid, code, fmt.Sprintf(format, a...)
	return m
}

func (m *Message) ignored(format string, a ...any) *Message {
	m.Kind, m.Problem = Ignored, fmt.Sprintf(format, a...)
	return m
}

// Trim removes white space around a line, and the byte order mark that some programs write first.
func Trim(line []byte) []byte {
	const space = " \t\r\n" // the white space of JSON
	return bytes.Trim(bytes.TrimPrefix(bytes.Trim(line, space), []byte("\ufeff")), space)
}

// Read returns what a line contains. The line must be trimmed, and it must not be empty.
func Read(line []byte) *Message {
	m := new(Message)
	switch {
	case !rawjson.Valid(line):
		return notJSON(line)
	case line[0] == '[':
		m.Kind = Array
		for element := range rawjson.Elements(line) {
			m.Elements = append(m.Elements, element)
		}
		return m
	}
	return One(line)
}

// notJSON returns the error for a line that is not JSON.
func notJSON(line []byte) *Message {
	m := new(Message)
	var value json.RawMessage
	err := json.Unmarshal(line, &value)
	switch {
	case err == nil, strings.Contains(err.Error(), "max depth"):
		m.ID, _ = Head(line)
		return m.tooDeep()
	case bytes.HasPrefix(line, []byte("\xff\xfe")), bytes.HasPrefix(line, []byte("\xfe\xff")),
		len(line) > 1 && (line[0] == 0) != (line[1] == 0):
		return m.invalid(jsonrpc.CodeParseError, "The line is not JSON: its encoding seems to be UTF-16. Each message is one line of JSON in UTF-8.")
	}
	return m.invalid(jsonrpc.CodeParseError, "The line is not JSON: %v. Each message is one line of JSON.", err)
}

func (m *Message) tooDeep() *Message {
	return m.invalid(jsonrpc.CodeInvalidParams, "The message is nested more than %d levels deep and was dropped. Send arguments with less nesting.", maxDepth)
}

// One returns the message in a JSON value that is no batch.
func One(value []byte) *Message {
	m := new(Message)
	if value[0] != '{' {
		return m.invalid(jsonrpc.CodeInvalidRequest, "The message is not a JSON object. Send {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"…\"}.")
	}
	var version, id, method json.RawMessage
	for key, v := range rawjson.Members(value) { // the last one counts if a key occurs twice
		switch key {
		case "jsonrpc":
			version = v
		case "id":
			id = v
		case "method":
			method = v
		case "params":
			m.Params = v
		case "result":
			m.Result = v
		case "error":
			m.Error = v
		}
	}
	if isID(id) {
		m.ID = id
	}
	if string(m.Error) == "null" {
		m.Error = nil
	}
	if method == nil && (m.Result != nil || m.Error != nil) {
		if m.Kind = Response; m.ID == nil {
			return m.ignored("a response has no id")
		}
		return m
	}
	m.Method = rawjson.Text(method)
	switch {
	case rawjson.Text(version) != "2.0":
		return m.invalid(jsonrpc.CodeInvalidRequest, `The key "jsonrpc" of the message is not "2.0".`)
	case method == nil:
		return m.invalid(jsonrpc.CodeInvalidRequest, `The message has no method and no result. A request needs the key "method".`)
	case method[0] != '"':
		return m.invalid(jsonrpc.CodeInvalidRequest, "The method of the message is not a string.")
	case id == nil:
		return m.notification()
	case !utf8.Valid(value):
		return m.invalid(jsonrpc.CodeParseError, "The message is not UTF-8 and was dropped. Each message is one line of JSON in UTF-8.")
	case m.ID == nil:
		return m.invalid(jsonrpc.CodeInvalidRequest, "The id of the request is not a string or a number. A notification has no id.")
	}
	return m.request()
}

func (m *Message) notification() *Message {
	m.Kind = Notification
	if !m.object() {
		return m.ignored("the params of the notification %q are not an object", m.Method)
	}
	return m
}

func (m *Message) request() *Message {
	m.Kind = Request
	switch {
	case !m.object() && m.Params[0] == '[':
		return m.invalid(jsonrpc.CodeInvalidParams, "The params of the request are an array. MCP has params by name: send an object.")
	case !m.object():
		return m.invalid(jsonrpc.CodeInvalidRequest, "The params of the request are not an object.")
	}
	return m
}

// object reports whether the params are an object or missing. It removes params that are null.
func (m *Message) object() bool {
	if string(m.Params) == "null" {
		m.Params = nil
	}
	return m.Params == nil || m.Params[0] == '{'
}

// CheckDepth returns a request whose nesting the SDK can decode, or the error for it.
func (m *Message) CheckDepth() *Message {
	if m.Kind == Request && depth(m.Params)+1 > maxDepth {
		return m.tooDeep()
	}
	return m
}

func isID(v json.RawMessage) bool {
	return len(v) > 0 && utf8.Valid(v) && (v[0] == '"' || v[0] == '-' || v[0] >= '0' && v[0] <= '9')
}

// depth returns the maximum nesting depth of a JSON text.
func depth(line []byte) int {
	most := 0
	scan(line, func(_, now int) bool {
		most = max(most, now)
		return true
	})
	return most
}

// scan iterates over a JSON text that can be truncated or nested too deeply for the decoder. It calls at for each byte
// outside strings and for each opening quote, until at returns false.
func scan(line []byte, at func(i, depth int) bool) {
	now, quoted := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
			continue
		case c == '"':
			if quoted = !quoted; !quoted {
				continue
			}
		case quoted:
			continue
		case c == '{' || c == '[':
			now++
		case c == '}' || c == ']':
			now--
		}
		if !at(i, now) {
			return
		}
	}
}

var (
	idKey       = lazyregexp.New(`^"id"\s*:\s*("[^"\\]{0,200}"|-?[0-9]{1,20})\s*[,}]`)
	responseKey = lazyregexp.New(`^"(result|error)"\s*:`)
)

// Head returns the id of a message that is truncated or cannot be decoded, and reports whether the message is a
// response. The id is nil if it is not found.
func Head(line []byte) (id json.RawMessage, response bool) {
	scan(line, func(i, depth int) bool {
		if depth == 1 && line[i] == '"' {
			part := line[i:min(len(line), i+400)]
			if m := idKey.FindSubmatch(part); m != nil {
				id = m[1]
			}
			response = response || responseKey.FindSubmatch(part) != nil
		}
		return true
	})
	return id, response
}
