package mount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// These constants limit the requests of a server to clients.
const (
	maxRounds   = 10       // maximum number of rounds of requests in one call
	maxRequests = 16       // maximum number of requests in one round
	maxAsked    = 32       // maximum number of requests in one call
	maxFields   = 32       // maximum number of fields in a form
	maxForm     = 64 << 10 // maximum size of a form in bytes
	maxState    = 64 << 10 // maximum size of a requestState in bytes
)

// round is one set of requests of a server, with the state that the server needs to continue. The JSON form of a round
// is the continuation with which another process can continue the call.
type round struct {
	Number   int                 `json:"number"`
	Asked    int64               `json:"asked"` // the number of requests in the earlier rounds
	Requests mcp.InputRequestMap `json:"requests"`
	State    string              `json:"state"`
}

// rounds repeats a request to the server until the server asks no more questions. The function "next" adds the answers
// to the request. If the call began in another process, rounds begins with the answers to the questions that were asked
// there.
func rounds[R any](ctx context.Context, c *conn, a *active, send func() (R, mcp.InputRequestMap, string, error),
	next func(mcp.InputResponseMap, string)) (R, error) {
	var none R
	var now round
	continuation := a.Continuation
	if len(continuation) > 0 {
		if err := json.Unmarshal(continuation, &now); err != nil {
			return none, sdk.Errorf(tool.Internal, "The call cannot be continued: %w. Call again without requestState.", err)
		}
		a.asked.Store(now.Asked)
	}
	for ; now.Number < maxRounds; now.Number++ {
		if now.Requests == nil {
			res, requests, state, err := send()
			if err != nil || requests == nil {
				return res, err
			}
			if len(state) > maxState {
				return none, sdk.Errorf(tool.ExecutionFailed, "The MCP server sent a requestState of %d bytes, so the call was ended. The limit is %d bytes.", len(state), maxState)
			}
			now.Asked, now.Requests, now.State = a.asked.Load(), requests, state
			if continuation, err = json.Marshal(now); err != nil {
				return none, err
			}
		}
		answers, err := c.ask(ctx, a, now.Requests, continuation)
		if err != nil {
			return none, err
		}
		next(answers, now.State)
		now.Requests = nil
	}
	return none, sdk.Errorf(tool.ExecutionFailed, "The MCP server asked more than %d times in one call, so the call was ended.", maxRounds)
}

// ask passes the server's allowed requests on to the client that made a call, and returns the answers. All requests
// reach the client at the same time. If the call can continue in another process, the argument "continuation" contains
// the data that the call needs there.
func (c *conn) ask(ctx context.Context, a *active, requests mcp.InputRequestMap,
	continuation []byte) (mcp.InputResponseMap, error) {
	if total := a.asked.Add(int64(len(requests))); len(requests) > maxRequests || total > maxAsked {
		return nil, sdk.Errorf(tool.ExecutionFailed, "The MCP server sent more than %d requests to the client in one call, so the call was ended.", maxAsked)
	}
	answers := make(mcp.InputResponseMap, len(requests))
	forms := make(map[string]json.RawMessage)
	var pass []tool.ClientRequest
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		method, answer, err := c.answerAlone(a, requests[key])
		if err != nil {
			return nil, err
		}
		if answer != nil {
			answers[key] = answer
			continue
		}
		params, err := json.Marshal(requests[key])
		if err != nil {
			return nil, err
		}
		if p, ok := requests[key].(*mcp.ElicitParams); ok {
			if forms[key], err = checkForm(p); err != nil {
				logf("warn", "a question of the server was declined: %v", err)
				answers[key] = &mcp.ElicitResult{Action: "decline"}
				continue
			}
			params = formParams(p, forms[key])
		}
		pass = append(pass, tool.ClientRequest{Key: key, Method: method, Params: params})
	}
	if len(pass) == 0 {
		return answers, nil
	}
	answered := a.silence.wait()
	results, outcome, err := a.RequestsFrom(ctx, continuation, pass...)
	answered()
	if err != nil {
		return nil, err
	}
	for _, r := range pass {
		answer, err := answerOf(r, results[r.Key], outcome, forms[r.Key])
		if err != nil {
			return nil, err
		}
		answers[r.Key] = answer
	}
	return answers, nil
}

