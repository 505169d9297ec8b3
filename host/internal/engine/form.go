package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"toolhost.dev/sdk/tool"
)

// answerRequests answers the requests of a plugin to a client that only knows questions: it asks one question for each
// field of a form. Such a client has neither a model nor roots.
func answerRequests(ctx context.Context, c Client, requests []tool.ClientRequest) (tool.Answer, error) {
	results := make(map[string]any)
	for _, r := range requests {
		switch r.Method {
		case tool.MethodRoots:
			results[r.Key] = map[string]any{"roots": []any{}}
		case tool.MethodElicit:
			content, outcome, err := fillIn(ctx, c, r.Params)
			if err != nil || outcome != tool.Accepted {
				return tool.Answer{Outcome: outcome, Message: "the form was not filled in"}, err
			}
			results[r.Key] = map[string]any{"action": "accept", "content": content}
		default:
			return tool.Answer{Outcome: tool.NobodyToAsk, Message: "the caller has no model"}, nil
		}
	}
	b, err := json.Marshal(results)
	return tool.Answer{Outcome: tool.Accepted, Content: b}, err
}

// field is one field of a form.
type field struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Enum        []string        `json:"enum"`
	OneOf       []choice        `json:"oneOf"`
	Items       struct {
		Enum  []string `json:"enum"`
		AnyOf []choice `json:"anyOf"`
	} `json:"items"`
}

type choice struct {
	Const string `json:"const"`
}

// fillIn asks the questions of a form.
func fillIn(ctx context.Context, c Client, params json.RawMessage) (map[string]any, tool.Outcome, error) {
	var p struct {
		Mode, Message, URL string
		RequestedSchema    struct {
			Properties map[string]field
			Required   []string
		}
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, tool.Declined, nil //nolint:nilerr // the plugin gets the outcome
	}
	if p.Mode == "url" {
		p.Message += "\nOpen " + p.URL + " and continue there."
	}
	form := p.RequestedSchema
	if len(form.Properties) == 0 {
		_, outcome, err := askField(ctx, c, p.Message, &field{Type: "boolean"}, false)
		return map[string]any{}, outcome, err
	}
	content := make(map[string]any)
	names := slices.Sorted(maps.Keys(form.Properties))
	rank := func(name string) int {
		if i := slices.Index(form.Required, name); i >= 0 {
			return i
		}
		return len(form.Required)
	}
	slices.SortStableFunc(names, func(x, y string) int { return rank(x) - rank(y) })
	for _, name := range names {
		f := form.Properties[name]
		text := p.Message
		for _, more := range []string{f.Title, f.Description, name} {
			if more != "" {
				text += "\n" + more
				break
			}
		}
		value, outcome, err := askField(ctx, c, text, &f, !slices.Contains(form.Required, name))
		if err != nil || outcome != tool.Accepted {
			return nil, outcome, err
		}
		if value != nil {
			content[name] = value
		}
	}
	return content, tool.Accepted, nil
}

// defaults returns the default of a field in the form that answers have.
func (f *field) defaults() []string {
	var value any
	if json.Unmarshal(f.Default, &value) != nil {
		return nil
	}
	switch v := value.(type) {
	case nil:
		return nil
	case bool:
		if v {
			return []string{"yes"}
		}
		return []string{"no"}
	case []any:
		out := make([]string, 0, len(v))
		for _, item := range v {
			out = append(out, fmt.Sprint(item))
		}
		return out
	case string:
		return []string{v}
	}
	return []string{string(f.Default)} // a number as it was written
}

// askField asks for one value. The value is nil if the answer contains none.
func askField(ctx context.Context, c Client, text string, f *field, optional bool) (any, tool.Outcome, error) {
	q := tool.Question{Text: text, Options: slices.Concat(f.Enum, f.Items.Enum), Multiple: f.Type == "array"}
	for _, o := range slices.Concat(f.OneOf, f.Items.AnyOf) {
		q.Options = append(q.Options, o.Const)
	}
	if f.Type == "boolean" {
		q.Options = []string{"yes", "no"}
	}
	q.FreeText, q.Optional, q.Defaults = len(q.Options) == 0, optional, f.defaults()
	answer, err := c.Ask(ctx, tool.Ask{Question: &q})
	if err != nil || answer.Outcome != tool.Accepted || len(answer.Values) == 0 {
		return nil, answer.Outcome, err
	}
	given := strings.TrimSpace(answer.Values[0])
	switch f.Type {
	case "boolean":
		return given == "yes", tool.Accepted, nil
	case "integer":
		if n, err := strconv.ParseInt(given, 10, 64); err == nil {
			return n, tool.Accepted, nil
		}
		return nil, tool.NobodyToAsk, nil
	case "number":
		if n, err := strconv.ParseFloat(given, 64); err == nil {
			return n, tool.Accepted, nil
		}
		return nil, tool.NobodyToAsk, nil
	case "array":
		return answer.Values, tool.Accepted, nil
	}
	return answer.Values[0], tool.Accepted, nil
}
