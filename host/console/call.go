package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"toolhost.dev/sdk/tool"
)

// callTool calls a tool with the values of a form, and shows the result below the form.
func (c *Console) callTool(w http.ResponseWriter, r *http.Request, s *session) {
	v, err := c.view(r.Context(), "tool", s, url.Values{"name": {r.PathValue("name")}})
	if err != nil {
		c.fail(w, r, s, http.StatusNotFound, err)
		return
	}
	data, _ := v.Data.(toolData) // loadTool sets it
	arguments, err := argumentsOf(r, data.Fields)
	if err != nil {
		c.fail(w, r, s, http.StatusBadRequest, err)
		return
	}
	data.Result = new(tool.Result)
	if err := c.send(r.Context(), s.principal, http.MethodPost, "/v1/run",
		map[string]any{"name": data.Tool.FullName, "arguments": arguments}, data.Result); err != nil {
		c.fail(w, r, s, http.StatusConflict, err)
		return
	}
	v.Data = data
	c.render(w, http.StatusOK, "tool", v)
}

// argumentsOf returns the arguments in a form. Fields that are not texts contain JSON.
func argumentsOf(r *http.Request, fields []field) (map[string]any, error) {
	out := make(map[string]any)
	for _, f := range fields {
		text := r.PostFormValue("arg-" + f.Name)
		switch {
		case text == "":
		case f.Kind == "string":
			out[f.Name] = text
		default:
			var value any
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				return nil, fmt.Errorf("%s: %q is no JSON value, such as 3, true or [\"a\"]", f.Name, text)
			}
			out[f.Name] = value
		}
	}
	return out, nil
}