// answerAlone answers a request without the client. If the client must answer the request, it returns the method of the
// request and a nil answer.
//
//nolint:staticcheck // roots and sampling belong to the older protocol, which most servers speak
func (c *conn) answerAlone(a *active, request mcp.InputRequest) (method string, answer mcp.InputResponse, err error) {
	cfg := &c.mount.cfg
	switch p := request.(type) {
	case *mcp.ElicitParams:
		word := allowForm
		if p.Mode == "url" {
			word = allowURL
		}
		if !cfg.allows(word) {
			c.mount.declined(word)
			return "", &mcp.ElicitResult{Action: "decline"}, nil
		}
		return tool.MethodElicit, nil, nil
	case *mcp.CreateMessageParams, *mcp.CreateMessageWithToolsParams:
		if !cfg.allows(allowSampling) {
			c.mount.declined(allowSampling)
			return "", nil, sdk.Errorf(tool.PermissionDenied, "The MCP server wanted to use the client's model (sampling), which is not allowed. To allow it, the operator adds %q to the list \"allow\" in the mcp block.", allowSampling)
		}
		return tool.MethodSampling, nil, nil
	case *mcp.ListRootsParams:
		if !cfg.allows(allowRoots) || a.Client == nil {
			return "", &mcp.ListRootsResult{Roots: c.mount.rootList()}, nil
		}
		return tool.MethodRoots, nil, nil
	}
	return "", nil, sdk.Errorf(tool.ExecutionFailed, "The MCP server sent an unknown request to the client.")
}

// declined logs once that a kind of request of the server was declined.
func (m *mount) declined(word string) {
	if _, logged := m.logged.LoadOrStore(word, true); !logged {
		logf("warn", "requests of the server are declined; to pass them on to clients, add %q to allow in the mcp block", word)
	}
}

// answerOf converts the client's answer to a request. A question that nobody answered is canceled. Other requests fail.
//
//nolint:staticcheck // see answerAlone
func answerOf(r tool.ClientRequest, raw json.RawMessage, outcome tool.Outcome,
	form json.RawMessage) (mcp.InputResponse, error) {
	switch r.Method {
	case tool.MethodElicit:
		res := new(mcp.ElicitResult)
		if outcome == tool.Declined {
			return &mcp.ElicitResult{Action: "decline"}, nil
		}
		if outcome == tool.Accepted {
			err := json.Unmarshal(raw, res)
			if err == nil {
				err = checkAnswer(form, res)
			}
			if err == nil {
				return res, nil
			}
			logf("warn", "the answer to a question of the server is not valid: %v", err)
		}
		return &mcp.ElicitResult{Action: "cancel"}, nil
	case tool.MethodSampling:
		res := new(mcp.CreateMessageWithToolsResult)
		if outcome != tool.Accepted || json.Unmarshal(raw, res) != nil {
			return nil, sdk.Errorf(tool.PermissionDenied, "The MCP server wanted to use the client's model (sampling), and the client did not answer (%s).", outcome)
		}
		return res, nil
	}
	res := new(mcp.ListRootsResult)
	if outcome != tool.Accepted || json.Unmarshal(raw, res) != nil || res.Roots == nil {
		res.Roots = []*mcp.Root{}
	}
	return res, nil
}

// formParams returns the parameters of a question with cleaned texts.
func formParams(p *mcp.ElicitParams, schema json.RawMessage) json.RawMessage {
	q := *p
	q.Meta = nil
	q.Message = clean(p.Message, maxMessage)
	if q.Mode == "" {
		q.Mode = "form"
	}
	q.RequestedSchema = nil
	if schema != nil {
		q.RequestedSchema = schema
	}
	return sdk.Data(q)
}

