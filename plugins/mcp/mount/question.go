package mount

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/tool"
)

// The possible actions in the result of an elicitation.
const (
	accept  = "accept"
	decline = "decline"
	cancel  = "cancel"
)

// maxQuestions is the maximum number of properties of an elicitation.
const maxQuestions = 20

// property is one property that an elicitation requests.
type property struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Enum        []string `json:"enum"`
	OneOf       []struct {
		Const string `json:"const"`
	} `json:"oneOf"`
}

// elicit asks the user one question for each property. In the older protocol, the request of a server does not name
// the call to which the request belongs. If several calls are running, they can belong to different users. In this
// case, elicit asks no user.
func (m *mount) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	a, ok := ctx.Value(activeKey{}).(*active)
	if !ok {
		a = m.calls.only()
	}
	if a == nil || r.Params.Mode != "" && r.Params.Mode != "form" {
		return &mcp.ElicitResult{Action: cancel}, nil
	}
	var form struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	raw, err := json.Marshal(r.Params.RequestedSchema)
	if err == nil {
		err = json.Unmarshal(raw, &form)
	}
	if err != nil || len(form.Properties) > maxQuestions {
		logf("warn", "the server's question cannot be shown to a user (%d parts): %v", len(form.Properties), err)
		return &mcp.ElicitResult{Action: cancel}, nil
	}
	message := clean(r.Params.Message, maxMessage)
	if len(form.Properties) == 0 {
		_, action := m.ask(ctx, a, message, property{Type: "boolean"})
		return &mcp.ElicitResult{Action: action}, nil
	}
	content := make(map[string]any)
	names := slices.Sorted(maps.Keys(form.Properties))
	slices.SortStableFunc(names, func(x, y string) int { return rank(form.Required, x) - rank(form.Required, y) })
	for _, name := range names {
		p := form.Properties[name]
		text := message
		for _, more := range []string{p.Title, p.Description, name} {
			if more = clean(more, maxMessage); more != "" {
				text += "\n" + more
				break
			}
		}
		value, action := m.ask(ctx, a, text, p)
		if action != accept {
			return &mcp.ElicitResult{Action: action}, nil
		}
		if value != nil {
			content[name] = value
		}
	}
	return &mcp.ElicitResult{Action: accept, Content: content}, nil
}

// rank returns the position of a property in the sort order. Required properties come first, in the order of the
// argument required.
func rank(required []string, name string) int {
	if i := slices.Index(required, name); i >= 0 {
		return i
	}
	return len(required)
}

// ask asks the user for one value. If the answer contains no value, the value is nil.
func (m *mount) ask(ctx context.Context, a *active, text string, p property) (value any, action string) {
	q := tool.Question{Text: text, Options: p.Enum, FreeText: true}
	for _, o := range p.OneOf {
		q.Options = append(q.Options, o.Const)
	}
	if p.Type == "boolean" {
		q.Options = []string{"yes", "no"}
	}
	q.FreeText = len(q.Options) == 0
	a.pause() // stop the timeout of the call while the user thinks
	answer, err := a.Question(ctx, q)
	a.alive()
	switch {
	case err != nil || answer.Outcome == tool.NobodyToAsk || answer.Outcome == tool.AnswerTimeout:
		return nil, cancel
	case answer.Outcome != tool.Accepted:
		return nil, decline
	case len(answer.Values) == 0:
		return nil, accept
	}
	given := strings.TrimSpace(answer.Values[0])
	switch p.Type {
	case "boolean":
		return given == "yes", accept
	case "integer":
		if n, err := strconv.ParseInt(given, 10, 64); err == nil {
			return n, accept
		}
		return nil, cancel
	case "number":
		if n, err := strconv.ParseFloat(given, 64); err == nil {
			return n, accept
		}
		return nil, cancel
	case "array":
		return answer.Values, accept
	}
	return answer.Values[0], accept
}