// checkForm returns the schema of a question with cleaned texts. It returns an error for a question that
// clients need not show. For example, MCP allows only flat forms. The schema of a question with a URL is nil.
func checkForm(p *mcp.ElicitParams) (json.RawMessage, error) {
	if p.Mode == "url" {
		if !strings.HasPrefix(p.URL, "https://") && !strings.HasPrefix(p.URL, "http://") || len(p.URL) > maxMessage {
			return nil, errors.New("its URL is not an address of the web")
		}
		return nil, nil
	}
	if p.RequestedSchema == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	schema, err := cleanSchema(p.RequestedSchema)
	if err != nil {
		return nil, err
	}
	var form struct {
		Properties map[string]struct {
			Type       string          `json:"type"`
			Ref        string          `json:"$ref"`
			Properties json.RawMessage `json:"properties"`
			Items      struct {
				Type  string            `json:"type"`
				Items json.RawMessage   `json:"items"`
				Enum  []json.RawMessage `json:"enum"`
				AnyOf []json.RawMessage `json:"anyOf"`
			} `json:"items"`
		} `json:"properties"`
	}
	switch err := json.Unmarshal(schema, &form); {
	case err != nil:
		return nil, fmt.Errorf("its form is not a schema: %w", err)
	case len(schema) > maxForm:
		return nil, fmt.Errorf("its form has %d bytes, and the limit is %d", len(schema), maxForm)
	case len(form.Properties) > maxFields:
		return nil, fmt.Errorf("its form has %d fields, and the limit is %d", len(form.Properties), maxFields)
	case strings.Contains(string(schema), `"$ref"`):
		return nil, errors.New("its form refers to other schemas")
	}
	for name, f := range form.Properties {
		choice := f.Type == "array" && (f.Items.Type == "string" || f.Items.Type == "") && f.Items.Items == nil &&
			len(f.Items.Enum)+len(f.Items.AnyOf) > 0
		if !choice && !slices.Contains([]string{"string", "number", "integer", "boolean"}, f.Type) {
			return nil, fmt.Errorf("its field %q is neither a text, a number, a boolean nor a choice", clean(name, maxNameShown))
		}
	}
	if fixed, _ := repair(schema); fixed != nil {
		schema = fixed
	}
	_, err = tool.ParseSchema(schema)
	return schema, err
}

// checkAnswer checks an accepted answer against the schema of its question. It removes fields that the question does
// not have.
func checkAnswer(form json.RawMessage, res *mcp.ElicitResult) error {
	if res.Action != "accept" {
		res.Content = nil
		return nil
	}
	if form == nil {
		return nil
	}
	schema, err := tool.ParseSchema(form)
	if err != nil {
		return err
	}
	values := make(map[string]json.RawMessage)
	for name, v := range res.Content {
		if schema.Param(name) == nil {
			delete(res.Content, name)
			continue
		}
		values[name] = sdk.Data(v)
	}
	if _, bad := schema.Check(values); len(bad) > 0 {
		return errors.New(bad[0].Message)
	}
	return nil
}

// requested handles the requests of a server of the older protocol. In this protocol, a request does not name the call
// to which it belongs. Such a request is answered only if all running calls belong to one session.
//
//nolint:staticcheck // see answerAlone
func (c *conn) requested(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		var request mcp.InputRequest
		switch method {
		case tool.MethodElicit, tool.MethodSampling, tool.MethodRoots:
			if p, ok := req.GetParams().(mcp.InputRequest); ok {
				request = p
			} else {
				request = &mcp.ListRootsParams{} // its parameters can be missing
			}
		default:
			return next(ctx, method, req)
		}
		a := c.calls.ofOneSession()
		if a == nil {
			switch method {
			case tool.MethodElicit:
				return &mcp.ElicitResult{Action: "cancel"}, nil
			case tool.MethodRoots:
				return &mcp.ListRootsResult{Roots: c.mount.rootList()}, nil
			}
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the request belongs to no call of a client"}
		}
		const key = "request"
		answers, err := c.ask(ctx, a, mcp.InputRequestMap{key: request}, nil)
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
		}
		switch r := answers[key].(type) {
		case *mcp.ElicitResult:
			return r, nil
		case *mcp.CreateMessageWithToolsResult:
			return r, nil
		case *mcp.ListRootsResult:
			return r, nil
		}
		return nil, errUnasked
	}
}
